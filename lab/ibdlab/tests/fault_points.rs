//! Every call of the drivers that can fail fails once, in every part of their life.

mod rig;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ibdlab::run::run;
use ibdlab::scenario::load;
use rig::{data, options};

const PHASES: [&str; 7] = ["attach", "start", "traffic", "flap", "sm-restart", "stop", "detach"];

/// How many calls failed, one in each try; the step fails at the first after which the link is not well again.
fn sweep(driver: &str, phase: &str, seed: u64) -> Result<u64, String> {
    let mut scenario = load(&data("fault-points.toml")).map_err(|error| error.to_string())?;
    let text = scenario.to_toml().map_err(|error| error.to_string())?;
    let text = text.replace("phase = \"attach\"", &format!("phase = \"{phase}\""));
    let text = text.replace("driver = \"ibd\"", &format!("driver = \"{driver}\""));
    scenario = toml::from_str(&text).map_err(|error| error.to_string())?;
    let report = run(scenario, options(seed), |_| {}).map_err(|error| format!("{error:#}"))?;
    if let Some(step) = report.steps.iter().find(|step| !step.ok) {
        return Err(format!("{driver}, {phase}: {}: {}", step.step, step.text));
    }
    let step = report.steps.iter().find(|step| step.step == "fault-points").ok_or("the step is missing")?;
    step.facts["tried"].as_u64().ok_or_else(|| "the step does not say how many".to_owned())
}

#[test]
fn every_fallible_call_fails_in_turn_and_every_link_recovers() {
    let cases: Vec<(&str, &str)> =
        ["ibd", "ibp"].into_iter().flat_map(|driver| PHASES.map(|phase| (driver, phase))).collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((driver, phase)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = sweep(driver, phase, 1);
                    results.lock().expect("no worker panics with it").push((*driver, *phase, result));
                }
            });
        }
    });
    let results = results.into_inner().expect("no worker panics with it");
    let failures: Vec<&String> = results.iter().filter_map(|(.., result)| result.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let tried: u64 = results.iter().filter_map(|(.., result)| result.as_ref().ok()).sum();
    println!("fault points: {tried} tried in {} phases", PHASES.len());
    // Nothing that a stop or the end of a link of ibd calls can fail: leaves are the SA's to refuse.
    let none = |(driver, phase): (&str, &str)| phase == "stop" || (driver, phase) == ("ibd", "detach");
    for (driver, phase, result) in &results {
        assert_eq!(*result == Ok(0), none((driver, phase)), "{driver}, {phase}: {result:?}");
    }
    assert!(tried > 450, "only {tried} points were reached");
}
