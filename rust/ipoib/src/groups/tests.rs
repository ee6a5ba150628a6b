use super::*;
use crate::addr::Gid;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

type Machine = Groups<u32, Vec<GroupSlot<u32>>>;

const PKEY: PKey = PKey::new(0x8001).unwrap();
const SCOPE: Scope = Scope::LinkLocal;

fn machine(capacity: usize) -> Machine {
    Groups::new(Config::default(), (0..capacity).map(|_| GroupSlot::default()).collect(), 5)
}

fn up(capacity: usize) -> Machine {
    let mut m = machine(capacity);
    m.handle_event(at(0), Event::Up(SCOPE, PKEY));
    m
}

/// How many joins and leaves are out.
fn operations_out(m: &Machine) -> usize {
    usize::from(m.in_flight) + usize::from(m.late)
}

fn group(n: u8) -> Mgid {
    Mgid::ipv4([224, 0, 0, n], SCOPE, PKEY)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn actions(m: &mut Machine) -> Vec<Action<u32>> {
    core::iter::from_fn(|| m.poll_action(at(0))).collect()
}

fn join(n: u8, role: Roles, before: Option<u32>) -> Action<u32> {
    Action::Join { group: group(n), role, before, outdated: false }
}

fn granted(n: u8, role: Roles, info: u32) -> Event<u32> {
    Event::Joined(group(n), role, Ok(Joined { info, attached: true }))
}

fn refused(n: u8, role: Roles) -> Event<u32> {
    Event::Joined(group(n), role, Err(JoinError::Refused))
}

fn resolved(n: u8, info: u32) -> Action<u32> {
    Action::Resolved(group(n).canonical(), Ok(Resolved { info, refresh: None }))
}

#[test]
fn groups_asked_for_before_start_are_joined_when_the_link_comes_up() {
    let mut m = machine(8);
    m.want(group(5).canonical()).unwrap();
    assert_eq!(actions(&mut m), []);
    m.handle_event(at(1), Event::Up(SCOPE, PKEY));
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, None)]);
    m.handle_event(at(1), granted(5, Roles::FULL, 7));
    assert!(m.hears(group(5)));
}

#[test]
fn a_failed_join_is_reported_and_tried_again_after_its_back_off() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(1), refused(5, Roles::FULL));
    let failed = Action::Failed { group: group(5), role: Roles::FULL, again: false };
    assert_eq!(actions(&mut m), [failed]);
    assert_eq!(actions(&mut m), []);
    m.handle_timeout(at(2));
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, None)]);
}

#[test]
fn a_group_that_cannot_be_attached_to_the_next_queue_pair_is_joined_again_after_a_pause() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    m.want(group(6)).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.handle_event(at(0), Event::Deaf(group(5)));
    assert!(!m.hears(group(5)));
    assert_eq!(actions(&mut m), []);
    m.handle_timeout(at(1));
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, Some(7))]);
    // A join that is out was answered before that, or after.
    m.handle_event(at(1), Event::Deaf(group(6)));
    m.handle_event(at(1), granted(6, Roles::FULL, 8));
    assert!(!m.hears(group(6)));
    assert_eq!(actions(&mut m), [join(6, Roles::FULL, Some(8))]);
}

#[test]
fn a_group_wanted_again_while_its_leave_is_out_is_joined_as_soon_as_that_has_failed() {
    for end in [Left::Unconfirmed(Roles::FULL), Left::Confirmed] {
        let mut m = up(8);
        m.want(group(5)).unwrap();
        actions(&mut m);
        m.handle_event(at(0), granted(5, Roles::FULL, 7));
        m.unwant(group(5));
        assert!(matches!(actions(&mut m)[..], [Action::Leave { .. }]));
        m.want(group(5)).unwrap();
        assert_eq!(actions(&mut m), []);
        m.handle_event(at(1), Event::Left(group(5), end));
        assert!(actions(&mut m).iter().any(|action| matches!(action, Action::Join { .. })), "after {end:?}");
    }
}

#[test]
fn a_leave_that_failed_is_repeated_after_its_back_off_before_anything_less_is_joined() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.unwant(group(5));
    actions(&mut m);
    // A sender must not keep the group alive.
    m.resolve(group(5), |_| false).unwrap();
    m.handle_event(at(1), Event::Left(group(5), Left::Unconfirmed(Roles::FULL)));
    assert!(
        !actions(&mut m).iter().any(|action| matches!(action, Action::Join { .. } | Action::Leave { .. }))
    );
    m.handle_timeout(at(2));
    assert!(matches!(actions(&mut m)[..], [Action::Leave { .. }]));
}

/// A machine that waits ten seconds for the answer to a join, and repeats one at short intervals once.
fn impatient() -> Machine {
    let mut m = up(8);
    m.set_patience(Some(Duration::from_secs(10)), 1);
    m
}

#[test]
fn pauses_grow_only_after_as_many_failures_as_were_asked_for() {
    let mut m = up(8);
    m.set_patience(None, 3);
    m.want(group(5)).unwrap();
    let mut now = at(0);
    for failure in 1..6u32 {
        assert!(actions(&mut m).contains(&join(5, Roles::FULL, None)), "after {failure} failures");
        m.handle_event(now, refused(5, Roles::FULL));
        actions(&mut m);
        let pause = m.poll_timeout().unwrap() - now;
        let short = Duration::from_secs(1);
        assert_eq!(pause <= short, failure <= 4, "{pause:?} after {failure} failures");
        now = now + pause;
        m.handle_timeout(now);
    }
}

#[test]
fn join_that_is_not_answered_in_time_is_told_and_repeated_beside_the_first() {
    let mut m = impatient();
    m.want(group(5)).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, None)]);
    m.handle_timeout(at(9));
    assert_eq!(actions(&mut m), []);
    m.handle_timeout(at(10));
    let failed = Action::Failed { group: group(5), role: Roles::FULL, again: false };
    assert_eq!(actions(&mut m), [failed]);
    m.handle_timeout(at(11));
    assert_eq!(m.poll_action(at(11)), Some(join(5, Roles::FULL, None)));
    m.handle_timeout(at(60));
    assert_eq!(actions(&mut m), [], "two are out at most");
    m.handle_event(at(60), granted(5, Roles::FULL, 7));
    assert!(m.hears(group(5)));
    m.handle_event(at(61), granted(5, Roles::FULL, 7));
    m.unwant(group(5));
    let leave =
        Action::Leave { group: group(5), roles: Roles::FULL, counted: Roles::FULL, joins: 2, info: Some(7) };
    assert_eq!(actions(&mut m), [leave], "both were granted, and IBTF counts both");
}

#[test]
fn first_join_that_fails_late_does_not_end_the_second() {
    let mut m = impatient();
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_timeout(at(10));
    actions(&mut m);
    m.handle_timeout(at(11));
    assert_eq!(m.poll_action(at(11)), Some(join(5, Roles::FULL, None)));
    m.handle_event(at(12), refused(5, Roles::FULL));
    assert_eq!(actions(&mut m), []);
    m.handle_event(at(13), granted(5, Roles::FULL, 7));
    assert!(m.hears(group(5)));
    assert_eq!(operations_out(&m), 0);
}

#[test]
fn group_that_the_first_of_two_joins_could_not_attach_is_joined_again_soon() {
    let mut m = impatient();
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_timeout(at(10));
    actions(&mut m);
    m.handle_timeout(at(11));
    assert_eq!(m.poll_action(at(11)), Some(join(5, Roles::FULL, None)));
    // The second found the first at it, and left the attaching to it.
    m.handle_event(at(12), granted(5, Roles::FULL, 7));
    let deaf = Joined { info: 7, attached: false };
    m.handle_event(at(12), Event::Joined(group(5), Roles::FULL, Ok(deaf)));
    assert!(!m.hears(group(5)));
    m.handle_timeout(at(80));
    assert_eq!(m.poll_action(at(80)), Some(join(5, Roles::FULL, Some(7))));
}

#[test]
fn late_grant_of_before_a_renewal_does_not_count_as_one_of_after_it() {
    let mut m = impatient();
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_timeout(at(10));
    actions(&mut m);
    m.handle_event(at(11), Event::Renew);
    assert_eq!(m.poll_action(at(11)), Some(join(5, Roles::FULL, None)));
    m.handle_event(at(12), granted(5, Roles::FULL, 7));
    assert!(!m.hears(group(5)), "which of the two is granted cannot be told");
    assert_eq!(actions(&mut m), []);
    m.handle_event(at(12), granted(5, Roles::FULL, 7));
    assert!(m.hears(group(5)));
}

#[test]
fn join_granted_after_nobody_wants_it_any_more_is_left() {
    let mut m = impatient();
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_timeout(at(10));
    actions(&mut m);
    m.unwant(group(5));
    assert_eq!(actions(&mut m), []);
    assert!(!m.is_idle(), "an answer is still to come");
    m.handle_event(at(20), granted(5, Roles::FULL, 7));
    let leave =
        Action::Leave { group: group(5), roles: Roles::FULL, counted: Roles::FULL, joins: 1, info: Some(7) };
    assert_eq!(actions(&mut m), [leave]);
}

fn unanswered(n: u8, role: Roles) -> Event<u32> {
    Event::Joined(group(n), role, Err(JoinError::Unanswered))
}

/// What leaves a group that the SA may have granted in this role, in a join that nobody answered.
fn leave_unanswered(n: u8, role: Roles) -> Action<u32> {
    Action::Leave { group: group(n), roles: role, counted: Roles::NONE, joins: 0, info: None }
}

#[test]
fn a_join_that_was_granted_without_an_answer_is_left_when_nobody_wants_it_any_more() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.unwant(group(5));
    m.handle_event(at(60), unanswered(5, Roles::FULL));
    assert!(!m.is_idle());
    assert_eq!(actions(&mut m), [], "after a pause: the SA is silent");
    m.handle_timeout(at(120));
    assert_eq!(actions(&mut m), [leave_unanswered(5, Roles::FULL)]);
    m.handle_event(at(121), Event::Left(group(5), Left::Confirmed));
    actions(&mut m);
    assert!(m.is_empty());
}

#[test]
fn a_full_join_without_an_answer_is_left_before_the_group_is_joined_for_sending() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.unwant(group(5));
    m.resolve(group(5), |_| false).unwrap();
    m.handle_event(at(60), unanswered(5, Roles::FULL));
    assert_eq!(actions(&mut m), [leave_unanswered(5, Roles::FULL)]);
    m.handle_event(at(61), Event::Left(group(5), Left::Confirmed));
    assert!(actions(&mut m).contains(&join(5, Roles::SEND_ONLY, None)));
}

#[test]
fn a_join_without_an_answer_is_left_at_once_by_a_stop() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(1), Event::Stop);
    actions(&mut m);
    m.handle_event(at(60), unanswered(5, Roles::FULL));
    assert_eq!(actions(&mut m), [leave_unanswered(5, Roles::FULL)]);
}

#[test]
fn a_join_that_was_granted_without_an_answer_is_left_with_the_one_that_got_one() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::SEND_ONLY, 7));
    actions(&mut m);
    m.want(group(5)).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, Some(7))]);
    m.handle_event(at(60), unanswered(5, Roles::FULL));
    m.unwant(group(5));
    let roles = Roles::FULL.and(Roles::SEND_ONLY);
    let leave = Action::Leave { group: group(5), roles, counted: Roles::SEND_ONLY, joins: 1, info: Some(7) };
    assert!(actions(&mut m).contains(&leave));
}

#[test]
fn a_group_that_was_not_asked_for_is_not_left() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.unwant(group(5));
    m.handle_event(at(60), Event::Joined(group(5), Roles::FULL, Err(JoinError::NotAsked)));
    assert_eq!(actions(&mut m), []);
    assert!(m.is_empty());
}

#[test]
fn sender_to_a_group_about_which_nobody_answers_is_told_in_time() {
    let mut m = impatient();
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, None)]);
    m.handle_timeout(at(10));
    assert_eq!(actions(&mut m), [Action::Resolved(group(5).canonical(), Err(JoinError::Unanswered))]);
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(m.poll_action(at(12)), Some(join(5, Roles::SEND_ONLY, None)));
    m.handle_event(at(13), granted(5, Roles::SEND_ONLY, 7));
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
}

#[test]
fn joins_run_side_by_side_up_to_the_limit() {
    let mut m = up(8);
    for n in 1..=5 {
        m.want(group(n)).unwrap();
    }
    assert_eq!(actions(&mut m).len(), 3);
    m.handle_event(at(0), granted(2, Roles::FULL, 1));
    assert_eq!(actions(&mut m), [join(4, Roles::FULL, None)]);
}

#[test]
fn an_sm_restart_joins_again_without_leaving() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
    m.handle_event(at(1), Event::Renew);
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, Some(7))]);
    m.handle_event(at(1), granted(5, Roles::FULL, 8));
    assert_eq!(actions(&mut m), [Action::Forget(group(5).canonical())]);
    m.unwant(group(5));
    let leave =
        Action::Leave { group: group(5), roles: Roles::FULL, counted: Roles::FULL, joins: 2, info: Some(8) };
    assert_eq!(actions(&mut m), [leave]);
    m.handle_event(at(2), Event::Left(group(5), Left::Confirmed));
    actions(&mut m);
    assert!(m.is_empty());
}

#[test]
fn a_renewal_during_a_join_joins_once_more() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(0), Event::Renew);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    assert!(!m.hears(group(5)));
    let again = Action::Join { group: group(5), role: Roles::FULL, before: Some(7), outdated: true };
    assert_eq!(actions(&mut m), [again]);
}

#[test]
fn sending_to_a_group_joins_it_for_sending_and_ages_out() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, None)]);
    m.handle_event(at(0), granted(5, Roles::SEND_ONLY, 7));
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
    m.handle_timeout(at(900));
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, Some(7))]);
    m.handle_event(at(900), granted(5, Roles::SEND_ONLY, 7));
    m.handle_timeout(at(1800));
    let leave = Action::Leave {
        group: group(5),
        roles: Roles::SEND_ONLY,
        counted: Roles::SEND_ONLY,
        joins: 2,
        info: Some(7),
    };
    assert_eq!(actions(&mut m), [leave]);
}

/// Nobody tells it of either, if the SM's reports do not reach it.
#[test]
fn a_sender_hears_in_time_that_its_group_was_deleted_and_made_again_elsewhere() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::SEND_ONLY, 7));
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
    m.handle_timeout(at(900));
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, Some(7))]);
    m.handle_event(at(900), granted(5, Roles::SEND_ONLY, 8));
    assert_eq!(actions(&mut m), [Action::Forget(group(5).canonical())]);
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [resolved(5, 8)]);
}

/// Who is told to forget while it asks asks again at once. Told each time, it would ask as fast as the SA fails.
#[test]
fn a_sender_whose_group_cannot_be_joined_again_is_told_to_forget_it_once() {
    let mut m = up(8);
    let failed = Action::Resolved(group(5).canonical(), Err(JoinError::Unanswered));
    m.resolve(group(5), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::SEND_ONLY, 7));
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
    m.handle_event(at(1), Event::Renew);
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, Some(7))]);
    m.handle_event(at(1), unanswered(5, Roles::SEND_ONLY));
    let forget = Action::Forget(group(5).canonical());
    assert_eq!(m.poll_action(at(1)), Some(forget));
    assert_eq!(m.poll_action(at(1)).as_ref(), Some(&failed));
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, Some(7))]);
    m.handle_event(at(1), unanswered(5, Roles::SEND_ONLY));
    assert_eq!(m.poll_action(at(1)), Some(failed));
}

#[test]
fn who_asks_for_a_group_that_was_never_joined_has_nothing_to_forget() {
    let mut m = up(8);
    for second in 0..3 {
        m.resolve(group(5), |_| false).unwrap();
        assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, None)]);
        m.handle_event(at(second), unanswered(5, Roles::SEND_ONLY));
        assert_eq!(actions(&mut m), [Action::Resolved(group(5).canonical(), Err(JoinError::Unanswered))]);
    }
}

#[test]
fn a_membership_to_send_ages_out_though_a_wish_to_hear_the_group_came_and_went() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::SEND_ONLY, 7));
    m.want(group(5)).unwrap();
    assert_eq!(actions(&mut m), [resolved(5, 7), join(5, Roles::FULL, Some(7))]);
    m.handle_event(at(1), refused(5, Roles::FULL));
    m.unwant(group(5));
    actions(&mut m);
    assert_eq!(m.poll_timeout(), Some(at(900)));
}

#[test]
fn a_group_that_two_forms_of_its_address_want_is_heard_until_neither_does() {
    let mut m = up(8);
    m.want(group(5).canonical()).unwrap();
    m.want(group(5)).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, None)]);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.unwant(group(5));
    assert_eq!(actions(&mut m), []);
    assert!(m.hears(group(5)));
    m.unwant(group(5).canonical());
    assert!(matches!(actions(&mut m)[..], [Action::Leave { .. }]));
}

/// Each report is a task of its own.
#[test]
fn promiscuous_mode_lists_the_groups_again_if_one_is_deleted_after_it_was_made() {
    let mut m = eavesdropping();
    m.handle_event(at(0), granted(5, Roles::NON, 7));
    m.handle_event(at(1), Event::Exists(group(5)));
    m.handle_event(at(1), Event::Gone(group(5)));
    let all = actions(&mut m);
    assert!(all.contains(&Action::List), "{all:?}");
}

#[test]
fn promiscuous_mode_lists_the_groups_again_once_if_one_that_it_heard_refuses_it() {
    let mut m = eavesdropping();
    m.handle_event(at(0), granted(5, Roles::NON, 7));
    m.handle_timeout(at(900));
    assert_eq!(actions(&mut m), [join(5, Roles::NON, Some(7))]);
    m.handle_event(at(900), refused(5, Roles::NON));
    assert!(!actions(&mut m).contains(&Action::List), "not before a pause");
    m.handle_event(at(900), Event::Left(group(5), Left::Confirmed));
    m.handle_timeout(at(901));
    assert!(actions(&mut m).contains(&Action::List));
    m.handle_event(at(901), Event::Exists(group(5)));
    m.handle_event(at(901), Event::Listed(Ok(())));
    assert!(actions(&mut m).contains(&join(5, Roles::NON, None)));
    m.handle_event(at(902), refused(5, Roles::NON));
    m.handle_timeout(at(1_000));
    assert!(!actions(&mut m).contains(&Action::List));
}

/// More than can be asked about at once: those that were refused first are listed before the last ones are left.
#[test]
fn groups_that_promiscuous_mode_heard_and_a_new_sm_refuses_are_listed_after_a_pause() {
    const GROUPS: u8 = 40;
    let mut m = up(128);
    m.handle_event(at(0), Event::Promiscuous(true));
    let (mut lists, mut joins) = (0, 0);
    let answer_all = |m: &mut Machine, grants: bool, lists: &mut u32, joins: &mut u32| {
        while let Some(action) = m.poll_action(at(1)) {
            match action {
                Action::List => {
                    *lists += 1;
                    (1..=GROUPS).for_each(|n| m.handle_event(at(1), Event::Exists(group(n))));
                    m.handle_event(at(1), Event::Listed(Ok(())));
                }
                Action::Join { group, role, .. } => {
                    *joins += 1;
                    assert!(*joins < 1_000, "it asks as fast as it is refused");
                    let granted = Ok(Joined { info: 7, attached: true });
                    let result = if grants { granted } else { Err(JoinError::Refused) };
                    m.handle_event(at(1), Event::Joined(group, role, result));
                }
                Action::Leave { group, .. } => m.handle_event(at(1), Event::Left(group, Left::Confirmed)),
                _ => {}
            }
        }
    };
    answer_all(&mut m, true, &mut lists, &mut joins);
    assert_eq!((lists, joins), (1, u32::from(GROUPS)));
    m.handle_event(at(1), Event::Renew);
    answer_all(&mut m, false, &mut lists, &mut joins);
    assert!(lists <= 3 && joins <= 3 * u32::from(GROUPS), "{lists} lists, {joins} joins");
}

#[test]
fn a_group_that_is_sent_to_and_not_to_be_heard_is_refused_to_promiscuous_mode_once() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::SEND_ONLY, 7));
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
    m.handle_event(at(1), Event::Promiscuous(true));
    assert_eq!(actions(&mut m), [Action::List]);
    m.handle_event(at(1), Event::Exists(group(5)));
    m.handle_event(at(1), Event::Listed(Ok(())));
    assert_eq!(actions(&mut m), [join(5, Roles::NON, Some(7))]);
    m.handle_event(at(1), refused(5, Roles::NON));
    assert_eq!(actions(&mut m), [Action::Failed { group: group(5), role: Roles::NON, again: true }]);
}

#[test]
fn packets_for_a_group_nobody_created_go_to_the_routers() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    m.resolve(group(6), |_| false).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, None), join(6, Roles::SEND_ONLY, None)]);
    m.handle_event(at(0), refused(5, Roles::SEND_ONLY));
    m.handle_event(at(0), refused(6, Roles::SEND_ONLY));
    assert_eq!(actions(&mut m), [join(2, Roles::SEND_ONLY, None)]);
    m.handle_event(at(0), granted(2, Roles::SEND_ONLY, 9));
    let stand_in = |n| {
        let resolved = Resolved { info: 9, refresh: Some(Duration::from_secs(30)) };
        Action::Resolved(group(n).canonical(), Ok(resolved))
    };
    assert_eq!(actions(&mut m), [stand_in(5), stand_in(6)]);
    assert_eq!(m.len(), 1);
}

#[test]
fn without_routers_the_sender_is_refused() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), refused(5, Roles::SEND_ONLY));
    actions(&mut m);
    m.handle_event(at(0), refused(2, Roles::SEND_ONLY));
    assert_eq!(actions(&mut m), [Action::Resolved(group(5).canonical(), Err(JoinError::Refused))]);
    assert!(m.is_empty());
}

#[test]
fn a_sender_that_also_wants_to_hear_becomes_a_full_member() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::SEND_ONLY, 7));
    actions(&mut m);
    m.want(group(5)).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, Some(7))]);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.unwant(group(5));
    let roles = Roles::FULL.and(Roles::SEND_ONLY);
    assert_eq!(
        actions(&mut m),
        [Action::Leave { group: group(5), roles, counted: roles, joins: 2, info: Some(7) }]
    );
}

#[test]
fn stopping_leaves_everything_and_starting_again_brings_it_back() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    m.resolve(group(6), |_| false).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.handle_event(at(0), Event::Stop);
    let leave =
        Action::Leave { group: group(5), roles: Roles::FULL, counted: Roles::FULL, joins: 1, info: Some(7) };
    let down = Action::Resolved(group(6).canonical(), Err(JoinError::LinkDown));
    assert_eq!(actions(&mut m), [down, leave]);
    m.handle_event(at(1), granted(6, Roles::SEND_ONLY, 8));
    m.handle_event(at(1), Event::Left(group(5), Left::Confirmed));
    let late = Action::Leave {
        group: group(6),
        roles: Roles::SEND_ONLY,
        counted: Roles::SEND_ONLY,
        joins: 1,
        info: Some(8),
    };
    assert!(actions(&mut m).contains(&late));
    m.handle_event(at(1), Event::Left(group(6), Left::Confirmed));
    assert!(m.is_idle());
    m.handle_event(at(2), Event::Up(SCOPE, PKEY));
    assert!(actions(&mut m).contains(&join(5, Roles::FULL, None)));
}

#[test]
fn a_group_that_was_deleted_is_joined_again_by_who_hears_it() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.handle_event(at(1), Event::Gone(group(5)));
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, Some(7))]);
}

#[test]
fn a_full_membership_is_verified_from_time_to_time() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.handle_timeout(at(900));
    assert_eq!(actions(&mut m), [join(5, Roles::FULL, Some(7))]);
}

#[test]
fn promiscuous_mode_hears_the_partitions_groups_and_no_others() {
    let mut m = up(8);
    m.handle_event(at(0), Event::Promiscuous(true));
    assert_eq!(actions(&mut m), [Action::List]);
    let elsewhere = Mgid::ipv4([224, 0, 0, 9], SCOPE, PKey::new(0x8002).unwrap());
    let sa_made = Mgid::new(Gid { prefix: 0xff12_a01b_fe80_0000, guid: 7 }).unwrap();
    for found in [group(5), elsewhere, sa_made, Mgid::broadcast(SCOPE, PKEY)] {
        m.handle_event(at(0), Event::Exists(found));
    }
    m.handle_event(at(0), Event::Listed(Ok(())));
    assert_eq!(actions(&mut m), [join(5, Roles::NON, None)]);
    m.handle_event(at(0), granted(5, Roles::NON, 7));
    m.handle_event(at(1), Event::Promiscuous(false));
    assert_eq!(
        actions(&mut m),
        [Action::Leave { group: group(5), roles: Roles::NON, counted: Roles::NON, joins: 1, info: Some(7) }]
    );
}

/// A group that promiscuous mode has just asked to hear.
fn eavesdropping() -> Machine {
    let mut m = up(8);
    m.handle_event(at(0), Event::Promiscuous(true));
    assert_eq!(actions(&mut m), [Action::List]);
    m.handle_event(at(0), Event::Exists(group(5)));
    m.handle_event(at(0), Event::Listed(Ok(())));
    assert_eq!(actions(&mut m), [join(5, Roles::NON, None)]);
    m
}

#[test]
fn a_refusal_older_than_the_group_is_followed_by_another_join() {
    let mut m = eavesdropping();
    m.handle_event(at(1), Event::Gone(group(5)));
    m.handle_event(at(1), Event::Exists(group(5)));
    m.handle_event(at(1), refused(5, Roles::NON));
    assert_eq!(actions(&mut m), [join(5, Roles::NON, None)]);
    m.handle_event(at(2), refused(5, Roles::NON));
    assert!(!actions(&mut m).iter().any(|action| matches!(action, Action::Join { .. })));
}

#[test]
fn a_sender_is_not_redirected_for_a_refusal_older_than_the_group() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, None)]);
    m.handle_event(at(1), Event::Exists(group(5)));
    m.handle_event(at(1), refused(5, Roles::SEND_ONLY));
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, None)]);
    m.handle_event(at(1), granted(5, Roles::SEND_ONLY, 7));
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
}

/// The report that a group was deleted may be older than the membership.
#[test]
fn a_leave_that_fails_after_a_report_that_the_group_was_deleted_is_repeated() {
    let mut m = up(8);
    m.resolve(group(5), |_| false).unwrap();
    assert_eq!(actions(&mut m), [join(5, Roles::SEND_ONLY, None)]);
    m.handle_event(at(1), granted(5, Roles::SEND_ONLY, 7));
    assert_eq!(actions(&mut m), [resolved(5, 7)]);
    m.handle_event(at(2), Event::Gone(group(5)));
    let leave = |counted, joins| Action::Leave {
        group: group(5),
        roles: Roles::SEND_ONLY,
        counted,
        joins,
        info: Some(7),
    };
    assert_eq!(actions(&mut m), [Action::Forget(group(5).canonical()), leave(Roles::SEND_ONLY, 1)]);
    m.handle_event(at(2), Event::Left(group(5), Left::Unconfirmed(Roles::SEND_ONLY)));
    assert_eq!(actions(&mut m), []);
    m.handle_timeout(at(60));
    assert_eq!(actions(&mut m), [leave(Roles::NONE, 0)]);
}

#[test]
fn a_join_granted_before_the_group_was_deleted_is_repeated() {
    let mut m = eavesdropping();
    m.handle_event(at(1), Event::Gone(group(5)));
    m.handle_event(at(1), granted(5, Roles::NON, 7));
    assert_eq!(actions(&mut m), [join(5, Roles::NON, Some(7))]);
}

#[test]
fn promiscuous_mode_asks_again_for_a_group_about_which_nobody_answers_and_tells_it_once() {
    let mut m = eavesdropping();
    let unanswered = || Event::Joined(group(5), Roles::NON, Err(JoinError::Unanswered));
    m.handle_event(at(0), unanswered());
    let told = Action::Failed { group: group(5), role: Roles::NON, again: false };
    assert_eq!(actions(&mut m), [told]);
    m.handle_timeout(at(1));
    assert_eq!(actions(&mut m), [join(5, Roles::NON, None)]);
    m.handle_event(at(1), unanswered());
    assert_eq!(actions(&mut m), []);
}

#[test]
fn a_failed_listing_is_repeated() {
    let mut m = up(8);
    m.handle_event(at(0), Event::Promiscuous(true));
    actions(&mut m);
    m.handle_event(at(0), Event::Listed(Err(JoinError::Unanswered)));
    assert_eq!(actions(&mut m), []);
    m.handle_timeout(at(1));
    assert_eq!(actions(&mut m), [Action::List]);
}

#[test]
fn senders_leave_room_for_groups_the_mac_layer_wants() {
    let mut m = up(4);
    for n in 3..9 {
        let _ = m.resolve(group(n), |_| false);
    }
    assert_eq!(m.len(), 3);
    assert_eq!(m.resolve(group(9), |_| false), Err(JoinError::NoRoom));
    assert_eq!(m.want(group(9)), Ok(()));
    assert_eq!(m.want(group(10)), Err(JoinError::NoRoom));
}

#[derive(Clone, Debug)]
enum Step {
    Want(u8),
    Unwant(u8),
    Resolve(u8),
    Link(u8),
    Promiscuous(bool),
    Answer(usize, u8),
    Exists(u8),
    Gone(u8),
    Sleep(u64),
    Poll(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 1u8..7;
    prop_oneof![
        3 => n.clone().prop_map(Step::Want),
        2 => n.clone().prop_map(Step::Unwant),
        4 => n.clone().prop_map(Step::Resolve),
        2 => (0u8..11).prop_map(Step::Link),
        1 => any::<bool>().prop_map(Step::Promiscuous),
        8 => (0usize..8, 0u8..10).prop_map(|(i, a)| Step::Answer(i, a)),
        1 => n.clone().prop_map(Step::Exists),
        1 => n.prop_map(Step::Gone),
        2 => (0u64..1000).prop_map(Step::Sleep),
        6 => (1usize..20).prop_map(Step::Poll),
    ]
}

/// What the SA says from now on, by kind of question, as for [`Step::Answer`].
#[derive(Clone, Debug)]
struct Says {
    full: u8,
    non: u8,
    send_only: u8,
    leave: u8,
    list: u8,
    /// The groups that a list has.
    listed: Vec<u8>,
    /// Those that somebody sends to meanwhile.
    sent_to: Vec<u8>,
}

fn says() -> impl Strategy<Value = Says> {
    let groups = || prop::collection::vec(1u8..7, 0..6);
    (prop::array::uniform5(0u8..8), groups(), groups()).prop_map(
        |([full, non, send_only, leave, list], listed, sent_to)| Says {
            full,
            non,
            send_only,
            leave,
            list,
            listed,
            sent_to,
        },
    )
}

/// IBTF and SA as the machine sees them: what is joined, what is out, who asked.
struct World {
    machine: Machine,
    now: Instant,
    wanted: BTreeMap<Mgid, u32>,
    asked: BTreeSet<Mgid>,
    /// Those of them that were told meanwhile to forget what they know: they ask again when they are answered.
    overtaken: BTreeSet<Mgid>,
    /// Which way senders know to a group, but for stand-ins.
    remembered: BTreeMap<Mgid, u32>,
    /// Joins out; two of a group once the machine has given the first one up.
    joining: Vec<(Mgid, Roles)>,
    /// Leaves out: all roles, those that are counted, and joins.
    leaving: BTreeMap<Mgid, (Roles, Roles, u32)>,
    listing: bool,
    /// Joins that IBTF counts, and their roles.
    counted: BTreeMap<Mgid, (u32, Roles)>,
    /// In which roles the SA has the port.
    members: BTreeMap<Mgid, Roles>,
}

const CAPACITY: usize = 6;

/// Of the answers to a join: the SA grants it, and what it says is lost.
const GRANTED_IN_VAIN: u8 = 6;
const NOT_ASKED: u8 = 7;
const OUTDATED: u8 = 8;
const UNLIKE: u8 = 9;
/// The SA grants it, and the adapter has no place for it.
const NOT_ATTACHED: u8 = 2;

impl World {
    fn new() -> Self {
        Self {
            machine: {
                let mut machine = machine(CAPACITY);
                machine.set_patience(Some(Duration::from_secs(300)), 2);
                machine
            },
            now: Instant::ZERO,
            wanted: BTreeMap::new(),
            asked: BTreeSet::new(),
            overtaken: BTreeSet::new(),
            remembered: BTreeMap::new(),
            joining: Vec::new(),
            leaving: BTreeMap::new(),
            listing: false,
            counted: BTreeMap::new(),
            members: BTreeMap::new(),
        }
    }

    fn event(&mut self, event: Event<u32>) {
        if matches!(event, Event::Down | Event::Stop) {
            self.remembered.clear();
        }
        self.machine.handle_event(self.now, event);
    }

    fn link(&mut self, n: u8) {
        let event = match n {
            0 | 1 => Event::Up(SCOPE, PKEY),
            2 => Event::Down,
            3 => Event::Renew,
            // A manager that starts anew knows nobody.
            6 => {
                self.members.clear();
                Event::Renew
            }
            4 => Event::Deaf(group(3)),
            7 => Event::Displaced(group(2)),
            8 => Event::PlaceWanted,
            9 | 10 => return self.machine.set_doubt(self.now, n == 9),
            _ => Event::Stop,
        };
        self.event(event);
    }

    fn resolve(&mut self, n: u8) {
        self.resolve_again(group(n).canonical());
    }

    fn resolve_again(&mut self, group: Mgid) {
        if self.machine.resolve(group, |_| false).is_ok() {
            self.asked.insert(group);
        }
    }

    fn answer(&mut self, index: usize, answer: u8) {
        if self.listing && index == 0 {
            self.listing = false;
            let result = if answer == 0 { Err(JoinError::Unanswered) } else { Ok(()) };
            return self.event(Event::Listed(result));
        }
        let out = self.joining.len() + self.leaving.len();
        let Some(index) = index.checked_rem(out) else { return };
        if index < self.joining.len() {
            let (group, role) = self.joining.remove(index);
            let result = match answer {
                0 => Err(JoinError::Refused),
                1 | GRANTED_IN_VAIN => Err(JoinError::Unanswered),
                NOT_ASKED => Err(JoinError::NotAsked),
                OUTDATED => Err(JoinError::Outdated),
                UNLIKE => Err(JoinError::Unlike),
                n => Ok(Joined { info: u32::from(n % 2), attached: n != NOT_ATTACHED }),
            };
            if result.is_ok() {
                let (joins, roles) = self.counted.entry(group).or_default();
                (*joins, *roles) = (*joins + 1, roles.and(role));
            }
            if result.is_ok() || answer == GRANTED_IN_VAIN {
                let roles = self.members.entry(group).or_default();
                *roles = roles.and(role);
            }
            self.event(Event::Joined(group, role, result));
            if role == Roles::NON && answer == NOT_ATTACHED {
                self.event(Event::Displaced(group));
            }
            return;
        }
        let group = *self.leaving.keys().nth(index - self.joining.len()).unwrap();
        let (roles, counted, joins) = self.leaving.remove(&group).unwrap();
        let end = match answer {
            0 => Left::NotAsked,
            // What the SA answers is lost.
            1 => {
                self.leave(group, roles, counted, joins);
                Left::Unconfirmed(roles)
            }
            _ => self.leave(group, roles, counted, joins),
        };
        self.event(Event::Left(group, end));
    }

    /// All joins are undone at once, which asks the SA to end what is counted, and then each other role by itself.
    fn leave(&mut self, group: Mgid, roles: Roles, counted: Roles, joins: u32) -> Left {
        if joins > 0 {
            self.counted.remove(&group);
            if !self.end(group, counted) {
                return Left::Unconfirmed(roles);
            }
        }
        let others = [Roles::FULL, Roles::NON, Roles::SEND_ONLY];
        let others = others.into_iter().filter(|role| roles.without(counted).contains(*role));
        let refused: Vec<Roles> = others.filter(|role| !self.end(group, *role)).collect();
        match refused.into_iter().fold(Roles::NONE, Roles::and) {
            Roles::NONE => Left::Confirmed,
            roles => Left::Unconfirmed(roles),
        }
    }

    /// The SA refuses to end what it does not know.
    fn end(&mut self, group: Mgid, roles: Roles) -> bool {
        let Some(has) = self.members.get_mut(&group).filter(|has| has.contains(roles)) else { return false };
        *has = has.without(roles);
        true
    }

    fn poll(&mut self) -> bool {
        match self.machine.poll_action(self.now) {
            None => return false,
            Some(Action::Join { group, role, .. }) => {
                assert!(!self.machine.is_in_doubt(), "a join in doubt: {group:?}");
                assert!(!self.leaving.contains_key(&group), "join while a leave is out: {group:?}");
                let others = self.joining.iter().filter(|(other, _)| *other == group).count();
                assert!(others <= 1, "three joins out: {group:?}");
                self.joining.push((group, role));
            }
            Some(Action::Leave { group, roles, counted, joins, .. }) => {
                assert!(
                    self.joining.iter().all(|(other, _)| *other != group),
                    "leave while a join is out: {group:?}"
                );
                assert_eq!(
                    (joins, counted),
                    self.counted.get(&group).copied().unwrap_or_default(),
                    "{group:?}"
                );
                assert!(
                    self.leaving.insert(group, (roles, counted, joins)).is_none(),
                    "two leaves out: {group:?}"
                );
            }
            Some(Action::List) => assert!(!core::mem::replace(&mut self.listing, true)),
            Some(Action::Resolved(group, result)) => {
                assert!(self.asked.remove(&group), "nobody asked for {group:?}");
                match result {
                    _ if self.overtaken.remove(&group) => self.resolve_again(group),
                    Ok(Resolved { info, refresh: None }) => {
                        self.remembered.insert(group, info);
                    }
                    Ok(_) | Err(_) => {
                        self.remembered.remove(&group);
                    }
                }
            }
            Some(Action::Forget(group)) => {
                self.remembered.remove(&group);
                if self.asked.contains(&group) {
                    self.overtaken.insert(group);
                }
            }
            Some(Action::ForgetAll) => {
                self.remembered.clear();
                self.overtaken.extend(&self.asked);
            }
            Some(Action::Failed { .. } | Action::Full | Action::Misses(_)) => {}
            // Its owner has time.
            Some(Action::Owe { group, roles, counted, joins, .. }) => {
                assert_eq!((joins, counted), self.counted.remove(&group).unwrap_or_default(), "{group:?}");
                let members = self.members.entry(group).or_default();
                *members = members.without(roles);
            }
        }
        true
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Want(n) => {
                if self.machine.want(group(n)).is_ok() {
                    *self.wanted.entry(group(n)).or_default() += 1;
                }
            }
            Step::Unwant(n) => {
                self.machine.unwant(group(n));
                if let Some(times) = self.wanted.get_mut(&group(n)) {
                    *times -= 1;
                    self.wanted.retain(|_, times| *times > 0);
                }
            }
            Step::Resolve(n) => self.resolve(n),
            Step::Link(n) => self.link(n),
            Step::Promiscuous(on) => self.event(Event::Promiscuous(on)),
            Step::Answer(index, answer) => self.answer(index, answer),
            Step::Exists(n) => self.event(Event::Exists(group(n))),
            Step::Gone(n) => {
                self.members.remove(&group(n));
                self.event(Event::Gone(group(n)));
            }
            Step::Sleep(seconds) => {
                self.now = self.now + Duration::from_secs(seconds);
                self.machine.handle_timeout(self.now);
            }
            Step::Poll(times) => {
                for _ in 0..times {
                    self.poll();
                }
            }
        }
        assert!(self.machine.len() <= CAPACITY);
        assert_eq!(operations_out(&self.machine), self.joining.len() + self.leaving.len());
        assert!(operations_out(&self.machine) <= 2 * 3);
    }

    /// Every request gets the answer of its kind until the machine waits for time to pass, or for nothing. Whoever sends to a group asks
    /// for it until he is answered.
    fn answer_all(&mut self, says: &Says) {
        let mut senders = says.sent_to.clone();
        for round in 0.. {
            assert!(round < 200, "it asks as fast as it is answered");
            senders.drain(..).for_each(|n| self.resolve(n));
            while self.poll() {}
            if self.listing {
                says.listed
                    .iter()
                    .filter(|_| says.list != 0)
                    .for_each(|n| self.event(Event::Exists(group(*n))));
                self.answer(0, says.list);
            } else if let Some((_, role)) = self.joining.first() {
                let answer = match *role {
                    Roles::FULL => says.full,
                    Roles::NON => says.non,
                    _ => says.send_only,
                };
                self.answer(0, answer);
            } else if !self.leaving.is_empty() {
                self.answer(0, says.leave);
            } else {
                return;
            }
        }
    }

    /// Every request is granted until the machine comes to rest, and has nothing to repeat after a pause.
    fn heal(&mut self) {
        self.machine.set_doubt(self.now, false);
        let mut pauses = 0;
        for round in 0.. {
            assert!(round < 200, "the machine does not come to rest");
            while self.poll() {}
            match (self.joining.len() + self.leaving.len(), self.listing) {
                (_, true) => self.answer(0, 5),
                (0, false) if pauses == 3 => return,
                (0, false) => {
                    self.now = self.now + Duration::from_secs(60);
                    self.machine.handle_timeout(self.now);
                    pauses += 1;
                }
                (_, false) => self.answer(1, 5),
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::cases(2_000))]

    #[test]
    fn everything_wanted_is_joined_and_everybody_answered_once_the_sa_grants(
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.event(Event::Up(SCOPE, PKEY));
        world.heal();
        for group in world.wanted.keys() {
            prop_assert!(world.machine.hears(*group), "{group:?} is wanted and not heard");
        }
        prop_assert!(world.asked.is_empty(), "never answered: {:?}", world.asked);
    }

    #[test]
    fn what_senders_remember_of_a_group_is_how_it_was_joined_last(steps in prop::collection::vec(step(), 0..150)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.event(Event::Up(SCOPE, PKEY));
        world.heal();
        for (group, info) in &world.remembered {
            let known = world.machine.table.find(group).and_then(|id| world.machine.table.get(id));
            let held = known.and_then(|known| known.held.as_ref()).and_then(|held| held.info);
            prop_assert_eq!(held, Some(*info), "{:?}", group);
        }
    }

    #[test]
    fn whatever_the_sa_says_it_is_not_asked_again_without_a_pause(
        steps in prop::collection::vec(step(), 0..150),
        says in says(),
    ) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.answer_all(&says);
    }

    #[test]
    fn nothing_is_left_joined_after_a_stop_and_nothing_wanted_is_forgotten(
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.event(Event::Promiscuous(false));
        world.event(Event::Stop);
        world.heal();
        prop_assert!(world.machine.is_idle());
        prop_assert!(world.counted.is_empty(), "still counted: {:?}", world.counted);
        prop_assert!(world.members.values().all(|roles| *roles == Roles::NONE), "still members: {:?}", world.members);
        prop_assert_eq!(world.machine.len(), world.wanted.len());
        prop_assert!(world.asked.is_empty(), "never answered: {:?}", world.asked);
    }
}

#[test]
fn joins_that_nobody_could_be_asked_to_undo_are_undone_later() {
    let mut m = up(8);
    m.want(group(5)).unwrap();
    actions(&mut m);
    m.handle_event(at(0), granted(5, Roles::FULL, 7));
    m.handle_event(at(1), Event::Renew);
    actions(&mut m);
    m.handle_event(at(1), granted(5, Roles::FULL, 7));
    m.unwant(group(5));
    let leave =
        Action::Leave { group: group(5), roles: Roles::FULL, counted: Roles::FULL, joins: 2, info: Some(7) };
    assert_eq!(actions(&mut m).as_slice(), core::slice::from_ref(&leave));
    m.handle_event(at(2), Event::Left(group(5), Left::NotAsked));
    actions(&mut m);
    m.handle_timeout(at(100));
    assert_eq!(actions(&mut m), [leave], "not one: IBTF counts both");
}

/// One that is in three groups and stops.
fn stopped_in_three() -> Machine {
    let mut m = up(8);
    for n in [5, 6, 7] {
        m.want(group(n)).unwrap();
        actions(&mut m);
        m.handle_event(at(0), granted(n, Roles::FULL, 7));
    }
    m.handle_event(at(1), Event::Stop);
    m
}

fn owe(n: u8, counted: Roles, joins: u32) -> Action<u32> {
    Action::Owe { group: group(n), roles: Roles::FULL, counted, joins, info: Some(7) }
}

/// Before, a leave that was not answered was repeated twice, for each group, while the deletion of the link waited.
#[test]
fn a_stop_makes_one_leave_and_owes_what_it_did_not_end() {
    let mut m = stopped_in_three();
    assert_eq!(actions(&mut m).len(), 3);
    m.handle_event(at(60), Event::Left(group(5), Left::Unconfirmed(Roles::FULL)));
    m.handle_event(at(60), Event::Left(group(6), Left::NotAsked));
    m.handle_event(at(60), Event::Left(group(7), Left::Confirmed));
    assert_eq!(actions(&mut m), [owe(5, Roles::NONE, 0), owe(6, Roles::FULL, 1)]);
    assert!(m.is_idle());
    m.handle_event(at(61), Event::Up(SCOPE, PKEY));
    assert_eq!(actions(&mut m).len(), 3, "they are wanted as before");
}

#[test]
fn a_stopped_machine_without_time_owes_what_is_not_being_left() {
    let mut m = stopped_in_three();
    assert!(matches!(m.poll_action(at(1)), Some(Action::Leave { .. })));
    let owed: Vec<Action<u32>> = core::iter::from_fn(|| m.hand_over()).collect();
    assert_eq!(owed, [owe(6, Roles::FULL, 1), owe(7, Roles::FULL, 1)]);
    assert!(actions(&mut m).is_empty() && !m.is_idle(), "one leave is out");
    assert!(m.waits_for_answers_alone() && m.held() == 1);
    m.handle_event(at(2), Event::Left(group(5), Left::Unconfirmed(Roles::FULL)));
    assert_eq!(m.hand_over(), Some(owe(5, Roles::NONE, 0)));
    assert!(m.is_idle());
}

#[test]
fn a_machine_that_runs_hands_nothing_over() {
    let mut m = stopped_in_three();
    m.handle_event(at(2), Event::Up(SCOPE, PKEY));
    assert_eq!(m.hand_over(), None);
}
