//! Reliable connections between two adapters.

use crate::rig::*;
use fabric::capture::ErfPcapng;
use fabric::*;
use std::process::Command;
use std::sync::Arc;

/// Where messages are sent from, and where they are received: four places of 64 KiB each.
const OUT: u64 = BASE + 0x4_0000;
const IN: u64 = BASE + 0x8_0000;
const PLACE: u64 = 0x1_0000;
/// 67 ms, so that twice that is waited for an acknowledgement.
const ACK_TIMEOUT: u8 = 14;
const PATIENCE: u64 = 2 * 67_108_864;

fn place(id: u64) -> u64 {
    IN + PLACE * (id % 4)
}

fn rc_config(host: &Host) -> RcConfig {
    RcConfig {
        port: PortNum(1),
        pkey_ix: 0,
        pd: host.pd.clone(),
        scq: host.scq.clone(),
        rcq: host.rcq.clone(),
        srq: None,
        sizes: QpSizes { sq: 16, rq: 16, sq_sgl: 4, rq_sgl: 4 },
        signalling: Signalling::All,
        uses_reserved_lkey: false,
    }
}

fn to_rtr(host: &Host, qp: &Qp, peer: &Host, peer_qp: &Qp) -> ReadyToReceive {
    let attr = ReadyToReceive {
        vector: AddressVector { dlid: peer.lid, ..AddressVector::PLACEHOLDER },
        pkey_ix: 0,
        peer: peer_qp.num(),
        first_psn: 0x00ff_ff00,
        path_mtu: Mtu::M2048,
        min_rnr: 1,
    };
    host.hca.rc_to_rtr(qp, attr).unwrap();
    attr
}

fn to_rts(host: &Host, qp: &Qp, retry: u8, rnr_retry: u8) {
    let send = ReadyToSend { first_psn: 0x00ff_ff00, ack_timeout: ACK_TIMEOUT, retry, rnr_retry };
    host.hca.rc_to_rts(qp, send).unwrap();
}

/// Two queue pairs that are each other's peer.
struct Pair {
    w: World,
    a: Qp,
    b: Qp,
}

impl Pair {
    fn new() -> Self {
        Self::with(|_| {}, |_, _| {}, 1, 1)
    }

    fn with(
        change: impl Fn(&mut HcaConfig),
        config: impl Fn(&Host, &mut RcConfig),
        retry: u8,
        rnr_retry: u8,
    ) -> Self {
        let w = world_with(2, change);
        let make = |host: &Host| {
            let mut made = rc_config(host);
            config(host, &mut made);
            host.hca.alloc_rc_qp(made).unwrap()
        };
        let (a, b) = (make(&w.hosts[0]), make(&w.hosts[1]));
        to_rtr(&w.hosts[0], &a, &w.hosts[1], &b);
        to_rtr(&w.hosts[1], &b, &w.hosts[0], &a);
        to_rts(&w.hosts[0], &a, retry, rnr_retry);
        to_rts(&w.hosts[1], &b, retry, rnr_retry);
        Pair { w, a, b }
    }

    fn from(&self) -> &Host {
        &self.w.hosts[0]
    }

    fn to(&self) -> &Host {
        &self.w.hosts[1]
    }

    fn receive(&self, id: u64, room: usize) {
        let sgl = vec![self.to().sge(place(id), room)];
        self.to().hca.post_recv(&self.b, RecvWr { id, sgl }).unwrap();
    }

    fn request(&self, id: u64, bytes: &[u8]) -> RcSendWr {
        self.from().memory.put(OUT, bytes);
        let sgl = vec![self.from().sge(OUT, bytes.len())];
        RcSendWr { id, signal: false, solicited: false, immediate: None, sgl }
    }

    fn send(&self, id: u64, bytes: &[u8]) {
        self.from().hca.post_rc_send(&self.a, self.request(id, bytes)).unwrap();
    }

    /// Status of each send that has completed.
    fn sent(&self) -> Vec<(u64, CompletionStatus)> {
        self.from().sent().iter().map(|done| (done.wr_id, done.status)).collect()
    }

    /// Status of each receive that has completed.
    fn received(&self) -> Vec<(u64, CompletionStatus)> {
        self.to().received().iter().map(|done| (done.wr_id, done.status)).collect()
    }

    fn lose(&self, opcode: wire::RcOpcode, skip: u32, times: u32) {
        let pick = Pick { only: Only::Opcode(opcode as u8), skip, times };
        for host in &self.w.hosts {
            self.w.fabric.lose(host.port, Direction::ToSwitch, pick);
        }
    }

    fn now(&self) -> u64 {
        self.w.clock.now().0
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

use CompletionStatus::{
    Flushed, LocalLength, LocalProtection, RemoteInvalidRequest, RemoteOperation, RnrTimeout, Success,
    TransportTimeout,
};

#[test]
fn a_queue_pair_goes_from_init_to_rtr_to_rts_and_nowhere_else() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let (qp, peer) = (a.hca.alloc_rc_qp(rc_config(a)).unwrap(), b.hca.alloc_rc_qp(rc_config(b)).unwrap());
    assert_eq!(qp.state(), QpState::Init);
    let send = ReadyToSend { first_psn: 0, ack_timeout: 0, retry: 0, rnr_retry: 0 };
    assert_eq!(a.hca.rc_to_rts(&qp, send), Err(Error::ChanStateInvalid));
    let wr = RcSendWr { id: 1, signal: false, solicited: false, immediate: None, sgl: vec![] };
    assert_eq!(a.hca.post_rc_send(&qp, wr.clone()), Err(Error::ChanStateInvalid));
    let receive = to_rtr(a, &qp, b, &peer);
    assert_eq!(a.hca.rc_to_rtr(&qp, receive), Err(Error::ChanStateInvalid));
    assert_eq!(a.hca.post_rc_send(&qp, wr.clone()), Err(Error::ChanStateInvalid));
    to_rts(a, &qp, 0, 0);
    assert_eq!(qp.connection().unwrap().receive, Some(receive));
    a.hca.flush_qp(&qp).unwrap();
    assert_eq!(a.hca.rc_to_rtr(&qp, receive), Err(Error::ChanStateInvalid));
    a.hca.recycle_rc_qp(&qp, PortNum(1), 0).unwrap();
    assert_eq!((qp.state(), qp.connection().unwrap().receive), (QpState::Init, None));
    // The two services do not mix.
    assert_eq!(a.hca.post_rc_send(&a.qp, wr), Err(Error::ChanSrvTypeInvalid));
    assert_eq!(a.hca.post_send(&qp, a.request(1, b"x", a.to(b))), Err(Error::ChanSrvTypeInvalid));
    assert_eq!(a.hca.attach_mcg(&qp, MGID, MLID), Err(Error::ChanSrvTypeInvalid));
    assert_eq!(a.hca.recycle_qp(&qp, PortNum(1), 0, QKEY), Err(Error::ChanSrvTypeInvalid));
}

#[test]
fn a_message_of_64_kib_crosses_in_packets_of_the_path_mtu_and_arrives_as_one() {
    let p = Pair::new();
    for (id, len) in [0, 1, 2048, 2049, 65_524].into_iter().enumerate() {
        let (bytes, id) = (pattern(len), id as u64);
        p.receive(id, 65_524);
        let before = p.w.fabric.switched();
        p.send(id, &bytes);
        assert_eq!(p.sent(), [(id, Success)]);
        let done = p.to().received();
        assert_eq!((done.len(), done[0].wr_id, done[0].bytes as usize), (1, id, len));
        assert!(done[0].recv.is_some_and(|info| !info.grh));
        assert_eq!(p.to().memory.get(place(id), len), bytes);
        let packets = len.div_ceil(2048).max(1) as u64;
        assert_eq!(p.w.fabric.switched() - before, packets + 1, "and one acknowledgement");
    }
}

#[test]
fn pieces_are_gathered_and_scattered_wherever_packets_end() {
    let p = Pair::new();
    let bytes = pattern(5000);
    let (from, to) = (p.from(), p.to());
    let sgl = vec![to.sge(place(0), 3), to.sge(place(1), 2100), to.sge(place(2), 0), to.sge(place(3), 4000)];
    to.hca.post_recv(&p.b, RecvWr { id: 0, sgl }).unwrap();
    from.memory.put(OUT, &bytes);
    let sgl = vec![from.sge(OUT, 1), from.sge(OUT + 1, 4000), from.sge(OUT + 4001, 999)];
    let wr = RcSendWr { id: 1, signal: false, solicited: true, immediate: Some(0x0a0b_0c0d), sgl };
    from.hca.post_rc_send(&p.a, wr).unwrap();
    let got =
        [to.memory.get(place(0), 3), to.memory.get(place(1), 2100), to.memory.get(place(3), 2897)].concat();
    assert!(got == bytes, "the message is whole");
    let info = to.received()[0].recv.unwrap();
    assert_eq!(info.immediate, Some(0x0a0b_0c0d));
}

#[test]
fn every_packet_lost_once_costs_time_and_nothing_else() {
    use wire::RcOpcode::{Acknowledge, SendFirst, SendLast, SendMiddle};
    for (opcode, skip) in [(SendFirst, 0), (SendMiddle, 0), (SendMiddle, 5), (SendLast, 0), (Acknowledge, 0)]
    {
        let p = Pair::new();
        p.lose(opcode, skip, 1);
        let bytes = pattern(30_000);
        p.receive(0, 65_524);
        p.send(7, &bytes);
        p.w.settle();
        assert_eq!((p.sent(), p.received()), (vec![(7, Success)], vec![(0, Success)]), "{opcode:?}");
        assert!(p.to().memory.get(place(0), bytes.len()) == bytes, "{opcode:?}");
        assert!(p.now() <= PATIENCE, "{opcode:?}: {}", p.now());
    }
}

#[test]
fn messages_stay_in_order_on_a_link_that_loses_repeats_delays_and_damages() {
    let faults = LinkFaults {
        loss: Probability::per_million(30_000),
        duplicate: Probability::per_million(30_000),
        corrupt: Probability::per_million(10_000),
        corrupt_inside: Probability::per_million(10_000),
        reorder: Probability::per_million(20_000),
        reorder_by: Nanos(40_000),
        delay: Nanos(1_000),
        jitter: Nanos(500),
        ..Default::default()
    };
    let p = Pair::with(|_| {}, |_, _| {}, 7, 7);
    for host in &p.w.hosts {
        p.w.fabric.set_faults(host.port, faults, faults);
    }
    for round in 0..200u64 {
        let bytes = pattern(100 + (round as usize * 331) % 9_000);
        p.receive(round, 10_000);
        p.send(round, &bytes);
        p.w.settle();
        assert_eq!(
            (p.sent(), p.received()),
            (vec![(round, Success)], vec![(round, Success)]),
            "round {round}"
        );
        assert!(p.to().memory.get(place(round), bytes.len()) == bytes, "round {round}");
    }
    assert!(p.w.drops()[&Reason::Loss] > 20);
}

#[test]
fn a_peer_that_is_gone_is_noticed_after_all_tries_and_the_rest_flushes_in_order() {
    let p = Pair::new();
    p.w.fabric.set_cable(p.to().port, false).unwrap();
    p.from().hca.notify_cq(&p.from().scq, Notify::Next).unwrap();
    for id in 0..3 {
        p.send(id, b"into the void");
    }
    assert!(p.sent().is_empty());
    p.w.settle();
    assert_eq!(p.now(), 2 * PATIENCE, "one try and one more");
    assert_eq!(p.sent(), [(0, TransportTimeout), (1, Flushed), (2, Flushed)]);
    assert_eq!(p.from().events.fired(), [p.from().scq.num()]);
    assert_eq!(p.a.state(), QpState::Error);
    p.send(3, b"late");
    assert_eq!(p.sent(), [(3, Flushed)]);
}

#[test]
fn a_message_longer_than_its_receive_is_the_end_of_both_queue_pairs() {
    let p = Pair::new();
    p.receive(0, 3000);
    p.receive(1, 3000);
    p.send(5, &pattern(3001));
    assert_eq!(p.received(), [(0, LocalLength), (1, Flushed)]);
    assert_eq!(p.sent(), [(5, RemoteInvalidRequest)]);
    assert_eq!((p.a.state(), p.b.state()), (QpState::Error, QpState::Error));
}

#[test]
fn a_receive_into_memory_without_the_right_is_the_end_of_both_too() {
    let p = Pair::new();
    let sgl = vec![Sge { va: place(0), lkey: 7, len: 100 }];
    p.to().hca.post_recv(&p.b, RecvWr { id: 0, sgl }).unwrap();
    p.send(5, b"hello");
    assert_eq!((p.received(), p.sent()), (vec![(0, LocalProtection)], vec![(5, RemoteOperation)]));
}

#[test]
fn a_send_from_memory_without_the_right_fails_after_those_before_it() {
    let p = Pair::new();
    p.receive(0, 100);
    p.send(1, b"good");
    let sgl = vec![Sge { va: OUT, lkey: 7, len: 100 }];
    let wr = RcSendWr { id: 2, signal: false, solicited: false, immediate: None, sgl };
    p.from().hca.post_rc_send(&p.a, wr).unwrap();
    assert_eq!(p.sent(), [(1, Success), (2, LocalProtection)]);
    assert_eq!(p.a.state(), QpState::Error);
}

#[test]
fn a_sender_waits_for_a_receive_as_long_and_as_often_as_was_agreed() {
    let p = Pair::with(|_| {}, |_, _| {}, 1, 3);
    p.to().hca.set_min_rnr(&p.b, 22).unwrap();
    p.send(1, b"too early");
    assert!(p.sent().is_empty());
    let step = 20_480_000;
    p.w.clock.set(Nanos(step));
    p.w.fabric.pump(Nanos(step));
    p.receive(0, 100);
    p.w.settle();
    assert_eq!((p.now() / step, p.sent(), p.received()), (2, vec![(1, Success)], vec![(0, Success)]));
    let began = p.now();
    p.send(2, b"nobody wants it");
    p.w.settle();
    assert_eq!(p.sent(), [(2, RnrTimeout)]);
    assert_eq!(p.now() - began, 3 * step);
}

#[test]
fn seven_retries_are_without_end() {
    let p = Pair::with(|_| {}, |_, _| {}, 1, 7);
    p.to().hca.set_min_rnr(&p.b, 0).unwrap();
    p.send(1, b"patience");
    for _ in 0..500 {
        let at = p.w.fabric.next_delivery().unwrap();
        p.w.clock.set(at);
        p.w.fabric.pump(at);
    }
    assert!(p.now() > 300_000_000_000 && p.sent().is_empty());
    p.receive(0, 100);
    p.w.settle();
    assert_eq!(p.sent(), [(1, Success)]);
}

/// A shared receive queue with receives 0..n of 100 bytes for the second host.
fn shared(p: &World, n: u64) -> Srq {
    let to = &p.hosts[1];
    let srq = to.hca.alloc_srq(&to.pd, SrqSizes { wrs: 15, sgl: 1 }).unwrap();
    for id in 0..n {
        to.hca.post_srq(&srq, RecvWr { id, sgl: vec![to.sge(slot(id), 100)] }).unwrap();
    }
    srq
}

/// A pair whose second queue pair receives from a shared queue.
fn pair_with_srq(change: impl Fn(&mut HcaConfig), n: u64) -> (Pair, Srq) {
    let w = world_with(2, change);
    let srq = shared(&w, n);
    let a = w.hosts[0].hca.alloc_rc_qp(rc_config(&w.hosts[0])).unwrap();
    let config = RcConfig { srq: Some(srq.clone()), ..rc_config(&w.hosts[1]) };
    let b = w.hosts[1].hca.alloc_rc_qp(config).unwrap();
    to_rtr(&w.hosts[0], &a, &w.hosts[1], &b);
    to_rtr(&w.hosts[1], &b, &w.hosts[0], &a);
    to_rts(&w.hosts[0], &a, 1, 1);
    to_rts(&w.hosts[1], &b, 1, 1);
    (Pair { w, a, b }, srq)
}

#[test]
fn a_shared_queue_keeps_its_receives_when_a_queue_pair_dies_and_the_end_is_told() {
    let (p, srq) = pair_with_srq(|_| {}, 4);
    p.send(1, b"one");
    assert_eq!(p.received(), [(0, Success)]);
    // The queue pair dies in the middle of a message: its receive is flushed, the others stay.
    p.lose(wire::RcOpcode::SendLast, 0, 9);
    p.to().hca.flush_qp(&p.b).unwrap();
    assert_eq!(p.to().events.asyncs(), [AsyncEvent::EmptyChannel(p.b.num())]);
    p.to().hca.flush_qp(&p.b).unwrap();
    assert!(p.to().events.asyncs().is_empty(), "told once");
    assert_eq!((srq.waiting(), p.received()), (3, vec![]));
    assert_eq!(p.to().hca.free_srq(&srq), Err(Error::SrqInUse));
    p.to().hca.free_qp(&p.b).unwrap();
    p.to().hca.free_srq(&srq).unwrap();
}

#[test]
fn a_message_that_is_half_there_is_flushed_before_the_end_is_told() {
    let (p, srq) = pair_with_srq(|_| {}, 0);
    let to = p.to();
    to.hca.post_srq(&srq, RecvWr { id: 9, sgl: vec![to.sge(place(0), 65_000)] }).unwrap();
    p.lose(wire::RcOpcode::SendLast, 0, 9);
    p.send(1, &pattern(9000));
    assert_eq!((srq.waiting(), p.received()), (0, vec![]));
    to.hca.flush_qp(&p.b).unwrap();
    assert_eq!(p.received(), [(9, Flushed)]);
    assert_eq!(to.events.asyncs(), [AsyncEvent::EmptyChannel(p.b.num())]);
}

#[test]
fn the_end_can_be_told_late_or_never() {
    let (p, _) = pair_with_srq(|_| {}, 1);
    p.to().hca.set_empty_channel(EmptyChannel::Late(Nanos(5_000)));
    p.to().hca.flush_qp(&p.b).unwrap();
    assert!(p.to().events.asyncs().is_empty());
    p.w.settle();
    assert_eq!(p.to().events.asyncs(), [AsyncEvent::EmptyChannel(p.b.num())]);
    let (p, _) = pair_with_srq(|_| {}, 1);
    p.to().hca.set_empty_channel(EmptyChannel::Never);
    p.to().hca.flush_qp(&p.b).unwrap();
    p.w.settle();
    assert!(p.to().events.asyncs().is_empty());
}

#[test]
fn a_shared_queue_that_runs_low_says_so_once_if_the_adapter_can() {
    let (p, srq) = pair_with_srq(|_| {}, 4);
    assert_eq!(p.to().hca.set_srq_limit(&srq, 3), Err(Error::NotSupported), "as the reference adapter");
    let (p, srq) = pair_with_srq(|c| c.attr.srq_limit = true, 4);
    p.to().hca.set_srq_limit(&srq, 3).unwrap();
    p.send(1, b"one");
    assert!(p.to().events.asyncs().is_empty());
    p.send(2, b"two");
    p.send(3, b"three");
    assert_eq!(p.to().events.asyncs(), [AsyncEvent::SrqLimit(srq.num())]);
}

#[test]
fn a_cq_that_overruns_takes_the_queue_pair_with_it() {
    let p = Pair::with(|_| {}, |host, config| config.rcq = host.hca.alloc_cq(2, 0).unwrap(), 0, 0);
    for id in 0..4 {
        p.receive(id, 100);
        p.send(id, b"x");
    }
    assert_eq!(p.b.state(), QpState::Error);
    assert!(matches!(p.to().events.asyncs()[..], [AsyncEvent::CqError(_)]));
}

#[test]
fn the_first_message_before_rts_is_told_and_answered() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let (qa, qb) = (a.hca.alloc_rc_qp(rc_config(a)).unwrap(), b.hca.alloc_rc_qp(rc_config(b)).unwrap());
    to_rtr(a, &qa, b, &qb);
    to_rts(a, &qa, 1, 1);
    to_rtr(b, &qb, a, &qa);
    let p = Pair { w, a: qa, b: qb };
    p.receive(0, 100);
    p.receive(1, 100);
    p.send(1, b"early");
    p.send(2, b"again");
    assert_eq!(p.sent(), [(1, Success), (2, Success)]);
    assert_eq!(p.to().events.asyncs(), [AsyncEvent::Established(p.b.num())]);
}

#[test]
fn who_is_not_the_peer_is_not_heard() {
    let w = world(3);
    let make = |host: &Host| host.hca.alloc_rc_qp(rc_config(host)).unwrap();
    let [a, b, c] = [make(&w.hosts[0]), make(&w.hosts[1]), make(&w.hosts[2])];
    to_rtr(&w.hosts[0], &a, &w.hosts[1], &b);
    to_rtr(&w.hosts[1], &b, &w.hosts[0], &a);
    to_rtr(&w.hosts[2], &c, &w.hosts[1], &b);
    for (host, qp) in w.hosts.iter().zip([&a, &b, &c]) {
        to_rts(host, qp, 0, 0);
    }
    let stranger = &w.hosts[2];
    let sgl = vec![stranger.sge(OUT, 5)];
    let wr = RcSendWr { id: 1, signal: false, solicited: false, immediate: None, sgl };
    stranger.hca.post_rc_send(&c, wr).unwrap();
    w.settle();
    assert_eq!(w.drops()[&Reason::Stranger], 1);
    assert_eq!((b.state(), c.state()), (QpState::Rts, QpState::Error));
}

#[test]
fn datagrams_and_connections_do_not_meet() {
    let p = Pair::new();
    let (from, to) = (p.from(), p.to());
    from.send(1, b"x", from.dest(to.lid, None, p.b.num())).unwrap();
    assert_eq!(p.w.drops(), [(Reason::Service, 1)].into());
}

#[test]
fn a_management_datagram_passes_the_switch_and_can_be_lost_by_what_it_is() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let peer = ManagementPeer { lid: b.lid, qpn: Qpn::GSI, sl: Sl::default(), pkey: PKey::DEFAULT_FULL };
    let mut mad = [0u8; 256];
    (mad[1], mad[17]) = (7, 0x10);
    let send = || a.hca.send_management(PortNum(1), &peer, &mad).unwrap();
    send();
    assert_eq!(b.events.management(), [(a.lid, mad.to_vec())]);
    let request = Only::Management { class: 7, attribute: 0x10 };
    w.fabric.lose(a.port, Direction::ToSwitch, Pick { only: request, skip: 1, times: 1 });
    for _ in 0..3 {
        send();
    }
    assert_eq!(b.events.management().len(), 2);
    assert_eq!(w.drops(), [(Reason::Loss, 1)].into());
    assert_eq!(a.hca.send_management(PortNum(1), &peer, &mad[..255]), Err(Error::InvalidParam));
}

#[test]
fn a_queue_pair_that_goes_takes_its_messages_along() {
    let p = Pair::new();
    p.w.fabric.set_cable(p.to().port, false).unwrap();
    p.send(1, b"never");
    p.from().hca.free_qp(&p.a).unwrap();
    p.w.settle();
    assert!(p.sent().is_empty());
}

#[test]
fn tshark_decodes_a_connection() {
    let p = Pair::new();
    let file = std::env::temp_dir().join(format!("fabric-connections-{}.pcapng", std::process::id()));
    let tap =
        Arc::new(ErfPcapng::new(std::fs::File::create(&file).unwrap(), &p.w.fabric.subnet_ports()).unwrap());
    p.w.fabric.set_tap(Some(tap.clone()));
    p.receive(0, 65_524);
    p.send(1, &pattern(5000));
    p.w.fabric.set_tap(None);
    tap.flush().unwrap();
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&file)
        .args(["-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn"])
        .args(["-e", "infiniband.aeth.msn"])
        .output()
        .expect("tshark is installed");
    let _ = std::fs::remove_file(&file);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let psn = |n: u32| 0x00ff_ff00 + n;
    let packet = |opcode: u32, n: u32, msn: &str| format!("{opcode}\t{}\t{msn}", psn(n));
    let one_way = [packet(0, 0, ""), packet(1, 1, ""), packet(2, 2, ""), packet(17, 2, "1")];
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let mut expected = one_way.to_vec();
    expected.sort_unstable();
    assert_eq!(lines, expected, "{text}{}", String::from_utf8_lossy(&output.stderr));
}
