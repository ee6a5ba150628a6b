//! What each part of a scenario allows by itself, and no run can do together, is refused when it is read.

use super::refusals::{PING, refusal};

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
