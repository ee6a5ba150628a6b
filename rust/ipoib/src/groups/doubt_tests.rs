//! Joins while the broadcast group is in doubt.

use super::*;
use std::vec::Vec;

type Machine = Groups<u32, Vec<GroupSlot<u32>>>;

const PKEY: PKey = PKey::new(0x8001).unwrap();
const SCOPE: Scope = Scope::LinkLocal;

fn up() -> Machine {
    let mut m = Groups::new(Config::default(), (0..8).map(|_| GroupSlot::default()).collect(), 5);
    m.handle_event(at(0), Event::Up(SCOPE, PKEY));
    m
}

fn group(n: u8) -> Mgid {
    Mgid::ipv4([224, 0, 0, n], SCOPE, PKEY)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn actions(m: &mut Machine, seconds: u64) -> Vec<Action<u32>> {
    m.handle_timeout(at(seconds));
    core::iter::from_fn(|| m.poll_action(at(seconds))).collect()
}

fn join(n: u8, role: Roles, before: Option<u32>) -> Action<u32> {
    Action::Join { group: group(n), role, before, outdated: false }
}

fn joined(m: &mut Machine, n: u8, role: Roles, result: Result<u32, JoinError>) {
    let result = result.map(|info| Joined { info, attached: true });
    m.handle_event(at(1), Event::Joined(group(n), role, result));
}

/// Before the mend a link joined its groups again with what the broadcast group of an earlier SM had. The first one made the group so, and
/// ports that the new broadcast group let in were refused.
#[test]
fn nothing_is_joined_while_the_broadcast_group_is_in_doubt() {
    let mut m = up();
    m.want(group(1)).unwrap();
    assert_eq!(actions(&mut m, 0), [join(1, Roles::FULL, None)]);
    joined(&mut m, 1, Roles::FULL, Ok(7));
    m.set_doubt(at(1), true);
    m.handle_event(at(1), Event::Renew);
    m.want(group(2)).unwrap();
    m.resolve(group(3), |_| false).unwrap();
    assert_eq!(actions(&mut m, 1), []);
    m.set_doubt(at(2), false);
    let again = [join(1, Roles::FULL, Some(7)), join(2, Roles::FULL, None), join(3, Roles::SEND_ONLY, None)];
    let all = actions(&mut m, 2);
    assert!(all.len() == 3 && again.iter().all(|join| all.contains(join)), "{all:?}");
}

#[test]
fn groups_are_left_while_the_broadcast_group_is_in_doubt() {
    let mut m = up();
    m.want(group(1)).unwrap();
    actions(&mut m, 0);
    joined(&mut m, 1, Roles::FULL, Ok(7));
    m.set_doubt(at(1), true);
    m.unwant(group(1));
    assert!(matches!(actions(&mut m, 1).as_slice(), [Action::Leave { .. }]));
}

/// What is refused to a port that names old values is asked once more with the new ones, and no sender is told meanwhile.
#[test]
fn a_join_that_is_outdated_is_asked_again_after_the_doubt() {
    for (error, renewed) in
        [(JoinError::Outdated, false), (JoinError::Outdated, true), (JoinError::Refused, true)]
    {
        for role in [Roles::FULL, Roles::SEND_ONLY] {
            let mut m = up();
            match role {
                Roles::FULL => m.want(group(1)).unwrap(),
                _ => m.resolve(group(1), |_| false).unwrap(),
            }
            assert_eq!(actions(&mut m, 0), [join(1, role, None)]);
            if renewed {
                m.handle_event(at(1), Event::Renew);
            }
            m.set_doubt(at(1), true);
            joined(&mut m, 1, role, Err(error));
            assert_eq!(actions(&mut m, 1), [], "{error:?} {role:?}");
            m.set_doubt(at(1), false);
            assert_eq!(actions(&mut m, 1), [join(1, role, None)], "{error:?} {role:?}");
            joined(&mut m, 1, role, Err(JoinError::Refused));
            assert_ne!(actions(&mut m, 1), [join(1, role, None)], "a second refusal counts");
        }
    }
}

/// A sender's packets do not wait for ever behind an SA that never tells of the broadcast group again.
#[test]
fn a_sender_hears_in_time_that_the_doubt_lasts() {
    let mut m = up();
    m.set_doubt(at(0), true);
    m.resolve(group(3), |_| false).unwrap();
    assert_eq!(actions(&mut m, 59), []);
    assert_eq!(m.poll_timeout(), Some(at(60)));
    let told = Action::Resolved(group(3).canonical(), Err(JoinError::Unanswered));
    assert_eq!(actions(&mut m, 60), core::slice::from_ref(&told));
    m.resolve(group(3), |_| false).unwrap();
    assert_eq!(actions(&mut m, 119), []);
    assert_eq!(actions(&mut m, 120), [told]);
    m.set_doubt(at(121), false);
    assert_eq!(actions(&mut m, 121), [join(3, Roles::SEND_ONLY, None)]);
    assert_eq!(m.poll_timeout(), None);
}

/// Asked to join again what an outdated join has brought, the SA lists the group with other values than the broadcast group has.
fn unlike(m: &mut Machine) {
    let again = Action::Join { group: group(1), role: Roles::FULL, before: Some(7), outdated: true };
    assert_eq!(actions(m, 1), [again]);
    joined(m, 1, Roles::FULL, Err(JoinError::Unlike));
}

/// A machine that leaves a group which a join that was out while the SM changed has made.
fn left_as_unlike() -> Machine {
    let mut m = up();
    m.want(group(1)).unwrap();
    actions(&mut m, 0);
    m.handle_event(at(1), Event::Renew);
    joined(&mut m, 1, Roles::FULL, Ok(7));
    unlike(&mut m);
    assert!(matches!(actions(&mut m, 1).as_slice(), [Action::Leave { joins: 1, .. }]));
    m
}

/// Before the mend a join that was out while the SM changed made its group as the broadcast group of before was, and the group stayed so
/// as long as the link was in it.
#[test]
fn a_group_that_an_outdated_join_made_is_left_and_made_anew() {
    let mut m = left_as_unlike();
    m.handle_event(at(1), Event::Left(group(1), Left::Confirmed));
    assert_eq!(actions(&mut m, 1), [], "others leave it meanwhile");
    assert_eq!(actions(&mut m, 2), [join(1, Roles::FULL, None)]);
    joined(&mut m, 1, Roles::FULL, Ok(8));
    assert_eq!(actions(&mut m, 2), []);
    assert!(m.hears(group(1)));
}

/// A group that is as it is for another reason is left once, and then joined as it is.
#[test]
fn a_leave_that_fails_does_not_have_the_group_left_again() {
    let mut m = left_as_unlike();
    m.handle_event(at(1), Event::Left(group(1), Left::Unconfirmed(Roles::FULL)));
    assert_eq!(actions(&mut m, 1), [join(1, Roles::FULL, Some(7))]);
    joined(&mut m, 1, Roles::FULL, Err(JoinError::Unlike));
    assert!(!actions(&mut m, 1).iter().any(|action| matches!(action, Action::Leave { .. })));
}

/// A join that the group was deleted after, or that could not be attached, names what the broadcast group has.
#[test]
fn a_join_is_outdated_by_another_sm_alone() {
    for event in [Event::Gone(group(1)), Event::Deaf(group(1))] {
        let mut m = up();
        m.want(group(1)).unwrap();
        actions(&mut m, 0);
        m.handle_event(at(1), event);
        joined(&mut m, 1, Roles::FULL, Ok(7));
        assert_eq!(actions(&mut m, 1), [join(1, Roles::FULL, Some(7))]);
    }
}

/// The SA may have made the group although its answer was not heard.
#[test]
fn a_group_that_an_unanswered_outdated_join_made_is_made_anew() {
    let mut m = up();
    m.want(group(1)).unwrap();
    actions(&mut m, 0);
    m.handle_event(at(1), Event::Renew);
    joined(&mut m, 1, Roles::FULL, Err(JoinError::Unanswered));
    let again = Action::Join { group: group(1), role: Roles::FULL, before: None, outdated: true };
    assert!(actions(&mut m, 100).contains(&again));
    joined(&mut m, 1, Roles::FULL, Err(JoinError::Unlike));
    let leaves = actions(&mut m, 100);
    assert!(leaves.iter().any(|action| matches!(action, Action::Leave { joins: 0, .. })), "{leaves:?}");
}
