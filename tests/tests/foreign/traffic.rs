//! Either driver on either host: attach, partition, ping, TCP, multicast, IPv4 and IPv6, unload.

use std::collections::BTreeMap;
use std::fs;

use conformance::probe::workspace_root;
use ibdlab::report::{Report, SmKind};
use ibdlab::run::{Options, run};

use ibdlab::scenario::{ModuleOverride, load};
use ibdlab::suppress;

use super::object;

const SCENARIO: &str = "scenarios/with-the-c-driver.toml";
const KNOWN: &str = "scenarios/suppress/illumos-ibp.toml";
const SEEDS: u64 = 10;
const LIVE_RUNS: u64 = 3;

/// A scenario, and which of its modules are foreign.
pub struct Exchange {
    text: String,
    foreign: Vec<(&'static str, &'static str)>,
    /// What was suppressed in the runs so far, and how often.
    suppressed: BTreeMap<String, u64>,
}

impl Exchange {
    /// The people's scenario with driver and plugin of these hosts in C.
    fn with_c_on(hosts: &[&'static str]) -> Self {
        Self::of(&fs::read_to_string(workspace_root().join(SCENARIO)).expect("the scenario"), hosts)
    }

    /// A scenario with driver and plugin of these hosts in C.
    pub fn of(text: &str, hosts: &[&'static str]) -> Self {
        let text = text.to_owned();
        let foreign = hosts.iter().flat_map(|host| [(*host, "mac_ib"), (*host, "ibp")]).collect();
        Self { text, foreign, suppressed: BTreeMap::new() }
    }

    /// Something else happens before the unload.
    pub fn and(mut self, steps: &[&str]) -> Self {
        let steps: String = steps.iter().map(|step| format!("[[step]]\n{step}\n\n")).collect();
        let end = self.text.rfind("[[step]]").expect("a last step");
        self.text.insert_str(end, &steps);
        self
    }

    /// The scenario says something else in one place.
    fn saying(mut self, instead_of: &str, text: &str) -> Self {
        let at = self.text.rfind(instead_of).expect("the scenario says so");
        self.text.replace_range(at..at + instead_of.len(), text);
        self
    }

    fn run(&self, seed: u64, live: bool) -> Report {
        self.run_under(SmKind::Embedded, seed, live)
    }

    pub fn run_under(&self, sm: SmKind, seed: u64, live: bool) -> Report {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("exchange.toml");
        fs::write(&file, &self.text).expect("written");
        let (root, objects) = (workspace_root(), self.foreign.iter());
        let modules = objects.map(|(host, name)| ModuleOverride {
            host: (*host).to_owned(),
            name: (*name).to_owned(),
            path: object(name),
        });
        let options = Options {
            live,
            sm,
            modules: modules.collect(),
            suppress: suppress::load(&root.join(KNOWN)).expect("the known violations"),
            ..Options::new(seed, root.join("proto/kernel"))
        };
        run(load(&file).expect("a scenario"), options, |_| {}).expect("the run begins")
    }

    /// Runs it, and every step goes well.
    #[track_caller]
    pub fn goes_well(&mut self, seed: u64, live: bool) -> Report {
        let report = self.run(seed, live);
        self.went_well(&report);
        report
    }

    /// Every step went well; counts what was suppressed.
    #[track_caller]
    pub fn went_well(&mut self, report: &Report) {
        let steps: Vec<String> = report.steps.iter().map(|step| step.line()).collect();
        assert!(report.ok, "seed {}, {}:\n{}", report.seed, report.mode, steps.join("\n"));
        for note in report.notes.iter().filter(|note| !note["suppressed"].is_null()) {
            let what = format!("rule {} in {}: {}", note["rule"], note["call"], note["suppressed"]);
            *self.suppressed.entry(what).or_default() += note["times"].as_u64().unwrap_or_default();
        }
    }

    #[track_caller]
    fn goes_well_in_both_schedulings(mut self) {
        for seed in 1..=SEEDS {
            self.goes_well(seed, false);
        }
        for run in 1..=LIVE_RUNS {
            self.goes_well(run, true);
        }
        println!("seeds 1 to {SEEDS}, {LIVE_RUNS} live runs; suppressed:");
        self.suppressed.iter().for_each(|(what, times)| println!("{times:6} times {what}"));
    }
}

#[test]
fn c_driver_attaches_gets_a_partition_and_opens_its_link() {
    let report = Exchange::with_c_on(&["bob"]).goes_well(1, false);
    let up = report.steps.iter().find(|step| step.step == "up").expect("a step");
    assert!(up.text.contains("bob: pFFFF.ibp0 up, 16 Gb/s, broadcast group joined"), "{}", up.text);
}

#[test]
fn our_driver_and_the_c_driver_carry_ip_for_each_other() {
    Exchange::with_c_on(&["bob"]).goes_well_in_both_schedulings();
}

/// The other one is first at the subnet manager, and the first to send.
#[test]
fn the_c_driver_and_ours_carry_ip_for_each_other() {
    Exchange::with_c_on(&["alice"]).goes_well_in_both_schedulings();
}

#[test]
fn two_c_drivers_carry_ip_for_each_other() {
    Exchange::with_c_on(&["alice", "bob"]).goes_well_in_both_schedulings();
}

#[test]
fn either_driver_runs_with_the_others_plugin() {
    let mut crossed = Exchange::with_c_on(&[]);
    crossed.foreign = vec![("alice", "mac_ib"), ("bob", "ibp")];
    crossed.goes_well(1, false);
}

/// Ours speaks datagrams only; the C driver sees that in our address and does so too.
#[test]
fn c_driver_in_connected_mode_speaks_datagrams_with_ours() {
    let mut connected = Exchange::with_c_on(&["bob"])
        .saying("linkmode = \"ud\"", "linkmode = \"cm\"")
        // Larger ones are for connections.
        .saying(
            "to = \"192.168.76.1\", count = 200",
            "to = \"192.168.76.1\", count = 200, sizes = [0, 2016]",
        );
    for seed in 1..=SEEDS {
        let report = connected.goes_well(seed, false);
        let resolve = report.steps.iter().find(|step| step.step == "resolve").expect("a step");
        assert!(resolve.text.contains("192.168.76.2 is at 80:"), "connected mode shows: {}", resolve.text);
    }
}

#[test]
fn unplugged_ports_and_another_subnet_manager_part_neither_driver_from_the_other() {
    let again = "multicast = { from = \"alice\", to = \"bob\", group = \"239.1.2.3\", count = 20 }";
    let mut trouble = Exchange::with_c_on(&["bob"]).and(&[
        "flap = { host = \"bob\", down_ms = 3_000 }",
        "flap = { host = \"alice\", down_ms = 3_000 }",
        again,
        "sm-restart = { away_ms = 2_000 }",
        again,
    ]);
    for seed in 1..=SEEDS {
        trouble.goes_well(seed, false);
    }
}

/// Checksums, large sends and a reserved key change what the C driver allocates and registers.
#[test]
fn adapter_that_offloads_serves_the_c_driver_too() {
    Exchange::with_c_on(&["bob"]).saying("properties =", "offloads = true\nproperties =").goes_well(1, false);
}

/// Three parties that know nothing of each other: our driver, the C driver, and a subnet manager of neither.
#[test]
fn c_driver_and_ours_meet_under_a_real_opensm() {
    let mut exchange = Exchange::with_c_on(&["bob"]);
    let report = exchange.run_under(SmKind::Opensm, 1, true);
    exchange.went_well(&report);
}

#[test]
fn one_seed_is_one_run_of_the_c_driver_too() {
    let exchange = Exchange::with_c_on(&["bob"]);
    let hashes = [1, 1, 2].map(|seed| exchange.run(seed, false).trace.expect("virtual time").hash);
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}
