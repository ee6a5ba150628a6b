//! Every call of the drivers that can fail fails once, in every part of their life.

mod rig;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ibdlab::run::run;
use ibdlab::scenario::load;
use rig::{data, options};

const PHASES: [&str; 7] = ["attach", "start", "traffic", "flap", "sm-restart", "stop", "detach"];

/// Points tried and recovered from.
fn sweep(driver: &str, phase: &str, seed: u64) -> Result<(u64, u64), String> {
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
    let number = |name: &str| step.facts[name].as_u64().unwrap_or(0);
    Ok((number("tried"), number("recovered")))
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
                    results.lock().expect("no worker panics with it").push(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no worker panics with it");
    let failures: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let sums = results.iter().flatten().fold((0, 0), |sum, case| (sum.0 + case.0, sum.1 + case.1));
    println!("fault points: {} tried in {} phases, {} recovered", sums.0, PHASES.len(), sums.1);
    assert_eq!(sums.0, sums.1);
    assert!(sums.0 > 100, "only {} points were reached: nothing was injected", sums.0);
}
