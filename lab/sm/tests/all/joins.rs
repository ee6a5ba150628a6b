//! Joins, creations and leaves: what the answers hold. Which are granted stands in the request table.

use crate::world::*;
use sm::partition::{GroupParams, PermanentGroup, Ports, broadcast_mgid};
use sm::records::{McMemberRecord, mc_member_mask as mask};
use sm::*;

const INVALID: Status = Status::REQ_INVALID;
const INSUFFICIENT: Status = Status::REQ_INSUFFICIENT_COMPONENTS;

/// Broadcast groups the ports are too slow or too small for, and a partition A is not in.
fn demanding() -> World {
    let one = |pkey: u16, params: GroupParams| {
        Partition::new("demanding", PKey(pkey)).with_members(Ports::All, Membership::Full).with_ipoib(params)
    };
    World::new(vec![
        one(1, GroupParams { mtu: MtuCode::B4096, ..GroupParams::default() }),
        one(2, GroupParams { rate: RateCode(7), ..GroupParams::default() }),
        Partition::new("others", PKey(3))
            .with_members(Ports::One(B), Membership::Full)
            .with_ipoib(GroupParams::default()),
    ])
}

/// A is a full and a sending member of the broadcast group.
fn joined() -> World {
    let mut world = World::open();
    let record = McMemberRecord { join_state: JoinState::truncating(5), ..join(broadcast(), A) };
    world.ask_one(A, Method::SET, mask::JOIN, &record).unwrap();
    world
}

#[test]
fn a_join_is_answered_with_the_whole_group() {
    let mut world = World::open();
    let asked = McMemberRecord { q_key: QKey(0), p_key: PKey(0), scope: 0, ..join(broadcast(), A) };
    let record = world.ask_one(A, Method::SET, mask::JOIN, &asked).unwrap();
    assert_eq!(
        record,
        McMemberRecord {
            q_key: QKey::IPOIB,
            mlid: Lid(0xc000),
            mtu: Bound::exactly(4),
            p_key: PKey::DEFAULT_FULL,
            rate: Bound::exactly(3),
            lifetime: Bound::exactly(18),
            scope: 2,
            ..asked
        }
    );
}

#[test]
fn a_created_group_takes_the_ports_mtu_and_rate_and_no_lifetime() {
    let mut world = World::open();
    let record = world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(1), A)).unwrap();
    assert_eq!(record.mlid, Lid(0xc001));
    assert_eq!((record.mtu, record.rate), (Bound::exactly(4), Bound::exactly(3)));
    assert_eq!(record.lifetime, Bound::exactly(0));
}

#[test]
fn a_group_created_without_scope_is_not_found_by_scope() {
    let mut world = World::open();
    let asked = McMemberRecord { scope: 0, ..join(ipv4(1), A) };
    world.ask_one(A, Method::SET, mask::CREATE, &asked).unwrap();
    let query = McMemberRecord { mgid: ipv4(1), scope: 2, ..McMemberRecord::default() };
    assert_eq!(world.ask_table(A, mask::MGID | mask::SCOPE, &query), Ok(vec![]));
    assert_eq!(world.ask_table(A, mask::MGID, &query).unwrap().len(), 1);
}

#[test]
fn a_repeated_join_adds_to_the_join_state() {
    let mut world = World::open();
    world.ask_one(A, Method::SET, mask::JOIN, &join(broadcast(), A)).unwrap();
    let sender = McMemberRecord { join_state: JoinState::SEND_ONLY_NON, ..join(broadcast(), A) };
    let record = world.ask_one(A, Method::SET, mask::JOIN, &sender).unwrap();
    assert_eq!(record.join_state, JoinState::truncating(5));
}

#[test]
fn another_port_may_join_for_one_that_has_not_and_then_all_in_the_partition_may_change_it() {
    let mut world = World::open();
    world.ask_one(B, Method::SET, mask::JOIN, &join(broadcast(), A)).unwrap();
    world.ask_one(C, Method::DELETE, mask::JOIN, &join(broadcast(), A)).unwrap();
    world.ask_one(A, Method::SET, mask::JOIN, &join(broadcast(), A)).unwrap();
    let refused = world.ask_one(B, Method::SET, mask::JOIN, &join(broadcast(), A));
    assert_eq!(refused, Err(INVALID), "A joined for itself");
}

#[test]
fn a_leave_answers_with_what_remains_and_echoes_the_request() {
    let mut world = joined();
    let asked = McMemberRecord { q_key: QKey(0x77), mlid: Lid(0xcafe), ..join(broadcast(), A) };
    world.ask_one(B, Method::SET, mask::JOIN, &join(broadcast(), B)).unwrap();
    let record = world.ask_one(A, Method::DELETE, mask::JOIN, &asked).unwrap();
    assert_eq!(record.join_state, JoinState::SEND_ONLY_NON);
    assert_eq!((record.q_key, record.mlid), (QKey(0x77), Lid(0xcafe)));
    let last = McMemberRecord { join_state: JoinState::SEND_ONLY_NON, ..asked };
    assert_eq!(world.ask_one(A, Method::DELETE, mask::JOIN, &last).unwrap().join_state, JoinState::NONE);
}

#[test]
fn the_last_full_member_takes_the_group_along_and_its_mlid_is_given_out_again() {
    let mut world = World::open();
    assert_eq!(world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(1), A)).unwrap().mlid, Lid(0xc001));
    assert_eq!(world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(2), A)).unwrap().mlid, Lid(0xc002));
    let sender = McMemberRecord { join_state: JoinState::SEND_ONLY_NON, ..join(ipv4(1), B) };
    world.ask_one(B, Method::SET, mask::JOIN, &sender).unwrap();
    world.ask_one(A, Method::DELETE, mask::JOIN, &join(ipv4(1), A)).unwrap();
    assert_eq!(world.ask_one(B, Method::DELETE, mask::JOIN, &sender), Err(INVALID), "the sender was dropped");
    assert_eq!(world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(3), A)).unwrap().mlid, Lid(0xc001));
}

#[test]
fn a_permanent_group_survives_its_members_with_its_mlid() {
    let mut world = World::open();
    world.ask_one(A, Method::SET, mask::JOIN, &join(broadcast(), A)).unwrap();
    world.ask_one(A, Method::DELETE, mask::JOIN, &join(broadcast(), A)).unwrap();
    assert_eq!(world.ask_one(A, Method::SET, mask::JOIN, &join(broadcast(), A)).unwrap().mlid, Lid(0xc000));
}

#[test]
fn the_broadcast_group_may_be_created_by_a_client_and_others_outlive_it() {
    let partition = Partition::new("p", PKey(1)).with_members(Ports::All, Membership::Full);
    let mut world = World::new(vec![partition]);
    let bcast = McMemberRecord { p_key: PKey(0x8001), ..join(broadcast_mgid(PKey(1), 2), A) };
    world.ask_one(A, Method::SET, mask::CREATE, &bcast).unwrap();
    let group = McMemberRecord { mgid: Gid { prefix: 0xff12_401b_8001_0000, guid: 5 }, ..bcast };
    world.ask_one(A, Method::SET, mask::CREATE, &group).unwrap();
    world.ask_one(A, Method::DELETE, mask::JOIN, &bcast).unwrap();
    assert_eq!(world.ask_one(A, Method::SET, mask::JOIN, &group).unwrap().join_state, JoinState::FULL);
    assert_eq!(world.ask_one(A, Method::SET, mask::JOIN, &bcast), Err(INSUFFICIENT), "it is gone");
}

#[test]
fn limited_members_join_and_are_told_the_full_p_key() {
    let partition = Partition::new("p", PKey(1))
        .with_members(Ports::All, Membership::Full)
        .with_members(Ports::One(A), Membership::Limited)
        .with_ipoib(GroupParams::default());
    let mut world = World::new(vec![partition]);
    let asked = McMemberRecord { p_key: PKey(1), ..join(broadcast_mgid(PKey(1), 2), A) };
    let record = world.ask_one(A, Method::SET, mask::JOIN | mask::P_KEY, &asked).unwrap();
    assert_eq!(record.p_key, PKey(0x8001));
}

#[test]
fn a_full_table_of_mlids_refuses_creation_and_not_joins() {
    let mut config = SmConfig::default();
    config.sa.mlids = Lid(0xc000)..=Lid(0xc002);
    let mut world = World::with(config);
    world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(1), A)).unwrap();
    world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(2), A)).unwrap();
    let refused = world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(3), A));
    assert_eq!(refused, Err(Status::NO_RESOURCES));
    world.ask_one(B, Method::SET, mask::JOIN, &join(ipv4(2), B)).unwrap();
}

#[test]
fn an_mgid_the_administrator_makes_holds_the_subnet_prefix() {
    let mut world = World::open();
    let mut made = Vec::new();
    for _ in 0..2 {
        let record = world.ask_one(A, Method::SET, mask::CREATE, &join(Gid::ZERO, A)).unwrap();
        assert_eq!(record.mgid.prefix >> 32, 0xff12_a01b);
        made.push(record.mgid);
    }
    assert_ne!(made[0], made[1]);
}

#[test]
fn untrusted_queries_show_groups_and_trusted_ones_members() {
    let mut world = World::open();
    for port in [A, B] {
        world.ask_one(port, Method::SET, mask::JOIN, &join(broadcast(), port)).unwrap();
    }
    let query = join(broadcast(), A);
    let untrusted = world.ask_table(A, mask::MGID, &query).unwrap();
    assert_eq!(untrusted.len(), 1);
    assert_eq!((untrusted[0].port_gid, untrusted[0].join_state), (Gid::ZERO, JoinState::NONE));
    let trusted = world.ask_table_as(A, 1, mask::MGID, &query).unwrap();
    let members: Vec<u64> = trusted.iter().map(|record| record.port_gid.guid).collect();
    assert_eq!(members, [A.0, B.0]);
}

#[test]
fn a_get_that_finds_nothing_or_too_much_is_an_error_and_a_table_is_not() {
    let mut world = World::open();
    world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(1), A)).unwrap();
    let nothing = join(ipv4(9), A);
    assert_eq!(world.ask_one(A, Method::GET, mask::MGID, &nothing), Err(Status::NO_RECORDS));
    assert_eq!(world.ask_one(A, Method::GET, 0, &nothing), Err(Status::TOO_MANY_RECORDS));
    assert_eq!(world.ask_table(A, mask::MGID, &nothing), Ok(vec![]));
    assert_eq!(world.ask_table(A, 0, &nothing).unwrap().len(), 2);
}

#[test]
fn a_port_without_the_p_key_does_not_see_the_group() {
    let mut world = demanding();
    let query = join(broadcast_mgid(PKey(3), 2), A);
    assert_eq!(world.ask_table(A, mask::MGID, &query), Ok(vec![]));
    assert_eq!(world.ask_table(B, mask::MGID, &query).unwrap().len(), 1);
}

#[test]
fn a_site_local_broadcast_group_has_hop_limit_255() {
    let group = PermanentGroup {
        mgid: Gid { prefix: 0xff15_401b_0000_0000, guid: 0xffff_ffff },
        params: GroupParams::default(),
    };
    let mut world = World::new(vec![Partition::default_open().with_group(group)]);
    let mgid = broadcast_mgid(PKey::DEFAULT_FULL, 5);
    let record = world.ask_one(A, Method::SET, mask::JOIN, &join(mgid, A)).unwrap();
    assert_eq!((record.hop_limit, record.scope, record.mlid), (255, 5, Lid(0xc001)));
}

#[test]
fn a_hundred_groups_come_in_many_segments() {
    let mut world = World::open();
    for group in 1..=100 {
        world.ask_one(A, Method::SET, mask::CREATE, &join(ipv4(group), A)).unwrap();
    }
    let all = world.ask_table(B, 0, &McMemberRecord::default()).unwrap();
    assert_eq!(all.len(), 101);
    assert!(all.iter().any(|record| record.mgid == ipv4(100)));
}
