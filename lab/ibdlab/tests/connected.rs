//! TCP on connections, through what happens to them.

mod rig;

use ibdlab::report::Report;
use ibdlab::run::run;
use ibdlab::scenario::load;
use rig::{options, root, some_of};

const SCENARIO: &str = "scenarios/connected.toml";

fn goes_well(text: &str, seed: u64) -> Report {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("connected.toml");
    std::fs::write(&file, text).expect("written");
    let report = run(load(&file).expect("a scenario"), options(seed), |_| {}).expect("the run begins");
    let steps: Vec<String> = report.steps.iter().map(|step| step.line()).collect();
    assert!(report.ok, "seed {seed}:\n{}", steps.join("\n"));
    let trouble = report.steps.iter().find(|step| step.step == "trouble").expect("a step");
    let opens = trouble.facts["calls"]["alice"]["ibt_open_rc_channel"].as_u64().unwrap_or(0);
    assert!(opens >= 4, "seed {seed}: {opens} connections opened: nothing has happened to them");
    report
}

fn text() -> String {
    std::fs::read_to_string(root().join(SCENARIO)).expect("the scenario")
}

/// As the file says, of a sixteenth of the bytes and over some schedules.
#[test]
fn every_byte_arrives_through_flaps_restarts_of_the_sm_a_killed_neighbour_and_each_cm_message_lost_once() {
    let shorter = text().replace("1GiB", "64MiB");
    for seed in 1..=some_of(20) {
        goes_well(&shorter, seed);
    }
}

/// With `WHOLE` a gibibyte, else a quarter of it.
#[test]
fn a_long_transfer_arrives_whole_through_all_of_that() {
    let whole = std::env::var_os("WHOLE").is_some();
    let (bytes, said) = if whole { ("1GiB", "1073741824 bytes") } else { ("256MiB", "268435456 bytes") };
    let report = goes_well(&text().replace("1GiB", bytes), 1);
    let trouble = report.steps.iter().find(|step| step.step == "trouble").expect("a step");
    assert!(trouble.text.contains(said), "{}", trouble.text);
}
