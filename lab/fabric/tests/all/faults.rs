//! Faults on demand: links, interrupts, calls, ports, whole HCAs.

use crate::rig::*;
use fabric::capture::ErfPcapng;
use fabric::*;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::sync::Arc;

const PERFECT: fn() -> LinkFaults = LinkFaults::default;

fn always() -> Probability {
    Probability::ALWAYS
}

#[test]
fn lost_frames_are_counted_and_nothing_else_happens() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    w.fabric.set_faults(a.port, LinkFaults { loss: always(), ..PERFECT() }, PERFECT());
    a.send(1, b"x", a.to(b)).unwrap();
    assert_eq!((a.sent().len(), b.received().len()), (1, 0));
    assert_eq!(w.drops(), [(Reason::Loss, 1)].into());
    assert_eq!(w.fabric.switched(), 0, "lost before the switch");
}

#[test]
fn a_duplicated_frame_takes_two_receives() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    b.post(1, 200);
    w.fabric.set_faults(b.port, PERFECT(), LinkFaults { duplicate: always(), ..PERFECT() });
    a.send(1, b"x", a.to(b)).unwrap();
    assert_eq!(b.received().len(), 2);
}

#[test]
fn corruption_is_found_by_the_next_hop_or_by_the_receiver() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    w.fabric.set_faults(a.port, LinkFaults { corrupt: always(), ..PERFECT() }, PERFECT());
    a.send(1, b"x", a.to(b)).unwrap();
    assert_eq!(w.drops(), [(Reason::VcrcAtSwitch, 1)].into());
    w.fabric.set_faults(a.port, PERFECT(), PERFECT());
    w.fabric.set_faults(b.port, PERFECT(), LinkFaults { corrupt_inside: always(), ..PERFECT() });
    a.send(2, b"x", a.to(b)).unwrap();
    let drops = w.drops();
    let at_port: u64 = [Reason::CrcAtPort, Reason::Malformed].iter().filter_map(|r| drops.get(r)).sum();
    assert_eq!((at_port, b.received().len()), (1, 0));
}

#[test]
fn delay_and_jitter_keep_the_order_and_reordering_does_not() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for id in 0..10 {
        b.post(id, 200);
    }
    let slow = LinkFaults { delay: Nanos(1000), jitter: Nanos(900), ..PERFECT() };
    w.fabric.set_faults(a.port, slow, PERFECT());
    for id in 0..5u8 {
        w.clock.set(Nanos(u64::from(id)));
        a.send(u64::from(id), &[id], a.to(b)).unwrap();
    }
    assert!(b.received().is_empty());
    assert!(w.clock.wakes() >= 5 && w.fabric.next_delivery() >= Some(Nanos(1000)));
    w.settle();
    let order: Vec<u8> = b.received().iter().map(|c| b.payload(c)[0]).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
    let late = LinkFaults { reorder: always(), reorder_by: Nanos(5000), ..PERFECT() };
    w.fabric.set_faults(a.port, late, PERFECT());
    a.send(5, &[5], a.to(b)).unwrap();
    w.fabric.set_faults(a.port, PERFECT(), PERFECT());
    w.clock.set(Nanos(w.fabric.next_delivery().unwrap().0 - 1));
    a.send(6, &[6], a.to(b)).unwrap();
    w.settle();
    let order: Vec<u8> = b.received().iter().map(|c| b.payload(c)[0]).collect();
    assert_eq!(order, [6, 5]);
}

#[test]
fn the_same_seed_loses_the_same_frames() {
    let run = || {
        let w = world(2);
        let (a, b) = (&w.hosts[0], &w.hosts[1]);
        let lossy = LinkFaults { loss: Probability::per_million(400_000), ..PERFECT() };
        w.fabric.set_faults(a.port, lossy, PERFECT());
        let mut heard = Vec::new();
        for id in 0..200u8 {
            b.post(0, 200);
            a.send(1, &[id], a.to(b)).unwrap();
            a.sent();
            heard.extend(b.received().iter().map(|c| b.payload(c)[0]));
            b.hca.flush_qp(&b.qp).unwrap();
            b.received();
            b.hca.recycle_qp(&b.qp, PortNum(1), 0, QKEY).unwrap();
        }
        heard
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert!((80..160).contains(&first.len()), "{}", first.len());
}

#[test]
fn a_late_interrupt_comes_late_and_the_completion_does_not() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    b.hca.set_late_interrupts(Some((Nanos(100), Nanos(200))));
    b.hca.notify_cq(&b.rcq, Notify::Next).unwrap();
    a.send(1, b"x", a.to(b)).unwrap();
    assert!(b.events.fired().is_empty());
    assert_eq!(b.rcq.len(), 1);
    w.settle();
    assert_eq!(b.events.fired(), [b.rcq.num()]);
}

#[test]
fn any_call_can_be_made_to_fail() {
    let w = world(1);
    let a = &w.hosts[0];
    a.hca.inject(Call::AllocCq, Injection { skip: 1, times: 2, error: Error::InsuffResource });
    let results: Vec<bool> = (0..5).map(|_| a.hca.alloc_cq(1, 0).is_ok()).collect();
    assert_eq!(results, [true, false, false, true, true]);
}

#[test]
fn a_pulled_cable_takes_the_port_down_and_keeps_its_lid() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    w.fabric.set_cable(b.port, false).unwrap();
    assert_eq!(b.events.asyncs(), [AsyncEvent::PortDown(PortNum(1))]);
    a.send(1, b"x", a.to(b)).unwrap();
    b.send(1, b"x", b.to(a)).unwrap();
    assert_eq!(w.drops(), [(Reason::SenderPortDown, 1), (Reason::ReceiverPortDown, 1)].into());
    let port = &b.hca.query_ports().unwrap()[0];
    assert_eq!((port.state, port.phys, port.lid), (PortState::Down, PhysState::Polling, b.lid));
    w.fabric.set_cable(b.port, true).unwrap();
    assert!(b.events.asyncs().is_empty(), "INIT is not ACTIVE yet");
    activate(&w.fabric, b.port, b.lid);
    assert_eq!(b.events.asyncs(), [AsyncEvent::PortUp(PortNum(1))]);
    a.send(2, b"x", a.to(b)).unwrap();
    assert_eq!(b.received().len(), 1);
}

#[test]
fn table_changes_and_reregistration_are_told_once() {
    let w = world(1);
    let a = &w.hosts[0];
    let table = [PKey(0xffff), PKey(0x8001)];
    w.fabric.set_pkeys(a.port, &table).unwrap();
    w.fabric.set_pkeys(a.port, &table).unwrap();
    assert_eq!(a.events.asyncs(), [AsyncEvent::PortChange(PortNum(1), PortChange::PKEY)]);
    let set = subnet::PortSet { sm_lid: Some(Lid(2)), client_reregister: true, ..Default::default() };
    w.fabric.program_port(a.port, &set).unwrap();
    let expected =
        [AsyncEvent::PortChange(PortNum(1), PortChange::SM_LID), AsyncEvent::ClientReregister(PortNum(1))];
    assert_eq!(a.events.asyncs(), expected);
}

#[test]
fn a_removed_hca_neither_sends_nor_hears_but_can_be_cleaned_up() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    b.hca.begin_removal();
    assert_eq!(b.events.asyncs(), [AsyncEvent::Detach]);
    a.send(1, b"x", a.to(b)).unwrap();
    b.send(1, b"x", b.to(a)).unwrap();
    assert_eq!(w.drops(), [(Reason::HcaGone, 2)].into());
    b.hca.flush_qp(&b.qp).unwrap();
    assert_eq!(b.received().len(), 1);
    b.hca.free_qp(&b.qp).unwrap();
    b.hca.remove();
    assert!(w.fabric.hca(b.hca.guid()).is_none());
    a.send(2, b"x", a.to(b)).unwrap();
    assert_eq!(w.drops().get(&Reason::NoRoute), Some(&1));
}

/// A switch forwards to a port what the subnet manager said, whatever is behind the port.
#[test]
fn an_hca_that_is_plugged_in_again_hears_the_groups_of_before() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let config = b.hca.config().clone();
    b.hca.begin_removal();
    b.hca.flush_qp(&b.qp).unwrap();
    b.hca.free_qp(&b.qp).unwrap();
    b.hca.remove();
    a.send(1, b"to all", a.to_group()).unwrap();
    let hca = w.fabric.add_hca(config, b.memory.clone(), b.events.clone()).unwrap();
    activate(&w.fabric, b.port, b.lid);
    let pd = hca.alloc_pd().unwrap();
    let (scq, rcq) = (hca.alloc_cq(63, 0).unwrap(), hca.alloc_cq(63, 0).unwrap());
    let access = Access { local_write: true, ..Default::default() };
    let mr = hca.register_mr(&pd, BASE, 0x1_0000, access).unwrap();
    let qp = hca.alloc_qp(ud_config(&pd, &scq, &rcq)).unwrap();
    let (memory, events) = (b.memory.clone(), b.events.clone());
    let again = Host { hca, port: b.port, lid: b.lid, memory, events, pd, scq, rcq, qp, mr };
    again.join();
    again.post(0, 200);
    a.send(2, b"to all", a.to_group()).unwrap();
    assert_eq!(again.received().len(), 1);
}

#[test]
fn a_broken_qp_flushes_and_says_so() {
    let w = world(1);
    let a = &w.hosts[0];
    a.post(0, 200);
    a.hca.break_qp(&a.qp);
    assert_eq!(a.events.asyncs(), [AsyncEvent::CatastrophicChannel(a.qp.num())]);
    assert_eq!(a.received()[0].status, CompletionStatus::Flushed);
}

#[test]
fn guids_are_unique() {
    let w = world(1);
    let a = &w.hosts[0];
    let again = w.fabric.add_hca(a.hca.config().clone(), a.memory.clone(), a.events.clone());
    assert_eq!(again.err(), Some(Error::InvalidParam));
}

#[test]
fn a_capture_holds_each_frame_at_each_port_it_passes_and_the_one_that_a_port_discards() {
    let w = world(3);
    let tap = Arc::new(ErfPcapng::new(Vec::new(), &w.fabric.subnet_ports()).unwrap());
    w.fabric.set_tap(Some(tap.clone()));
    w.clock.set(Nanos(3_500_000_000));
    let a = &w.hosts[0];
    w.hosts[1].join();
    w.hosts[1].post(0, 200);
    a.send(1, b"to all", a.to_group()).unwrap();
    w.fabric.set_cable(a.port, false).unwrap();
    a.send(2, b"to all", a.to_group()).unwrap();
    w.fabric.set_tap(None);
    let file = Arc::into_inner(tap).unwrap().finish().unwrap();
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.unwrap().into_owned() else { continue };
        let record = &packet.data[..];
        assert_eq!(u64::from_le_bytes(record[..8].try_into().unwrap()), 3 << 32 | 1 << 31, "3.5 s");
        assert_eq!((record[8], record[9]), (21, 4));
        let (length, wire, frame) = (&record[10..12], &record[14..16], &record[16..]);
        assert_eq!(u16::from_be_bytes(length.try_into().unwrap()) as usize, 16 + frame.len());
        assert_eq!(u16::from_be_bytes(wire.try_into().unwrap()) as usize, frame.len());
        assert_eq!(wire::Packet::parse(frame).unwrap().payload, b"to all");
        seen.push((packet.interface_id, packet.options.clone()));
    }
    let inbound = EnhancedPacketOption::Flags(1);
    let refused = |why: &str| EnhancedPacketOption::Comment(format!("refused: {why}").into());
    let expected = [
        (0, vec![EnhancedPacketOption::Flags(2)]),
        (1, vec![inbound.clone()]),
        // Routed there, but nobody is attached.
        (2, vec![inbound, refused("no_qp")]),
        // It has no link to go to.
        (0, vec![EnhancedPacketOption::Flags(2), refused("sender_port_down")]),
    ];
    assert_eq!(seen, expected, "outbound at the sender, inbound at each other port");
    assert!(reader.interfaces().iter().all(|interface| interface.linktype == DataLink::ERF));
}

#[test]
fn a_capture_of_so_many_frames_has_those_that_came_first() {
    for most in [0, 1, 3] {
        let w = world(3);
        let tap = ErfPcapng::new(Vec::new(), &w.fabric.subnet_ports()).unwrap().at_most(most);
        let tap = Arc::new(tap);
        w.fabric.set_tap(Some(tap.clone()));
        let a = &w.hosts[0];
        for n in 0..3 {
            a.send(n, b"to all", a.to_group()).unwrap();
        }
        w.fabric.set_tap(None);
        assert_eq!(tap.frames().unwrap(), most);
        let file = Arc::into_inner(tap).unwrap().finish().unwrap();
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let blocks = std::iter::from_fn(|| reader.next_block().map(|block| block.unwrap().into_owned()));
        assert_eq!(blocks.filter(|block| matches!(block, Block::EnhancedPacket(_))).count() as u64, most);
    }
}
