//! An address that leads where another one of its port does, while the SA is not asked.

use super::*;

/// Another queue pair of the same port.
fn moved(n: u8) -> LinkAddr {
    LinkAddr::unicast(Qpn::new(0x49).unwrap(), peer(n).gid())
}

/// A way to this peer is known since then; somebody sends to another queue pair of its port 10 s later.
fn knows_one() -> Machine {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(2), Event::LookedUp(peer(1), ok(7)));
    actions(&mut m);
    m
}

/// The way that an address would follow, and what is thought of it.
fn followed(m: &Machine, to: LinkAddr) -> Option<(u32, Followed)> {
    m.way_to_follow(&to).map(|(way, followed)| (way.0.0, followed))
}

/// A way that the SA has told then, and that is in no doubt.
fn told(number: u32, seconds: u64) -> Option<(u32, Followed)> {
    Some((number, Followed { since: at(seconds), trust: Trust::Full }))
}

/// The address follows the way of its port, which the driver makes a handle for; what is done then.
fn follow(m: &mut Machine, seconds: u64, to: LinkAddr) -> Vec<Action> {
    let (number, followed) = followed(m, to).expect("a way");
    let refresh = Some(Duration::from_secs(30));
    let found = Resolution { handle: way(number), refresh, followed: Some(followed) };
    m.handle_event(at(seconds), Event::LookedUp(to, Ok(found)));
    actions(m)
}

/// Somebody sends there: it is looked up.
fn wanted(m: &mut Machine, seconds: u64, to: LinkAddr) {
    submit(m, at(seconds), to, 11);
    assert_eq!(actions(m), [Action::Lookup(to)]);
}

#[test]
fn a_neighbour_with_a_new_queue_pair_is_where_its_port_was_and_that_is_as_old_as_it_was() {
    let mut m = knows_one();
    wanted(&mut m, 10, moved(1));
    assert_eq!(followed(&m, moved(1)), told(7, 2));
    assert_eq!(follow(&mut m, 10, moved(1)), [Action::Send(moved(1), 11, way(7))]);
    assert_eq!(m.known(at(12), &moved(1)), Known::Ready(way(7), Duration::from_secs(10)));
    assert_eq!(followed(&m, moved(1)), None, "it has a way of its own");
}

#[test]
fn who_was_never_heard_of_follows_nobody() {
    let mut m = knows_one();
    wanted(&mut m, 10, peer(2));
    assert_eq!(followed(&m, peer(2)), None);
}

#[test]
fn a_way_that_a_report_puts_in_doubt_is_followed_and_the_sa_is_asked_at_once() {
    let mut m = knows_one();
    m.handle_event(at(9), Event::GidChanged(peer(1).gid()));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    wanted(&mut m, 10, moved(1));
    assert_eq!(
        follow(&mut m, 10, moved(1)),
        [Action::Send(moved(1), 11, way(7))],
        "the one that is out will do"
    );
    m.handle_event(at(11), Event::LookedUp(peer(1), ok(8)));
    assert_eq!(actions(&mut m), [Action::Lookup(moved(1))]);
    assert_eq!(follow(&mut m, 11, moved(1)), []);
    assert_eq!(m.known(at(12), &moved(1)), Known::Ready(way(8), Duration::from_secs(1)));
}

#[test]
fn a_way_of_the_subnet_manager_before_is_followed_while_no_other_one_answers() {
    let mut m = knows_one();
    m.handle_event(at(9), Event::Invalidate(Severity::Light));
    wanted(&mut m, 10, moved(1));
    assert_eq!(follow(&mut m, 10, moved(1)), [Action::Send(moved(1), 11, way(7)), Action::Lookup(moved(1))]);
    m.handle_event(at(20), Event::LookedUp(moved(1), Err(LookupError::Unanswered)));
    actions(&mut m);
    assert_eq!(submit(&mut m, at(21), moved(1), 12), Submitted::Ready(12, way(7)));
}

#[test]
fn who_follows_what_is_in_doubt_is_denied_by_the_first_answer_that_there_is_no_way() {
    let mut m = knows_one();
    m.handle_event(at(9), Event::Invalidate(Severity::Light));
    wanted(&mut m, 10, moved(1));
    follow(&mut m, 10, moved(1));
    m.handle_event(at(11), Event::LookedUp(moved(1), Err(LookupError::Absent)));
    actions(&mut m);
    assert!(matches!(submit(&mut m, at(11), moved(1), 12), Submitted::Denied(12, _)));
    assert_eq!(followed(&m, moved(1)), None);
}

#[test]
fn of_two_ways_of_a_port_the_one_in_no_doubt_is_followed() {
    let mut m = knows_one();
    m.handle_event(at(9), Event::GidChanged(peer(1).gid()));
    actions(&mut m);
    wanted(&mut m, 10, moved(1));
    m.handle_event(at(11), Event::LookedUp(moved(1), ok(8)));
    actions(&mut m);
    let third = LinkAddr::unicast(Qpn::new(0x4a).unwrap(), peer(1).gid());
    wanted(&mut m, 12, third);
    assert_eq!(followed(&m, third), told(8, 11));
}

#[test]
fn a_way_that_is_only_asked_for_anew_in_its_time_is_followed_whatever_the_sa_does() {
    let mut m = knows_one();
    assert_eq!(submit(&mut m, at(290), peer(1), 12), Submitted::Ready(12, way(7)));
    m.handle_timeout(at(302));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    wanted(&mut m, 303, moved(1));
    assert_eq!(followed(&m, moved(1)), told(7, 2));
}

#[test]
fn who_is_denied_by_the_sa_follows_nobody_and_is_asked_for_less_and_less() {
    let mut m = knows_one();
    let mut now = 10;
    for denied in 1..5 {
        wanted(&mut m, now, moved(1));
        assert_eq!(followed(&m, moved(1)).is_some(), denied == 1);
        m.handle_event(at(now), Event::LookedUp(moved(1), Err(LookupError::Absent)));
        actions(&mut m);
        // The pause: one second, doubled each time, half of it at least.
        let pause = 1 << (denied - 1);
        if pause > 2 {
            let denied = submit(&mut m, at(now + pause / 2 - 1), moved(1), 12);
            assert!(matches!(denied, Submitted::Denied(12, _)), "{denied:?}");
        }
        now += pause + 1;
    }
    // Nobody knows whether an answer that does not come would be the same.
    m.handle_event(at(now), Event::GidChanged(peer(1).gid()));
    actions(&mut m);
    m.handle_event(at(now), Event::LookedUp(peer(1), ok(7)));
    wanted(&mut m, now + 1, moved(1));
    assert_eq!(followed(&m, moved(1)), told(7, now));
}
