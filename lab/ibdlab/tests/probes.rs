//! The driver's DTrace probes, enabled.

use ibdlab::report::Report;
use ibdlab::run::{Options, run};
use ibdlab::scenario::load;

mod rig;

fn with_probes(probes: bool) -> Report {
    run_of("trouble-of-every-kind.toml", probes)
}

fn run_of(file: &str, probes: bool) -> Report {
    let scenario = load(&rig::data(file)).expect("a scenario");
    run(scenario, Options { probes, ..rig::options(3) }, |_| {}).expect("the run begins")
}

#[test]
fn probes_show_what_a_link_goes_through_and_change_nothing() {
    let (plain, traced) = (with_probes(false), with_probes(true));
    assert!(plain.ok && traced.ok);
    let hash = |report: &Report| report.trace.as_ref().map(|trace| trace.hash.clone());
    assert_eq!(hash(&plain), hash(&traced), "the same kernel calls in the same order");
    assert!(plain.probes.is_empty());
    for told in [
        "alice ibd ibd-link-state link=0 state=\"up\"",
        "ibd-link-state link=0 state=\"waits for port\"",
        "ibd-sa-ask link=0 what=\"join\" gid_high=ff12401bffff0000 gid_low=00000000ffffffff",
        "ibd-sa-answer link=0 what=\"path\" gid_low=",
        "ibd-qp-up link=0 qpn=",
        "ibd-qp-down link=0",
        "ibd-qp-broken link=0 why=\"failed\"",
        "ibd-tx-drop link=0 reason=\"tx_drop_",
        "ibd-rx-drop link=0 reason=\"rx_drop_",
    ] {
        let found = traced.probes.iter().any(|line| line.contains(told));
        assert!(found, "{told}: {} lines, such as {:#?}", traced.probes.len(), &traced.probes[..20]);
    }
}

#[test]
fn a_full_ring_says_so_once_and_once_that_it_has_room() {
    let report = run_of("full-ring.toml", true);
    assert!(report.ok);
    let told = |line: &String| {
        let name = line.split_whitespace().find_map(|word| word.strip_prefix("ibd-tx-"))?;
        (line.contains(" alice ") && name != "drop").then(|| name.to_owned())
    };
    let told: Vec<String> = report.probes.iter().filter_map(told).collect();
    assert!(!told.is_empty());
    for pair in told.chunks(2) {
        assert_eq!(pair, ["full", "resume"], "{told:?}");
    }
}

#[test]
fn probes_show_how_connections_come_and_go() {
    let report = run_of("connections.toml", true);
    assert!(report.ok, "{:#?}", report.steps.iter().map(|step| &step.text).collect::<Vec<_>>());
    for told in [
        "alice ibp ibd-cm-open link=",
        "alice ibp ibd-cm-open-failed link=",
        "why=\"failed\"",
        "alice ibp ibd-cm-opened link=",
        "bob ibp ibd-cm-accepted link=",
        "opened_by=\"link\"",
        "opened_by=\"neighbour\"",
    ] {
        let connections: Vec<_> = report.probes.iter().filter(|line| line.contains("ibd-cm-")).collect();
        assert!(connections.iter().any(|line| line.contains(told)), "{told}: {connections:#?}");
    }
}
