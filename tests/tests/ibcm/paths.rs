//! Paths to ports and groups.

use fakekernel::{FaultKind, FaultPlan, Nanos, Rule, now};
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, with};

const INVALID_PARAM: i64 = 4;
const INSUFF_KERNEL_RESOURCE: i64 = 5;
const INSUFF_DATA: i64 = 11;
const NO_HCAS_AVAILABLE: i64 = 12;
const PATH_RECORDS_NOT_FOUND: i64 = 13;
const HCA_PORT_NOT_ACTIVE: i64 = 206;

/// Whether asking for beta's port reaches the administrator.
fn asks(b: &Bench) -> bool {
    let before = b.requests();
    b.alpha.run("probe_path_to_port", b.beta.guid());
    b.requests() != before
}

#[test]
fn a_path_to_a_port_says_all_an_address_handle_needs() {
    with("paths").holds(|b| {
        b.alpha.run("probe_path_to_port", b.beta.guid());
        b.alpha.run("probe_path_is_complete", b.beta.guid());
        let lid = b
            .world
            .fabric()
            .subnet_ports()
            .iter()
            .find(|view| view.attr.guid == b.beta.port())
            .unwrap()
            .attr
            .lid;
        b.alpha.expect("probe_path_dlid", 0, i64::from(lid.0));
    });
}

#[test]
fn what_is_not_there_is_not_found() {
    with("paths").holds(|b| {
        b.alpha.expect("probe_path_to_port", 0x5555, PATH_RECORDS_NOT_FOUND);
        b.alpha.expect("probe_path_to_another_subnet", b.beta.guid(), PATH_RECORDS_NOT_FOUND);
        b.alpha.expect("probe_path_in_partition", 0x8001, PATH_RECORDS_NOT_FOUND);
        b.alpha.expect("probe_path_from_nowhere", b.beta.guid(), NO_HCAS_AVAILABLE);
        b.alpha.expect("probe_ask_for_two", b.beta.guid(), INSUFF_DATA);
        b.world.set_cable(b.alpha.port(), false);
        b.settle();
        b.alpha.expect("probe_path_to_port", b.beta.guid(), HCA_PORT_NOT_ACTIVE);
    });
}

#[test]
fn what_cannot_be_asked_for_is_refused_without_asking() {
    with("paths").holds(|b| {
        let before = b.requests();
        for wrong in 0..8 {
            b.alpha.expect("probe_ask_badly", wrong, INVALID_PARAM);
        }
        assert_eq!(b.requests(), before);
    });
}

#[test]
fn a_group_is_reached_by_its_members_alone() {
    with("paths").holds(|b| {
        b.alpha.expect("probe_path_to_group", 0, PATH_RECORDS_NOT_FOUND);
        b.alpha.run("probe_join", 0);
        b.alpha.run("probe_path_to_group", 0);
        b.alpha.run("probe_path_to_group_needs_a_grh", 0);
        b.alpha.expect("probe_path_dlid", 0, 0xc000);
        b.alpha.run("probe_leave", 0);
    });
}

#[test]
fn an_answer_is_remembered_for_a_minute_or_until_the_subnet_changes() {
    with("paths").holds(|b| {
        assert!(asks(b));
        assert!(!asks(b));
        fakekernel::sleep(Nanos::from_secs(60));
        assert!(asks(b));
        b.world.set_cable(b.beta.port(), false);
        b.world.set_cable(b.beta.port(), true);
        b.settle();
        assert!(!asks(b), "so quick that nobody saw it");
        b.world.set_cable(b.beta.port(), false);
        b.settle();
        b.world.set_cable(b.beta.port(), true);
        b.settle();
        assert!(asks(b), "a port went out of service");
    });
}

#[test]
fn old_answers_are_gone_before_a_client_hears_of_a_restart() {
    with("paths").holds(|b| {
        assert!(asks(b));
        b.alpha.run("probe_ask_in_events", b.beta.guid());
        b.sm.restart(sm::Lid(0xc000));
        b.settle();
        b.alpha.run("probe_event_status", 0);
        b.alpha.run("probe_ask_in_events", 0);
        let asked = b.sm.inspect(|sm| sm.sa().counters().received);
        // Of each host ClassPortInfo and four subscriptions; then alpha's question and its acknowledgement.
        assert_eq!(asked, 2 * 5 + 2);
    });
}

#[test]
fn a_handler_is_told_later_and_its_client_frees_the_paths() {
    with("paths").holds(|b| {
        let delay = Nanos::from_secs(2);
        b.fault(Attribute::PATH_RECORD, 1, FaultAction::Delay(sm::Nanos(delay.0)));
        let begun = now();
        b.alpha.run("probe_ask_later", b.beta.guid());
        assert!(now() - begun < Nanos::from_millis(1));
        b.alpha.expect("probe_times_called", 0, 0);
        b.alpha.run("probe_await_path", 0);
        assert!(now() - begun >= delay);
        b.alpha.run("probe_path_is_complete", b.beta.guid());
        b.alpha.run("probe_ask_later", 0x5555);
        b.alpha.expect("probe_await_path", 0, PATH_RECORDS_NOT_FOUND);
        b.alpha.run("probe_ask_for_many", b.beta.guid());
    });
}

#[test]
fn a_question_that_cannot_be_queued_says_so_and_calls_nobody() {
    with("paths").holds(|b| {
        b.machine.set_fault(FaultKind::TASKQ, FaultPlan::Nth(0));
        b.alpha.expect("probe_ask_later", b.beta.guid(), INSUFF_KERNEL_RESOURCE);
        b.settle();
        b.alpha.expect("probe_times_called", 0, 0);
    });
}

#[test]
fn waiting_for_a_path_at_interrupt_level_breaks_rule_1() {
    with("paths").breaks(Rule::SleepInInterrupt, "ibt_get_paths", |b| {
        b.alpha.interrupt("probe_path_to_port", b.beta.guid());
    });
}
