//! Scenarios on the software adapter, the object that ships: `ibdlab run --hca swhca`.

mod rig;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ibdlab::report::HcaKind;
use ibdlab::run::{Options, run};
use ibdlab::scenario::{Scenario, load};
use rig::{data, options};

fn on_swhca(seed: u64) -> Options {
    Options { hca: HcaKind::Swhca, ..options(seed) }
}

/// Runs a scenario; the first step that failed.
fn failure(scenario: Scenario, seed: u64) -> Option<String> {
    let report = run(scenario, on_swhca(seed), |_| {}).unwrap_or_else(|error| panic!("{error:#}"));
    report.steps.iter().find(|step| !step.ok).map(|step| format!("seed {seed}: {}: {}", step.step, step.text))
}

/// Runs jobs on all processors; what they answer.
fn on_all_processors<T: Send>(count: usize, job: impl Fn(usize) -> Option<T> + Sync) -> Vec<T> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let one = next.fetch_add(1, Ordering::Relaxed);
                    if one >= count {
                        return;
                    }
                    if let Some(answer) = job(one) {
                        answers.lock().expect("no worker panics with it").push(answer);
                    }
                }
            });
        }
    });
    answers.into_inner().expect("no worker panics with it")
}

#[test]
fn flaps_and_unloads_under_traffic_leave_nothing_in_the_adapter() {
    let (file, seeds) = (data("swhca/random-unload.toml"), rig::some_of(1_000));
    let one = |seed| failure(load(&file).expect("a scenario"), seed as u64 + 1);
    let failures = on_all_processors(seeds as usize, one);
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn three_links_do_everything_that_needs_no_fabric_of_the_labs() {
    let file = data("swhca/everything.toml");
    let failures = on_all_processors(10, |seed| failure(load(&file).expect("a scenario"), seed as u64 + 1));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_same_with_checksums_and_large_sends_of_the_adapter() {
    let text = std::fs::read_to_string(data("swhca/everything.toml")).expect("a scenario");
    let text = text.replace("driver = \"ibp\"", "driver = \"ibp\"\noffloads = true");
    let failures =
        on_all_processors(10, |seed| failure(toml::from_str(&text).expect("a scenario"), seed as u64 + 1));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_call_of_the_adapter_fails_in_turn_and_every_link_recovers() {
    const PHASES: [&str; 7] = ["attach", "start", "traffic", "flap", "sm-restart", "stop", "detach"];
    let cases: Vec<(&str, &str)> =
        ["ibd", "ibp"].into_iter().flat_map(|driver| PHASES.map(|phase| (driver, phase))).collect();
    let results = on_all_processors(cases.len(), |one| {
        let (driver, phase) = *cases.get(one)?;
        Some((driver, phase, sweep(driver, phase)))
    });
    let failures: Vec<&String> = results.iter().filter_map(|(.., result)| result.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    for (driver, phase, result) in &results {
        // What is freed takes no memory of the adapter. Nor does a datagram; but a group that is found meanwhile takes an address handle.
        let takes_none = ["stop", "detach"].contains(phase);
        assert!(*phase == "traffic" || (*result == Ok(0)) == takes_none, "{driver}, {phase}: {result:?}");
    }
    let tried: u64 = results.iter().filter_map(|(.., result)| result.as_ref().ok()).sum();
    // A request to the SA is none.
    assert!(tried > 60, "only {tried} points were reached");
}

/// How many calls failed, one in each try.
fn sweep(driver: &str, phase: &str) -> Result<u64, String> {
    let text = std::fs::read_to_string(data("swhca/fault-points.toml")).map_err(|error| error.to_string())?;
    let text = text.replace("phase = \"attach\"", &format!("phase = \"{phase}\""));
    let text = text.replace("driver = \"ibp\"", &format!("driver = \"{driver}\""));
    let scenario = toml::from_str(&text).map_err(|error| error.to_string())?;
    let report = run(scenario, on_swhca(1), |_| {}).map_err(|error| format!("{error:#}"))?;
    if let Some(step) = report.steps.iter().find(|step| !step.ok) {
        return Err(format!("{driver}, {phase}: {}: {}", step.step, step.text));
    }
    let step = report.steps.iter().find(|step| step.step == "fault-points").ok_or("the step is missing")?;
    step.facts["tried"].as_u64().ok_or_else(|| "the step does not say how many".to_owned())
}

#[test]
fn trouble_of_every_kind_that_the_adapter_can_do_ends_well() {
    let file = data("swhca/trouble.toml");
    let failures = on_all_processors(20, |seed| failure(load(&file).expect("a scenario"), seed as u64 + 1));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn pkey_moves_and_packets_are_lost_as_on_a_fabric_of_the_labs() {
    let file = data("swhca/pkey-moves.toml");
    let failures = on_all_processors(10, |seed| failure(load(&file).expect("a scenario"), seed as u64 + 1));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_byte_arrives_on_connections_through_loss_broken_queue_pairs_cables_and_other_lids() {
    let file = data("swhca/connected.toml");
    let failures = on_all_processors(rig::some_of(20) as usize, |seed| {
        failure(load(&file).expect("a scenario"), seed as u64 + 1)
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn leave_that_the_sa_is_late_with_does_not_take_the_membership_that_came_after_it() {
    let file = data("swhca/late-leave.toml");
    let scenario = load(&file).expect("a scenario");
    let seed = scenario.seed;
    assert_eq!(failure(scenario, seed), None);
}

#[test]
fn scenario_says_itself_that_its_links_are_on_the_software_adapter() {
    let scenario = load(&data("swhca/pkey-moves.toml")).expect("a scenario");
    let report = run(scenario, options(1), |_| {}).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!((report.ok, report.hca), (true, HcaKind::Swhca));
}

#[test]
fn trouble_that_is_none_of_the_adapters_is_refused_before_anything_runs() {
    let text = std::fs::read_to_string(data("swhca/trouble.toml")).expect("a scenario");
    let why = |event: &str| {
        let text = text.replacen("{ at_us = 1_000, port-down = { host = \"bob\" } }", event, 1);
        assert!(text.contains(event), "{event}");
        let scenario: Scenario = toml::from_str(&text).unwrap_or_else(|error| panic!("{event}: {error}"));
        run(scenario, on_swhca(1), |_| {}).expect_err("it is refused").to_string()
    };
    for (event, reason) in [
        ("group-deleted = {}", "is of broadcast groups, which it always has"),
        ("sm-restart = { mlids_later = 1 }", "gives groups other LIDs"),
        ("hca-removed = { host = \"bob\" }", "pulls an adapter under attached instances"),
        (
            "link = { host = \"bob\", loss = 5, corrupt = 5, for_ms = 1 }",
            "damages packets (`corrupt`), which the adapter only loses",
        ),
        (
            "link = { host = \"bob\", loss = 5, delay_us = 5, for_ms = 1 }",
            "delays packets (`delay_us`), which the adapter only loses",
        ),
        ("pkey-added = { host = \"bob\", index = 0 }", "puts a P_Key where the default partition's is"),
        ("sends-hang = { host = \"bob\", for_ms = 1 }", "has sends hang, which are done when a post returns"),
        (
            "no-credits = { host = \"bob\", for_ms = 1 }",
            "has sends wait for credits, which are done when a post returns",
        ),
        (
            "sa = { does = { late = 5 }, to = \"join\", for_ms = 1 }",
            "has the SA be late with some requests, which it is with all of a port",
        ),
    ] {
        let event = format!("{{ at_us = 1_000, {event} }}");
        assert_eq!(why(&event), format!("--hca swhca: the step `trouble` {reason}"));
    }
}

#[test]
fn what_the_software_adapter_has_not_is_refused_before_anything_runs() {
    let two = |change: &str| {
        let text = std::fs::read_to_string(data("swhca/random-unload.toml")).expect("a scenario");
        let text = text.replacen("driver = \"ibp\"", &format!("driver = \"ibp\"\n{change}"), 1);
        let scenario: Scenario = toml::from_str(&text).expect("a scenario");
        run(scenario, on_swhca(1), |_| {}).expect_err("it is refused").to_string()
    };
    for (change, why) in [
        ("ports = 2", "host `alice` asks for an adapter with other ports than its own"),
        ("guid = 0x0002_c903_000a_1b2c", "host `alice` asks for a GUID of its own"),
        (
            "offloads = true",
            "`alice` and `bob` have ports of one adapter, with one speed and the same offloads",
        ),
        ("conf = { ibd_tx_rings = 2 }", "`alice` and `bob` are links of one kernel, with one ibp.conf"),
        (
            "speed = \"qdr\"",
            "`alice` and `bob` have ports of one adapter, with one speed and the same offloads",
        ),
    ] {
        assert_eq!(two(change), format!("--hca swhca: {why}"));
    }
    let file = data("hca-removal.toml");
    let refused = run(load(&file).expect("a scenario"), on_swhca(1), |_| {}).expect_err("it is refused");
    assert_eq!(
        refused.to_string(),
        "--hca swhca: the step `hca-removal` pulls an adapter under attached instances"
    );
}
