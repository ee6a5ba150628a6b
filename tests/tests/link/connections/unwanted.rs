//! Packets for neighbours without a connection: those that take none, do not answer, or refuse; and connections whose calls fail.

use fabric::{Direction, Only, Pick, Qpn};
use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_gldv3::{LinkAddress, LinkState, Offload};

use super::opened::{connected, pattern, send, set_connected};
use super::{CM, REQ, counted_by, holds, payloads};
use crate::bench::{Bench, IPV4, PLAIN, Setup, address_of, group};
use crate::calm::each_cause_is_told_once_a_second_at_most;

const IPV6: u32 = 0x86dd;
const MINUTE: Nanos = Nanos::from_secs(60);
pub const DONT_FRAGMENT: u8 = 0x40;

/// An IPv4 packet of so many octets from 10.0.0.1 to 10.0.0.2, UDP; `flags` are those of the header.
pub fn v4(len: usize, flags: u8) -> Vec<u8> {
    let mut packet = pattern(len);
    packet[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 7, flags, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet
}

pub fn v6(len: usize) -> Vec<u8> {
    let mut packet = pattern(len);
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, 17, 64]);
    packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
    packet[8..40].fill(0);
    (packet[8], packet[23], packet[24], packet[39]) = (0xfd, 1, 0xfd, 2);
    packet
}

fn qpn(LinkAddress(bytes): &LinkAddress) -> Qpn {
    Qpn::truncating(u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]))
}

/// What fragments of one packet carry, in their order.
fn put_together(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = Vec::new();
    for fragment in fragments {
        let flags = u16::from_be_bytes([fragment[6], fragment[7]]);
        assert_eq!(usize::from(flags & 0x1fff) * 8, whole.len());
        let len = usize::from(u16::from_be_bytes([fragment[2], fragment[3]]));
        whole.extend_from_slice(&fragment[20..len]);
    }
    whole
}

#[test]
fn a_neighbour_that_takes_no_connections_gets_datagrams_and_ip_hears_how_much_one_carries() {
    holds(|bench| {
        set_connected(&bench.alpha, true);
        let (alpha, to_alpha) = bench.alpha.open_up(IPV4);
        let (beta, to_beta) = bench.beta.open_up(IPV4);
        bench.settle();
        send(&alpha, &beta, &v4(2_044, DONT_FRAGMENT));
        bench.settle();
        assert!(payloads(&to_beta) == [v4(2_044, DONT_FRAGMENT)]);
        let long = v4(2_045, DONT_FRAGMENT);
        send(&alpha, &beta, &long);
        fakekernel::sleep(Nanos::from_millis(10));
        let told = payloads(&to_alpha);
        assert_eq!(told.len(), 1, "{:?}", bench.alpha.counters());
        assert_eq!(
            (told[0][9], &told[0][12..16], &told[0][16..20]),
            (1, &[10, 0, 0, 2][..], &[10, 0, 0, 1][..])
        );
        assert_eq!((&told[0][20..22], &told[0][26..28]), (&[3, 4][..], &2_044_u16.to_be_bytes()[..]));
        assert_eq!(told[0][28..48], long[..20]);
        for len in [2_045, 5_000, 65_515] {
            send(&alpha, &beta, &v4(len, 0));
            bench.settle();
            let pieces = payloads(&to_beta);
            assert!(pieces.iter().all(|piece| piece.len() <= 2_044));
            assert!(put_together(&pieces) == v4(len, 0)[20..], "{len}: {} pieces", pieces.len());
        }
        assert_eq!(counted_by(&bench.alpha, "opens"), 0);
        assert_eq!(["fragmented", "too_big"].map(|name| counted_by(&bench.alpha, name)), [3, 1]);
    });
}

#[test]
fn a_packet_whose_header_says_more_than_there_is_is_not_cut() {
    holds(|bench| {
        set_connected(&bench.alpha, true);
        let (alpha, _) = bench.alpha.open_up(IPV4);
        let (beta, to_beta) = bench.beta.open_up(IPV4);
        bench.settle();
        for total in [0, 20, 3_001, 65_535_u16] {
            let mut packet = v4(3_000, 0);
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            send(&alpha, &beta, &packet);
            bench.settle();
            assert!(payloads(&to_beta).is_empty(), "{total}");
        }
        assert_eq!(counted_by(&bench.alpha, "fragmented"), 0);
        send(&alpha, &beta, &v4(3_000, 0));
        bench.settle();
        assert!(put_together(&payloads(&to_beta)) == v4(3_000, 0)[20..]);
    });
}

#[test]
fn ipv6_hears_how_much_goes_to_a_neighbour_that_takes_no_connections() {
    holds(|bench| {
        set_connected(&bench.alpha, true);
        let (alpha, to_alpha) = bench.alpha.open_up(IPV6);
        let (beta, to_beta) = bench.beta.open_up(IPV6);
        bench.settle();
        send(&alpha, &beta, &v6(2_044));
        send(&alpha, &beta, &v6(30_000));
        bench.settle();
        assert!(payloads(&to_beta) == [v6(2_044)]);
        let told = payloads(&to_alpha);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].len(), told[0][6], told[0][40], told[0][41]), (1_280, 58, 2, 0));
        assert_eq!(told[0][44..48], 2_044_u32.to_be_bytes());
    });
}

#[test]
fn ip_is_not_told_more_than_ten_times_a_second() {
    holds(|bench| {
        set_connected(&bench.alpha, true);
        let (alpha, to_alpha) = bench.alpha.open_up(IPV4);
        let (beta, _) = bench.beta.open_up(IPV4);
        bench.settle();
        for _ in 0..50 {
            send(&alpha, &beta, &v4(9_000, DONT_FRAGMENT));
            fakekernel::sleep(Nanos::from_micros(100));
        }
        bench.settle();
        assert_eq!(payloads(&to_alpha).len(), 10);
        fakekernel::sleep(Nanos::from_secs(2));
        send(&alpha, &beta, &v4(9_000, DONT_FRAGMENT));
        bench.settle();
        assert_eq!(payloads(&to_alpha).len(), 1);
    });
}

#[test]
fn a_packet_to_a_group_that_is_longer_than_a_datagram_does_not_go_and_nobody_is_told() {
    holds(|bench| {
        let (alpha, to_alpha, beta, _) = connected(bench, IPV4);
        beta.enable_multicast(group(0x0006_0001)).expect("it can be joined");
        bench.settle();
        let before = bench.alpha.statistics().opackets;
        for len in [1_000, 2_044, 2_045] {
            let mut packet = v4(len, 0);
            // To 239.0.0.2: what is for one host does not go to a group.
            packet[16] = 239;
            alpha.transmit(group(0x0006_0001), &packet, Offload::default()).expect("the stream is bound");
        }
        bench.settle();
        let went = bench.alpha.statistics().opackets - before;
        assert_eq!((went, bench.alpha.counter("tx_drop_too_long")), (2, 1));
        assert!(payloads(&to_alpha).is_empty());
    });
}

#[test]
fn a_neighbour_that_does_not_answer_gets_what_fits_and_is_asked_seldom() {
    holds(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, IPV4);
        let only = Only::Management { class: CM, attribute: REQ };
        bench.world.fabric().lose(
            bench.alpha.port(),
            Direction::ToSwitch,
            Pick { only, skip: 0, times: 1_000 },
        );
        let (mut small, began) = (0, bench.machine.now());
        while bench.machine.now().since(began) < MINUTE {
            send(&alpha, &beta, &v4(1_000, DONT_FRAGMENT));
            send(&alpha, &beta, &v4(30_000, DONT_FRAGMENT));
            small += 1;
            fakekernel::sleep(Nanos::from_millis(250));
        }
        bench.settle();
        let came = payloads(&to_beta);
        assert_eq!(came.len(), small, "all that fit came: {:?}", bench.alpha.counters());
        assert!(came.iter().all(|packet| packet.len() == 1_000));
        assert!(!payloads(&to_alpha).is_empty(), "IP heard of the others");
        let opens = counted_by(&bench.alpha, "opens");
        assert!((2..10).contains(&opens), "{opens} attempts in a minute");
        let before = bench.machine.now();
        drop(alpha);
        let took = bench.machine.now().since(before);
        assert!(took < Nanos::from_millis(50), "{took}");
    });
}

/// Hits are packets that were sent less those that had to be asked for, and one that is too long is asked for and not sent.
#[test]
fn packets_that_are_too_long_take_no_hits_from_the_table_of_paths() {
    holds(|bench| {
        let (alpha, _, beta, _) = connected(bench, IPV4);
        let only = Only::Management { class: CM, attribute: REQ };
        bench.world.fabric().lose(
            bench.alpha.port(),
            Direction::ToSwitch,
            Pick { only, skip: 0, times: 1_000 },
        );
        for _ in 0..50 {
            alpha
                .transmit(alpha.details().broadcast, &v4(100, 0), Offload::default())
                .expect("the stream is bound");
        }
        bench.settle();
        let mut hits = 0;
        for _ in 0..40 {
            let now = bench.alpha.named("paths", "hits");
            assert!(now >= hits, "{now} after {hits}");
            hits = now;
            send(&alpha, &beta, &v4(30_000, DONT_FRAGMENT));
            fakekernel::sleep(Nanos::from_millis(250));
        }
        assert!(hits > 0);
        assert!(bench.alpha.counter("tx_drop_too_long") > 10, "{:?}", bench.alpha.counters());
    });
}

#[test]
fn a_neighbour_that_refuses_gets_what_fits_until_it_has_room() {
    holds(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, IPV4);
        bench.beta.kernel.set_fault(FaultKind("ibt_alloc_srq"), Some("ibd"), FaultPlan::Nth(0));
        send(&alpha, &beta, &v4(30_000, DONT_FRAGMENT));
        send(&alpha, &beta, &v4(1_000, DONT_FRAGMENT));
        bench.settle();
        assert!(payloads(&to_beta) == [v4(1_000, DONT_FRAGMENT)]);
        assert_eq!(payloads(&to_alpha).len(), 1, "what waited is told of");
        assert_eq!(counted_by(&bench.alpha, "open_failed"), 1);
        bench.beta.kernel.set_fault(FaultKind("ibt_alloc_srq"), Some("ibd"), FaultPlan::Never);
        fakekernel::sleep(Nanos::from_secs(3));
        send(&alpha, &beta, &v4(30_000, DONT_FRAGMENT));
        bench.settle();
        assert!(payloads(&to_beta) == [v4(30_000, DONT_FRAGMENT)]);
    });
}

/// The next call of a kind fails, or allocation, each in turn, while a connection is opened; datagrams go on, and at last it is there.
fn each_failure(bench: &Bench, kind: FaultKind, most: u64) {
    let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
    for n in 0..=most {
        bench.alpha.kernel.set_fault(kind, Some("ibd"), FaultPlan::Nth(n));
        send(&alpha, &beta, &pattern(20_000));
        send(&alpha, &beta, &pattern(500));
        bench.settle();
        bench.alpha.kernel.set_fault(kind, Some("ibd"), FaultPlan::Never);
        let came = payloads(&to_beta);
        // A datagram needs memory, too, and is posted in the same way.
        let spared = kind != FaultKind::KMEM && kind != FaultKind("ibt_post_send");
        assert!(!spared || came.contains(&pattern(500)), "{kind:?} {n}: {:?}", bench.alpha.counters());
        // However it went, it goes once the calls do.
        let goes = || {
            send(&alpha, &beta, &pattern(30_000));
            bench.settle();
            payloads(&to_beta).contains(&pattern(30_000))
        };
        bench.wait_for("it goes", Nanos::from_secs(1_000), goes);
        // What was made is given back, and the next one needs it again.
        fakekernel::sleep(Nanos::from_secs(400));
    }
    assert_eq!(bench.alpha.state(), LinkState::Up);
}

#[test]
fn a_connection_comes_later_when_any_call_for_it_fails() {
    const CALLS: [&str; 7] = [
        "ibt_open_hca",
        "ibt_alloc_pd",
        "ibt_alloc_cq",
        "ibt_register_mr",
        "ibt_alloc_rc_channel",
        "ibt_open_rc_channel",
        "ibt_post_send",
    ];
    for call in CALLS {
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| each_failure(bench, FaultKind(call), 1));
    }
}

#[test]
fn a_connection_comes_later_when_any_allocation_for_it_fails() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| each_failure(bench, FaultKind::KMEM, 30));
}

#[test]
fn ip_hears_how_much_goes_although_the_mac_layer_is_fetching_packets_meanwhile() {
    const CONF: &[(&str, i32)] = &[("ibd_rx_rings", 1)];
    Setup { seeds: 6, conf: CONF, ..Setup::default() }.run(|bench| {
        const TIMES: usize = 40;
        set_connected(&bench.alpha, true);
        let (alpha, to_alpha) = bench.alpha.open_up(IPV4);
        let (beta, _) = bench.beta.open_up(IPV4);
        bench.settle();
        send(&alpha, &beta, &v4(100, 0));
        bench.settle();
        let mut told = 0;
        for n in 0..TIMES {
            for k in 0..200 {
                send(&beta, &alpha, &v4(200 + k, 0));
                if k == 100 + n {
                    send(&alpha, &beta, &v4(9_000, DONT_FRAGMENT));
                }
            }
            fakekernel::sleep(Nanos::from_millis(300));
            told += payloads(&to_alpha).iter().filter(|packet| packet[9] == 1).count();
        }
        assert!(bench.alpha.counter("rx_fetched") > 0, "nobody polled");
        assert_eq!(told, TIMES, "{:?}", bench.alpha.counters());
    });
}

/// A packet every 10 ms, half a minute long, while no queue pair can be had for a connection.
#[test]
fn connections_that_cannot_be_opened_are_told_once_a_second_at_most() {
    holds(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, IPV4);
        let before = bench.alpha.console().len();
        bench.alpha.kernel.set_fault(FaultKind("ibt_alloc_rc_channel"), Some("ibd"), FaultPlan::From(0));
        for _ in 0..3_000 {
            send(&alpha, &beta, &v4(9_000, DONT_FRAGMENT));
            fakekernel::sleep(Nanos::from_millis(10));
        }
        assert_ne!(each_cause_is_told_once_a_second_at_most(&bench.alpha, before), 0);
        let lines = bench.alpha.console();
        let told = |line: &&String| line.contains("cannot open a connection");
        assert!(lines.iter().filter(told).count() > 1, "{lines:?}");
        bench.alpha.kernel.set_fault(FaultKind("ibt_alloc_rc_channel"), Some("ibd"), FaultPlan::Never);
        drop((to_alpha, to_beta));
    });
}

#[test]
fn nobody_is_busy_for_what_ip_is_to_be_told_while_nothing_can_come_in() {
    Setup { seeds: 24, ..Setup::default() }.run(|bench| {
        set_connected(&bench.alpha, true);
        let (alpha, _) = bench.alpha.open_up(IPV4);
        let (beta, _) = bench.beta.open_up(IPV4);
        bench.settle();
        send(&alpha, &beta, &v4(100, 0));
        bench.settle();
        let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's");
        adapter.break_qpn(qpn(&address_of(&alpha)));
        bench.world.set_cable(bench.alpha.port(), false);
        for length in 3_000..3_010 {
            // The link refuses it once it knows that it is down.
            let _ = alpha.transmit(address_of(&beta), &v4(length, DONT_FRAGMENT), Offload::default());
            fakekernel::sleep(Nanos(bench.machine.now().0 % 20_000));
        }
        fakekernel::sleep(Nanos::from_secs(5));
        let before = bench.alpha.calls("delay");
        fakekernel::sleep(Nanos::from_secs(5));
        let waits = bench.alpha.calls("delay") - before;
        assert!(waits < 100, "{waits} waits in five seconds");
    });
}

#[test]
fn ip_hears_within_a_second_how_much_goes_to_a_neighbour_whose_turn_to_be_asked_does_not_come() {
    holds(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, IPV4);
        let only = Only::Management { class: CM, attribute: REQ };
        // Eight neighbours that do not answer: as many as are asked at once.
        let lost = Pick { only, skip: 0, times: 8 * 4 };
        bench.world.fabric().lose(bench.alpha.port(), Direction::ToSwitch, lost);
        for n in 1..=8 {
            let LinkAddress(mut silent) = address_of(&beta);
            silent[2] ^= n;
            let packet = v4(30_000, DONT_FRAGMENT);
            alpha.transmit(LinkAddress(silent), &packet, Offload::default()).expect("the stream is bound");
        }
        bench.settle();
        assert_eq!(counted_by(&bench.alpha, "opens"), 8);
        send(&alpha, &beta, &v4(30_000, DONT_FRAGMENT));
        fakekernel::sleep(Nanos::from_millis(900));
        assert!(payloads(&to_alpha).is_empty(), "it waits");
        fakekernel::sleep(Nanos::from_millis(300));
        assert_eq!(payloads(&to_alpha).len(), 1, "{:?}", bench.alpha.counters());
        send(&alpha, &beta, &v4(1_000, DONT_FRAGMENT));
        bench.settle();
        assert!(payloads(&to_beta) == [v4(1_000, DONT_FRAGMENT)]);
        bench.wait_for("its turn comes", Nanos::from_secs(6), || counted_by(&bench.alpha, "opened") == 1);
        send(&alpha, &beta, &v4(30_000, DONT_FRAGMENT));
        bench.settle();
        assert!(payloads(&to_beta) == [v4(30_000, DONT_FRAGMENT)]);
    });
}
