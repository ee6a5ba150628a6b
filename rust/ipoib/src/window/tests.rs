use std::vec::Vec;

use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A port alone in its driver, which has as many joins out as it may.
struct Port {
    window: Window,
    out: Vec<Call>,
}

impl Port {
    fn new() -> Self {
        Self { window: Window::new(), out: Vec::new() }
    }

    fn fill(&mut self, now: Instant, kind: Kind) -> usize {
        self.fill_beside(now, kind, &[])
    }

    fn fill_beside(&mut self, now: Instant, kind: Kind, others: &[&Window]) -> usize {
        loop {
            let all = others
                .iter()
                .fold(Load::default().with(now, &self.window), |all, other| all.with(now, other));
            if !self.window.admits(now, kind, false, &all) {
                return self.out.len();
            }
            self.out.push(self.window.begin(now, kind).unwrap());
        }
    }

    fn end_first(&mut self, now: Instant, end: End) {
        let first = self.out.remove(0);
        self.window.end(now, first, end);
    }

    /// The window of a port that answers.
    fn trusted() -> Self {
        let mut port = Self::new();
        for _ in FIRST..MOST {
            port.fill(at(0), Kind::Group);
            port.end_first(at(1), End::Answered);
        }
        while !port.out.is_empty() {
            port.end_first(at(1), End::Answered);
        }
        port
    }
}

#[test]
fn a_port_begins_with_four_calls_and_has_one_more_out_for_each_answer_until_there_are_eight() {
    let mut port = Port::new();
    for most in FIRST..=MOST {
        assert_eq!(port.fill(at(10), Kind::Group), most);
        port.end_first(at(20), End::Answered);
    }
    assert_eq!(port.fill(at(20), Kind::Group), MOST, "and never more");
}

#[test]
fn a_port_is_back_at_four_as_soon_as_a_call_is_out_for_more_than_a_second() {
    let mut port = Port::trusted();
    assert_eq!(port.fill(at(10), Kind::Group), MOST);
    assert_eq!(port.window.limit(at(1_010)), MOST, "exactly a second is in time");
    assert_eq!(port.window.limit(at(1_011)), FIRST);
    for left in (FIRST..MOST).rev() {
        port.end_first(at(1_100), End::Answered);
        assert_eq!(port.out.len(), left);
        assert_eq!(port.fill(at(1_100), Kind::Group), left, "as many or more than four are out");
    }
    // The late answers are there; new ones in time have it grow again.
    while !port.out.is_empty() {
        port.end_first(at(1_200), End::Answered);
    }
    assert_eq!(port.fill(at(1_200), Kind::Group), FIRST);
    port.end_first(at(1_300), End::Answered);
    assert_eq!(port.fill(at(1_300), Kind::Group), FIRST + 1);
}

#[test]
fn answers_to_others_do_not_open_the_window_while_one_call_is_late() {
    let mut port = Port::trusted();
    let late = port.window.begin(at(0), Kind::Leave).unwrap();
    for _ in 0..10 {
        port.fill(at(2_000), Kind::Path);
        port.end_first(at(2_010), End::Answered);
        assert_eq!(port.window.limit(at(2_010)), FIRST);
    }
    port.window.end(at(2_020), late, End::Answered);
    assert_eq!(port.window.limit(at(2_020)), FIRST);
}

#[test]
fn calls_that_were_lost_while_the_administrator_was_away_keep_nobody_waiting() {
    for lost in [FIRST, MOST - 1] {
        let mut port = Port::trusted();
        while port.out.len() < lost {
            port.out.push(port.window.begin(at(100), Kind::Path).unwrap());
        }
        // It is back and answers: within the second as many go out as there is room for.
        let answered = port.window.begin(at(500), Kind::Group).unwrap();
        port.window.end(at(510), answered, End::Answered);
        let all = Load::default().with(at(1_200), &port.window);
        assert!(port.window.admits(at(1_200), Kind::Group, true, &all), "{lost} lost");
        assert_eq!(port.window.admits(at(1_200), Kind::Path, true, &all), lost < MOST - 1, "{lost} lost");
        // IBTF has given them up: that it answers was known.
        while !port.out.is_empty() {
            port.end_first(at(4_000), End::Unanswered);
        }
        assert_eq!(port.fill(at(4_000), Kind::Group), MOST);
    }
}

#[test]
fn calls_that_are_late_and_nothing_answered_since_keep_their_places() {
    let mut port = Port::trusted();
    for _ in 0..FIRST {
        port.out.push(port.window.begin(at(100), Kind::Group).unwrap());
    }
    assert_eq!(port.fill(at(1_200), Kind::Group), FIRST);
}

#[test]
fn a_port_that_left_a_call_unanswered_has_one_alone_out_until_it_answers() {
    let mut port = Port::new();
    assert_eq!(port.fill(at(0), Kind::Group), FIRST);
    for _ in 0..FIRST {
        port.end_first(at(60_000), End::Unanswered);
    }
    assert_eq!(port.fill(at(60_000), Kind::Group), 1);
    port.end_first(at(120_000), End::Unanswered);
    assert_eq!(port.fill(at(120_000), Kind::Group), 1);
    port.end_first(at(120_010), End::Answered);
    assert_eq!(port.fill(at(120_010), Kind::Group), FIRST + 1);
}

#[test]
fn a_call_that_was_refused_without_being_asked_says_nothing_of_the_administrator() {
    let mut fresh = Port::new();
    let mut trusted = Port::trusted();
    for (port, most) in [(&mut fresh, FIRST), (&mut trusted, MOST)] {
        assert_eq!(port.fill(at(0), Kind::Group), most);
        for _ in 0..most {
            port.end_first(at(0), End::Unanswered);
        }
        assert_eq!(port.fill(at(1), Kind::Group), most);
    }
}

#[test]
fn a_second_question_of_one_call_has_its_own_second() {
    let mut port = Port::trusted();
    let call = port.window.begin(at(0), Kind::Group).unwrap();
    port.window.again(at(800), &call);
    assert_eq!(port.window.limit(at(1_700)), MOST);
    port.window.end(at(1_700), call, End::Answered);
    assert_eq!(port.window.limit(at(1_700)), MOST);
}

#[test]
fn silent_ports_leave_places_to_one_that_answers_from_the_start() {
    let mut silent = [Port::new(), Port::new(), Port::new()];
    let mut out = 0;
    for n in 0..silent.len() {
        let (before, rest) = silent.split_at_mut(n);
        let (port, after) = rest.split_first_mut().unwrap();
        let others: Vec<&Window> = before.iter().chain(after.iter()).map(|port| &port.window).collect();
        out += port.fill_beside(at(0), Kind::Broadcast, &others);
    }
    assert_eq!(out, FIRST + 2, "four between them, and one each beyond");
    let others: Vec<&Window> = silent.iter().map(|port| &port.window).collect();
    let mut healthy = Port::new();
    assert_eq!(healthy.fill_beside(at(100), Kind::Broadcast, &others), 1);
    healthy.end_first(at(101), End::Answered);
    assert_eq!(healthy.fill_beside(at(101), Kind::Group, &others), MOST - out);
}

#[test]
fn a_port_that_answers_leaves_the_last_place_to_others() {
    let mut busy = Port::trusted();
    let mut other = Port::new();
    assert_eq!(busy.fill_beside(at(0), Kind::Group, &[&other.window]), MOST - 1);
    assert_eq!(other.fill_beside(at(0), Kind::Broadcast, &[&busy.window]), 1);
}

#[test]
fn paths_leave_a_place_to_groups_and_groups_to_a_path_that_waits() {
    let alone = |window: &Window| Load::default().with(at(0), window);
    let mut port = Port::trusted();
    assert_eq!(port.fill(at(0), Kind::Path), MOST - 1);
    assert!(port.window.admits(at(0), Kind::Group, true, &alone(&port.window)));
    assert!(port.window.admits(at(0), Kind::Broadcast, true, &alone(&port.window)));

    let mut port = Port::trusted();
    while port.window.admits(at(0), Kind::Group, true, &alone(&port.window)) {
        port.out.push(port.window.begin(at(0), Kind::Group).unwrap());
    }
    assert_eq!(port.out.len(), MOST - 1);
    assert!(port.window.admits(at(0), Kind::Path, true, &alone(&port.window)));
    assert!(port.window.admits(at(0), Kind::Group, false, &alone(&port.window)), "no path waits");
}

#[test]
fn the_one_call_of_a_silent_port_is_by_turns_a_path_and_something_else_if_both_wait() {
    let mut port = Port::new();
    port.fill(at(0), Kind::Group);
    while !port.out.is_empty() {
        port.end_first(at(60_000), End::Unanswered);
    }
    for minute in 1..5 {
        let now = at(60_000 * minute);
        let all = Load::default().with(now, &port.window);
        let group = port.window.admits(now, Kind::Group, true, &all);
        assert_eq!(group, minute % 2 == 0);
        assert!(
            port.window.admits(now, Kind::Path, true, &all),
            "groups are more urgent when it is their turn"
        );
        let kind = if group { Kind::Group } else { Kind::Path };
        let call = port.window.begin(now, kind).unwrap();
        port.window.end(at(60_000 * (minute + 1)), call, End::Unanswered);
    }
}

#[test]
fn half_of_the_calls_at_most_are_leaves() {
    assert_eq!(Port::new().fill(at(0), Kind::Leave), FIRST / 2);
    assert_eq!(Port::trusted().fill(at(0), Kind::Leave), MOST / 2);
}

/// Whatever happens, the bounds hold, and a driver with anything to ask and nothing out may ask.
#[test]
fn no_course_of_events_exceeds_the_bounds_or_ends_with_nobody_admitted() {
    let mut seed = 7_u64;
    let mut draw = move |below: usize| {
        seed = crate::table::mix(seed, 3);
        (seed % below as u64) as usize
    };
    let mut ports = [Port::new(), Port::new(), Port::new()];
    let mut now = at(0);
    for step in 0..100_000 {
        now = now + Duration::from_millis([0, 1, 30, 700, 61_000][draw(5)]);
        let (n, kind) = (draw(ports.len()), Kind::ALL[draw(Kind::ALL.len())]);
        let all = ports.iter().fold(Load::default(), |all, port| all.with(now, &port.window));
        let port = &mut ports[n];
        if draw(3) == 0 && !port.out.is_empty() {
            let end = if draw(3) == 0 { End::Unanswered } else { End::Answered };
            port.end_first(now, end);
        } else if port.window.admits(now, kind, draw(2) == 0, &all) {
            port.out.push(port.window.begin(now, kind).unwrap());
        }
        let out: usize = ports.iter().map(|port| port.window.out()).sum();
        assert!(out <= MOST, "step {step}: {out} out");
        let all = ports.iter().fold(Load::default(), |all, port| all.with(now, &port.window));
        for port in ports.iter().filter(|port| port.out.is_empty() && out < MOST) {
            assert!(Kind::ALL.iter().any(|kind| port.window.admits(now, *kind, true, &all)), "step {step}");
        }
    }
}

#[test]
fn whoever_waits_for_a_place_is_told_when_a_call_that_was_overtaken_makes_one_by_its_age() {
    let mut port = Port::new();
    let all = |port: &Port, now| Load::default().with(now, &port.window);
    let first = port.window.begin(at(10), Kind::Group).unwrap();
    port.fill(at(20), Kind::Group);
    assert_eq!(port.window.next_lost(at(25)), None, "nothing was answered");
    port.fill(at(30), Kind::Group);
    let answered = port.out.remove(2);
    port.window.end(at(40), answered, End::Answered);
    port.fill(at(50), Kind::Group);
    assert!(!port.window.admits(at(1_000), Kind::Group, false, &all(&port, at(1_000))));
    let lost = port.window.next_lost(at(1_000)).unwrap();
    assert!(lost > at(1_010) && lost < at(1_011), "the one that began first");
    assert!(!port.window.is_lost(at(1_010), &Out { kind: Kind::Group, since: at(10) }));
    assert!(port.window.is_lost(lost, &Out { kind: Kind::Group, since: at(10) }));
    assert_eq!(port.window.next_lost(at(2_000)), None, "whatever was overtaken is lost");
    port.window.end(at(2_000), first, End::Unanswered);
}

/// What links that are gone owe has half of the places, whatever is known of the administrator.
#[test]
fn debts_have_half_of_the_places_at_most() {
    let mut doubtful = Port::new();
    assert_eq!(doubtful.fill(at(10), Kind::Owed), FIRST / 2);
    let mut answers = Port::trusted();
    assert_eq!(answers.fill(at(10), Kind::Owed), MOST / 2);
    let mut silent = Port::new();
    silent.fill(at(10), Kind::Group);
    while !silent.out.is_empty() {
        silent.end_first(at(30_000), End::Unanswered);
    }
    assert_eq!(silent.fill(at(30_000), Kind::Owed), 1);
}

/// A link that comes up finds all places of its port, however many debts are out. Before the mend the debts of a port that had not answered
/// yet counted among the four calls that such ports have together: two of them left two places.
#[test]
fn debts_take_no_place_from_what_a_link_asks() {
    for kind in [Kind::Broadcast, Kind::Group] {
        let mut port = Port::new();
        let owed = port.fill(at(10), Kind::Owed);
        assert_eq!(port.fill(at(10), kind), owed + FIRST, "{kind:?}");
    }
    let mut silent = Port::new();
    silent.fill(at(10), Kind::Group);
    while !silent.out.is_empty() {
        silent.end_first(at(30_000), End::Unanswered);
    }
    assert_eq!(silent.fill(at(30_000), Kind::Owed), 1);
    assert_eq!(silent.fill(at(30_000), Kind::Broadcast), 2);
}

#[test]
fn a_debt_waits_for_a_path_and_for_a_free_place() {
    let mut port = Port::new();
    let alone = |port: &Port| Load::default().with(at(10), &port.window);
    assert!(!port.window.admits(at(10), Kind::Owed, true, &alone(&port)), "a path waits");
    assert!(port.window.admits(at(10), Kind::Owed, false, &alone(&port)));
    assert_eq!(port.fill(at(10), Kind::Group), FIRST);
    assert!(!port.window.admits(at(10), Kind::Owed, false, &alone(&port)), "no place is free");
}

/// Before the mend two ports had four debts each out, and no other call of the driver found a place.
#[test]
fn debts_of_several_ports_leave_half_of_all_places() {
    let (mut one, mut other) = (Port::trusted(), Port::trusted());
    assert_eq!(one.fill(at(10), Kind::Owed), MOST / 2);
    assert_eq!(other.fill_beside(at(10), Kind::Owed, &[&one.window]), 0);
    assert_eq!(other.fill_beside(at(10), Kind::Group, &[&one.window]), MOST / 2);
}

/// A port whose debts are out has its one place although other ports that do not answer have theirs.
#[test]
fn a_port_with_debts_has_one_call_out_beside_silent_ports() {
    let (mut port, mut silent) = (Port::new(), Port::new());
    port.fill(at(10), Kind::Owed);
    assert_eq!(silent.fill_beside(at(10), Kind::Group, &[&port.window]), FIRST);
    assert_eq!(port.fill_beside(at(10), Kind::Broadcast, &[&silent.window]), FIRST / 2 + 1);
}
