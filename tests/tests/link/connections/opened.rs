//! Connections that a link opens, with `linkmode=cm`: what goes on them, and how they come and go.

use fabric::{Direction, LinkFaults, Only, Pick};
use fakekernel::Nanos;
use lab_gldv3::{LinkState, Offload, PropertyId, PropertyValue, ReceiveQueue, Stream, set_property};
use sm::Attribute;
use sm::fault::FaultAction;

use super::{CM, DREQ, REP, REQ, RTU, counted_by, holds, payloads};
use crate::bench::{Bench, Host, IPV4, LINK, PLAIN, Setup, address_of};

/// Octets of the longest packet of a connection, without the IPoIB header.
pub const SDU: usize = 65_520;
const ARP: u32 = 0x0806;
const MINUTE: Nanos = Nanos::from_secs(60);

/// Has a closed link open connections, or not.
pub fn set_connected(host: &Host, connected: bool) {
    let value = PropertyValue::U32(connected.into());
    set_property(&host.kernel, LINK, &PropertyId::IbLinkMode, &value).expect("it is closed");
}

/// Two links with connections: alpha's stream, beta's, and what each hears.
pub fn connected(bench: &Bench, sap: u32) -> (Stream, ReceiveQueue, Stream, ReceiveQueue) {
    set_connected(&bench.alpha, true);
    set_connected(&bench.beta, true);
    let (alpha, to_alpha) = bench.alpha.open_up(sap);
    let (beta, to_beta) = bench.beta.open_up(sap);
    bench.settle();
    (alpha, to_alpha, beta, to_beta)
}

pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + len) as u8).collect()
}

pub fn send(from: &Stream, to: &Stream, payload: &[u8]) {
    from.transmit(address_of(to), payload, Offload::default()).expect("the stream is bound");
}

#[test]
fn packets_of_any_length_go_on_connections_in_both_directions() {
    holds(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        for len in [SDU, 1, 100, 2_044, 2_045, 4_092, 4_093, 30_000, SDU] {
            send(&alpha, &beta, &pattern(len));
            send(&beta, &alpha, &pattern(len));
            bench.settle();
            assert!(payloads(&to_beta) == [pattern(len)], "{len}: {:?}", bench.alpha.counters());
            assert!(payloads(&to_alpha) == [pattern(len)], "{len}: {:?}", bench.beta.counters());
        }
        for host in [&bench.alpha, &bench.beta] {
            let counts =
                ["opens", "opened", "sent", "received", "accepted"].map(|name| counted_by(host, name));
            assert_eq!(counts, [1, 1, 9, 9, 1]);
        }
    });
}

#[test]
fn neighbours_that_open_connections_to_each_other_at_once_have_one_each_way() {
    Setup { seeds: 300, ..Setup::default() }.run(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        for n in 0..4 {
            send(&alpha, &beta, &pattern(20_000 + n));
            send(&beta, &alpha, &pattern(20_000 + n));
        }
        bench.settle();
        let all: Vec<_> = (0..4).map(|n| pattern(20_000 + n)).collect();
        assert!(payloads(&to_beta) == all, "{:?}", bench.alpha.counters());
        assert!(payloads(&to_alpha) == all, "{:?}", bench.beta.counters());
        for host in [&bench.alpha, &bench.beta] {
            assert_eq!(["opens", "opened", "accepted"].map(|name| counted_by(host, name)), [1, 1, 1]);
        }
    });
}

#[test]
fn datagrams_carry_what_fits_until_there_is_enough_of_it_for_a_connection() {
    holds(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        for n in 0..3 {
            send(&alpha, &beta, &pattern(100 + n));
        }
        bench.settle();
        assert_eq!((payloads(&to_beta).len(), counted_by(&bench.alpha, "opens")), (3, 0));
        fakekernel::sleep(Nanos::from_secs(2));
        for n in 0..40 {
            send(&alpha, &beta, &pattern(200 + n));
            fakekernel::sleep(Nanos::from_micros(50));
        }
        bench.settle();
        assert_eq!((payloads(&to_beta).len(), counted_by(&bench.alpha, "opened")), (40, 1));
        let sent = counted_by(&bench.alpha, "sent");
        assert!((1..40).contains(&sent), "{sent} went on it");
    });
}

#[test]
fn what_goes_as_a_datagram_of_another_protocol_leaves_the_neighbours_connection_in_use() {
    holds(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        let (arp, _) = bench.alpha.open(ARP);
        send(&arp, &beta, &pattern(60));
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(20_000)], "{:?}", bench.alpha.counters());
        for n in 0..3 {
            send(&arp, &beta, &pattern(60));
            send(&alpha, &beta, &pattern(100 + n));
            bench.settle();
            assert_eq!(payloads(&to_beta).len(), 1);
        }
        assert_eq!(
            counted_by(&bench.alpha, "sent"),
            4,
            "the packet that is long, and the three that are not"
        );
    });
}

#[test]
fn a_connection_that_nothing_goes_on_is_closed_after_four_minutes_and_the_next_packet_opens_another() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(20_000));
        for _ in 0..3 {
            fakekernel::sleep(Nanos::from_secs(200));
            send(&alpha, &beta, &pattern(300));
        }
        bench.settle();
        assert_eq!((counted_by(&bench.alpha, "closed"), payloads(&to_beta).len()), (0, 4), "in use");
        fakekernel::sleep(Nanos::from_secs(250));
        assert_eq!(counted_by(&bench.alpha, "closed"), 1);
        assert_eq!(counted_by(&bench.beta, "ended"), 1, "the neighbour was told");
        fakekernel::sleep(Nanos::from_secs(100));
        send(&alpha, &beta, &pattern(30_000));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(30_000)]);
        assert_eq!(counted_by(&bench.alpha, "opened"), 2);
    });
}

#[test]
fn a_connection_stands_although_one_message_of_its_making_or_its_end_is_lost() {
    for lost in [REQ, REP, RTU, DREQ] {
        let test = move |bench: &Bench| {
            let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
            let only = Only::Management { class: CM, attribute: lost };
            for port in [bench.alpha.port(), bench.beta.port()] {
                bench.world.fabric().lose(port, Direction::ToSwitch, Pick { only, skip: 0, times: 1 });
            }
            send(&alpha, &beta, &pattern(20_000));
            bench.wait_for("it comes", Nanos::from_secs(20), || payloads(&to_beta) == [pattern(20_000)]);
            drop((alpha, beta, to_beta));
            fakekernel::sleep(MINUTE);
        };
        Setup { seeds: 4, ..Setup::default() }.run(test);
    }
}

/// Where the service level is in a PathRecord: the low bits of this octet.
const SERVICE_LEVEL: usize = 53;

#[test]
fn a_connection_whose_neighbour_is_reached_another_way_by_the_time_it_stands_is_made_anew() {
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(100));
        bench.settle();
        let only = Only::Management { class: CM, attribute: REP };
        bench.world.fabric().lose(bench.beta.port(), Direction::ToSwitch, Pick { only, skip: 0, times: 2 });
        send(&alpha, &beta, &pattern(20_000));
        fakekernel::sleep(Nanos::from_millis(10));
        let other = FaultAction::Overwrite { at: SERVICE_LEVEL, bytes: &[3] };
        bench.fault(Attribute::PATH_RECORD, None, None, other);
        bench.sm.restart(sm::Lid::FIRST_MULTICAST);
        bench.wait_for("it comes", Nanos::from_secs(20), || payloads(&to_beta).contains(&pattern(20_000)));
        send(&alpha, &beta, &pattern(30_000));
        bench.wait_for("it comes", Nanos::from_secs(5), || payloads(&to_beta).contains(&pattern(30_000)));
        assert_eq!(counted_by(&bench.alpha, "opened"), 2, "the first one goes the way of before");
    });
}

#[test]
fn a_link_that_stops_waits_for_no_connection_that_is_made_or_stands() {
    Setup { seeds: 200, ..Setup::default() }.run(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        for n in 0..12 {
            send(&alpha, &beta, &pattern(20_000 + n));
        }
        fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 % 900));
        let before = bench.machine.now();
        drop(alpha);
        let took = bench.machine.now().since(before);
        assert!(took < Nanos::from_millis(50), "{took}");
        bench.settle();
        payloads(&to_beta);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        send(&alpha, &beta, &pattern(SDU));
        bench.wait_for("it comes", Nanos::from_secs(30), || payloads(&to_beta) == [pattern(SDU)]);
    });
}

#[test]
fn a_neighbour_that_starts_anew_is_reached_again() {
    holds(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        assert_eq!(payloads(&to_beta).len(), 1);
        drop((beta, to_beta));
        fakekernel::sleep(Nanos::from_secs(3));
        let (beta, to_beta) = bench.beta.open_up(PLAIN);
        bench.settle();
        send(&alpha, &beta, &pattern(30_000));
        bench.wait_for("it comes", Nanos::from_secs(30), || payloads(&to_beta) == [pattern(30_000)]);
        assert_eq!(counted_by(&bench.alpha, "opened"), 2);
    });
}

#[test]
fn a_neighbour_whose_cable_is_pulled_holds_nothing_up_and_is_reached_when_it_is_back() {
    holds(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        // The queue remembers the connection, which needs no way from then on.
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        payloads(&to_beta);
        bench.world.set_cable(bench.beta.port(), false);
        // 6.6 s; the C driver waits for up to 34 s.
        let pulled = bench.machine.now();
        let mut lost = 0;
        while counted_by(&bench.alpha, "closed") == 0 {
            let took = bench.machine.now().since(pulled);
            assert!(took < Nanos::from_secs(8), "not given up after {took}");
            send(&alpha, &beta, &pattern(10_000 + lost));
            lost += 1;
            fakekernel::sleep(Nanos::from_millis(100));
        }
        for n in lost..100 {
            send(&alpha, &beta, &pattern(10_000 + n));
            fakekernel::sleep(Nanos::from_millis(100));
        }
        bench.world.set_cable(bench.beta.port(), true);
        bench.wait_for("up", MINUTE, || bench.beta.state() == LinkState::Up);
        fakekernel::sleep(Nanos::from_secs(5));
        payloads(&to_beta);
        let reached = || {
            send(&alpha, &beta, &pattern(30_000));
            bench.settle();
            payloads(&to_beta).contains(&pattern(30_000))
        };
        bench.wait_for("it is reached", Nanos::from_secs(120), reached);
        send(&alpha, &beta, &pattern(100));
        bench.settle();
        assert!(payloads(&to_beta).contains(&pattern(100)));
    });
}

#[test]
fn a_queue_pair_that_fails_takes_its_connection_along_and_the_next_packet_opens_another() {
    holds(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
        let before = adapter.qpns();
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        payloads(&to_beta);
        let made = adapter.qpns().into_iter().find(|qpn| !before.contains(qpn)).expect("another queue pair");
        assert!(adapter.break_qpn(made));
        bench.settle();
        send(&alpha, &beta, &pattern(30_000));
        bench.wait_for("it comes", Nanos::from_secs(10), || payloads(&to_beta) == [pattern(30_000)]);
        assert_eq!((bench.alpha.state(), counted_by(&bench.alpha, "opened")), (LinkState::Up, 2));
    });
}

#[test]
fn an_adapter_that_is_pulled_while_connections_are_opened_and_stand_is_let_go_in_time() {
    Setup { seeds: 12, ..Setup::default() }.run(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(20_000));
        fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 % 700));
        let pulled = bench.world.remove_hca(&bench.alpha.kernel, bench.alpha.adapter());
        assert!(pulled.is_ok(), "{}", pulled.unwrap_err());
        drop((alpha, to_alpha, beta, to_beta));
    });
}

#[test]
fn a_link_with_connections_is_detached_when_the_adapter_is_done_with_them() {
    Setup { seeds: 8, ..Setup::default() }.run(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(20_000));
        fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 % 700));
        drop((alpha, to_alpha));
        let goes = bench.alpha.comes_and_goes();
        let other = bench.alpha.kernel.spawn("detach", fakekernel::Ctx::User, goes);
        other.join();
        drop((beta, to_beta));
        fakekernel::sleep(MINUTE);
    });
}

#[test]
fn a_link_of_datagrams_is_one_again_when_it_is_told_so() {
    holds(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, IPV4);
        drop((alpha, to_alpha));
        bench.settle();
        set_connected(&bench.alpha, false);
        let (alpha, _) = bench.alpha.open_up(IPV4);
        assert_eq!(address_of(&alpha).0[0], 0);
        let mut packet = vec![0; 1_000];
        packet[..4].copy_from_slice(&[0x45, 0, 3, 232]);
        send(&alpha, &beta, &packet);
        bench.settle();
        assert!(payloads(&to_beta) == [packet]);
        assert_eq!(counted_by(&bench.alpha, "opens"), 0);
        drop(beta);
    });
}

/// A neighbour advertisement of fd01::1 with this link address, as IP gives it to the MAC layer.
fn advertisement(address: [u8; 20]) -> Vec<u8> {
    let mut packet = vec![0; 88];
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 48, 58, 255]);
    for at in [8, 24, 48] {
        packet[at] = 0xfd;
        packet[at + 15] = 1;
    }
    packet[39] = 2;
    packet[40] = 136;
    packet[64..66].copy_from_slice(&[2, 3]);
    packet[66..86].copy_from_slice(&address);
    packet
}

#[test]
fn a_link_whose_queue_pair_is_built_anew_hears_of_neighbours_on_its_connections_as_before() {
    const IPV6: u32 = 0x86dd;
    holds(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, IPV6);
        for _ in 0..2 {
            send(&alpha, &beta, &pattern(20_000));
            bench.settle();
            let said = advertisement(address_of(&alpha).0);
            send(&alpha, &beta, &said);
            bench.settle();
            assert!(payloads(&to_beta).contains(&said));
            let qpn =
                u32::from_be_bytes(address_of(&beta).0[..4].try_into().expect("four bytes")) & 0x00ff_ffff;
            let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("it is plugged in");
            assert!(adapter.break_qpn(fabric::Qpn::truncating(qpn)));
            fakekernel::sleep(Nanos::from_secs(2));
        }
        bench.wait_for("up", Nanos::from_secs(1), || bench.beta.state() == LinkState::Up);
        assert_eq!(counted_by(&bench.alpha, "sent"), 4);
    });
}

#[test]
fn packets_beyond_what_a_connection_has_out_wait_and_go_in_their_order() {
    holds(|bench| {
        const PACKETS: usize = 80;
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        payloads(&to_beta);
        let dropped = bench.alpha.counter("tx_drop_queue_full");
        // None completes before all are sent.
        let far = LinkFaults { delay: fabric::Nanos(5_000_000), ..LinkFaults::default() };
        bench.world.fabric().set_faults(bench.beta.port(), far, far);
        for n in 0..PACKETS {
            send(&alpha, &beta, &pattern(SDU - n));
        }
        bench.settle();
        let came: Vec<usize> = payloads(&to_beta).iter().map(Vec::len).collect();
        assert!(
            came.iter().copied().eq((0..PACKETS).map(|n| SDU - n)),
            "{came:?}: {:?}",
            bench.alpha.counters()
        );
        assert_eq!(
            (bench.alpha.counter("tx_drop_queue_full"), counted_by(&bench.alpha, "lost")),
            (dropped, 0)
        );
    });
}

#[test]
fn what_is_out_when_a_connection_fails_is_counted_as_lost() {
    holds(|bench| {
        const PACKETS: u64 = 70;
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        // The second one has the queue remember the connection, which needs no way from then on.
        for n in 1..=2 {
            send(&alpha, &beta, &pattern(20_000));
            bench.settle();
            assert_eq!((payloads(&to_beta).len(), counted_by(&bench.alpha, "sent")), (1, n));
        }
        bench.world.set_cable(bench.beta.port(), false);
        (0..PACKETS).for_each(|_| send(&alpha, &beta, &pattern(10_000)));
        bench.wait_for("it is given up", MINUTE, || counted_by(&bench.alpha, "closed") >= 1);
        let [sent, lost] = ["sent", "lost"].map(|name| counted_by(&bench.alpha, name));
        assert_eq!((sent, lost), (2 + PACKETS, PACKETS), "{:?}", bench.alpha.counters());
        bench.world.set_cable(bench.beta.port(), true);
        bench.wait_for("up", MINUTE, || bench.beta.state() == LinkState::Up);
    });
}

#[test]
fn a_busy_connection_that_fails_while_the_administrator_is_silent_is_made_anew_without_it() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
        let before = adapter.qpns();
        for n in 0..720 {
            send(&alpha, &beta, &pattern(5_000 + n));
            fakekernel::sleep(Nanos::from_secs(1));
        }
        assert_eq!((payloads(&to_beta).len(), counted_by(&bench.alpha, "opened")), (720, 1));
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        let made = adapter.qpns().into_iter().find(|qpn| !before.contains(qpn)).expect("another queue pair");
        assert!(adapter.break_qpn(made));
        bench.settle();
        send(&alpha, &beta, &pattern(100));
        send(&alpha, &beta, &pattern(30_000));
        bench.wait_for("it comes", Nanos::from_secs(10), || payloads(&to_beta).contains(&pattern(30_000)));
        assert_eq!(counted_by(&bench.alpha, "opened"), 2);
    });
}

/// The SM deals the LIDs anew: beta's old one is alpha's now, whose adapter acknowledges what alpha's connection still sends there.
#[test]
fn a_connection_goes_when_lids_are_dealt_anew_though_another_port_acknowledges_what_is_sent() {
    holds(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        for _ in 0..2 {
            send(&alpha, &beta, &pattern(10_000));
            send(&beta, &alpha, &pattern(10_000));
            bench.settle();
        }
        assert_eq!((payloads(&to_alpha).len(), payloads(&to_beta).len()), (2, 2));
        let first =
            bench.world.fabric().subnet_ports().iter().map(|port| port.attr.lid.0).max().expect("ports");
        bench.sm.restart_with_other_lids(sm::Lid(sm::Lid::FIRST_MULTICAST.0 + 16), sm::Lid(first));
        let heard = |heard: &ReceiveQueue| payloads(heard).contains(&pattern(12_000));
        bench.wait_for("packets arrive", Nanos::from_secs(20), || {
            send(&alpha, &beta, &pattern(12_000));
            fakekernel::sleep(Nanos::from_millis(100));
            heard(&to_beta)
        });
        bench.wait_for("packets arrive", Nanos::from_secs(20), || {
            send(&beta, &alpha, &pattern(12_000));
            fakekernel::sleep(Nanos::from_millis(100));
            heard(&to_alpha)
        });
    });
}
