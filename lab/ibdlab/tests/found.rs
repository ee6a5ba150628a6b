//! What campaigns have found, made small, each over the seeds it took to show again.

mod rig;

use ibdlab::report::HcaKind;
use ibdlab::run::{Options, run};
use ibdlab::scenario::{Scenario, Step, load};
use rig::{data, failures, one, options, root};

#[test]
fn a_join_that_is_granted_after_its_port_went_down_is_the_sa_s_to_end() {
    assert_eq!(one(&data("found/joined-while-the-port-goes-on-software.toml"), 5), Ok(()));
}

#[test]
fn a_group_is_left_though_nobody_heard_that_its_join_was_granted() {
    let file = data("found/granted-joins-whose-answers-are-lost.toml");
    for software in [false, true] {
        let mut scenario = load(&file).expect("a scenario");
        if software {
            scenario.fabric.hca = HcaKind::Swhca;
        }
        let report = run(scenario, options(1), |_| {}).expect("the run begins");
        assert!(report.ok, "{:?}", report.steps.last().map(|step| &step.text));
    }
}

#[test]
fn a_manager_that_goes_has_programmed_the_switch() {
    assert_eq!(one(&data("found/manager-goes-before-the-switch-is-programmed.toml"), 1), Ok(()));
}

#[test]
fn a_neighbour_that_moves_is_reached_without_the_sa_though_the_way_to_its_port_is_in_doubt() {
    assert_eq!(one(&data("found/moved-while-the-way-is-in-doubt.toml"), 1), Ok(()));
    assert_eq!(one(&data("found/moved-while-the-way-is-asked-for.toml"), 1), Ok(()));
}

#[test]
fn an_address_that_is_found_while_the_start_gives_up_is_told() {
    ends_well_with_a_call_for_each_access("found/address-found-while-the-start-gives-up.toml", 1_668_277_857);
}

#[test]
fn a_group_that_was_asked_about_while_the_manager_went_is_joined_once_ibtf_has_asked_the_next_one() {
    assert_eq!(one(&data("found/join-waits-for-a-question-that-went-with-its-manager.toml"), 1), Ok(()));
}

#[test]
fn a_group_that_was_asked_about_while_the_manager_went_is_heard_once_ibtf_has_asked_the_next_one() {
    assert_eq!(one(&data("found/heard-after-a-question-that-went-with-its-manager.toml"), 2), Ok(()));
}

#[test]
fn a_neighbour_of_ipv6_whose_group_was_asked_for_while_the_manager_went_is_found_once_ibtf_has_asked_again() {
    assert_eq!(
        one(&data("found/neighbour-sought-after-a-question-that-went-with-its-manager.toml"), 1),
        Ok(())
    );
}

#[test]
fn a_link_that_is_started_while_packets_come_hears_them() {
    assert_eq!(one(&data("found/started-while-packets-come.toml"), 2_392_057_799), Ok(()));
}

#[test]
fn a_queue_pair_that_breaks_while_it_is_installed_is_taken_down() {
    let failures = failures("found/breaks-while-installed.toml", 160);
    assert!(failures.is_empty(), "{} of 160 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_queue_pair_is_where_its_plan_says_although_the_p_key_moves_back_and_forth() {
    assert_eq!(one(&data("found/planned-before-the-p-key-moved.toml"), 2), Ok(()));
}

#[test]
fn an_interrupt_on_its_way_into_a_handler_is_through_before_the_module_goes() {
    assert_eq!(one(&data("found/completion-before-the-unload.toml"), 371_015_771), Ok(()));
}

#[test]
fn connections_follow_when_lids_are_dealt_anew() {
    ends_well("found/lids-dealt-anew-under-connections.toml", 4);
}

#[test]
fn a_leave_that_the_software_sa_refuses_as_it_was_told_is_not_the_driver_s_fault() {
    assert_eq!(one(&data("found/leave-refused-by-the-software-sa.toml"), 1), Ok(()));
}

#[test]
fn a_prefix_that_changes_back_on_the_software_adapter_leaves_no_member() {
    ends_well_with_a_call_for_each_access("found/prefix-comes-back-on-software.toml", 1);
}

#[test]
fn both_sides_of_a_connection_over_the_software_adapter_close_it_at_once() {
    assert_eq!(one(&data("found/both-close-on-software.toml"), 1), Ok(()));
}

#[test]
fn groups_are_left_with_the_gid_they_were_joined_with() {
    let failures = failures("found/left-with-new-prefix.toml", 40);
    assert!(failures.is_empty(), "{} of 40 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn an_answer_about_no_group_is_no_membership() {
    let failures = failures("found/empty-join-answer.toml", 20);
    assert!(failures.is_empty(), "{} of 20 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_connection_that_never_was_does_not_keep_a_host_busy() {
    assert_eq!(one(&data("found/connection-that-never-was.toml"), 3_655_294_435), Ok(()));
}

#[test]
fn an_administrator_of_the_software_adapter_that_has_nothing_still_says_what_it_offers() {
    ends_well("found/software-sa-has-nothing.toml", 10);
}

#[test]
fn a_membership_that_the_administrator_refuses_to_end_is_left_to_it() {
    ends_well("found/leave-refused.toml", 10);
}

#[test]
fn a_membership_that_the_administrator_refused_to_end_stays_its_own_although_the_port_joins_to_send() {
    ends_well("found/leave-refused-then-sent.toml", 10);
}

#[test]
fn a_leave_is_not_answered_as_if_the_sa_had_ended_what_it_would_refuse_to_end() {
    assert_eq!(one(&data("found/leave-answered-with-nothing.toml"), 1), Ok(()));
}

#[test]
fn a_group_whose_leave_and_questions_the_sa_refused_is_the_sa_s_to_forget() {
    assert_eq!(one(&data("found/leave-refused-and-its-questions.toml"), 966_372_586), Ok(()));
}

#[test]
fn a_packet_in_pieces_takes_no_more_stack_than_ip_leaves_even_with_a_call_for_each_load_and_store() {
    ends_well_with_a_call_for_each_access("found/pieces-deep-in-the-stack.toml", 1);
}

/// With the objects that tell of loads and stores, and seed 1, `file` ends well.
fn ends_well_with_a_call_for_each_access(file: &str, seed: u64) {
    let options = Options::new(seed, root().join("proto/races"));
    let report = run(load(&data(file)).expect("a scenario"), options, |_| {}).expect("the run begins");
    assert!(report.ok, "{:?}", report.steps.last().map(|step| &step.text));
}

/// Each seed of `file` ends well.
fn ends_well(file: &str, seeds: u64) {
    let failures = failures(file, seeds);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_fast_host_that_makes_the_broadcast_group_lets_a_slow_one_in() {
    ends_well("found/fast-host-makes-the-group.toml", 6);
}

#[test]
fn hosts_with_a_group_each_meet_in_the_one_of_the_first_scope() {
    ends_well("found/one-partition-with-two-groups.toml", 4);
}

#[test]
fn a_host_that_makes_the_broadcast_group_lets_one_with_a_smaller_mtu_in() {
    ends_well("found/large-mtu-makes-the-group.toml", 6);
}

#[test]
fn a_host_slower_than_ten_gigabits_makes_the_broadcast_group_it_can_be_in() {
    ends_well("found/thin-host-makes-the-group.toml", 6);
}

#[test]
fn a_group_that_appears_while_its_scope_was_being_asked_about_is_found_at_once() {
    ends_well("found/group-appears-during-the-search.toml", 20);
}

#[test]
fn a_queue_pair_that_was_made_ready_again_hears_broadcasts() {
    ends_well("found/broken-queue-pair-hears-broadcasts.toml", 6);
}

#[test]
fn a_group_that_a_fast_host_joins_while_a_new_manager_looks_around_is_made_for_slower_ones_too() {
    ends_well("found/fast-host-joins-during-a-sweep.toml", 3);
}

#[test]
fn a_group_whose_last_member_leaves_while_a_larger_port_joins_lets_the_small_one_in_again() {
    assert_eq!(one(&data("found/last-member-leaves-while-a-larger-port-joins.toml"), 4), Ok(()));
}

#[test]
fn a_join_that_waits_while_the_link_loses_its_broadcast_group_makes_no_group() {
    assert_eq!(one(&data("found/join-waits-while-the-link-goes.toml"), 3_430_938_309), Ok(()));
}

#[test]
fn an_adapter_that_comes_back_while_a_query_of_before_is_out_reaches_the_administrator() {
    ends_well("found/adapter-comes-back-during-a-query.toml", 10);
}

#[test]
fn a_group_that_comes_back_while_promiscuous_mode_asks_for_it_is_heard() {
    ends_well("found/group-comes-back-while-its-join-is-refused.toml", 12);
}

#[test]
fn queries_that_an_absent_sm_never_saw_keep_nothing_waiting_once_it_is_back() {
    ends_well("found/lost-lookups.toml", 40);
}

#[test]
fn answers_that_take_longer_than_the_link_waits_for_them_bring_it_up_all_the_same() {
    ends_well("found/answers-come-late.toml", 12);
}

#[test]
fn the_first_ping_to_a_host_may_be_the_largest() {
    ends_well("found/first-ping-in-fragments.toml", 4);
}

#[test]
fn a_property_of_what_is_off_is_refused_and_no_mistake() {
    assert_eq!(one(&data("found/property-of-what-is-off.toml"), 1), Ok(()));
}

#[test]
fn a_group_is_left_in_every_role_although_a_new_sm_does_not_know_them_all() {
    ends_well("found/roles-that-a-new-sm-does-not-know.toml", 10);
}

#[test]
fn an_administrator_that_is_busy_when_it_comes_back_is_asked_no_faster_than_before() {
    ends_well("found/sa-that-is-busy-when-it-comes-back.toml", 3);
}

#[test]
fn who_begins_to_listen_to_all_groups_asks_the_administrator_that_refuses_one_of_them_no_faster_than_before()
{
    ends_well("found/sa-that-lists-what-it-refuses.toml", 3);
}

#[test]
fn a_link_goes_although_there_is_no_memory_to_remember_the_buffers_that_a_slow_adapter_still_has() {
    ends_well("found/unload-without-memory.toml", 20);
}

/// Has the second event of a scenario's trouble wait for another pass of its call.
fn at_pass(scenario: &mut Scenario, pass: u32) {
    for step in &mut scenario.step {
        if let Step::Trouble(trouble) = step.as_mut() {
            trouble.event[1].on.as_mut().expect("it waits for a call").pass = pass;
        }
    }
}

/// Microseconds from the call to the end of the event that waited for it; `None` if the call did not come.
fn took(pass: u32) -> Option<u64> {
    let mut scenario = load(&data("found/told-to-stop-while-busy.toml")).expect("a scenario");
    at_pass(&mut scenario, pass);
    let report = run(scenario, options(1), |_| {}).expect("the run begins");
    assert!(report.ok, "pass {pass}: {:?}", report.steps.last());
    let happened = report.steps.iter().find_map(|step| step.facts.get("happened")).expect("what took place");
    let event = happened.as_array().expect("a list").iter().find(|event| event["event"] == 1)?;
    Some(event["until_us"].as_u64().expect("a time") - event["from_us"].as_u64().expect("a time"))
}

#[test]
fn a_thread_that_is_told_to_stop_in_the_middle_of_something_stops() {
    let took: Vec<(u32, u64)> = (1..=13).filter_map(|pass| Some((pass, took(pass)?))).collect();
    assert!(took.len() >= 10, "{took:?}");
    let late: Vec<_> = took.iter().filter(|(_, us)| *us > 300_000).collect();
    assert!(late.is_empty(), "dladm delete-part took so many microseconds: {late:?}");
}

/// The module goes, and leaves a queue to an adapter that keeps it, while that adapter is pulled.
#[test]
fn adapter_is_pulled_while_a_queue_that_it_keeps_is_left_to_it() {
    assert_eq!(one(&data("found/adapter-pulled-while-kept-queues-are-left.toml"), 1), Ok(()));
}

/// Before the mend of the lab a link's other address was taken for a fault, although its adapter had been pulled in the step before.
#[test]
fn an_adapter_that_was_pulled_comes_back_with_another_address() {
    assert_eq!(one(&data("found/comes-back-with-another-number.toml"), 1), Ok(()));
}

/// Before, an answer about another group ended a membership in the driver's book, and the SA kept it.
#[test]
fn a_membership_is_not_over_by_an_answer_about_another_group() {
    for seed in 5..8 {
        assert_eq!(one(&data("found/two-records-then-unload.toml"), seed), Ok(()));
    }
}

/// `ibcm` tells the SA of the last leave only: a role that is owed ends with the one that stands. Before, the lab wanted it ended at once.
#[test]
fn a_role_that_is_owed_ends_with_the_last_one_of_its_group() {
    for seed in [2, 5, 6] {
        assert_eq!(one(&data("found/prefix-twice-then-close.toml"), seed), Ok(()));
    }
}

/// A manager sets the tables of both ports of a GUID. Before, the lab wanted the cloned host's address to stay.
#[test]
fn a_port_that_another_one_claims_to_be_may_get_another_address() {
    assert_eq!(one(&data("found/cloned-after-its-pkey-moved.toml"), 1), Ok(()));
}

/// Before, the port went while the join was out, and the group that it brought was never left.
#[test]
fn a_port_waits_for_the_join_of_a_link_that_is_gone() {
    for seed in 1..4 {
        assert_eq!(one(&data("found/join-out-when-its-link-goes.toml"), seed), Ok(()));
    }
}

/// The port's table changes before the driver hears of it. Before, the lab blamed the driver for the P_Key that packets had meanwhile.
#[test]
fn a_manager_may_give_the_place_of_a_p_key_to_another_one() {
    ends_well("found/pkey-goes-back-to-its-place.toml", 3);
    ends_well("found/pkey-moves-while-ibtf-asks.toml", 3);
}

/// The group's MTU is the link's. Before, the lab wanted every other host of the link to keep its queue pair.
#[test]
fn a_port_that_becomes_smaller_may_make_the_group_of_all() {
    ends_well("found/small-port-makes-the-group.toml", 3);
}

/// A driver hears of groups from IBTF alone. Before, the lab wanted it to hear a group that nothing had told it of.
#[test]
fn an_eavesdropper_that_is_told_of_no_group_hears_none() {
    ends_well("found/eavesdropper-is-told-of-no-group.toml", 2);
}
