//! What happens over time: sweeps, reports, restarts, faults.

use crate::world::*;
use sm::fault::{Fault, FaultAction};
use sm::mad::RmppKind;
use sm::partition::{GroupParams, Ports, broadcast_mgid};
use sm::records::{
    ClassPortInfo, InformInfo, McMemberRecord, NodeRecord, Notice, PathRecord, PortInfoRecord, ServiceRecord,
    Trap, mc_member_mask, node_mask, path_mask, port_info_mask, service_mask,
};
use sm::*;

fn subscribe(world: &mut World, port: Guid) {
    for producer in [4, 1, 2, 3] {
        let answer = world.ask_one(port, Method::SET, 0, &InformInfo::every_trap(producer)).unwrap();
        assert_eq!(answer, InformInfo::every_trap(producer), "answered with a copy");
    }
}

/// The reports that reached a port, answered.
fn reports(world: &mut World, port: Guid) -> Vec<(Trap, Gid)> {
    let reports = world.take(port, |mad| mad.method == Method::REPORT);
    for report in &reports {
        world.send(port, &SaMad { method: Method::REPORT_RESP, ..*report });
    }
    reports.iter().map(|mad| mad.record::<Notice>().unwrap().subject().unwrap()).collect()
}

fn gid(port: Guid) -> Gid {
    Gid::of_port(Gid::DEFAULT_PREFIX, port)
}

#[test]
fn a_sweep_gives_lids_p_keys_and_the_active_state() {
    let world = World::open();
    let lids: Vec<Lid> = [A, B, C].iter().map(|port| world.lid(*port)).collect();
    assert_eq!(lids, [Lid(2), Lid(3), Lid(4)], "the manager has LID 1");
    for port in world.subnet.ports.values() {
        assert_eq!(port.info.port_state, PortState::Active.to_wire());
        assert_eq!(port.info.master_sm_lid, Lid(1));
    }
    assert!(world.subnet.set.iter().all(|(_, settings)| settings.client_reregister));
}

#[test]
fn a_sweep_without_change_touches_nothing() {
    let mut world = World::open();
    world.subnet.set.clear();
    world.sm.sweep(world.now, &mut world.subnet);
    assert_eq!(world.subnet.set, []);
}

#[test]
fn p_keys_keep_their_places_and_the_default_one_has_the_first() {
    let partition = |pkey: u16| Partition::new("p", PKey(pkey)).with_members(Ports::All, Membership::Full);
    let mut world = World::new(vec![Partition::default_open(), partition(1), partition(2)]);
    let table = |world: &World| world.subnet.ports[&A].p_keys[..4].to_vec();
    assert_eq!(table(&world), [0xffff, 0x8001, 0x8002, 0].map(PKey));
    world.sm.set_partitions(world.now, &mut world.subnet, vec![Partition::default_open(), partition(2)]);
    assert_eq!(table(&world), [0xffff, 0, 0x8002, 0].map(PKey), "a partition that went leaves a free entry");
    let three = vec![partition(2), partition(3), partition(1)];
    world.sm.set_partitions(world.now, &mut world.subnet, three);
    assert_eq!(table(&world), [0x7fff, 0x8001, 0x8002, 0x8003].map(PKey), "without a rule all are limited");
}

/// A port of both memberships whose limited key is in front of the full one. Before, a sweep exchanged them, and a link lost its place.
#[test]
fn both_p_keys_of_a_partition_keep_their_places() {
    let both = Partition::new("p", PKey(1)).with_members(Ports::All, Membership::Both);
    let mut world = World::new(vec![Partition::default_open(), both]);
    for table in [[0xffff, 0x0001, 0x8001, 0], [0xffff, 0x8001, 0, 0x0001], [0xffff, 0, 0x0001, 0x8001]] {
        let port = world.subnet.ports.get_mut(&A).unwrap();
        port.p_keys[..4].copy_from_slice(&table.map(PKey));
        world.sm.sweep(world.now, &mut world.subnet);
        assert_eq!(world.subnet.ports[&A].p_keys[..4], table.map(PKey));
    }
}

/// The key of the other membership has the place of the one that goes, and another key takes none that is in use.
#[test]
fn a_membership_that_changes_keeps_the_place_of_its_p_key() {
    let of = |membership| {
        let partition = Partition::new("p", PKey(1)).with_members(Ports::All, membership);
        vec![Partition::default_open(), partition]
    };
    let mut world = World::new(of(Membership::Limited));
    let mut tables = Vec::new();
    for membership in [Membership::Both, Membership::Full, Membership::Limited] {
        world.sm.set_partitions(world.now, &mut world.subnet, of(membership));
        tables.push(world.subnet.ports[&A].p_keys[1..3].to_vec());
    }
    let both_full_limited = [[0x0001, 0x8001], [0, 0x8001], [0, 0x0001]];
    assert_eq!(tables, both_full_limited.map(|table| table.map(PKey)));
}

#[test]
fn multicast_follows_memberships_after_a_while() {
    let mut world = World::open();
    let route = |world: &World| world.subnet.routes.get(&Lid(0xc000)).cloned();
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(broadcast(), A)).unwrap();
    world.run(Nanos::from_millis(10));
    assert_eq!(route(&world), Some(vec![]), "one member needs no route");
    let sender = McMemberRecord { join_state: JoinState::SEND_ONLY_NON, ..join(broadcast(), B) };
    world.ask_one(B, Method::SET, mc_member_mask::JOIN, &sender).unwrap();
    assert_eq!(route(&world), Some(vec![]), "not yet");
    world.run(Nanos::from_millis(10));
    assert_eq!(route(&world), Some(vec![A, B]), "senders are in it too");
    world.ask_one(A, Method::DELETE, mc_member_mask::JOIN, &join(broadcast(), A)).unwrap();
    world.run(Nanos::from_millis(10));
    assert_eq!(route(&world), Some(vec![]));
}

#[test]
fn subscribers_hear_of_groups_and_ports() {
    let mut world = World::open();
    subscribe(&mut world, C);
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(broadcast(), A)).unwrap();
    assert_eq!(reports(&mut world, C), [(Trap::GroupCreated, broadcast())], "its first full member");
    world.ask_one(B, Method::SET, mc_member_mask::JOIN, &join(broadcast(), B)).unwrap();
    assert_eq!(reports(&mut world, C), []);
    world.unplug(B);
    assert_eq!(reports(&mut world, C), [(Trap::GidOutOfService, gid(B))]);
    world.unplug(A);
    assert_eq!(reports(&mut world, C), [(Trap::GidOutOfService, gid(A)), (Trap::GroupDeleted, broadcast())]);
    world.plug(A);
    assert_eq!(reports(&mut world, C), [(Trap::GidInService, gid(A))]);
    let refused = world.ask_one(A, Method::DELETE, mc_member_mask::JOIN, &join(broadcast(), A));
    assert_eq!(refused, Err(Status::REQ_INVALID), "its membership went with it");
    assert_eq!(world.sm.sa().counters().reports, world.sm.sa().counters().reports_answered);
}

#[test]
fn subscribers_hear_nothing_of_groups_in_partitions_they_are_not_in() {
    let partition = Partition::new("p", PKey(1))
        .with_members(Ports::One(A), Membership::Full)
        .with_ipoib(GroupParams::default());
    let mut world = World::new(vec![Partition::default_open(), partition]);
    subscribe(&mut world, C);
    subscribe(&mut world, A);
    let mgid = broadcast_mgid(PKey(1), 2);
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(mgid, A)).unwrap();
    assert_eq!(reports(&mut world, C), []);
    assert_eq!(reports(&mut world, A), [(Trap::GroupCreated, mgid)]);
}

#[test]
fn unsubscribing_needs_the_queue_pair_number() {
    let mut world = World::open();
    subscribe(&mut world, C);
    let without = InformInfo { subscribe: false, ..InformInfo::every_trap(4) };
    assert_eq!(world.ask_one(C, Method::SET, 0, &without), Err(Status::REQ_INVALID));
    let with = InformInfo { qpn: Qpn::GSI, ..without };
    assert_eq!(world.ask_one(C, Method::SET, 0, &with), Ok(with));
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(broadcast(), A)).unwrap();
    assert_eq!(reports(&mut world, C), []);
}

#[test]
fn a_restart_forgets_what_was_dynamic_and_asks_to_register_anew() {
    let mut world = World::open();
    subscribe(&mut world, C);
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(broadcast(), A)).unwrap();
    world.ask_one(A, Method::SET, mc_member_mask::CREATE, &join(ipv4(1), A)).unwrap();
    world.subnet.set.clear();
    let before: Vec<Lid> = [A, B, C].iter().map(|port| world.lid(*port)).collect();
    world.sm.restart(world.now, &mut world.subnet, Lid(0xc010));
    let set: Vec<bool> = world.subnet.set.iter().map(|(_, settings)| settings.client_reregister).collect();
    assert_eq!(set, [true; 3]);
    let after: Vec<Lid> = [A, B, C].iter().map(|port| world.lid(*port)).collect();
    assert_eq!(before, after, "LIDs stay");
    world.take(C, |_| true);
    let refused = world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(ipv4(1), A));
    assert_eq!(refused, Err(Status::REQ_INSUFFICIENT_COMPONENTS), "the group is gone");
    let record = world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(broadcast(), A)).unwrap();
    assert_eq!(record.mlid, Lid(0xc010), "the permanent one is back at another MLID");
    assert_eq!(reports(&mut world, C), [], "nobody is subscribed");
}

/// Before, the multicast LIDs ended where those of the first manager did: a later one from 0xc400 on had none.
#[test]
fn a_manager_that_begins_far_up_has_as_many_mlids() {
    let mut world = World::open();
    let mut at = |first: u16| {
        world.sm.restart(world.now, &mut world.subnet, Lid(first));
        world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(broadcast(), A)).map(|record| record.mlid)
    };
    for first in [0xc3ff, 0xc400, 0xf000, 0xfffe, 0xc000] {
        assert_eq!(at(first), Ok(Lid(first)), "{first:#x}");
    }
    world.sm.restart(world.now, &mut world.subnet, Lid(0xc400));
    let make = |group| world.ask_one(A, Method::SET, mc_member_mask::CREATE, &join(ipv4(group), A));
    let made: Vec<_> = (0..1025).map(make).map(|made| made.map(|record| record.mlid)).collect();
    // The broadcast group has the first one.
    assert_eq!(made[..2], [Ok(Lid(0xc401)), Ok(Lid(0xc402))]);
    assert_eq!(made[1022..], [Ok(Lid(0xc7ff)), Err(Status::NO_RESOURCES), Err(Status::NO_RESOURCES)]);
}

#[test]
fn a_manager_that_does_not_know_the_lids_gives_others_and_routes_follow() {
    let mut world = World::open();
    let lids = |world: &World| [A, B, C].map(|port| world.lid(port));
    let (own, before) = (world.sm.lid(), lids(&world));
    world.sm.forget_lids(Lid(before[0].0 + 1));
    world.sm.restart(world.now, &mut world.subnet, Lid(0xc000));
    let after = lids(&world);
    assert_eq!(after[0], before[1], "the first port has what was the second's");
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?}, {after:?}");
    assert_eq!(world.sm.lid(), own);
    world.sm.restart(world.now, &mut world.subnet, Lid(0xc000));
    assert_eq!(lids(&world), after, "known again");
}

#[test]
fn nothing_is_answered_before_the_first_sweep_or_by_a_dead_manager() {
    let mut sm = Sm::new(SmConfig::default());
    let request = SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, 1, 0).emit();
    sm.receive(Nanos(0), sm::sa::Address { lid: Lid(2), qpn: Qpn::GSI }, &request);
    assert_eq!(sm.poll_send(Nanos(0)), None);
    let mut world = World::open();
    world.sm.stop();
    assert_eq!(world.ask(A, Method::GET, 0, &ClassPortInfo::default()), None);
}

#[test]
fn class_port_info_announces_multicast_and_a_response_time() {
    let mut world = World::open();
    let info = world.ask_one(A, Method::GET, 0, &ClassPortInfo::default()).unwrap();
    assert_eq!(info.capability_mask & ClassPortInfo::UD_MULTICAST, ClassPortInfo::UD_MULTICAST);
    assert_eq!((info.resp_time, info.redirect_qpn, info.redirect_q_key), (16, Qpn::GSI, QKey::GSI));
}

#[test]
fn nodes_and_ports_can_be_asked_for() {
    let mut world = World::open();
    let node = NodeRecord { port_guid: B, ..world.subnet.ports[&B].node };
    let found = world.ask_table(A, node_mask::PORT_GUID, &node).unwrap();
    assert_eq!(found, [NodeRecord { lid: world.lid(B), ..node }]);
    assert_eq!(world.ask_table(A, 0, &node).unwrap().len(), 4, "three ports and the manager's");
    let query = PortInfoRecord { endport_lid: world.lid(C), ..PortInfoRecord::default() };
    let found = world.ask_one(A, Method::GET, port_info_mask::LID, &query).unwrap();
    assert_eq!(found.info, world.subnet.ports[&C].info);
}

#[test]
fn service_records_are_kept_found_and_deleted() {
    const ALL: u64 =
        service_mask::SERVICE_ID | service_mask::SERVICE_GID | service_mask::P_KEY | service_mask::NAME;
    let mut world = World::open();
    let mut record = ServiceRecord {
        service_id: 0x0100_0000_0000_0042,
        service_gid: gid(A),
        p_key: PKey::DEFAULT_FULL,
        lease: 5,
        key: [7; 16],
        name: [0; 64],
        data: [0; 64],
    };
    record.name[0] = b'x';
    let set = world.ask_one(A, Method::SET, ALL, &record).unwrap();
    assert_eq!(set, ServiceRecord { lease: 0xffff_ffff, key: [0; 16], ..record });
    assert_eq!(world.ask_table(B, service_mask::NAME, &record).unwrap(), [set]);
    world.ask_one(A, Method::SET, ALL | service_mask::LEASE, &record).unwrap();
    world.run(Nanos::from_millis(6_000));
    assert_eq!(world.ask_table(B, service_mask::NAME, &record), Ok(vec![]), "its lease is over");
    world.ask_one(A, Method::SET, ALL, &record).unwrap();
    world.ask_one(A, Method::DELETE, ALL, &record).unwrap();
    assert_eq!(world.ask_one(A, Method::DELETE, ALL, &record), Err(Status::NO_RECORDS));
    let foreign = ServiceRecord { p_key: PKey(0x8001), ..record };
    assert_eq!(world.ask_one(A, Method::SET, ALL, &foreign), Err(Status::REQ_INVALID));
}

#[test]
fn an_unacknowledged_table_is_sent_again_and_given_up() {
    let mut world = World::open();
    let path = PathRecord { dgid: gid(B), sgid: gid(A), numb_path: 1, ..PathRecord::default() };
    let mask = path_mask::DGID | path_mask::SGID | path_mask::NUMB_PATH;
    let request = SaMad::request(Method::GET_TABLE, Attribute::PATH_RECORD, 5, mask).with_record(&path);
    world.send(A, &request);
    world.run(Nanos::from_millis(5_000));
    let kinds: Vec<RmppKind> = world.take(A, |_| true).iter().map(|mad| mad.rmpp.kind).collect();
    assert_eq!(kinds, [RmppKind::Data, RmppKind::Data, RmppKind::Data, RmppKind::Data, RmppKind::Abort]);
    assert_eq!(world.sm.poll_timeout(), None);
}

#[test]
fn faults_do_what_they_say() {
    let mut world = World::open();
    let fault = |world: &mut World, action, count| {
        world.sm.faults().clear();
        world.sm.faults().push(Fault {
            attribute: Some(Attribute::MC_MEMBER_RECORD),
            count: Some(count),
            ..Fault::always(action)
        });
    };
    let request = join(broadcast(), A);
    fault(&mut world, FaultAction::Silent, 1);
    assert_eq!(world.ask(A, Method::SET, mc_member_mask::JOIN, &request), None);
    assert_eq!(world.sm.sa().members_at(Lid(0xc000)), []);
    fault(&mut world, FaultAction::Refuse(Status::NO_RESOURCES), 1);
    assert_eq!(world.ask_one(A, Method::SET, mc_member_mask::JOIN, &request), Err(Status::NO_RESOURCES));
    fault(&mut world, FaultAction::LoseAnswer, 1);
    assert_eq!(world.ask(A, Method::SET, mc_member_mask::JOIN, &request), None);
    assert_eq!(world.sm.sa().members_at(Lid(0xc000)), [A]);
    fault(&mut world, FaultAction::Delay(Nanos::from_millis(50)), 1);
    assert_eq!(world.ask(A, Method::SET, mc_member_mask::JOIN, &request), None, "not yet");
    world.run(Nanos::from_millis(49));
    assert_eq!(world.take(A, |_| true), []);
    world.run(Nanos::from_millis(1));
    assert_eq!(world.take(A, |_| true).len(), 1);
    fault(&mut world, FaultAction::Overwrite { at: 36, bytes: &[0x12, 0x34] }, 2);
    let answered = world.ask_one(A, Method::SET, mc_member_mask::JOIN, &request).map(|group| group.mlid);
    assert_eq!(answered, Ok(Lid(0x1234)));
    assert_eq!(world.ask_table(A, 0, &request).unwrap()[0].mlid, Lid(0x1234));
    fault(&mut world, FaultAction::Empty, 1);
    assert_eq!(world.ask_table(A, 0, &request), Ok(vec![]));
    assert_eq!(world.ask_table(A, 0, &request).unwrap().len(), 1, "the fault has worn out");
    fault(&mut world, FaultAction::Empty, 1);
    assert!(world.ask(A, Method::DELETE, mc_member_mask::JOIN, &request).is_some());
    assert_eq!(world.sm.sa().members_at(Lid(0xc000)), [], "who is told so has left");
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &request).unwrap();
    fault(&mut world, FaultAction::Empty, 1);
    let both = McMemberRecord { join_state: JoinState::FULL.union(JoinState::NON), ..request };
    let left = world.ask_one(A, Method::DELETE, mc_member_mask::JOIN, &both);
    assert_eq!(left, Err(Status::REQ_INVALID), "a role that it does not have");
    assert_eq!(world.sm.sa().members_at(Lid(0xc000)), [A], "who has not left is not told so");
}

/// What faults have done to keep port A in each of its groups.
fn kept(world: &World) -> Vec<Kept> {
    world.sm.sa().kept_by_faults().filter(|(_, port, _)| *port == A).map(|(.., kept)| kept).collect()
}

#[test]
fn a_leave_refused_by_a_fault_and_then_a_group_denied_by_one_is_a_membership_kept_by_faults() {
    let mut world = World::open();
    let request = join(broadcast(), A);
    let fault = |world: &mut World, method, status| {
        world.sm.faults().push(Fault {
            method: Some(method),
            count: Some(1),
            ..Fault::always(FaultAction::Refuse(status))
        });
    };
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &request).unwrap();
    let ask = |world: &mut World, status| {
        fault(world, Method::GET_TABLE, status);
        assert_eq!(world.ask_table(A, mc_member_mask::MGID, &request), Err(status));
        kept(world)[0].denied
    };
    assert!(!ask(&mut world, Status::REQ_INVALID), "it has not asked to leave");
    fault(&mut world, Method::DELETE, Status::NO_RESOURCES);
    world.ask_one(A, Method::DELETE, mc_member_mask::JOIN, &request).unwrap_err();
    assert!(!ask(&mut world, Status::NO_RESOURCES), "that says nothing about the group");
    assert_eq!(kept(&world), [Kept { refusals: 2, denied: false }], "who leaves asks about the group, too");
    assert!(ask(&mut world, Status::REQ_INVALID));
    assert_eq!(kept(&world), [Kept { refusals: 3, denied: true }]);
}

#[test]
fn leaves_refused_by_a_fault_count_unless_the_port_has_joined_again_to_hear_the_group_and_stays() {
    let mut world = World::open();
    let request = join(broadcast(), A);
    let refused = |world: &World| -> Vec<u32> { kept(world).into_iter().map(|kept| kept.refusals).collect() };
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &request).unwrap();
    assert_eq!(refused(&world), [0]);
    world.sm.faults().push(Fault {
        method: Some(Method::DELETE),
        count: Some(2),
        ..Fault::always(FaultAction::Refuse(Status::NO_RESOURCES))
    });
    for times in [1, 2] {
        let left = world.ask_one(A, Method::DELETE, mc_member_mask::JOIN, &request);
        assert_eq!((left, refused(&world)), (Err(Status::NO_RESOURCES), vec![times]));
    }
    let to_send = McMemberRecord { join_state: JoinState::SEND_ONLY_NON, ..request };
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &to_send).unwrap();
    assert_eq!(refused(&world), [2]);
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &request).unwrap();
    assert_eq!(refused(&world), [0]);
    world.sm.faults().push(Fault {
        method: Some(Method::DELETE),
        count: Some(1),
        ..Fault::always(FaultAction::Refuse(Status::NO_RESOURCES))
    });
    let left = world.ask_one(A, Method::DELETE, mc_member_mask::JOIN, &request);
    assert_eq!((left, refused(&world)), (Err(Status::NO_RESOURCES), vec![3]), "it had joined to leave");
    world.sm.faults().push(Fault {
        method: Some(Method::SET),
        count: Some(1),
        ..Fault::always(FaultAction::Refuse(Status::NO_RESOURCES))
    });
    let joined = world.ask_one(A, Method::SET, mc_member_mask::JOIN, &request);
    assert_eq!((joined, refused(&world)), (Err(Status::NO_RESOURCES), vec![4]), "a join that is to be left");
    world.ask_one(A, Method::DELETE, mc_member_mask::JOIN, &request).unwrap();
    assert_eq!(refused(&world), [] as [u32; 0]);
}
