//! A broadcast group that another SM makes such that the port cannot be in it any more.

use super::*;
use crate::numbers::Mtu;

/// Another SM has come, with `change` made; time passes until the link has asked it.
fn after(change: impl FnOnce(&mut World)) -> World {
    let mut world = started();
    change(&mut world);
    world.event(Event::Renew);
    world.settle();
    for _ in 0..4 {
        world.wait();
    }
    world
}

/// Before the mend the link stayed up for good, and heard no broadcast.
#[test]
fn a_group_that_grows_beyond_the_port_takes_the_link_down() {
    let mut world = after(|world| {
        world.denies = true;
        world.group = Some(BroadcastGroup { mtu: Mtu::B4096, ..group(Scope::LinkLocal) });
        world.port = Some(Port { mtu: Mtu::B2048, ..port() });
        world.event(Event::PortEvent);
        world.settle();
    });
    assert_eq!(world.status, Status::Down(WaitsFor::BroadcastGroup));
    assert!(world.notes.contains(&Note::MtuTooLarge(Mtu::B4096, Mtu::B2048)), "{:?}", world.notes);
    (world.group, world.denies) = (Some(group(Scope::LinkLocal)), false);
    world.wait();
    assert!(world.is_up());
}

/// Before the mend the link stayed up for good, and heard no broadcast.
#[test]
fn a_group_that_is_listed_and_refused_takes_the_link_down() {
    let mut world = after(|world| world.denies = true);
    assert_eq!(world.status, Status::Down(WaitsFor::BroadcastGroup));
    world.denies = false;
    world.wait();
    assert!(world.is_up());
}

/// The port retrains: it goes down, and comes up as `port`.
fn retrains(world: &mut World, port: Port) {
    world.port = Some(Port { active: false, ..port });
    world.event(Event::PortEvent);
    world.settle();
    world.port = Some(port);
    world.event(Event::Renew);
    world.settle();
}

/// Before the mend the link stayed up until the SA had refused it twice. A packet longer than the port's MTU broke its queue pair
/// meanwhile.
#[test]
fn a_port_that_becomes_smaller_than_its_group_is_down_at_once() {
    let mut world = started();
    world.answers = false;
    retrains(&mut world, Port { mtu: Mtu::B1024, ..port() });
    assert_eq!(world.status, Status::Down(WaitsFor::BroadcastGroup));
    assert!(world.notes.contains(&Note::MtuTooLarge(Mtu::B2048, Mtu::B1024)), "{:?}", world.notes);
    let notes = world.notes.len();
    world.answers = true;
    for _ in 0..10 {
        world.wait();
    }
    assert!(world.notes.len() - notes <= 10, "a note for each attempt at most: {:?}", world.notes);
    retrains(&mut world, port());
    assert!(world.is_up());
    assert_eq!(world.addresses.len(), 1, "the link keeps its address");
}

/// Before the mend packets went at the rate of a path that was asked for while the link was slow, for as long as paths are believed.
#[test]
fn a_link_that_trains_anew_has_its_paths_asked_for_again() {
    for changed in [Port { speed: 2_000_000_000, ..port() }, Port { mtu: Mtu::B2048, ..port() }] {
        let mut world = started();
        for now in [changed, port()] {
            world.severities.clear();
            retrains(&mut world, now);
            assert!(world.severities.contains(&Severity::Normal), "{now:?}: {:?}", world.severities);
        }
        world.severities.clear();
        retrains(&mut world, port());
        assert!(!world.severities.contains(&Severity::Normal), "nothing has changed");
    }
}
