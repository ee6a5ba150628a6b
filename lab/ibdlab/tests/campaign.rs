//! Campaigns: reproducible by seed; what fails is found, made small, and written as a scenario that fails in the same way.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use fakekernel::{Choice, Decision, Nanos};
use ibdlab::campaign::{Campaign, Origin, Search, Trials, events, fewer_decisions, shrink};
use ibdlab::scenario::trouble::{Event, StallSpec};
use ibdlab::scenario::{DecisionText, Scenario, Schedule, Step, UpStep, load, parse};

fn proto() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/kernel")
}

fn trials(directory: &Path) -> Trials {
    let trials = Trials::new(&proto(), directory).expect("a directory to write in");
    trials.with_program(Path::new(env!("CARGO_BIN_EXE_ibdlab")))
}

fn generate(seed: u64, index: u64) -> Scenario {
    Search::Schedules.scenario(seed, index)
}

/// The events of all timelines.
fn timeline(scenario: &Scenario) -> impl Iterator<Item = &Event> {
    scenario
        .step
        .iter()
        .flat_map(|step| match step.get_ref() {
            Step::Trouble(trouble) => trouble.event.as_slice(),
            _ => &[],
        })
        .map(|timed| &timed.event)
}

#[test]
fn a_scenario_follows_from_seed_and_number() {
    assert_eq!(generate(7, 30), generate(7, 30));
    assert_ne!(generate(7, 30), generate(7, 31));
    assert_ne!(generate(7, 30), generate(8, 30));
}

#[test]
fn scenarios_read_back_as_they_were_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("scenario.toml");
    for index in 0..300 {
        let scenario = generate(3, index);
        std::fs::write(&file, scenario.to_toml().expect("TOML")).expect("written");
        let read = load(&file).unwrap_or_else(|error| panic!("scenario {index}: {error}"));
        assert_eq!(read.to_toml(), scenario.to_toml(), "scenario {index}");
    }
}

#[test]
fn two_runs_of_one_scenario_make_the_same_kernel_calls() {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = trials(directory.path());
    for index in 0..4 {
        let scenario = generate(11, index);
        let [one, other] = [(); 2].map(|()| trials.run(&scenario).expect("a run"));
        assert_eq!(one.failure, other.failure);
        assert!(!one.hash.is_empty(), "{:?}", one.failure);
        assert_eq!(one.hash, other.hash, "scenario {index}");
    }
}

#[test]
fn a_run_is_repeated_from_what_was_decided_about_its_threads() {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = trials(directory.path());
    for index in 0..6 {
        let scenario = generate(11, index);
        let hash = trials.run(&scenario).expect("a run").hash;
        let decisions = trials.decisions(&scenario).expect("a run");
        assert!(decisions.len() > 10, "{} decisions", decisions.len());
        let replay = Scenario { schedule: Some(Schedule::Replay(decisions)), ..scenario.clone() };
        let kept = parse(Path::new("replay.toml"), &replay.to_toml().expect("TOML")).expect("a scenario");
        assert_eq!(trials.run(&kept).expect("a run").hash, hash, "{:?}", scenario.schedule);
    }
}

#[test]
fn a_run_in_which_threads_stalled_is_repeated_from_its_decisions() {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = trials(directory.path());
    let stalls = Some(StallSpec { one_in: 20, longest_us: 10_000 });
    let is_trouble =
        |drawn: &Scenario| drawn.step.iter().any(|step| matches!(step.as_ref(), Step::Trouble(_)));
    let drawn = (0..20).map(|index| generate(5, index)).find(is_trouble);
    let drawn = drawn.expect("one of twenty has trouble");
    let with = |stalls| {
        let mut scenario = drawn.clone();
        scenario.step.iter_mut().for_each(|step| {
            if let Step::Trouble(trouble) = step.as_mut() {
                trouble.stalls = stalls;
            }
        });
        scenario
    };
    let offs = |decisions: &[DecisionText]| {
        decisions.iter().filter(|text| matches!(text.0.choice, Choice::Off(_))).count()
    };
    let scenario = with(stalls);
    let decisions = trials.decisions(&scenario).expect("a run");
    assert!(offs(&decisions) > 10, "{} stalls", offs(&decisions));
    assert_eq!(offs(&trials.decisions(&with(None)).expect("a run")), 0);
    let replay = Scenario { schedule: Some(Schedule::Replay(decisions)), ..scenario.clone() };
    let hash = |scenario: &Scenario| trials.run(scenario).expect("a run").hash;
    assert_eq!(hash(&replay), hash(&scenario));
}

#[test]
fn an_event_that_waits_for_a_call_takes_place_in_it_and_again_when_the_run_is_repeated() {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = trials(directory.path());
    let scenario =
        load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/on-a-call.toml")).expect("a scenario");
    let outcome = trials.run(&scenario).expect("a run");
    assert_eq!(outcome.failure, None);
    let [happened] = &outcome.happened[..] else { panic!("{:?}", outcome.happened) };
    assert_eq!(happened.iter().map(|event| event.event).collect::<Vec<_>>(), [0, 1, 2]);
    let [opened, closed] = [happened[1], happened[2]];
    assert!(opened.from_us < closed.from_us && closed.from_us < opened.from_us + 5_000, "{happened:?}");

    let decisions = trials.decisions(&scenario).expect("a run");
    let held = Choice::Off(Nanos::from_micros(300));
    assert_eq!(decisions.iter().filter(|text| text.0.choice == held).count(), 1);
    let replay = Scenario { schedule: Some(Schedule::Replay(decisions)), ..scenario };
    let again = trials.run(&replay).expect("a run");
    assert_eq!((again.hash, &again.happened[..]), (outcome.hash, &[happened.clone()][..]));
}

#[test]
fn a_call_that_no_kernel_has_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = include_str!("data/on-a-call.toml").replace("ibt_free_pd", "ibt_free_px");
    let scenario = parse(Path::new("s.toml"), &text).expect("a scenario");
    let failure = trials(directory.path()).run(&scenario).expect("a run").failure.expect("a failure");
    assert_eq!(
        failure.text,
        "trouble: the lab's kernel has no function `ibt_free_px`, for which an event waits"
    );
}

#[test]
fn of_the_decisions_those_are_left_that_a_failure_needs() {
    let needed = [12, 40, 77];
    let steps = |scenario: &Scenario| match &scenario.schedule {
        Some(Schedule::Replay(decisions)) => decisions.iter().map(|text| text.0.step).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let decision = |step| DecisionText(Decision { thread: 1, step, choice: Choice::Switch(2) });
    let all: Vec<_> = (0..100).map(decision).collect();
    let fails = |scenario: &Scenario| needed.iter().all(|step| steps(scenario).contains(step));
    let few = fewer_decisions(&generate(5, 1), all.clone(), 1_000, fails).expect("all of them make it fail");
    assert_eq!(steps(&few.scenario), needed);
    assert!(few.runs < 200, "{} runs", few.runs);
    assert!(fewer_decisions(&generate(5, 1), all[..50].to_vec(), 1_000, fails).is_none());
    assert_eq!(fewer_decisions(&generate(5, 1), all, 10, fails).map(|few| few.runs), Some(10));
}

/// Two events of one host, in this order, among many others.
fn has_the_planted_fault(scenario: &Scenario) -> bool {
    let of_bob = |event: &&Event| event.host().is_some_and(|host| host.get_ref() == "bob");
    let mut bobs = timeline(scenario).filter(of_bob);
    bobs.any(|event| matches!(event, Event::Unload(_))) && bobs.any(|event| matches!(event, Event::Load(_)))
}

#[test]
fn a_planted_fault_shrinks_to_its_two_events() {
    let found = (0..2_000).map(|index| generate(5, index)).filter(has_the_planted_fault);
    let large = found.max_by_key(events).expect("one in 2000 scenarios has it");
    assert!(events(&large) > 10, "{} events", events(&large));
    let small = shrink(large, 10_000, has_the_planted_fault).scenario;
    assert_eq!(events(&small), 2);
    assert_eq!(small.host.len(), 2);
    assert!(has_the_planted_fault(&small));
}

#[test]
fn shrinking_stops_when_its_budget_is_spent() {
    let mut runs = 0;
    let shrunk = shrink(generate(5, 1), 10, |_| {
        runs += 1;
        false
    });
    assert_eq!((shrunk.runs, runs), (10, 10));
    assert_eq!(shrunk.scenario, generate(5, 1));
}

/// A link cannot be up in no time, so every scenario fails: the campaign must find that once and write it so that it fails
/// again, with the same kernel calls.
#[test]
fn a_failure_is_kept_as_a_scenario_that_fails_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let trials = trials(directory.path());
    let mut scenario = generate(1, 0);
    for step in &mut scenario.step {
        if let Step::Up(up) = step.as_mut() {
            *up = UpStep { within_ms: 0, after_first_ms: None };
        }
    }
    let first = trials.run(&scenario).expect("a run");
    let signature = first.failure.expect("a failure").signature;
    let small = shrink(scenario, 200, |candidate| {
        let failure = trials.run(candidate).expect("a run").failure;
        failure.is_some_and(|failure| failure.signature == signature)
    });
    assert_eq!(events(&small.scenario), 0);
    let file = directory.path().join("kept.toml");
    std::fs::write(&file, small.scenario.to_toml().expect("TOML")).expect("written");
    let kept = load(&file).expect("a scenario");
    let [one, other] = [&small.scenario, &kept].map(|scenario| trials.run(scenario).expect("a run"));
    assert_eq!(one.failure, other.failure);
    assert_eq!(one.hash, other.hash);
}

#[test]
fn a_process_that_dies_is_a_finding_and_not_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let campaign = Campaign {
        search: Search::Schedules,
        pairs: false,
        first: 0,
        seed: 1,
        strategy: None,
        time: None,
        scenarios: Some(3),
        until_found: false,
        workers: 1,
        shrink_runs: 400,
        out: directory.path().to_owned(),
        proto: proto(),
        counting: None,
        atomics: None,
        races: None,
        program: Some("/bin/false".into()),
    };
    let summary = campaign.run(|_| {}).expect("a campaign");
    assert_eq!((summary.scenarios, summary.failed, summary.findings.len()), (3, 3, 1));
    assert!(summary.findings[0].failure.signature.contains("died"), "{:?}", summary.findings);
    assert!(directory.path().join("summary.txt").is_file());
    assert!(summary.findings[0].file.is_file());
}

#[test]
fn events_wait_for_calls_that_were_made_in_a_run_without_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let pairs = Campaign {
        search: Search::Schedules,
        pairs: true,
        first: 0,
        seed: 1,
        strategy: None,
        time: None,
        scenarios: Some(24),
        until_found: false,
        workers: 2,
        shrink_runs: 400,
        out: directory.path().to_owned(),
        proto: proto(),
        counting: None,
        atomics: None,
        races: None,
        program: Some(env!("CARGO_BIN_EXE_ibdlab").into()),
    };
    let summary = pairs.run(|_| {}).expect("a campaign");
    assert_eq!((summary.scenarios, summary.failed), (24, 0), "{:?}", summary.findings);
    // A thread that is held changes what comes after it, so an event at a late call may miss it.
    let (came, waited) = summary.waiting;
    assert!(waited >= 24 && came * 4 >= waited * 3, "{came} of {waited}");

    let drawn = Campaign { pairs: false, scenarios: Some(12), ..pairs };
    let summary = drawn.run(|_| {}).expect("a campaign");
    assert_eq!((summary.scenarios, summary.failed), (12, 0), "{:?}", summary.findings);
}

#[test]
fn a_second_campaign_in_a_directory_is_refused_while_the_first_one_is_at_work() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = File::open(directory.path()).expect("it is there");
    first.try_lock().expect("nobody else has it");
    let second = || {
        let mut ibdlab = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
        ibdlab.args(["campaign", "--schedules", "1", "--workers", "1", "--proto"]).arg(proto());
        let output = ibdlab.arg("--out").arg(directory.path()).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = second();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another campaign is at work in"), "{said}");
    drop(first);
    let (code, said) = second();
    assert_eq!(code, Some(0), "{said}");
}

/// Before, each run failed, and that was a finding, made small in eight more runs.
#[test]
fn a_campaign_without_objects_ends_before_its_first_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut ibdlab = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
    ibdlab.args(["campaign", "--proto", "/nowhere", "--schedules", "1", "--out"]).arg(directory.path());
    let output = ibdlab.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said, "ibdlab: /nowhere/mac/amd64/mac_ib: no such object; `make modules` builds ours\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn one_worker_repeats_a_campaign_by_its_seed_with_what_it_makes_of_the_corpus() {
    let directory = tempfile::tempdir().expect("a directory");
    let campaign = Campaign {
        search: Search::Schedules,
        pairs: false,
        first: 0,
        seed: 3,
        strategy: None,
        time: None,
        scenarios: Some(15),
        until_found: false,
        workers: 1,
        shrink_runs: 0,
        out: directory.path().to_owned(),
        proto: proto(),
        counting: None,
        atomics: None,
        races: None,
        program: Some(env!("CARGO_BIN_EXE_ibdlab").into()),
    };
    let run = || {
        let summary = campaign.run(|_| {}).expect("a campaign");
        (summary.kernel_calls, summary.corpus, summary.origins)
    };
    let (calls, corpus, origins) = run();
    assert!(origins[&Origin::Corpus].schedules > 0 && origins[&Origin::Drawn].news > 0, "{origins:?}");
    assert!(corpus.0 > 0 && corpus.1 > 1_000, "{corpus:?}");
    assert_eq!(run(), (calls, corpus, origins));
}

/// `make campaign-proof` takes an hour and more; that its faults can still be planted is seen at once.
#[test]
fn every_planted_fault_still_fits_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut patches = 0;
    for search in ["schedules", "fabrics"] {
        let faults = std::fs::read_dir(root.join("tests/planted").join(search)).expect("planted faults");
        for fault in faults {
            let fault = fault.expect("a planted fault").path();
            let applied =
                Command::new("git").args(["apply", "--check"]).arg(&fault).current_dir(&root).output();
            let applied = applied.expect("git");
            let said = String::from_utf8_lossy(&applied.stderr);
            assert!(applied.status.success(), "{}: {said}", fault.display());
            patches += 1;
        }
    }
    assert!(patches >= 9, "{patches} planted faults");
}
