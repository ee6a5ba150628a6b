//! Subnet notices.

use sm::fault::FaultAction;
use sm::{Attribute, Status};

use crate::bench::{Bench, Side, with};

const MCG_CREATED: i64 = 1;
const MCG_DELETED: i64 = 2;
const AVAILABLE: i64 = 3;
const UNAVAILABLE: i64 = 4;
const GID_AVAIL: i64 = 5;
const GID_UNAVAIL: i64 = 6;

/// What was heard so far, sorted: the order of notices is not kept.
fn heard(side: &Side) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = (0..side.ask("probe_heard", 0))
        .map(|n| (side.ask("probe_code", n), side.ask("probe_subject_guid", n)))
        .collect();
    side.run("probe_forget", 0);
    all.sort_unstable();
    all
}

fn settled(b: &Bench) -> Vec<(i64, i64)> {
    b.settle();
    heard(&b.alpha)
}

const GROUP: i64 = 0x0e00_0007;

#[test]
fn groups_that_come_and_go_elsewhere_are_heard_of_under_the_own_port() {
    with("notices").holds(|b| {
        b.alpha.run("probe_listen", 1);
        b.beta.run("probe_join", 7);
        b.settle();
        b.alpha.run("probe_is_from_own_port", 0);
        assert_eq!(heard(&b.alpha), [(MCG_CREATED, GROUP)]);
        b.alpha.run("probe_join", 7);
        assert_eq!(settled(b), [], "it has a full member already");
        b.beta.run("probe_leave", 7);
        assert_eq!(settled(b), []);
        b.alpha.run("probe_leave", 7);
        assert_eq!(settled(b), [(MCG_DELETED, GROUP)]);
    });
}

#[test]
fn ports_that_come_and_go_are_heard_of_with_the_groups_they_took_along() {
    with("notices").holds(|b| {
        b.beta.run("probe_join", 7);
        b.settle();
        b.alpha.run("probe_listen", 1);
        b.world.set_cable(b.beta.port(), false);
        assert_eq!(settled(b), [(MCG_DELETED, GROUP), (GID_UNAVAIL, b.beta.guid())]);
        b.world.set_cable(b.beta.port(), true);
        assert_eq!(settled(b), [(GID_AVAIL, b.beta.guid())]);
    });
}

#[test]
fn a_port_whose_subscriptions_fail_is_unavailable_until_they_stand_again() {
    with("notices").holds(|b| {
        b.alpha.run("probe_listen", 1);
        assert_eq!(settled(b), [], "available is assumed and not told");
        b.fault(Attribute::INFORM_INFO, 8, FaultAction::Refuse(Status::NO_RESOURCES));
        b.sm.restart(sm::Lid(0xc000));
        assert_eq!(settled(b), [(UNAVAILABLE, 0)]);
        b.alpha.run("probe_listen", 1);
        assert_eq!(settled(b), [(UNAVAILABLE, 0)], "a new listener is told");
        b.sm.restart(sm::Lid(0xc000));
        assert_eq!(settled(b), [(AVAILABLE, 0)]);
        b.beta.run("probe_join", 7);
        assert_eq!(settled(b), [(MCG_CREATED, GROUP)]);
    });
}

#[test]
fn who_cancelled_hears_nothing() {
    with("notices").holds(|b| {
        b.alpha.run("probe_listen", 1);
        b.alpha.run("probe_listen", 0);
        b.beta.run("probe_join", 7);
        assert_eq!(settled(b), []);
    });
}

#[test]
fn detach_waits_for_a_notice_that_is_out() {
    with("notices").holds_and_closes(|b| {
        b.alpha.run("probe_listen", 2);
        b.beta.run("probe_join", 7);
        fakekernel::sleep(fakekernel::Nanos::from_millis(100));
        b.alpha.expect("probe_running", 0, 1);
        b.alpha.run("probe_close_hca", 0);
        b.alpha.run("probe_detach", 0);
    });
}
