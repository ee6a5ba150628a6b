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
    assert_eq!(joined(&world), Some(Scope::OrganisationLocal));
}

/// Answers until a request is out that `is` names, and takes it out.
fn until(world: &mut World, is: impl Fn(&Action<u16>) -> bool) -> Action<u16> {
    for _ in 0..100 {
        while world.poll() {}
        match world.pending.iter().position(&is) {
            Some(at) => return world.pending.remove(at),
            None => world.answer(0),
        }
    }
    panic!("it is never asked for");
}

/// Answers one that [`until`] has taken.
fn answer(world: &mut World, action: Action<u16>) {
    world.pending.insert(0, action);
    world.answer(0);
}

/// What was asked before the trap says nothing of the group that it tells of.
#[test]
fn a_trap_counts_while_the_scopes_are_being_looked_in() {
    for (asked, told) in [(Scope::LinkLocal, Scope::LinkLocal), (Scope::SiteLocal, Scope::LinkLocal)] {
        let mut world = beside(asked);
        let listed = world.second;
        if asked == told {
            world.second = None;
        }
        world.event(Event::Renew);
        let mgid = group(asked).mgid;
        let find = until(&mut world, |action| matches!(action, Action::Find(_, of) if *of == mgid));
        let Action::Find(ticket, _) = find else { unreachable!("as was looked for") };
        world.second = Some(group(told));
        world.event(Event::Appeared(group(told).mgid));
        world.event(Event::Found(ticket, Ok(listed.filter(|_| asked != told))));
        world.settle();
        assert_eq!(joined(&world), Some(told), "{asked:?}");
    }
}

#[test]
fn a_trap_counts_while_a_join_of_a_later_scope_is_out() {
    let mut world = World::new();
    world.group = Some(group(Scope::OrganisationLocal));
    world.event(Event::Start);
    let join = until(&mut world, |action| matches!(action, Action::Join(..)));
    world.second = Some(group(Scope::LinkLocal));
    world.event(Event::Appeared(group(Scope::LinkLocal).mgid));
    answer(&mut world, join);
    world.settle();
    assert_eq!(joined(&world), Some(Scope::LinkLocal));
}

/// The join of the other group is granted, and that is gone before the answer comes.
#[test]
fn a_group_that_goes_while_the_link_moves_there_is_made_again() {
    let mut world = beside(Scope::LinkLocal);
    world.event(Event::Renew);
    let join = until(&mut world, |action| matches!(action, Action::Join(..)));
    let joins = world.joins;
    world.event(Event::Gone(group(Scope::LinkLocal).mgid));
    answer(&mut world, join);
    world.settle();
    assert_eq!((joined(&world), world.joins), (Some(Scope::LinkLocal), joins + 2), "it is asked for again");
}

/// An SA that does not answer about one scope, or whose record there makes no sense, keeps no link from the group that it is in.
#[test]
fn a_scope_that_the_sa_is_silent_about_delays_a_renewal_only() {
    let mut world = beside(Scope::SiteLocal);
    world.hides_second = true;
    world.event(Event::Renew);
    world.settle();
    assert!(world.is_up() && !world.is_joined());
    world.wait();
    assert_eq!(joined(&world), Some(Scope::OrganisationLocal));
}

#[test]
fn a_refusal_does_not_let_a_useless_group_take_the_link_down() {
    let mut world = beside(Scope::SiteLocal);
    (world.denies_second, world.may_create) = (true, false);
    let group = world.group.take();
    world.event(Event::Renew);
    world.settle();
    world.wait();
    assert!(world.is_up());
    world.group = group;
    for _ in 0..3 {
        world.wait();
    }
    assert_eq!(joined(&world), Some(Scope::OrganisationLocal));
}

/// A link that begins passes a group in which it cannot be, and makes none beside it.
#[test]
fn a_link_that_begins_passes_a_group_that_refuses_it() {
    let mut world = World::new();
    (world.group, world.second) = (Some(group(Scope::Global)), Some(group(Scope::LinkLocal)));
    world.denies_second = true;
    world.event(Event::Start);
    world.settle();
    assert_eq!(joined(&world), Some(Scope::Global));
    let mut world = World::new();
    (world.group, world.second, world.denies_second) = (None, Some(group(Scope::SiteLocal)), true);
    world.event(Event::Start);
    world.settle();
    world.wait();
    assert_eq!((joined(&world), world.group), (None, None));
}
