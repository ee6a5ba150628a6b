//! Timelines of trouble, each over many seeds: afterwards every link is as good as new, by itself.

mod rig;

use rig::{failures, some_of};

fn all_is_well_again(file: &str, seeds: u64) {
    let seeds = some_of(seeds);
    let failures = failures(file, seeds);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_kind_of_event_at_once_and_all_is_well_again() {
    all_is_well_again("trouble.toml", 50);
}

/// Before, the driver took the queue pair for broken after five seconds, and the link had another address.
#[test]
fn ports_without_credits_keep_their_addresses() {
    all_is_well_again("no-credits.toml", 50);
}

/// Before, `dladm create-part` and the load were refused with ENOMEM, and the lab called that well.
#[test]
fn no_memory_at_once_refuses_nothing_an_administrator_does() {
    all_is_well_again("memory.toml", 10);
}

/// Before, a stop left the queue behind: the partition could not be deleted, nor the module unloaded, and an adapter was still open when it was pulled.
#[test]
fn queues_that_an_adapter_keeps_hold_up_no_host() {
    all_is_well_again("kept-queues.toml", 50);
}

/// Before, the link took the client whose queue was being freed: the queue was dropped, and the host had no connections until the next boot.
#[test]
fn a_queue_is_lent_to_no_link_while_it_is_freed() {
    all_is_well_again("kept-while-removed.toml", 20);
}

/// What an administrator asks for takes as long as the shortage. A driver that does not wait refuses it at once.
#[test]
fn memory_short_for_seconds_is_waited_for_and_packets_go_on() {
    all_is_well_again("memory-short.toml", 50);
}

#[test]
fn a_link_that_opens_while_the_sa_is_silent_comes_up_when_it_speaks() {
    all_is_well_again("sa-silent.toml", 50);
}

#[test]
fn answers_that_come_four_minutes_late_bring_the_link_up_and_confuse_nobody() {
    all_is_well_again("sa-late.toml", 50);
}

#[test]
fn lost_answers_of_the_sa_leave_no_membership_behind() {
    all_is_well_again("sa-loses-answers.toml", 50);
}

#[test]
fn every_status_the_sa_can_refuse_with_is_survived() {
    all_is_well_again("sa-refuses.toml", 50);
}

#[test]
fn a_broadcast_group_that_was_absent_is_joined_when_it_is_created() {
    all_is_well_again("group-absent.toml", 50);
}

#[test]
fn a_pkey_that_goes_comes_and_moves_takes_the_link_with_it() {
    all_is_well_again("pkey-comes-and-goes.toml", 50);
}

#[test]
fn a_subnet_manager_that_dies_fails_over_and_forgets_gets_every_membership_again() {
    all_is_well_again("sm-moves.toml", 50);
}

#[test]
fn ports_that_get_the_lids_of_others_are_reached() {
    all_is_well_again("lids-change.toml", 50);
}

#[test]
fn an_hca_pulled_while_it_joins_and_resolves_under_load_comes_back() {
    all_is_well_again("hca-removal-in-use.toml", 50);
}

#[test]
fn packets_that_nobody_should_send_harm_nobody() {
    all_is_well_again("packets-nobody-should-send.toml", 50);
}

/// 12,000 forged packets in a second, each from a sender at another group. Before, each cost the SA a join: 4,803 for the groups of the
/// partition alone.
#[test]
fn strangers_who_say_that_they_are_at_groups_cost_the_sa_nothing() {
    all_is_well_again("strangers-at-groups.toml", 50);
}

/// 4,000 pings in two seconds, each from another address that is not there. Each cost the SA a join or two.
#[test]
fn strangers_that_ping_from_nowhere_leave_neighbours_reachable() {
    all_is_well_again("strangers-nowhere.toml", 50);
}

/// 12,000 forged packets in two seconds, while the port that they claim goes and comes and another subnet manager takes over. Before, each
/// cost the SA a question, and one more for each report. The link kept each queue pair that was made up, too.
#[test]
fn strangers_who_say_that_they_are_at_ports_cost_the_sa_little() {
    all_is_well_again("strangers-at-ports.toml", 50);
}

#[test]
fn tcp_over_a_link_that_loses_doubles_reorders_and_damages_arrives_intact_and_counted() {
    all_is_well_again("tcp-over-a-faulty-link.toml", 50);
}
