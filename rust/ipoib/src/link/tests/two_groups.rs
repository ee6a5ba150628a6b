//! A partition that has two broadcast groups, in two scopes. Before the mend a link never looked for another group while it had one, and
//! the partition stayed in two halves.

use super::*;

/// A link in the group of the organisation's scope, and another host makes one in this scope.
fn beside(scope: Scope) -> World {
    let mut world = World::new();
    world.group = Some(group(Scope::OrganisationLocal));
    world.event(Event::Start);
    world.settle();
    assert!(world.is_up());
    world.severities.clear();
    world.second = Some(group(scope));
    world
}

fn joined(world: &World) -> Option<Scope> {
    world.link.broadcast_group().filter(|_| world.is_joined() && world.is_up()).map(|group| group.scope)
}

/// The members that the SA has, in every group.
fn memberships(world: &World) -> Vec<Mgid> {
    world.members.iter().map(|(mgid, _)| *mgid).collect()
}

#[test]
fn a_group_that_appears_in_an_earlier_scope_is_moved_to() {
    let mut world = beside(Scope::SiteLocal);
    let (from, to) = (group(Scope::OrganisationLocal).mgid, group(Scope::SiteLocal).mgid);
    world.event(Event::Appeared(to));
    world.settle();
    assert_eq!((joined(&world), memberships(&world)), (Some(Scope::SiteLocal), vec![to]));
    assert_eq!((&world.notes[..], world.queue_pairs), (&[Note::Moved(from, to)][..], 1));
}

#[test]
fn a_lost_trap_delays_the_move_until_the_membership_is_renewed() {
    let mut world = beside(Scope::LinkLocal);
    assert!(world.wait());
    assert_eq!(world.now, Instant::ZERO + Config::new(PKEY).verify);
    assert_eq!(joined(&world), Some(Scope::LinkLocal));
}

#[test]
fn a_group_in_a_later_scope_moves_no_link() {
    let mut world = beside(Scope::Global);
    let finds = world.finds;
    world.event(Event::Appeared(group(Scope::Global).mgid));
    world.settle();
    assert_eq!((joined(&world), world.finds), (Some(Scope::OrganisationLocal), finds));
    world.wait();
    assert_eq!(
        (joined(&world), world.finds),
        (Some(Scope::OrganisationLocal), finds + 2),
        "two scopes are earlier"
    );
}

#[test]
fn a_link_in_the_first_scope_asks_for_no_other() {
    let mut world = started();
    let finds = world.finds;
    world.wait();
    world.event(Event::Renew);
    world.settle();
    assert_eq!((joined(&world), world.finds), (Some(Scope::LinkLocal), finds));
}

/// Both groups are deleted by an SM of before; the other host is faster.
#[test]
fn a_group_that_is_gone_is_not_made_again_beside_an_earlier_one() {
    let mut world = beside(Scope::LinkLocal);
    world.group = None;
    world.event(Event::Gone(group(Scope::OrganisationLocal).mgid));
    world.settle();
    assert_eq!((joined(&world), world.group), (Some(Scope::LinkLocal), None));
}

#[test]
fn a_link_stays_where_it_is_if_the_earlier_group_lets_it_not_in() {
    let mut world = beside(Scope::SiteLocal);
    world.denies_second = true;
    world.event(Event::Renew);
    world.settle();
    assert_eq!(joined(&world), Some(Scope::OrganisationLocal));
    assert_eq!(world.notes, [Note::JoinFailed(SaError::Refused(15))]);
    assert!(
        world.addresses.len() == 1 && world.severities.iter().all(|severity| *severity == Severity::Light)
    );
}

#[test]
fn a_link_stays_where_it_is_if_the_earlier_group_is_too_large() {
    let mut world = beside(Scope::SiteLocal);
    world.second = Some(BroadcastGroup { mtu: Mtu::B4096, ..group(Scope::SiteLocal) });
    world.port = Some(Port { mtu: Mtu::B2048, ..port() });
    world.event(Event::PortEvent);
    world.settle();
    assert_eq!(joined(&world), Some(Scope::OrganisationLocal));
    assert_eq!(world.notes, [Note::MtuTooLarge(Mtu::B4096, Mtu::B2048)]);
}

#[test]
fn the_end_of_the_other_group_takes_nothing_from_the_link() {
    let mut world = beside(Scope::Global);
    let joins = world.joins;
    world.event(Event::Gone(group(Scope::Global).mgid));
    world.settle();
    assert_eq!((joined(&world), world.joins), (Some(Scope::OrganisationLocal), joins));
}

/// An SA that comes back without any group is given the group of before, and not one in another scope.
#[test]
fn a_silent_sa_that_comes_back_empty_gets_the_group_of_before() {
    let mut world = beside(Scope::LinkLocal);
    (world.group, world.second, world.answers) = (None, None, false);
    world.event(Event::Renew);
    world.settle();
    for _ in 0..5 {
        world.wait();
    }
    world.answers = true;
    world.wait();
    assert_eq!((joined(&world), world.notes.len()), (Some(Scope::OrganisationLocal), 0));
}

/// What was asked before the trap says nothing of the group that it tells of.
#[test]
fn a_trap_counts_while_the_scopes_are_being_looked_in() {
    let mut world = beside(Scope::LinkLocal);
    let second = world.second.take();
    world.event(Event::Renew);
    let find = (0..100).find_map(|_| {
        while world.poll() {}
        let find = world.pending.iter().position(|action| matches!(action, Action::Find(..)));
        if find.is_none() {
            world.answer(0);
        }
        find
    });
    let find = world.pending.remove(find.expect("a search"));
    let Action::Find(ticket, mgid) = find else { panic!("{find:?}") };
    assert_eq!(mgid, group(Scope::LinkLocal).mgid);
    world.second = second;
    world.event(Event::Appeared(mgid));
    world.event(Event::Found(ticket, Ok(None)));
    world.settle();
    assert_eq!(joined(&world), Some(Scope::LinkLocal));
}
