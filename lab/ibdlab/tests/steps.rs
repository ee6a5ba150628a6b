//! What the steps of a scenario ask for is what can be had: each of these failed once although no driver was at fault.

mod rig;

use ibdlab::run::run;
use ibdlab::scenario::load;
use rig::{data, failures, options};

/// Runs the file of `data/steps` under so many seeds.
fn all_is_well(file: &str, seeds: u64) {
    let failures = failures(&format!("steps/{file}"), seeds);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn no_socket_loses_an_answer_to_the_requests_of_other_hosts() {
    all_is_well("four-hosts-while-the-sm-is-away.toml", 3);
}

#[test]
fn an_echo_right_behind_up_knows_the_link_s_size() {
    all_is_well("ping-right-behind-up.toml", 10);
}

#[test]
fn memberships_right_behind_up_wait_for_the_joins_under_way() {
    all_is_well("memberships-right-behind-up.toml", 10);
}

#[test]
fn a_pkey_that_moved_is_not_moved_back_when_another_host_s_cable_is_pulled() {
    all_is_well("pkey-moves-and-a-cable-is-out.toml", 5);
}

#[test]
fn pkeys_that_moved_are_not_moved_back_when_the_subnet_manager_restarts() {
    all_is_well("pkeys-move-and-the-sm-restarts.toml", 5);
}

#[test]
fn steps_ask_the_hosts_that_can_reach_each_other_and_nobody_else() {
    all_is_well("two-links-and-a-pulled-adapter.toml", 3);
}

#[test]
fn echoes_and_groups_wait_for_a_slow_subnet_administrator() {
    all_is_well("sa-takes-150-ms.toml", 5);
    all_is_well("sa-takes-1500-ms.toml", 5);
}

#[test]
fn the_first_echo_to_a_host_is_answered_however_many_fragments_it_has() {
    all_is_well("large-echoes-right-behind-up.toml", 3);
}

/// Before, such a scenario was refused.
#[test]
fn an_echo_of_ipv6_longer_than_the_link_goes_in_fragments() {
    all_is_well("long-echoes-of-ipv6.toml", 3);
}

#[test]
fn an_echo_is_sent_again_when_ip_gives_up_a_neighbour_before_the_sa_has_answered() {
    all_is_well("ip-gives-up-before-the-sa-answers.toml", 5);
}

#[test]
fn trouble_ends_once_no_queue_pair_hangs() {
    all_is_well("a-queue-pair-that-hangs.toml", 3);
}

#[test]
fn pkey_moves_ends_once_both_families_answer() {
    all_is_well("ipv6-right-behind-a-pkey-that-moved.toml", 5);
}

#[test]
fn sm_restart_looks_everybody_up_before_the_manager_goes() {
    all_is_well("sm-restart-unresolved.toml", 3);
}

#[test]
fn sm_restart_waits_until_the_group_is_heard_before_the_manager_goes() {
    all_is_well("the-first-word-to-a-group-takes-long.toml", 2);
}

#[test]
fn sm_restart_asks_nobody_whom_ip_has_forgotten_until_all_have_joined_again() {
    all_is_well("ibtf-tells-of-a-new-manager-after-a-minute.toml", 2);
}

#[test]
fn fragments_of_lost_packets_keep_no_others_out() {
    all_is_well("fragments-behind-loss.toml", 5);
}

#[test]
fn the_first_datagram_to_a_group_may_be_lost_when_the_sa_answers_at_once() {
    all_is_well("sa-at-once.toml", 5);
}

/// A multicast of 3 s takes 32 million kernel calls beside the endless echoes of the step before it, and 0.7 million without.
#[test]
fn unload_under_traffic_leaves_no_traffic_behind() {
    let scenario = load(&data("steps/behind-unload-under-traffic.toml")).expect("a scenario");
    let report = run(scenario, options(3), |_| {}).expect("a run");
    assert!(report.ok, "{:?}", report.steps);
    let calls = report.trace.expect("virtual time has a trace").kernel_calls;
    assert!(calls < 5_000_000, "{calls} kernel calls");
}

#[test]
fn hosts_with_ipv6_addresses_only_hear_the_groups_of_the_steps() {
    all_is_well("ipv6-only.toml", 2);
}

#[test]
fn a_pkey_moves_in_the_highest_partition() {
    all_is_well("pkey-moves-in-partition-7ffe.toml", 2);
}

#[test]
fn hosts_that_have_one_family_in_common_use_it_whatever_they_list_first() {
    all_is_well("mixed-families.toml", 2);
}

/// A message of a connection is one packet to the driver. Before, the step could not read its frames.
#[test]
fn counts_agree_on_messages_of_connections() {
    all_is_well("counts-with-connections.toml", 3);
    all_is_well("counts-with-connections-that-lose.toml", 5);
}

/// Connections stay for minutes. Before, `trouble` took those of a host that opens none for objects that are left behind.
#[test]
fn trouble_ends_on_a_host_that_takes_connections() {
    all_is_well("takes-connections-and-opens-none.toml", 2);
}
