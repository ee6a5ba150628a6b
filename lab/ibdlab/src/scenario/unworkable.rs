//! What each part of a scenario allows by itself, and no run can do together, is refused when it is read.

use std::path::Path;

use super::parse;
use super::refusals::{GOOD, PING, refusal};

/// Before, statistics and capture were compared all the same, and a sound driver failed.
#[test]
fn counts_behind_what_makes_statistics_and_wire_differ_is_refused() {
    let behind = |step: &str| refusal(PING, &format!("{step}\n[[step]]\ncounts = {{}}"));
    for (step, expected) in [
        (
            "sm-restart = { away_ms = 100, breaks = \"a\" }",
            "14: `counts` cannot stand behind `sm-restart` with `breaks`: a driver counts what its adapter took and never sent",
        ),
        (
            "trouble = { within_ms = 9, event = [{ at_us = 1, qp-breaks = { host = \"a\" } }] }",
            "14: `counts` cannot stand behind `trouble` with `qp-breaks`: a driver counts",
        ),
        (
            "trouble = { within_ms = 9, event = [{ at_us = 1, subnet-prefix = { prefix = 1 } }] }",
            "14: `counts` cannot stand behind `trouble` with `subnet-prefix`: a port takes",
        ),
        (
            "trouble = { within_ms = 9, event = [{ at_us = 1, unload = { host = \"a\" } }] }",
            "14: `counts` cannot stand behind `trouble` with `unload`: a host's statistics begin anew",
        ),
        (
            "unload-under-traffic = { host = \"a\", within_ms = 9 }",
            "14: `counts` cannot stand behind `unload-under-traffic`: a host's statistics begin anew",
        ),
    ] {
        let message = behind(step);
        assert!(message.starts_with(expected), "{step}: {message}\nshould start with\n{expected}");
    }
    for step in [
        "sm-restart = { away_ms = 100 }",
        "flap = { host = \"a\", down_ms = 100, breaks = \"b\" }",
        "trouble = { within_ms = 9, event = [{ at_us = 1, port-down = { host = \"a\" } }] }",
    ] {
        let message = behind(step);
        assert!(message.starts_with("accepted"), "{step}: {message}");
    }
}

/// Places for groups of an adapter, and the step that needs one more. Before, the run went on for minutes and said what was not heard.
#[test]
fn an_adapter_without_places_for_the_groups_of_a_step_is_refused() {
    let refused = |groups: u32, step: &str| {
        let text = GOOD.replacen("name = \"b\"", &format!("name = \"b\"\ngroups = {groups}"), 1);
        let read = parse(Path::new("s"), &text.replacen(PING, step, 1));
        read.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (step, name, needed) in [
        ("up = {}", "up", 1),
        ("turns = { group = \"ff15::7\" }", "turns", 5),
        ("multicast = { from = \"a\", to = \"b\", group = \"239.1.1.1\", count = 3 }", "multicast", 5),
        ("sm-restart = { away_ms = 100 }", "sm-restart", 5),
        ("trouble = { within_ms = 10, event = [] }", "trouble", 6),
    ] {
        let expected = format!(
            "s:10: `b` has `groups = {}`, and `{name}` needs {needed}: what has no place is not heard",
            needed - 1
        );
        assert_eq!(refused(needed - 1, step), expected);
        assert_eq!(refused(needed, step), "");
    }
    assert_eq!(refused(1, PING), "");
}
