//! Many seeds of one scenario: every one another interleaving, another instant for the flap and the unload.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ibdlab::run::{Options, run};
use ibdlab::scenario::load;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs seeds `1..=count`; the failures, each with what it said.
fn failures(file: &str, count: u64) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let next = AtomicU64::new(1);
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > count {
                        return;
                    }
                    if let Err(why) = one(&file, seed) {
                        failures
                            .lock()
                            .expect("no worker panics with it")
                            .push(format!("seed {seed}: {why}"));
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no worker panics with it")
}

fn one(file: &Path, seed: u64) -> Result<(), String> {
    let scenario = load(file).map_err(|error| error.to_string())?;
    let options =
        Options { seed, live: false, proto: root().join("proto/kernel"), modules: Vec::new(), capture: None };
    let report = run(scenario, options, |_| {}).map_err(|error| format!("{error:#}"))?;
    report
        .steps
        .iter()
        .find(|step| !step.ok)
        .map_or(Ok(()), |step| Err(format!("{}: {}", step.step, step.text)))
}

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
