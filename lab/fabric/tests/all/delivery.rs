//! From a posted send to a placed receive: the receiver's checks and the 40-byte rule.

use crate::rig::*;
use fabric::subnet::PortSet;
use fabric::*;

#[test]
fn a_datagram_lands_behind_the_grh_space_and_both_sides_complete() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(3, 2048 + 40);
    a.send(9, b"hello, fabric", a.to(b)).unwrap();
    let sent = a.sent();
    assert_eq!((sent.len(), sent[0].wr_id, sent[0].status), (1, 9, CompletionStatus::Success));
    let got = b.received();
    assert_eq!((got.len(), got[0].wr_id, got[0].bytes), (1, 3, 40 + 13));
    assert_eq!(b.payload(&got[0]), b"hello, fabric");
    let info = got[0].recv.unwrap();
    assert_eq!((info.src_qpn, info.slid, info.grh, info.immediate), (a.qp.num(), a.lid, false, None));
    // Without a GRH the first 40 bytes are left as they were.
    assert_eq!(b.memory.get(slot(3), 40), vec![0xee; 40]);
    assert!(w.drops().is_empty());
}

#[test]
fn a_grh_sender_leaves_a_valid_grh_even_across_scatter_entries() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let sgl = vec![b.sge(slot(0), 10), b.sge(slot(1), 33), b.sge(slot(2), 100)];
    b.hca.post_recv(&b.qp, RecvWr { id: 1, sgl }).unwrap();
    let dgid = Gid { prefix: Gid::DEFAULT_PREFIX, guid: b.port.0 };
    a.send(1, b"abcdef", a.dest(b.lid, Some(dgid), b.qp.num())).unwrap();
    let got = b.received();
    assert!(got[0].recv.unwrap().grh);
    let whole: Vec<u8> =
        [b.memory.get(slot(0), 10), b.memory.get(slot(1), 33), b.memory.get(slot(2), 3)].concat();
    assert_eq!(whole[0] >> 4, 6);
    let sgid = Gid { prefix: Gid::DEFAULT_PREFIX, guid: a.port.0 };
    assert_eq!(whole[8..24], sgid.to_bytes());
    assert_eq!(whole[24..40], dgid.to_bytes());
    assert_eq!(u16::from_be_bytes([whole[4], whole[5]]), 20 + 8 + 4, "BTH, DETH, padded payload, ICRC");
    assert_eq!(&whole[40..], b"abcdef");
}

#[test]
fn multicast_reaches_the_attached_qps_of_routed_ports_and_the_sender_again() {
    let w = world(3);
    for h in &w.hosts {
        h.post(0, 200);
    }
    w.hosts[0].join();
    w.hosts[1].join();
    w.hosts[0].send(1, b"to all", w.hosts[0].to_group()).unwrap();
    let got: Vec<usize> = w.hosts.iter().map(|h| h.received().len()).collect();
    assert_eq!(got, [1, 1, 0]);
    assert_eq!(
        w.drops().get(&Reason::NoQp),
        Some(&1),
        "the third port is routed but nobody there is attached"
    );
    assert_eq!(w.fabric.switched(), 1, "one frame enters the switch, copies leave it");
}

#[test]
fn own_multicast_stays_away_with_the_loopback_block_but_other_qps_of_the_port_hear_it() {
    let w = world_with(1, |c| c.loopback_block = true);
    let a = &w.hosts[0];
    let other = a.hca.alloc_qp(ud_config(&a.pd, &a.scq, &a.rcq)).unwrap();
    a.hca.attach_mcg(&other, MGID, MLID).unwrap();
    a.join();
    a.post(0, 200);
    a.post_on(&other, 1, 200);
    a.send(1, b"x", a.to_group()).unwrap();
    let got = a.received();
    assert_eq!((got.len(), got[0].wr_id, got[0].qpn), (1, 1, other.num()));
}

#[test]
fn attach_is_not_counted() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.join();
    b.join();
    assert_eq!(b.qp.groups(), 1);
    b.hca.detach_mcg(&b.qp, MGID, MLID).unwrap();
    b.post(0, 200);
    a.send(1, b"x", a.to_group()).unwrap();
    assert!(b.received().is_empty());
    assert_eq!(b.hca.detach_mcg(&b.qp, MGID, MLID), Err(Error::McMgidInvalid));
}

#[test]
fn multicast_needs_a_multicast_gid_and_lid_and_room_in_the_group() {
    let w = world_with(1, |c| {
        c.attr.max_qp_per_mcg = 1;
        c.attr.max_mcg = 1;
    });
    let a = &w.hosts[0];
    let bad_scope = Gid { prefix: 0xff13_401b_ffff_0000, guid: 1 };
    assert_eq!(a.hca.attach_mcg(&a.qp, MGID, Lid(0xbfff)), Err(Error::McMlidInvalid));
    assert_eq!(a.hca.attach_mcg(&a.qp, MGID, Lid(0xffff)), Err(Error::McMlidInvalid));
    assert_eq!(a.hca.attach_mcg(&a.qp, bad_scope, MLID), Err(Error::McMgidInvalid));
    a.join();
    let other = a.hca.alloc_qp(ud_config(&a.pd, &a.scq, &a.rcq)).unwrap();
    assert_eq!(a.hca.attach_mcg(&other, MGID, MLID), Err(Error::HcaMcgChanExceeded));
    let second = Gid { guid: 1, ..MGID };
    assert_eq!(a.hca.attach_mcg(&a.qp, second, MLID), Err(Error::InsuffResource));
    assert_eq!(a.hca.detach_mcg(&other, MGID, MLID), Err(Error::ChanHdlInvalid));
}

#[test]
fn wrong_partition_queue_key_or_number_is_dropped_and_counted() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for id in 0..4 {
        b.post(id, 200);
    }
    let wrong_qkey = UdDest { qkey: QKey(1), ..a.to(b) };
    a.send(1, b"x", wrong_qkey).unwrap();
    let wrong_qpn = UdDest { qpn: Qpn::new(0x7777).unwrap(), ..a.to(b) };
    a.send(2, b"x", wrong_qpn).unwrap();
    w.fabric.set_pkeys(a.port, &[PKey(0x8001)]).unwrap();
    a.send(3, b"x", a.to(b)).unwrap();
    assert!(b.received().is_empty());
    assert_eq!(w.drops(), [(Reason::NoQp, 1), (Reason::Pkey, 1), (Reason::Qkey, 1)].into());
    let port = &b.hca.query_ports().unwrap()[0];
    assert_eq!((port.pkey_violations, port.qkey_violations), (1, 1));
    assert_eq!(a.sent().len(), 3, "the sender never learns");
}

#[test]
fn two_limited_members_do_not_hear_each_other_but_a_full_one_hears_both() {
    let w = world(3);
    let limited = [PKey(0x7fff)];
    w.fabric.set_pkeys(w.hosts[0].port, &limited).unwrap();
    w.fabric.set_pkeys(w.hosts[1].port, &limited).unwrap();
    let (a, b, full) = (&w.hosts[0], &w.hosts[1], &w.hosts[2]);
    b.post(0, 200);
    full.post(0, 200);
    a.send(1, b"x", a.to(b)).unwrap();
    a.send(2, b"x", a.to(full)).unwrap();
    assert!(b.received().is_empty());
    assert_eq!(full.received().len(), 1);
}

#[test]
fn a_sender_whose_partition_went_away_sends_into_the_void() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    w.fabric.set_pkeys(a.port, &[]).unwrap();
    a.send(1, b"x", a.to(b)).unwrap();
    assert_eq!(a.sent()[0].status, CompletionStatus::Success);
    assert_eq!(w.drops(), [(Reason::SenderPkey, 1)].into());
}

#[test]
fn without_a_posted_receive_the_datagram_is_lost_silently() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    a.send(1, b"x", a.to(b)).unwrap();
    assert!(b.received().is_empty());
    assert_eq!(w.drops(), [(Reason::NoReceive, 1)].into());
}

#[test]
fn a_buffer_too_small_completes_with_a_length_error_and_the_next_receive_works() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 40 + 3);
    b.post(1, 40 + 4);
    a.send(1, b"four", a.to(b)).unwrap();
    a.send(2, b"four", a.to(b)).unwrap();
    let got = b.received();
    assert_eq!(got.iter().map(|c| c.status as u8).collect::<Vec<_>>(), [10, 0]);
}

#[test]
fn a_message_above_the_mtu_fails_and_later_sends_flush_until_recovery() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 4000);
    a.send(1, &[7; 2049], a.to(b)).unwrap();
    a.send(2, b"x", a.to(b)).unwrap();
    let statuses: Vec<u8> = a.sent().iter().map(|c| c.status as u8).collect();
    assert_eq!(statuses, [10, 14]);
    assert_eq!(a.qp.query().state, QpState::Sqe);
    a.hca.recover_qp(&a.qp).unwrap();
    a.send(3, &[7; 2048], a.to(b)).unwrap();
    assert_eq!(a.sent()[0].status, CompletionStatus::Success);
    assert_eq!(b.received()[0].bytes, 2088);
}

#[test]
fn keys_ranges_rights_and_domains_are_checked_on_both_sides() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let other_pd = a.hca.alloc_pd().unwrap();
    let foreign = a.hca.register_mr(&other_pd, BASE, 0x1000, Access::default()).unwrap();
    let bad = [
        Sge { va: SEND, lkey: 1, len: 4 },
        Sge { va: SEND, lkey: foreign.lkey(), len: 4 },
        Sge { va: BASE + 0x10_0000 - 2, lkey: a.mr.lkey(), len: 4 },
        Sge { va: u64::MAX - 1, lkey: a.mr.lkey(), len: 4 },
    ];
    for (id, sge) in bad.into_iter().enumerate() {
        let mut wr = a.request(id as u64, b"abcd", a.to(b));
        wr.sgl = vec![sge];
        a.hca.post_send(&a.qp, wr).unwrap();
        assert_eq!(a.sent()[0].status, CompletionStatus::LocalProtection, "{id}");
        a.hca.recover_qp(&a.qp).unwrap();
    }
    // A receive buffer has to be writable.
    let read_only = b.hca.register_mr(&b.pd, RECV, 0x1000, Access::default()).unwrap();
    let sgl = vec![Sge { va: RECV, lkey: read_only.lkey(), len: 100 }];
    b.hca.post_recv(&b.qp, RecvWr { id: 5, sgl }).unwrap();
    b.post(6, 100);
    a.send(1, b"abcd", a.to(b)).unwrap();
    let statuses: Vec<u8> = b.received().iter().map(|c| c.status as u8).collect();
    assert_eq!(statuses, [13, 14], "the QP is in ERROR then");
}

#[test]
fn a_deregistered_key_is_dead_and_deregistering_twice_fails() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    a.hca.deregister_mr(&a.mr).unwrap();
    assert_eq!(a.hca.deregister_mr(&a.mr), Err(Error::MrHdlInvalid));
    a.send(1, b"x", a.to(b)).unwrap();
    assert_eq!(a.sent()[0].status, CompletionStatus::LocalProtection);
}

#[test]
fn a_privileged_destination_queue_key_means_the_senders_own() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    a.send(1, b"x", UdDest { qkey: QKey(0x8000_0000), ..a.to(b) }).unwrap();
    assert_eq!(b.received().len(), 1);
}

#[test]
fn path_bits_are_masked_with_the_lmc_on_both_ends() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    for h in [a, b] {
        w.fabric.program_port(h.port, &PortSet { lmc: Lmc::new(2), ..Default::default() }).unwrap();
    }
    b.post(0, 200);
    let dest = a.dest(Lid(b.lid.0 + 3), None, b.qp.num());
    let vector = dest.ah.vector().unwrap();
    a.hca.modify_ah(&dest.ah, AddressVector { src_path: 0xfe, ..vector }).unwrap();
    a.send(1, b"x", dest).unwrap();
    let info = b.received()[0].recv.unwrap();
    assert_eq!((info.slid, info.path_bits), (Lid(a.lid.0 + 2), 3));
}

#[test]
fn immediate_data_service_level_and_payload_padding_arrive() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    let dest = a.to(b);
    let vector = dest.ah.vector().unwrap();
    a.hca.modify_ah(&dest.ah, AddressVector { sl: Sl::truncating(5), ..vector }).unwrap();
    let mut wr = a.request(1, b"abcde", dest);
    wr.immediate = Some(0xdead_beef);
    a.hca.post_send(&a.qp, wr).unwrap();
    let got = b.received();
    let info = got[0].recv.unwrap();
    assert_eq!((got[0].bytes, info.immediate, info.sl.get()), (45, Some(0xdead_beef), 5));
}

#[test]
fn a_port_talks_to_itself_without_the_switch() {
    let w = world(1);
    let a = &w.hosts[0];
    a.post(0, 200);
    a.send(1, b"me", a.to(a)).unwrap();
    assert_eq!(a.payload(&a.received()[0]), b"me");
    assert_eq!(w.fabric.switched(), 0);
}

#[test]
fn a_lid_nobody_has_and_a_gid_of_somebody_else_are_dropped() {
    let w = world(2);
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    a.send(1, b"x", a.dest(Lid(0x999), None, b.qp.num())).unwrap();
    a.send(2, b"x", a.dest(b.lid, Some(Gid { prefix: 1, guid: 2 }), b.qp.num())).unwrap();
    a.send(3, b"x", a.dest(MLID, None, Qpn::MULTICAST)).unwrap();
    assert!(b.received().is_empty());
    let drops = w.drops();
    assert_eq!(drops.get(&Reason::NoRoute), Some(&1));
    assert!(drops[&Reason::WrongGid] >= 2, "{drops:?}");
}

#[test]
fn an_address_handle_counts_at_the_time_of_the_post() {
    let w = world_with(2, |c| c.send_latency = Nanos(1000));
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    b.post(0, 200);
    let dest = a.to(b);
    a.send(1, b"x", dest.clone()).unwrap();
    a.hca.modify_ah(&dest.ah, AddressVector { dlid: Lid(0x999), ..AddressVector::PLACEHOLDER }).unwrap();
    a.hca.free_ah(&dest.ah).unwrap();
    a.memory.put(SEND, b"y");
    w.settle();
    assert_eq!(b.payload(&b.received()[0]), b"x", "the bytes too are those of the post");
    assert_eq!(a.send(2, b"x", dest), Err(Error::AhHdlInvalid));
}

#[test]
fn checksums_are_inserted_and_vouched_for_only_when_the_hca_can() {
    let frame = |csum: u16| {
        let mut f = vec![8, 0, 0, 0, 0x45, 0, 0, 30, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        f.extend([0, 1, 0, 2, 0, 10]);
        f.extend(csum.to_be_bytes());
        f.extend([b'h', b'i']);
        f
    };
    for can in [false, true] {
        let w = world_with(2, |c| c.attr.cksum_full = can);
        let (a, b) = (&w.hosts[0], &w.hosts[1]);
        b.post(0, 200);
        b.post(1, 200);
        let mut wr = a.request(1, &frame(0), a.to(b));
        wr.cksum = true;
        a.hca.post_send(&a.qp, wr).unwrap();
        a.send(2, &frame(0x1234), a.to(b)).unwrap();
        let ok: Vec<bool> = b.received().iter().map(|c| c.recv.unwrap().cksum_ok).collect();
        assert_eq!(ok, [can, false]);
    }
}

#[test]
fn a_large_send_needs_the_attribute_the_flag_and_a_header_that_fits() {
    let w = world_with(2, |c| c.attr = HcaAttr::with_offloads());
    let (a, b) = (&w.hosts[0], &w.hosts[1]);
    let lso = |len| SendOp::Lso(Lso { header: vec![0; len], mss: 100 });
    let wr = |len| SendWr { op: lso(len), ..a.request(1, &[1; 300], a.to(b)) };
    assert_eq!(a.hca.post_send(&a.qp, wr(44)), Err(Error::ChanOpTypeInvalid));
    let mut config = ud_config(&a.pd, &a.scq, &a.rcq);
    config.uses_lso = true;
    let qp = a.hca.alloc_qp(config).unwrap();
    assert_eq!(a.hca.post_send(&qp, wr(141)), Err(Error::ChanSglLenInvalid));
    a.hca.post_send(&qp, wr(44)).unwrap();
    assert_eq!(a.sent()[0].status, CompletionStatus::LocalChannelOp, "a header of zeros is no TCP");
    assert_eq!(wr(44).id, 1);
}

#[test]
fn the_reserved_key_works_where_hca_and_qp_both_say_so() {
    for (hca, qp) in [(true, true), (true, false), (false, true)] {
        let w = world_with(2, |c| c.attr.res_lkey = hca);
        let (a, b) = (&w.hosts[0], &w.hosts[1]);
        b.post(0, 200);
        let mut config = ud_config(&a.pd, &a.scq, &a.rcq);
        config.uses_reserved_lkey = qp;
        let own = a.hca.alloc_qp(config).unwrap();
        let mut wr = a.request(1, b"abcd", a.to(b));
        wr.sgl[0].lkey = a.hca.config().attr.reserved_lkey;
        a.hca.post_send(&own, wr).unwrap();
        let expected = if hca && qp { CompletionStatus::Success } else { CompletionStatus::LocalProtection };
        assert_eq!(a.sent()[0].status, expected);
    }
}

/// What a sender may have meant is what its entry of the table held since the last look. Before, only the key of the packet was told.
#[test]
fn a_packet_tells_which_p_keys_its_place_held_before() {
    let w = world(1);
    let a = &w.hosts[0];
    w.fabric.watch_groups();
    let sent = || {
        a.send(1, b"x", a.to_group()).unwrap();
        let headers = w.fabric.take_sent_to_groups().into_iter();
        headers.map(|sent| (sent.p_key, sent.p_keys_before.into_iter().collect())).collect::<Vec<_>>()
    };
    let (first, second, third) = (PKey(0xffff), PKey(0x8001), PKey(0x8002));
    assert_eq!(sent(), [(first, vec![])]);
    w.fabric.set_pkeys(a.port, &[first, second]).unwrap();
    assert_eq!(sent(), [(first, vec![])], "another entry of the table");
    w.fabric.set_pkeys(a.port, &[second]).unwrap();
    w.fabric.set_pkeys(a.port, &[third]).unwrap();
    assert_eq!(sent(), [(third, vec![second, first])]);
    assert_eq!(sent(), [(third, vec![])], "it has been looked at");
}
