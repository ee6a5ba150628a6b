//! Joining, leaving and querying multicast groups.

use fakekernel::{FaultKind, FaultPlan, Nanos, Rule, now};
use sm::fault::FaultAction;
use sm::partition::{GroupParams, Ports};
use sm::{Attribute, Membership, PKey, Partition, Status};

use crate::bench::{BROADCAST, with};

const FULL: i64 = 1 << 16;
const SEND_ONLY: i64 = 4 << 16;

const INVALID_PARAM: i64 = 4;
const INSUFF_KERNEL_RESOURCE: i64 = 5;
const IBMF_TIMEOUT: i64 = 10;
const MCG_RECORDS_NOT_FOUND: i64 = 15;
const CHAN_HDL_INVALID_OR_PARAM: i64 = 4;
const MC_MGID_INVALID: i64 = 901;
const MC_GROUP_INVALID: i64 = 902;
const IBMF_FAILURE: i64 = 0x9000_0000;

#[test]
fn the_broadcast_group_is_found_joined_and_left() {
    with("groups").holds(|b| {
        b.alpha.expect("probe_query", 0, 1);
        b.alpha.run("probe_join", FULL);
        b.alpha.run("probe_join_is_complete", 0);
        b.alpha.expect("probe_join_mlid", 0, 0xc000);
        assert_eq!(b.members(BROADCAST), 1);
        b.alpha.run("probe_leave", FULL);
        assert_eq!(b.members(BROADCAST), 0);
    });
}

#[test]
fn a_group_nobody_made_is_not_found_until_somebody_joins_it() {
    with("groups").holds(|b| {
        b.alpha.expect("probe_query", 5, -MCG_RECORDS_NOT_FOUND);
        b.beta.expect("probe_join", 5 | SEND_ONLY, MCG_RECORDS_NOT_FOUND);
        b.alpha.run("probe_join", 5 | FULL);
        b.alpha.expect("probe_query", 5, 1);
        b.alpha.expect("probe_query_all", 0, 2);
        b.alpha.expect("probe_query_all", 1, 1);
        b.beta.run("probe_join", 5 | SEND_ONLY);
        b.alpha.run("probe_leave", 5 | FULL);
        b.alpha.expect("probe_query", 5, -MCG_RECORDS_NOT_FOUND);
        b.beta.expect("probe_leave", 5 | SEND_ONLY, MC_GROUP_INVALID);
    });
}

#[test]
fn what_cannot_be_asked_for_is_refused_without_asking() {
    with("groups").holds(|b| {
        let before = b.requests();
        for wrong in 0..6 {
            b.alpha.expect("probe_join_badly", wrong, INVALID_PARAM);
        }
        for wrong in 0..3 {
            b.alpha.expect("probe_query_badly", wrong, INVALID_PARAM);
        }
        b.alpha.expect("probe_leave_a_port", 0, MC_MGID_INVALID);
        b.alpha.expect("probe_open_connection", 0, CHAN_HDL_INVALID_OR_PARAM);
        assert_eq!(b.requests(), before);
    });
}

#[test]
fn joins_are_counted_and_only_the_last_leave_reaches_the_administrator() {
    with("groups").holds(|b| {
        b.alpha.run("probe_join", FULL);
        b.alpha.run("probe_join", SEND_ONLY);
        let before = b.requests();
        b.alpha.run("probe_leave", FULL);
        assert_eq!(b.requests(), before);
        assert_eq!(b.members(BROADCAST), 1);
        b.alpha.run("probe_leave", FULL);
        assert_eq!(b.members(BROADCAST), 0, "with the join state of both");
        b.alpha.expect("probe_leave", FULL, MC_GROUP_INVALID);
    });
}

#[test]
fn a_leave_is_counted_even_when_there_is_no_port_to_tell_the_administrator_from() {
    with("groups").holds(|b| {
        b.alpha.run("probe_join", FULL);
        b.world.set_cable(b.alpha.port(), false);
        b.settle();
        b.alpha.expect("probe_leave", FULL, INVALID_PARAM);
        b.world.set_cable(b.alpha.port(), true);
        b.settle();
        b.alpha.run("probe_join", FULL);
        assert_eq!(b.members(BROADCAST), 1);
        b.alpha.run("probe_leave", FULL);
        assert_eq!(b.members(BROADCAST), 0, "it is the last one");
    });
}

#[test]
fn refusals_arrive_as_ibcm_translates_them() {
    with("groups").holds(|b| {
        let rows = [
            (Status::NO_RESOURCES, IBMF_FAILURE),
            (Status::REQ_INVALID, MCG_RECORDS_NOT_FOUND),
            (Status::REQ_INVALID_GID, IBMF_FAILURE),
            (Status::REQ_INSUFFICIENT_COMPONENTS, IBMF_FAILURE),
            (Status::REQ_DENIED, MCG_RECORDS_NOT_FOUND),
            (Status::UNSUPPORTED_METHOD_ATTRIBUTE, IBMF_FAILURE),
        ];
        for (status, answer) in rows {
            b.fault(Attribute::MC_MEMBER_RECORD, 1, FaultAction::Refuse(status));
            b.alpha.expect("probe_join", 1 | FULL, answer);
        }
        b.fault(Attribute::MC_MEMBER_RECORD, 1, FaultAction::Refuse(Status::NO_RESOURCES));
        b.alpha.expect("probe_leave", 1 | FULL, MC_GROUP_INVALID);
        b.fault(Attribute::MC_MEMBER_RECORD, 1, FaultAction::Empty);
        b.alpha.expect("probe_query", 0, -MCG_RECORDS_NOT_FOUND);
    });
}

#[test]
fn a_silent_administrator_is_a_timeout_and_a_lost_answer_is_asked_for_again() {
    with("groups").holds(|b| {
        b.fault(Attribute::MC_MEMBER_RECORD, 1, FaultAction::LoseAnswer);
        b.alpha.run("probe_join", FULL);
        assert_eq!(b.members(BROADCAST), 1);
        fakekernel::sleep(Nanos::from_secs(120));
        b.fault(Attribute::MC_MEMBER_RECORD, u32::MAX, FaultAction::Silent);
        b.alpha.expect("probe_join", 1 | FULL, IBMF_TIMEOUT);
        b.sm.faults(sm::FaultScript::clear);
        b.alpha.run("probe_leave", FULL);
    });
}

#[test]
fn a_join_with_a_handler_returns_at_once_and_the_handler_is_told_later() {
    with("groups").holds(|b| {
        let delay = Nanos::from_secs(2);
        b.fault(Attribute::MC_MEMBER_RECORD, 1, FaultAction::Delay(sm::Nanos(delay.0)));
        let begun = now();
        b.alpha.run("probe_join_later", FULL);
        assert!(now() - begun < Nanos::from_millis(1));
        b.alpha.expect("probe_times_called", 0, 0);
        b.alpha.run("probe_await_join", 0);
        assert!(now() - begun >= delay);
        b.alpha.run("probe_join_is_complete", 0);
        b.alpha.run("probe_leave", FULL);
        b.fault(Attribute::MC_MEMBER_RECORD, 1, FaultAction::Refuse(Status::REQ_INVALID));
        b.alpha.run("probe_join_later", FULL);
        b.alpha.expect("probe_await_join", 0, MCG_RECORDS_NOT_FOUND);
    });
}

#[test]
fn a_join_that_cannot_be_queued_says_so_and_calls_nobody() {
    with("groups").holds(|b| {
        b.machine.set_fault(FaultKind::TASKQ, FaultPlan::Nth(0));
        b.alpha.expect("probe_join_later", FULL, INSUFF_KERNEL_RESOURCE);
        b.settle();
        b.alpha.expect("probe_times_called", 0, 0);
        assert_eq!(b.members(BROADCAST), 0);
    });
}

#[test]
fn a_limited_member_is_told_no_p_key_index() {
    let setup = with("groups").sm(|config| {
        let partition = Partition::new("p", PKey(1))
            .with_members(Ports::All, Membership::Limited)
            .with_ipoib(GroupParams::default());
        config.partitions.push(partition);
    });
    setup.holds(|b| {
        b.alpha.run("probe_join_partition", 0x0001);
        b.alpha.expect("probe_join_pkey_ix", 0, 0);
        b.alpha.expect("probe_join_partition", 0x0002, MCG_RECORDS_NOT_FOUND);
    });
}

#[test]
fn after_a_flap_a_client_joins_again_in_the_event_that_tells_it() {
    with("groups").holds(|b| {
        b.alpha.run("probe_join", FULL);
        b.alpha.run("probe_rejoin_in_events", 1);
        b.world.set_cable(b.alpha.port(), false);
        b.settle();
        assert_eq!(b.members(BROADCAST), 0, "the administrator forgot it");
        b.alpha.expect("probe_join", FULL, INVALID_PARAM);
        b.world.set_cable(b.alpha.port(), true);
        b.settle();
        b.alpha.run("probe_event_status", 0);
        assert_eq!(b.members(BROADCAST), 1);
        b.alpha.run("probe_rejoin_in_events", 0);
    });
}

#[test]
fn after_a_restart_the_event_comes_when_the_new_administrator_can_be_asked() {
    with("groups").holds(|b| {
        b.alpha.run("probe_join", FULL);
        b.alpha.run("probe_rejoin_in_events", 1);
        b.sm.restart(sm::Lid(0xc040));
        b.settle();
        b.alpha.run("probe_event_status", 1);
        b.alpha.expect("probe_event_mlid", 1, 0xc040);
        assert_eq!(b.members(BROADCAST), 1);
        b.alpha.run("probe_rejoin_in_events", 0);
    });
}

#[test]
fn waiting_for_a_join_at_interrupt_level_breaks_rule_1() {
    with("groups").breaks(Rule::SleepInInterrupt, "ibt_join_mcg", |b| {
        b.alpha.interrupt("probe_join", FULL);
    });
}

#[test]
fn freeing_another_number_of_groups_breaks_rule_15() {
    with("groups").breaks(Rule::BadFree, "ibt_free_mcg_info", |b| {
        b.alpha.run("probe_join", 1 | FULL);
        b.alpha.ask("probe_free_one_too_few", 0);
    });
}
