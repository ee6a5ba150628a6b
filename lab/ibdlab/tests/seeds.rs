//! Many seeds of one scenario: every one another interleaving, another instant for the flap and the unload.

mod rig;

use rig::{failures, some_of};

fn all_is_well(file: &str, seeds: u64) {
    let seeds = some_of(seeds);
    let failures = failures(file, seeds);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn flaps_and_unloads_under_traffic_leave_nothing_behind() {
    all_is_well("random-unload.toml", 1_000);
}

#[test]
fn partitions_are_deleted_and_unloaded_under_traffic_without_a_trace() {
    all_is_well("random-unload-ibp.toml", 200);
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
