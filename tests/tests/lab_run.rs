//! What a run of `ibdlab` does with a module that is not ours.

#![forbid(unsafe_code)]

use conformance::probe::{Probe, workspace_root};
use fakekernel::{Rule, Suppression, Suppressions};
use ibdlab::report::Report;
use ibdlab::run::{Options, run};
use ibdlab::scenario::{ModuleOverride, load};

/// A module whose `_init` leaves a mutex that it never entered, and then fails.
const CARELESS: &str = "
    #include <sys/mutex.h>
    #include <sys/modctl.h>
    static kmutex_t lock;
    static void careless(void) { mutex_exit(&lock); }
    int _init(void) { mutex_init(&lock, NULL, MUTEX_DRIVER, NULL); careless(); mutex_destroy(&lock); return (5); }
    int _fini(void) { return (0); }
    int _info(struct modinfo *info) { return (0); }";

fn attach_to(driver: &Probe, suppress: Suppressions) -> Report {
    let scenario = load(&workspace_root().join("scenarios/two-hosts.toml")).expect("the scenario");
    let bobs = ModuleOverride { host: "bob".into(), name: "ibd".into(), path: driver.build() };
    let ours = Options::new(1, workspace_root().join("proto/kernel"));
    let options = Options { modules: vec![bobs], suppress, ..ours };
    run(scenario, options, |_| {}).expect("the run begins")
}

fn leaves_a_mutex(function: &str) -> Suppression {
    Suppression {
        host: None,
        module: "ibd".into(),
        rule: Rule::MutexNotOwner,
        call: Some("mutex_exit".into()),
        function: Some(function.into()),
        evidence: "its source says so".into(),
    }
}

#[test]
fn a_rule_broken_on_the_first_thread_ends_the_run_and_is_named() {
    let report = attach_to(&Probe::new("ibd").source(CARELESS), Suppressions::default());
    let last = report.steps.last().expect("a step");
    assert!(!report.ok && last.step == "attach");
    assert!(last.text.contains("ibd [P] broke rule 6"), "{}", last.text);
    assert!(last.text.contains("ibd`_init"), "{}", last.text);
}

#[test]
fn a_known_violation_is_counted_and_one_that_did_not_come_up_is_named() {
    let known = Suppressions(vec![leaves_a_mutex("_init"), leaves_a_mutex("elsewhere")]);
    let report = attach_to(&Probe::new("ibd").source(CARELESS), known);
    let last = report.steps.last().expect("a step");
    assert!(last.text.contains("ibd _init: "), "the run went on to _init's own error: {}", last.text);
    let suppressed: Vec<_> = report.notes.iter().filter(|note| !note["suppressed"].is_null()).collect();
    assert_eq!(suppressed.len(), 1);
    assert_eq!(suppressed[0]["times"], 1);
    assert_eq!(suppressed[0]["suppressed"], "its source says so");
    assert_eq!(report.unused_suppressions, ["ibd on bob, rule 6 in mutex_exit of elsewhere"]);
}
