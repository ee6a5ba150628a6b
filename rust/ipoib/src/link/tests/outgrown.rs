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
