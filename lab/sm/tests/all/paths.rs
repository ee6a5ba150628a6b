//! Paths: what the answers hold. Which are found stands in the request table.

use crate::world::*;
use sm::partition::{GroupParams, Ports, broadcast_mgid};
use sm::records::{McMemberRecord, PathRecord, mc_member_mask, path_mask as mask};
use sm::*;

/// B is in partition 1 with A, limited, and in no other with it; C only in partition 2.
fn partitioned() -> World {
    let partition = |pkey: u16| Partition::new("p", PKey(pkey));
    World::new(vec![
        partition(1)
            .with_members(Ports::One(A), Membership::Full)
            .with_members(Ports::One(B), Membership::Limited)
            .with_ipoib(GroupParams::default()),
        partition(2)
            .with_members(Ports::One(A), Membership::Limited)
            .with_members(Ports::One(C), Membership::Limited),
    ])
}

#[test]
fn a_unicast_path_names_lids_mtu_rate_and_lifetime() {
    let mut world = World::open();
    let found = world.ask_table(A, ONE_PATH, &path(gid(B))).unwrap();
    let expected = PathRecord {
        dlid: world.lid(B),
        slid: world.lid(A),
        numb_path: 0,
        mtu: Bound::exactly(4),
        rate: Bound::exactly(3),
        lifetime: Bound::exactly(18),
        ..path(gid(B))
    };
    assert_eq!(found, [expected]);
    let to_itself = world.ask_table(A, ONE_PATH, &path(gid(A))).unwrap();
    assert_eq!(to_itself[0].lifetime, Bound::exactly(0));
}

#[test]
fn without_a_p_key_the_first_shared_one_is_answered() {
    let partition = |pkey: u16| Partition::new("p", PKey(pkey)).with_members(Ports::All, Membership::Full);
    let mut world = World::new(vec![Partition::default_open(), partition(0x10), partition(2)]);
    let found = world.ask_table(A, ONE_PATH & !mask::P_KEY, &path(gid(B))).unwrap();
    assert_eq!(found[0].p_key, PKey(0x8002));
}

#[test]
fn a_group_is_answered_to_members_with_the_full_p_key_only() {
    let mut world = partitioned();
    let mgid = broadcast_mgid(PKey(1), 2);
    let asked = PathRecord { p_key: PKey(0x8001), ..path(mgid) };
    assert_eq!(world.ask_table(A, ONE_PATH, &asked), Ok(vec![]), "no member");
    let member = |port| McMemberRecord {
        p_key: PKey(0x8001),
        join_state: JoinState::SEND_ONLY_NON,
        ..join(mgid, port)
    };
    for port in [A, B] {
        world.ask_one(port, Method::SET, mc_member_mask::JOIN, &member(port)).unwrap();
    }
    let found = world.ask_table(A, ONE_PATH, &asked).unwrap();
    let expected = PathRecord {
        dlid: Lid(0xc000),
        slid: Lid::NONE,
        reversible: false,
        mtu: Bound::exactly(4),
        rate: Bound::exactly(3),
        lifetime: Bound::exactly(18),
        ..asked
    };
    assert_eq!(found, [expected]);
    let limited = PathRecord { sgid: gid(B), p_key: PKey(0x0001), ..asked };
    assert_eq!(world.ask_table(B, ONE_PATH, &limited), Ok(vec![]), "the limited form of the P_Key");
}

#[test]
fn what_has_no_handler_is_not_answered() {
    let mut world = World::open();
    assert_eq!(world.ask(A, Method::DELETE, ONE_PATH, &path(gid(B))), None, "Delete(PathRecord)");
    assert_eq!(world.ask(A, Method::GET_TRACE_TABLE, ONE_PATH, &path(gid(B))), None);
    let unknown = SaMad::request(Method::GET, Attribute(0x7777), 9, 0);
    world.send(A, &unknown);
    let wrong_key = SaMad { sm_key: 2, ..SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, 10, 0) };
    world.send(A, &wrong_key);
    assert_eq!(world.take(A, |_| true), []);
}
