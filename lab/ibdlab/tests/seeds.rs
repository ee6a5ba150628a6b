//! Many seeds of one scenario: every one another interleaving, another instant for the flap and the unload.

mod rig;

use rig::failures;

#[test]
fn a_thousand_flaps_and_unloads_under_traffic_leave_nothing_behind() {
    let failures = failures("random-unload.toml", 1_000);
    assert!(failures.is_empty(), "{} of 1000 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn partitions_are_deleted_and_unloaded_under_traffic_without_a_trace() {
    let failures = failures("random-unload-ibp.toml", 200);
    assert!(failures.is_empty(), "{} of 200 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn sm_restart_keeps_unicast_flowing_and_groups_come_back() {
    let failures = failures("sm-restart.toml", 50);
    assert!(failures.is_empty(), "{} of 50 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn pkey_readded_at_another_index_brings_the_link_back() {
    let failures = failures("pkey-moves.toml", 50);
    assert!(failures.is_empty(), "{} of 50 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn hca_pulled_under_an_open_link_frees_everything() {
    let failures = failures("hca-removal.toml", 50);
    assert!(failures.is_empty(), "{} of 50 seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn promiscuous_mode_hears_every_group_of_the_link_while_it_is_on() {
    let failures = failures("eavesdrop.toml", 50);
    assert!(failures.is_empty(), "{} of 50 seeds failed:\n{}", failures.len(), failures.join("\n"));
}
