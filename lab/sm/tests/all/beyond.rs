//! Two subnets and a router: C is its port in the first one, B in the second.

use crate::world::*;
use sm::partition::{GroupParams, Ports, broadcast_mgid};
use sm::records::{McMemberRecord, mc_member_mask};
use sm::sa::SaConfig;
use sm::*;

const PREFIX: u64 = 0xfec0_0000_0000_0002;
const SITE: u8 = 5;

/// The same partition, with a group of the site's scope.
fn subnet(prefix: u64) -> World {
    let partition = Partition::new("site", PKey::DEFAULT_LIMITED)
        .with_members(Ports::All, Membership::Full)
        .with_ipoib_in(SITE, GroupParams::default());
    let sa = SaConfig { prefix, ..SaConfig::default() };
    World::with(SmConfig { partitions: vec![partition], sa, ..SmConfig::default() })
}

fn two() -> (World, World) {
    let (mut here, mut there) = (subnet(Gid::DEFAULT_PREFIX), subnet(PREFIX));
    there.subnet.ports.get_mut(&A).unwrap().info.mtu_cap = MtuCode(3);
    there.sm.restart(there.now, &mut there.subnet, Lid::FIRST_MULTICAST);
    here.sm.set_beyond(there.sm.sa().seen_from_beyond(B, C));
    there.sm.set_beyond(here.sm.sa().seen_from_beyond(C, B));
    (here, there)
}

fn over_there(port: Guid) -> Gid {
    Gid::of_port(PREFIX, port)
}

#[test]
fn a_path_behind_a_router_leads_to_the_router_with_hops_to_go() {
    let (mut here, _) = two();
    let found = here.ask_table(A, ONE_PATH, &path(over_there(C))).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].dgid, found[0].sgid), (over_there(C), gid(A)));
    assert_eq!((found[0].dlid, found[0].slid), (here.lid(C), here.lid(A)));
    assert_eq!(
        (found[0].hop_limit, found[0].mtu, found[0].rate),
        (255, Bound::exactly(4), Bound::exactly(3))
    );
    // As wide as the narrowest link on the way.
    let narrow = here.ask_table(A, ONE_PATH, &path(over_there(A))).unwrap();
    assert_eq!(narrow[0].mtu, Bound::exactly(3));
    // In the subnet no hop limit is said.
    assert_eq!(here.ask_table(A, ONE_PATH, &path(gid(B))).unwrap()[0].hop_limit, 0);
}

#[test]
fn no_path_leads_where_no_router_does() {
    let (mut here, _) = two();
    let none = Ok(Vec::new());
    assert_eq!(here.ask_table(A, ONE_PATH, &path(over_there(NOBODY))), none);
    assert_eq!(here.ask_table(A, ONE_PATH, &path(Gid::of_port(PREFIX + 1, C))), none);
    here.unplug(C);
    assert_eq!(here.ask_table(A, ONE_PATH, &path(over_there(C))), none, "the router has no cable");
    here.plug(C);
    assert_eq!(here.ask_table(A, ONE_PATH, &path(over_there(C))).unwrap().len(), 1);
    here.sm.set_beyond(None);
    assert_eq!(here.ask_table(A, ONE_PATH, &path(over_there(C))), none);
}

/// An IPv4 group of the site.
fn group() -> Gid {
    let broadcast = broadcast_mgid(PKey::DEFAULT_FULL, SITE);
    Gid { guid: 0x0e00_0001, ..broadcast }
}

fn joins(world: &mut World, prefix: u64, join_state: JoinState) {
    let hop_limit = 255;
    let asked = McMemberRecord {
        port_gid: Gid::of_port(prefix, A),
        join_state,
        scope: SITE,
        hop_limit,
        ..join(group(), A)
    };
    let mask = mc_member_mask::JOIN | mc_member_mask::CREATE | mc_member_mask::HOP_LIMIT;
    world.ask_one(A, Method::SET, mask, &asked).unwrap();
}

/// What the owner of both subnets does.
fn tell(from: &World, to: &mut World, (router, far): (Guid, Guid)) -> bool {
    let heard = from.sm.sa().groups_heard_beside(far);
    to.sm.set_routed(to.now, router, Some(&heard))
}

fn members(world: &World) -> Vec<Guid> {
    let mut groups = world.sm.sa().groups();
    groups.find(|(record, _)| record.mgid == group()).map(|(_, members)| members).unwrap_or_default()
}

/// What the router's port is in the group.
fn router_is(world: &World, router: Guid) -> Option<JoinState> {
    let mut all = world.sm.sa().memberships();
    all.find(|(mgid, port, _)| *mgid == group() && *port == router).map(|(.., state)| state)
}

#[test]
fn a_router_joins_for_who_hears_a_group_on_its_other_side() {
    let (mut here, mut there) = two();
    joins(&mut there, PREFIX, JoinState::FULL);
    assert!(tell(&there, &mut here, (C, B)));
    assert_eq!(members(&here), [C], "the group is made where it has no member");
    assert!(!tell(&there, &mut here, (C, B)), "once");
    assert!(tell(&here, &mut there, (B, C)));
    assert_eq!(
        (router_is(&here, C), router_is(&there, B)),
        (Some(JoinState::FULL), Some(JoinState::SEND_ONLY_NON))
    );
    // A sender is no reason for packets to come.
    joins(&mut here, Gid::DEFAULT_PREFIX, JoinState::SEND_ONLY_NON);
    assert!(!tell(&here, &mut there, (B, C)));
    for world in [&mut here, &mut there] {
        world.run(Nanos::from_millis(10));
        let mlid = world.sm.group_records().iter().find(|record| record.mgid == group()).unwrap().mlid;
        assert_eq!(world.subnet.routes[&mlid].len(), 2, "the host and the router");
    }
    there.unplug(A);
    assert!(tell(&there, &mut here, (C, B)));
    assert_eq!(members(&here), [], "with its last member the group goes");
}

#[test]
fn a_router_hears_what_its_other_side_hears_no_longer_and_sends_on() {
    let (mut here, mut there) = two();
    joins(&mut there, PREFIX, JoinState::FULL);
    joins(&mut here, Gid::DEFAULT_PREFIX, JoinState::FULL);
    tell(&there, &mut here, (C, B));
    assert_eq!(router_is(&here, C), Some(JoinState::FULL));
    there.unplug(A);
    assert!(tell(&there, &mut here, (C, B)));
    assert_eq!(router_is(&here, C), Some(JoinState::SEND_ONLY_NON));
    assert!(here.sm.set_routed(here.now, C, None), "it leads nowhere");
    assert_eq!(members(&here), [A]);
}

#[test]
fn a_group_of_the_links_scope_is_not_passed_on() {
    let mut world = World::open();
    world.ask_one(A, Method::SET, mc_member_mask::JOIN, &join(broadcast(), A)).unwrap();
    assert_eq!(world.sm.sa().groups_heard_beside(C), []);
}
