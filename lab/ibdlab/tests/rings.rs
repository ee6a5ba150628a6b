//! Every family of scenarios once more on links with rings, as many as the seed says: packets come up by interrupt and by poll, and
//! go down on several queue pairs.

mod rig;

use ibdlab::scenario::{Phase, Scenario, Step};
use rig::{failures_of, some_of};

/// None is the one queue pair of a link without rings; eight are the most.
const TRANSMIT_RINGS: [i32; 5] = [0, 1, 2, 4, 8];

/// Rings for every host by its driver's `.conf` file; one in four seeds leaves the last host without.
fn rings(scenario: &mut Scenario, seed: u64) {
    let hosts = scenario.host.len();
    for (n, host) in scenario.host.iter_mut().enumerate() {
        if n + 1 == hosts && seed.is_multiple_of(4) {
            continue;
        }
        let conf =
            [("ibd_rx_rings", 1), ("ibd_tx_rings", TRANSMIT_RINGS[seed as usize % TRANSMIT_RINGS.len()])];
        host.get_mut().conf = conf.map(|(name, value)| (name.to_owned(), value)).into();
    }
}

#[track_caller]
fn all_is_well(file: &str, seeds: u64) {
    let seeds = some_of(seeds);
    let failures = failures_of(file, seeds, rings);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn flaps_and_unloads_under_traffic_leave_nothing_behind() {
    all_is_well("random-unload.toml", 100);
}

#[test]
fn partitions_are_deleted_and_unloaded_under_traffic_without_a_trace() {
    all_is_well("random-unload-ibp.toml", 50);
}

#[test]
fn sm_restart_keeps_unicast_flowing_and_groups_come_back() {
    all_is_well("sm-restart.toml", 50);
}

#[test]
fn pkey_readded_at_another_index_brings_the_link_back() {
    all_is_well("pkey-moves.toml", 50);
}

#[test]
fn hca_pulled_under_an_open_link_frees_everything() {
    all_is_well("hca-removal.toml", 50);
}

#[test]
fn promiscuous_mode_hears_every_group_of_the_link_while_it_is_on() {
    all_is_well("eavesdrop.toml", 50);
}

#[test]
fn a_link_that_opens_while_the_sa_is_silent_comes_up_when_it_speaks() {
    all_is_well("sa-silent.toml", 50);
}

#[test]
fn answers_that_come_four_minutes_late_bring_the_link_up_and_confuse_nobody() {
    all_is_well("sa-late.toml", 50);
}

#[test]
fn lost_answers_of_the_sa_leave_no_membership_behind() {
    all_is_well("sa-loses-answers.toml", 50);
}

#[test]
fn every_status_the_sa_can_refuse_with_is_survived() {
    all_is_well("sa-refuses.toml", 50);
}

#[test]
fn a_broadcast_group_that_was_absent_is_joined_when_it_is_created() {
    all_is_well("group-absent.toml", 50);
}

#[test]
fn a_pkey_that_goes_comes_and_moves_takes_the_link_with_it() {
    all_is_well("pkey-comes-and-goes.toml", 50);
}

#[test]
fn a_subnet_manager_that_dies_fails_over_and_forgets_gets_every_membership_again() {
    all_is_well("sm-moves.toml", 50);
}

#[test]
fn ports_that_get_the_lids_of_others_are_reached() {
    all_is_well("lids-change.toml", 50);
}

#[test]
fn trouble_of_every_kind_is_survived() {
    all_is_well("trouble.toml", 50);
}

#[test]
fn an_hca_pulled_while_it_joins_and_resolves_under_load_comes_back() {
    all_is_well("hca-removal-in-use.toml", 50);
}

#[test]
fn packets_that_nobody_should_send_harm_nobody() {
    all_is_well("packets-nobody-should-send.toml", 50);
}

#[test]
fn tcp_over_a_link_that_loses_doubles_reorders_and_damages_arrives_intact() {
    all_is_well("tcp-over-a-faulty-link.toml", 50);
}

const PHASES: [Phase; 7] =
    [Phase::Attach, Phase::Start, Phase::Traffic, Phase::Flap, Phase::SmRestart, Phase::Stop, Phase::Detach];

/// The host whose calls fail has rings, whatever the seed, which says when they fail.
fn faults(scenario: &mut Scenario, seed: u64) {
    rings(scenario, 3);
    for step in &mut scenario.step {
        if let Step::FaultPoints(points) = step.get_mut() {
            points.phase = PHASES[seed as usize % PHASES.len()];
        }
    }
}

#[test]
fn every_fallible_call_fails_in_turn_and_every_link_recovers() {
    let failures = failures_of("fault-points.toml", PHASES.len() as u64, faults);
    assert!(failures.is_empty(), "{} phases failed:\n{}", failures.len(), failures.join("\n"));
}
