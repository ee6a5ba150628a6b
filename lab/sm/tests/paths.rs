//! One row per path request: what OpenSM answers.

mod world;

use sm::partition::{GroupParams, Ports, broadcast_mgid};
use sm::records::{McMemberRecord, PathRecord, mc_member_mask, path_mask as mask};
use sm::*;
use world::*;

/// What IBTF asks for one path.
const IPOIB: u64 = mask::DGID | mask::SGID | mask::REVERSIBLE | mask::NUMB_PATH | mask::P_KEY;

fn gid(port: Guid) -> Gid {
    Gid::of_port(Gid::DEFAULT_PREFIX, port)
}

fn path(to: Gid) -> PathRecord {
    PathRecord {
        dgid: to,
        sgid: gid(A),
        reversible: true,
        numb_path: 1,
        p_key: PKey::DEFAULT_FULL,
        ..PathRecord::default()
    }
}

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
fn requests_find_paths_or_nothing_as_opensm_does() {
    type Row = (&'static str, fn() -> World, u64, fn(&mut PathRecord), usize);
    let rows: [Row; 14] = [
        ("to B", World::open, IPOIB, |_| (), 1),
        ("to itself", World::open, IPOIB, |r| r.dgid = gid(A), 1),
        ("to a port nobody has", World::open, IPOIB, |r| r.dgid = gid(NOBODY), 0),
        ("to another subnet", World::open, IPOIB, |r| r.dgid.prefix = 0x1234, 0),
        ("from another subnet", World::open, IPOIB, |r| r.sgid.prefix = 0x1234, 0),
        ("in a partition neither has", World::open, IPOIB, |r| r.p_key = PKey(0x8001), 0),
        ("in a shared partition, full and limited", partitioned, IPOIB, |r| r.p_key = PKey(0x8001), 1),
        ("in the limited form of a shared partition", partitioned, IPOIB, |r| r.p_key = PKey(0x0001), 1),
        ("between limited members", partitioned, IPOIB, |r| (r.dgid, r.p_key) = (gid(C), PKey(2)), 0),
        ("between ports that share no partition", partitioned, IPOIB & !mask::P_KEY, |r| r.dgid = gid(C), 0),
        (
            "with an MTU above the link's",
            World::open,
            IPOIB | mask::MTU_SELECTOR | mask::MTU,
            |r| r.mtu = Bound { selector: Selector::Greater, value: 4 },
            0,
        ),
        (
            "with an exact smaller MTU",
            World::open,
            IPOIB | mask::MTU_SELECTOR | mask::MTU,
            |r| r.mtu = Bound::exactly(3),
            1,
        ),
        (
            "with an exact other rate",
            World::open,
            IPOIB | mask::RATE_SELECTOR | mask::RATE,
            |r| r.rate = Bound::exactly(2),
            0,
        ),
        ("none of them", World::open, IPOIB, |r| r.numb_path = 0, 0),
    ];
    for (what, world, mask, edit, expect) in rows {
        let mut world = world();
        let mut asked = path(gid(B));
        edit(&mut asked);
        assert_eq!(world.ask_table(A, mask, &asked).expect(what).len(), expect, "{what}");
    }
}

#[test]
fn malformed_requests_are_refused() {
    let mut world = World::open();
    let asked =
        |mtu, rate| PathRecord { mtu: Bound::exactly(mtu), rate: Bound::exactly(rate), ..path(gid(B)) };
    let mtu = IPOIB | mask::MTU_SELECTOR | mask::MTU;
    assert_eq!(world.ask_table(A, mtu, &asked(9, 3)), Err(Status::REQ_INVALID));
    let rate = IPOIB | mask::RATE_SELECTOR | mask::RATE;
    assert_eq!(world.ask_table(A, rate, &asked(4, 1)), Err(Status::REQ_INVALID));
    let half = world.ask_table(A, IPOIB | 1, &asked(4, 3));
    assert_eq!(half, Err(Status::REQ_INSUFFICIENT_COMPONENTS), "half a service ID");
    let other = PathRecord { slid: world.lid(B), ..path(gid(B)) };
    assert_eq!(
        world.ask_table(A, IPOIB | mask::SLID, &other),
        Err(Status::REQ_INVALID),
        "SGID and SLID disagree"
    );
}

#[test]
fn a_unicast_path_names_lids_mtu_rate_and_lifetime() {
    let mut world = World::open();
    let found = world.ask_table(A, IPOIB, &path(gid(B))).unwrap();
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
    let to_itself = world.ask_table(A, IPOIB, &path(gid(A))).unwrap();
    assert_eq!(to_itself[0].lifetime, Bound::exactly(0));
}

#[test]
fn without_a_p_key_the_first_shared_one_is_answered() {
    let partition = |pkey: u16| Partition::new("p", PKey(pkey)).with_members(Ports::All, Membership::Full);
    let mut world = World::new(vec![Partition::default_open(), partition(0x10), partition(2)]);
    let found = world.ask_table(A, IPOIB & !mask::P_KEY, &path(gid(B))).unwrap();
    assert_eq!(found[0].p_key, PKey(0x8002));
}

#[test]
fn a_group_is_answered_to_members_with_the_full_p_key_only() {
    let mut world = partitioned();
    let mgid = broadcast_mgid(PKey(1), 2);
    let asked = PathRecord { p_key: PKey(0x8001), ..path(mgid) };
    assert_eq!(world.ask_table(A, IPOIB, &asked), Ok(vec![]), "no member");
    let member = |port| McMemberRecord {
        p_key: PKey(0x8001),
        join_state: JoinState::SEND_ONLY_NON,
        ..join(mgid, port)
    };
    for port in [A, B] {
        world.ask_one(port, Method::SET, mc_member_mask::JOIN, &member(port)).unwrap();
    }
    let found = world.ask_table(A, IPOIB, &asked).unwrap();
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
    assert_eq!(world.ask_table(B, IPOIB, &limited), Ok(vec![]), "the limited form of the P_Key");
}

#[test]
fn what_has_no_handler_is_not_answered() {
    let mut world = World::open();
    assert_eq!(world.ask(A, Method::DELETE, IPOIB, &path(gid(B))), None, "Delete(PathRecord)");
    assert_eq!(world.ask(A, Method::GET_TRACE_TABLE, IPOIB, &path(gid(B))), None);
    let unknown = SaMad::request(Method::GET, Attribute(0x7777), 9, 0);
    world.send(A, &unknown);
    let wrong_key = SaMad { sm_key: 2, ..SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, 10, 0) };
    world.send(A, &wrong_key);
    assert_eq!(world.take(A, |_| true), []);
}
