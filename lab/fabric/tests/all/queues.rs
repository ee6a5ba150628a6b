//! Completion queues, slots, flushing, who may be freed when.

use crate::rig::*;
use fabric::*;

fn ids(done: &[Completion]) -> Vec<u64> {
    done.iter().map(|c| c.wr_id).collect()
}

#[test]
fn arming_is_one_shot() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for id in 0..3 {
        b.post(id, 200);
    }
    a.send(0, b"x", a.to(b)).unwrap();
    assert!(b.events.fired().is_empty(), "an unarmed CQ is silent");
    b.received();
    b.hca.notify_cq(&b.rcq, Notify::Next).unwrap();
    assert!(b.events.fired().is_empty());
    a.send(1, b"x", a.to(b)).unwrap();
    a.send(2, b"x", a.to(b)).unwrap();
    assert_eq!(b.events.fired(), [b.rcq.num()], "once, however many follow");
    assert!(!b.rcq.is_armed());
}

#[test]
fn arming_a_cq_that_is_not_empty_fires_at_once_unless_the_race_is_wanted() {
    for (arming, fires) in [(ArmSemantics::FireIfPending, 1), (ArmSemantics::OnlyNew, 0)] {
        let w = world_with(2, |c| c.arming = arming);
        let (a, b) = (&w.hosts[0], &w.hosts[1]);
        b.post(0, 200);
        b.post(1, 200);
        a.send(0, b"x", a.to(b)).unwrap();
        b.hca.notify_cq(&b.rcq, Notify::Next).unwrap();
        assert_eq!(b.events.fired().len(), fires);
        a.send(1, b"x", a.to(b)).unwrap();
        assert_eq!(b.events.fired().len(), 1 - fires, "armed still, or spent");
    }
}

#[test]
fn solicited_arming_waits_for_a_solicited_datagram_or_an_error() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for id in 0..4 {
        b.post(id, if id == 2 { 41 } else { 200 });
    }
    b.hca.notify_cq(&b.rcq, Notify::NextSolicited).unwrap();
    a.send(0, b"xx", a.to(b)).unwrap();
    assert!(b.events.fired().is_empty());
    let wr = SendWr { solicited: true, ..a.request(1, b"xx", a.to(b)) };
    a.hca.post_send(&a.qp, wr).unwrap();
    assert_eq!(b.events.fired().len(), 1);
    b.received();
    b.hca.notify_cq(&b.rcq, Notify::NextSolicited).unwrap();
    a.send(2, b"xx", a.to(b)).unwrap();
    assert_eq!(b.events.fired().len(), 1, "the third receive is too small, which is an error");
    b.received();
    b.hca.notify_cq(&b.rcq, Notify::NextSolicited).unwrap();
    b.hca.notify_cq(&b.rcq, Notify::Next).unwrap();
    a.send(3, b"xx", a.to(b)).unwrap();
    assert_eq!(b.events.fired().len(), 1, "a later arming for any completion widens it");
}

#[test]
fn an_overrun_cq_says_so_and_takes_no_more() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let small = b.hca.alloc_cq(2, 0).unwrap();
    assert_eq!(small.size(), 3);
    let mut config = ud_config(&b.pd, &b.scq, &small);
    config.sizes.rq = 8;
    let qp = b.hca.alloc_qp(config).unwrap();
    for id in 0..8 {
        b.post_on(&qp, id, 200);
    }
    let dest = a.dest(b.lid, None, qp.num());
    for id in 0..5 {
        a.send(id, b"x", dest.clone()).unwrap();
    }
    assert_eq!(b.events.asyncs(), [AsyncEvent::CqError(small.num())]);
    assert_eq!(b.poll(&small).len(), 3);
    a.send(9, b"x", dest).unwrap();
    assert!(b.poll(&small).is_empty());
}

#[test]
fn sizes_are_powers_of_two_less_one_and_bounded() {
    let w = world(1);
    let h = &w.hosts[0].hca;
    let sizes: Vec<u32> =
        [1, 2, 3, 4, 1000, 4096].iter().map(|&n| h.alloc_cq(n, 0).unwrap().size()).collect();
    assert_eq!(sizes, [1, 3, 3, 7, 1023, 8191]);
    assert_eq!(h.alloc_cq(u32::MAX, 0).err(), Some(Error::HcaCqExceeded));
    assert_eq!(h.alloc_cq(1, 2).err(), Some(Error::InvalidParam), "there is one interrupt");
}

#[test]
fn a_slot_is_free_again_when_its_completion_is_polled() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for id in 0..16 {
        a.send(id, b"x", a.to(b)).unwrap();
    }
    assert_eq!(a.send(16, b"x", a.to(b)), Err(Error::ChanFull));
    let mut out = Vec::new();
    a.hca.poll_cq(&a.scq, 2, &mut out).unwrap();
    a.send(16, b"x", a.to(b)).unwrap();
    a.send(17, b"x", a.to(b)).unwrap();
    assert_eq!(a.send(18, b"x", a.to(b)), Err(Error::ChanFull));
}

#[test]
fn unsignalled_sends_hold_their_slots_until_a_later_signalled_one_is_polled() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let config = UdConfig { signalling: Signalling::PerRequest, ..ud_config(&a.pd, &a.scq, &a.rcq) };
    let qp = a.hca.alloc_qp(config).unwrap();
    let send = |id, signal| a.hca.post_send(&qp, SendWr { signal, ..a.request(id, b"x", a.to(b)) });
    for id in 0..15 {
        send(id, false).unwrap();
    }
    assert!(a.sent().is_empty());
    send(15, true).unwrap();
    assert_eq!(send(16, true), Err(Error::ChanFull));
    assert_eq!(ids(&a.sent()), [15]);
    for id in 16..32 {
        send(id, false).unwrap();
    }
    assert_eq!(send(32, false), Err(Error::ChanFull));
}

#[test]
fn an_unsignalled_send_that_fails_is_reported() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let config = UdConfig { signalling: Signalling::PerRequest, ..ud_config(&a.pd, &a.scq, &a.rcq) };
    let qp = a.hca.alloc_qp(config).unwrap();
    a.hca.post_send(&qp, a.request(7, &[0; 3000], a.to(b))).unwrap();
    assert_eq!(a.sent()[0].status, CompletionStatus::LocalLength);
}

#[test]
fn a_flush_completes_everything_in_order_and_fires_armed_cqs() {
    let w = world_with(2, |c| c.send_latency = Nanos(500));
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for id in 0..3 {
        a.post(10 + id, 200);
        a.send(id, b"x", a.to(b)).unwrap();
    }
    a.hca.notify_cq(&a.scq, Notify::Next).unwrap();
    a.hca.flush_qp(&a.qp).unwrap();
    assert_eq!(a.events.fired(), [a.scq.num()], "the receive CQ was not armed");
    let (sent, received) = (a.sent(), a.received());
    assert_eq!((ids(&sent), ids(&received)), (vec![0, 1, 2], vec![10, 11, 12]));
    assert!(sent.iter().chain(&received).all(|c| c.status == CompletionStatus::Flushed));
    // Posts are still taken, and flush.
    a.post(13, 200);
    a.send(3, b"x", a.to(b)).unwrap();
    assert_eq!((ids(&a.sent()), ids(&a.received())), (vec![3], vec![13]));
    w.settle();
    assert!(a.sent().is_empty(), "what was flushed is not sent later");
    assert_eq!(w.fabric.switched(), 0);
}

#[test]
fn freeing_a_qp_takes_its_completions_along_and_leaves_the_others() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let other = a.hca.alloc_qp(ud_config(&a.pd, &a.scq, &a.rcq)).unwrap();
    a.send(1, b"x", a.to(b)).unwrap();
    a.hca.post_send(&other, a.request(2, b"x", a.to(b))).unwrap();
    a.hca.free_qp(&a.qp).unwrap();
    assert_eq!(ids(&a.sent()), [2]);
    assert_eq!(a.hca.free_qp(&a.qp), Err(Error::ChanHdlInvalid));
    assert_eq!(a.send(3, b"x", a.to(b)), Err(Error::ChanHdlInvalid));
    b.send(1, b"x", b.to(a)).unwrap();
    assert_eq!(w.drops().get(&Reason::NoQp), Some(&1));
}

#[test]
fn nothing_is_freed_while_something_refers_to_it() {
    let w = world(1);
    let a = &w.hosts[0];
    let ah = a.to(a).ah;
    a.join();
    assert_eq!(a.hca.free_pd(&a.pd), Err(Error::PdInUse));
    assert_eq!(a.hca.free_cq(&a.scq), Err(Error::CqBusy));
    assert_eq!(a.hca.free_qp(&a.qp), Err(Error::CiFailure), "attached to a group");
    a.hca.detach_mcg(&a.qp, MGID, MLID).unwrap();
    a.hca.free_qp(&a.qp).unwrap();
    a.hca.free_cq(&a.scq).unwrap();
    a.hca.free_cq(&a.rcq).unwrap();
    assert_eq!(a.hca.free_cq(&a.rcq), Err(Error::CqHdlInvalid));
    assert_eq!(a.hca.free_pd(&a.pd), Err(Error::PdInUse));
    a.hca.free_ah(&ah).unwrap();
    assert_eq!(a.hca.free_pd(&a.pd), Err(Error::PdInUse));
    a.hca.deregister_mr(&a.mr).unwrap();
    a.hca.free_pd(&a.pd).unwrap();
    assert_eq!(a.hca.free_pd(&a.pd), Err(Error::PdHdlInvalid));
    assert_eq!(a.hca.census(), Default::default());
}

#[test]
fn a_shared_receive_queue_serves_its_qps_in_order_and_survives_their_flush() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let srq = b.hca.alloc_srq(&b.pd, SrqSizes { wrs: 4, sgl: 2 }).unwrap();
    assert_eq!(srq.sizes().wrs, 7);
    let config = UdConfig { srq: Some(srq.clone()), ..ud_config(&b.pd, &b.scq, &b.rcq) };
    let (one, two) = (b.hca.alloc_qp(config.clone()).unwrap(), b.hca.alloc_qp(config).unwrap());
    let post = |id| b.hca.post_srq(&srq, RecvWr { id, sgl: vec![b.sge(slot(id), 200)] });
    for id in 0..7 {
        post(id).unwrap();
    }
    assert_eq!(post(7), Err(Error::ChanFull));
    let recv = RecvWr { id: 9, sgl: vec![] };
    assert_eq!(b.hca.post_recv(&one, recv), Err(Error::SrqInUse));
    for qp in [&two, &one, &two] {
        a.send(0, b"x", a.dest(b.lid, None, qp.num())).unwrap();
    }
    let got: Vec<_> = b.received().iter().map(|c| (c.wr_id, c.qpn)).collect();
    assert_eq!(got, [(0, two.num()), (1, one.num()), (2, two.num())]);
    post(7).unwrap();
    b.hca.flush_qp(&one).unwrap();
    assert!(b.received().is_empty());
    assert_eq!(b.hca.free_srq(&srq), Err(Error::SrqInUse));
    b.hca.free_qp(&one).unwrap();
    b.hca.free_qp(&two).unwrap();
    b.hca.free_srq(&srq).unwrap();
}

#[test]
fn a_channel_is_refused_for_the_reason_that_applies() {
    let w = world(1);
    let a = &w.hosts[0];
    let good = ud_config(&a.pd, &a.scq, &a.rcq);
    let refused = |change: &dyn Fn(&mut UdConfig)| {
        let mut config = good.clone();
        change(&mut config);
        a.hca.alloc_qp(config).err()
    };
    assert_eq!(refused(&|c| c.port = PortNum(0)), Some(Error::HcaPortInvalid));
    assert_eq!(refused(&|c| c.port = PortNum(2)), Some(Error::HcaPortInvalid));
    assert_eq!(refused(&|c| c.pkey_ix = 64), Some(Error::PkeyIxIllegal));
    assert_eq!(refused(&|c| c.pkey_ix = 1), Some(Error::PkeyIxInvalid));
    assert_eq!(refused(&|c| c.sizes.sq = 1 << 20), Some(Error::HcaWrExceeded));
    assert_eq!(refused(&|c| c.sizes.rq_sgl = 33), Some(Error::HcaSglExceeded));
    assert_eq!(refused(&|_| {}), None);
}

#[test]
fn the_real_sizes_are_at_least_those_asked_for() {
    let w = world(1);
    let a = &w.hosts[0];
    let config = UdConfig {
        sizes: QpSizes { sq: 100, rq: 3, sq_sgl: 5, rq_sgl: 3 },
        ..ud_config(&a.pd, &a.scq, &a.rcq)
    };
    let sizes = a.hca.alloc_qp(config).unwrap().query().config.sizes;
    assert_eq!(sizes, QpSizes { sq: 128, rq: 4, sq_sgl: 12, rq_sgl: 4 });
}

#[test]
fn too_many_scatter_entries_are_refused_at_the_post() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let mut wr = a.request(1, b"x", a.to(b));
    wr.sgl = vec![a.sge(SEND, 1); 5];
    assert_eq!(a.hca.post_send(&a.qp, wr), Err(Error::ChanSglLenInvalid));
    let recv = RecvWr { id: 1, sgl: vec![a.sge(slot(0), 100); 5] };
    assert_eq!(a.hca.post_recv(&a.qp, recv), Err(Error::ChanSglLenInvalid));
}

#[test]
fn a_recycled_queue_pair_keeps_number_and_groups_and_forgets_the_rest() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    assert_eq!(b.hca.recycle_qp(&b.qp, PortNum(1), 0, QKey(7)), Err(Error::ChanStateInvalid), "not in ERROR");
    b.join();
    let (number, groups) = (b.qp.num(), b.qp.groups());
    b.post(0, 200);
    b.hca.flush_qp(&b.qp).unwrap();
    // Nobody looks what is in the table there.
    b.hca.recycle_qp(&b.qp, PortNum(1), 1, QKey(7)).unwrap();
    assert_eq!(b.hca.recycle_qp(&b.qp, PortNum(1), 0, QKey(7)), Err(Error::ChanStateInvalid));
    assert_eq!((b.qp.state(), b.qp.num(), b.qp.groups()), (QpState::Rts, number, groups));
    assert_eq!(b.received().len(), 0, "completions of before are gone");
    b.hca.set_qkey(&b.qp, QKEY).unwrap();
    b.hca.flush_qp(&b.qp).unwrap();
    b.hca.recycle_qp(&b.qp, PortNum(1), 0, QKEY).unwrap();
    a.send(1, b"early", a.to(b)).unwrap();
    assert_eq!(b.qp.strayed(), 1, "into what was posted before");
    b.post(2, 200);
    a.send(3, b"in time", a.to(b)).unwrap();
    assert_eq!((b.qp.strayed(), b.received().len()), (1, 1));
}

#[test]
fn a_queue_pair_in_error_takes_another_queue_key_without_effect() {
    let w = world(1);
    let b = &w.hosts[0];
    b.hca.flush_qp(&b.qp).unwrap();
    b.hca.set_qkey(&b.qp, QKey(7)).unwrap();
    assert_eq!(b.qp.query().config.qkey, QKEY);
}
