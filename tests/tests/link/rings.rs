//! Rings: packets that the MAC layer fetches, and several queue pairs that send.

use std::collections::{BTreeMap, BTreeSet};

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, LinkState, Offload, ReceiveQueue, Received, Stream, transmit_ring_statistics};

use crate::bench::{Bench, IPV4, LINK, Setup, address_of, group};

/// A receive ring alone.
const RECEIVE: &[(&str, i32)] = &[("ibd_rx_rings", 1)];
/// And transmit rings.
pub const BOTH: &[(&str, i32)] = &[("ibd_rx_rings", 1), ("ibd_tx_rings", 4)];
const SECOND: Nanos = Nanos::from_secs(1);

pub fn rings(conf: &'static [(&'static str, i32)], seeds: u64, test: fn(&Bench)) {
    Setup { conf, seeds, ..Setup::default() }.run(test);
}

/// A UDP packet of IPv4 in a flow, with a number.
fn packet(flow: u16, number: u32) -> Vec<u8> {
    let mut packet = vec![0; 32];
    packet[0] = 0x45;
    packet[3] = 32;
    packet[8] = 64;
    packet[9] = 17;
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[20..22].copy_from_slice(&(1_024 + flow).to_be_bytes());
    packet[25] = 12;
    packet[28..].copy_from_slice(&number.to_be_bytes());
    packet
}

pub fn flow_and_number(payload: &[u8]) -> (u16, u32) {
    let flow = u16::from_be_bytes([payload[20], payload[21]]) - 1_024;
    (flow, u32::from_be_bytes(payload[28..32].try_into().expect("four bytes")))
}

pub fn send(from: &Stream, to: LinkAddress, flow: u16, number: u32) {
    let mut packet = packet(flow, number);
    if to.0[1..4] == [0xff; 3] {
        // To a group in its own header, too.
        packet[16] = 239;
    }
    from.transmit(to, &packet, Offload::default()).expect("the stream is bound");
}

pub fn all(heard: &ReceiveQueue) -> Vec<Received> {
    std::iter::from_fn(|| heard.try_next()).collect()
}

/// Checks that each flow goes on where it was.
#[track_caller]
fn in_order(heard: &ReceiveQueue, next: &mut BTreeMap<u16, u32>) {
    for packet in all(heard) {
        let (flow, number) = flow_and_number(&packet.payload);
        let expected = next.entry(flow).or_default();
        assert_eq!(number, *expected, "flow {flow}");
        *expected += 1;
    }
}

#[test]
fn bursts_are_fetched_by_the_mac_layer_and_every_flow_keeps_its_order() {
    rings(RECEIVE, 20, |bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let to = address_of(&beta);
        let mut next: BTreeMap<u16, u32> = BTreeMap::new();
        for number in 0..400 {
            for flow in 0..5 {
                send(&alpha, to, flow, number);
            }
            if number % 50 == 49 {
                bench.settle();
            }
            in_order(&heard, &mut next);
        }
        assert_eq!(next.values().copied().collect::<Vec<u32>>(), [400; 5]);
        assert!(bench.beta.counter("rx_quiet") > 0, "its interrupt was never switched off");
        assert!(bench.beta.counter("rx_fetched") > 0, "nothing was fetched");
        // Each is counted once, whichever way it went.
        assert_eq!(bench.beta.statistics().ipackets, 2_001);
    });
}

#[test]
fn packet_that_comes_between_the_last_poll_and_the_interrupt_needs_no_other_behind_it() {
    rings(RECEIVE, 60, |bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let to = address_of(&beta);
        for number in 0..200_u32 {
            send(&alpha, to, 0, number);
            // The first one may switch to polling; the second comes at every point of the way back.
            fakekernel::sleep(Nanos(u64::from(number) * 700));
            send(&alpha, to, 1, number);
            let deadline = bench.machine.now() + SECOND;
            for _ in 0..2 {
                heard.next(deadline).unwrap_or_else(|| panic!("packet {number} waits for another one"));
            }
        }
        assert!(bench.beta.counter("rx_quiet") > 0, "its interrupt was never switched off");
    });
}

/// It says where the link is reached: an address with another queue pair number is nobody's.
#[test]
fn an_administrator_gives_a_link_with_rings_no_other_address() {
    rings(RECEIVE, 5, |bench| {
        let (alpha, _) = bench.alpha.open_up(IPV4);
        let (own, mut other) = (address_of(&alpha), address_of(&alpha));
        other.0[3] ^= 1;
        assert!(alpha.set_address(other).is_err());
        bench.settle();
        assert_eq!(address_of(&alpha), own);
        drop(alpha);
        bench.settle();
        // mac asks no driver while nobody uses the link.
        let idle = Stream::open(&bench.alpha.kernel, LINK).unwrap();
        let set = idle.set_address(other);
        drop(idle);
        let (alpha, heard) = bench.alpha.open_up(IPV4);
        let (beta, _) = bench.beta.open_up(IPV4);
        bench.settle();
        assert_ne!(address_of(&alpha), other, "{set:?}");
        send(&beta, address_of(&alpha), 0, 1);
        bench.settle();
        assert!(heard.try_next().is_some());
    });
}

/// A link that hears broadcasts: they come with a GRH, and so with the queue pair they were sent from.
fn queue_pairs(packets: &[Received]) -> BTreeMap<u16, BTreeSet<LinkAddress>> {
    let mut sources: BTreeMap<u16, BTreeSet<LinkAddress>> = BTreeMap::new();
    for packet in packets {
        let (flow, _) = flow_and_number(&packet.payload);
        sources.entry(flow).or_default().insert(packet.source.expect("a GRH came with it"));
    }
    sources
}

/// The queue pairs that this many broadcasts, one of each flow, go out of.
pub fn senders(bench: &Bench, alpha: &Stream, heard: &ReceiveQueue) -> BTreeSet<LinkAddress> {
    // Once for the way to be known, of which only so many packets can wait.
    for round in 0..2 {
        bench.settle();
        all(heard);
        (0..32).for_each(|flow| send(alpha, alpha.details().broadcast, flow, round));
        bench.settle();
    }
    queue_pairs(&all(heard)).into_values().flatten().collect()
}

#[test]
fn flow_goes_out_of_one_queue_pair_and_flows_out_of_all() {
    rings(BOTH, 4, |bench| {
        let (alpha, _beta, heard) = bench.talking(IPV4);
        senders(bench, &alpha, &heard);
        let before = bench.alpha.statistics().opackets;
        for number in 0..10 {
            for flow in 0..32 {
                send(&alpha, alpha.details().broadcast, flow, number);
            }
        }
        bench.settle();
        let packets = all(&heard);
        assert_eq!(packets.len(), 320, "{:?}", bench.alpha.counters());
        let sources = queue_pairs(&packets);
        assert!(sources.values().all(|of_one| of_one.len() == 1), "{sources:?}");
        let all: BTreeSet<LinkAddress> = sources.into_values().flatten().collect();
        assert_eq!(all.len(), 4, "{all:?}, {:?}", bench.alpha.counters());
        // The link's address is that of the first.
        assert!(all.contains(&address_of(&alpha)), "{all:?}");
        assert_eq!(bench.alpha.statistics().opackets - before, 320);
    });
}

#[test]
fn own_multicast_is_known_by_every_queue_pair_it_may_come_from() {
    rings(BOTH, 4, |bench| {
        let (alpha, own) = bench.alpha.open_up(IPV4);
        let (beta, heard) = bench.beta.open_up(IPV4);
        let everybody = group(5);
        alpha.enable_multicast(everybody).expect("a group");
        beta.enable_multicast(everybody).expect("a group");
        bench.wait_for("both in the group", Nanos::from_secs(10), || {
            send(&alpha, everybody, 0, 0);
            bench.settle();
            heard.try_next().is_some()
        });
        for round in 0..2 {
            bench.settle();
            all(&own);
            all(&heard);
            // Once for the way to be known to every queue.
            (0..32 * (1 - round)).for_each(|flow| send(&alpha, everybody, flow, 0));
        }
        let before = bench.alpha.counter("rx_drop_own_multicast");
        for flow in 0..32 {
            send(&alpha, everybody, flow, 1);
        }
        bench.settle();
        let sources: BTreeSet<LinkAddress> = queue_pairs(&all(&heard)).into_values().flatten().collect();
        assert_eq!(sources.len(), 4, "{sources:?}, {:?}", bench.alpha.counters());
        assert_eq!(bench.alpha.counter("rx_drop_own_multicast") - before, 32, "every one came back");
        assert_eq!(all(&own).len(), 0, "and none went up");
    });
}

pub fn qpn(address: &LinkAddress) -> fabric::Qpn {
    fabric::Qpn::truncating(u32::from_be_bytes([0, address.0[1], address.0[2], address.0[3]]))
}

#[test]
fn queue_pair_that_fails_is_replaced_whichever_ring_it_belongs_to() {
    rings(BOTH, 4, |bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let hca = bench.world.fabric().hca(fabric::Guid(bench.alpha.port().0 - 1)).expect("alpha's");
        for round in 0..3 {
            let sources = senders(bench, &alpha, &heard);
            assert_eq!(sources.len(), 4, "round {round}: {sources:?}, {:?}", bench.alpha.counters());
            // The first round breaks the one with the link's address, the others some of those without.
            let own = address_of(&alpha);
            let broken =
                sources.iter().find(|source| (**source == own) == (round == 0)).expect("one of four");
            assert!(hca.break_qpn(qpn(broken)), "alpha's queue pair has another number");
            // A send of each ring finds out.
            (0..32).for_each(|flow| send(&alpha, address_of(&beta), flow, 100));
            bench.wait_for("another queue pair in its place", Nanos::from_secs(60), || {
                // Breaking what is broken changes nothing; what is gone cannot be found.
                !hca.break_qpn(qpn(broken)) && bench.alpha.state() == LinkState::Up
            });
            bench.settle();
            bench.wait_for("every flow arrives", Nanos::from_secs(60), || {
                all(&heard);
                (0..32).for_each(|flow| send(&alpha, address_of(&beta), flow, 200));
                bench.settle();
                let flows: BTreeSet<u16> =
                    all(&heard).iter().map(|packet| flow_and_number(&packet.payload).0).collect();
                flows.len() == 32
            });
        }
    });
}

#[test]
fn full_ring_refuses_its_own_flows_alone_and_loses_none_of_them() {
    rings(BOTH, 4, |bench| {
        bench.beta.set("_ibd_ud_num_rwqe", "8000").unwrap();
        let (alpha, beta, heard) = bench.talking(IPV4);
        all(&heard);
        let hca = bench.world.fabric().hca(fabric::Guid(bench.alpha.port().0 - 1)).expect("alpha's");
        hca.set_late_interrupts(Some((fabric::Nanos(50_000_000), fabric::Nanos(50_000_000))));
        for number in 0..450 {
            for flow in 0..8 {
                send(&alpha, address_of(&beta), flow, number);
            }
        }
        bench.settle();
        hca.set_late_interrupts(None);
        bench.settle();
        assert_eq!(alpha.transmit_queue(), 0);
        let mut next: BTreeMap<u16, u32> = BTreeMap::new();
        in_order(&heard, &mut next);
        assert_eq!(next.values().sum::<u32>(), 3_600, "{:?}", bench.beta.counters());
    });
}

/// What each of alpha's rings has sent.
fn sent_by_ring(bench: &Bench) -> Vec<u64> {
    let rings = transmit_ring_statistics(&bench.alpha.kernel, LINK).expect("the link is there");
    rings.iter().map(|ring| ring.packets).collect()
}

/// The ring of each of so many flows, found by sending a packet of each.
pub fn ring_of_each(bench: &Bench, alpha: &Stream, to: LinkAddress, flows: u16) -> Vec<usize> {
    let ring_of = |flow| {
        let before = sent_by_ring(bench);
        send(alpha, to, flow, 0);
        bench.settle();
        let after = sent_by_ring(bench);
        let one = before.iter().zip(&after).position(|(before, after)| after > before);
        one.unwrap_or_else(|| panic!("flow {flow} went nowhere: {:?}", bench.alpha.counters()))
    };
    (0..flows).map(ring_of).collect()
}

/// A cache line, by its number.
type Line = usize;

/// The driver's memory on alpha.
fn memory(bench: &Bench) -> Vec<(usize, Vec<u8>)> {
    bench.alpha.kernel.genunix().memory_of(bench.alpha.driver_name())
}

/// The lines in which something is not what it was.
fn changed(before: &[(usize, Vec<u8>)], after: &[(usize, Vec<u8>)]) -> BTreeSet<Line> {
    let before: BTreeMap<usize, &[u8]> = before.iter().map(|(start, bytes)| (*start, &bytes[..])).collect();
    let mut lines = BTreeSet::new();
    for (start, bytes) in after {
        let Some(was) = before.get(start).filter(|was| ***was != bytes[..]) else { continue };
        let differs = bytes.iter().zip(*was).enumerate().filter(|(_, (now, was))| now != was);
        lines.extend(differs.map(|(n, _)| (start + n) / 64));
    }
    lines
}

/// A line that two processors write with each packet goes to and fro between them, whatever else is apart. What a packet changes is looked
/// at after each one, before it is over: what is counted up when it is sent and down when it is over shows, too.
#[test]
fn packets_of_two_rings_to_one_peer_change_no_cache_line_of_the_driver_s_that_both_do() {
    rings(BOTH, 1, |bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let to = address_of(&beta);
        let ring_of = ring_of_each(bench, &alpha, to, 32);
        let other =
            ring_of.iter().position(|ring| *ring != ring_of[0]).expect("flows go out of several rings");
        let flows = [0, u16::try_from(other).expect("one of 32")];
        // Each ring has begun a run of sends to the peer.
        let warm = |number| flows.iter().for_each(|flow| send(&alpha, to, *flow, number));
        (0..8).for_each(warm);
        // What is over of one ring's packets changes its lines while the other one sends.
        bench.settle();
        let mut lines = [BTreeSet::new(), BTreeSet::new()];
        for number in 8..24 {
            for (flow, lines) in flows.iter().zip(&mut lines) {
                let before = memory(bench);
                send(&alpha, to, *flow, number);
                let of_one = changed(&before, &memory(bench));
                assert!(!of_one.is_empty(), "packet {number} of flow {flow} changed nothing");
                lines.extend(of_one);
            }
        }
        bench.settle();
        let both: Vec<_> = lines[0].intersection(&lines[1]).map(|line| format!("{:#x}", line * 64)).collect();
        assert!(both.is_empty(), "of {} and {} lines both change {both:?}", lines[0].len(), lines[1].len());
        assert!(all(&heard).len() >= 2 * 24, "they arrived");
    });
}

/// Another queue pair on the same port, which nobody has: an address of its own to a sender.
fn neighbour_of(address: LinkAddress, number: u8) -> LinkAddress {
    let mut other = address;
    other.0[1] ^= 0x40;
    other.0[3] = number;
    other
}

#[test]
fn full_ring_keeps_its_own_resolved_packets_waiting_and_those_of_no_other() {
    fn slow(config: &mut fabric::HcaConfig) {
        // Longer than the test, and shorter than a timeout.
        config.send_latency = fabric::Nanos(4_000_000_000);
        config.attr.max_chan_sz = 256;
    }
    Setup { hca: slow, conf: BOTH, ..Setup::default() }.run(|bench| {
        let (alpha, _) = bench.alpha.open_up(IPV4);
        let (beta, _) = bench.beta.open_up(IPV4);
        let known = neighbour_of(address_of(&beta), 1);
        // Once for its way to be known.
        (0..8).for_each(|flow| send(&alpha, known, flow, 0));
        bench.settle();
        let rings = ring_of_each(bench, &alpha, known, 8);
        let other = (0..8).find(|flow| rings[usize::from(*flow)] != rings[0]).expect("four rings");
        let idle = sent_by_ring(bench);
        // The first flow's ring is as good as full, and then is by the packets that wait for a way.
        for number in 0..250 {
            send(&alpha, known, 0, number);
        }
        for number in 2..30 {
            send(&alpha, neighbour_of(address_of(&beta), number), 0, 0);
        }
        bench.settle();
        let before = sent_by_ring(bench);
        assert!(before[rings[0]] < idle[rings[0]] + 250 + 28, "the ring is not full: {before:?}");
        send(&alpha, neighbour_of(address_of(&beta), 40), other, 0);
        bench.settle();
        let after = sent_by_ring(bench);
        let ring = rings[usize::from(other)];
        assert_eq!(after[ring], before[ring] + 1, "it waits behind those of a full ring");
        assert_eq!(after[rings[0]], before[rings[0]]);
        fakekernel::sleep(Nanos::from_secs(10));
        let all = sent_by_ring(bench);
        assert_eq!(
            all[rings[0]],
            idle[rings[0]] + 250 + 28,
            "those that waited went out: {:?}",
            bench.alpha.counters()
        );
    });
}

#[test]
fn link_with_rings_starts_and_stops_a_hundred_times_under_traffic() {
    rings(BOTH, 4, |bench| {
        let (alpha, _) = bench.alpha.open_up(IPV4);
        for round in 0..100 {
            let (beta, _) = bench.beta.open(IPV4);
            let to = address_of(&beta);
            (0..16).for_each(|flow| send(&alpha, to, flow, round));
            fakekernel::sleep(Nanos(u64::from(round) * 300_000));
            (0..16).for_each(|flow| send(&beta, address_of(&alpha), flow, round));
        }
        let (beta, heard) = bench.beta.open_up(IPV4);
        bench.wait_for("a packet arrives", Nanos::from_secs(10), || {
            send(&alpha, address_of(&beta), 0, 7);
            bench.settle();
            heard.try_next().is_some()
        });
    });
}

#[test]
fn rings_that_make_no_sense_are_named_and_left_out() {
    const CASES: [(&[(&str, i32)], &str); 3] = [
        (&[("ibd_rx_rings", 2)], "property ibd_rx_rings is 2, not from 0 to 1: taken as 0"),
        (
            &[("ibd_rx_rings", 1), ("ibd_tx_rings", -1)],
            "property ibd_tx_rings is -1, not from 0 to 8: taken as 0",
        ),
        (&[("ibd_tx_rings", 4)], "ibd_tx_rings 4 needs ibd_rx_rings 1: no rings"),
    ];
    for (conf, line) in CASES {
        Setup { conf, seeds: 1, ..Setup::default() }.run(|bench| {
            let (alpha, beta, heard) = bench.talking(IPV4);
            send(&alpha, address_of(&beta), 0, 0);
            bench.settle();
            assert_eq!(all(&heard).len(), 1);
        });
        // The line is looked for apart: a test that Setup runs has no arguments.
        assert!(said(conf).iter().any(|said| said.contains(line)), "{:?}", said(conf));
    }
}

/// What a host with this configuration logs when its driver attaches.
fn said(conf: &'static [(&'static str, i32)]) -> Vec<String> {
    static SAID: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    SAID.lock().expect("nobody panics with it").clear();
    Setup { conf, seeds: 1, ..Setup::default() }.run(|bench| {
        *SAID.lock().expect("nobody panics with it") = bench.alpha.console();
    });
    SAID.lock().expect("nobody panics with it").clone()
}
