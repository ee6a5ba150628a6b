//! Every speed that a port can have, on the embedded subnet manager and on a real OpenSM: hosts reach each other in both families
//! and by a group, both ways, and no driver drops a packet. The tables are printed.

mod rig;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;

use ibdlab::report::{Report, SmKind};
use ibdlab::run::{Options, run};
use ibdlab::scenario::{Driver, Scenario, parse};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rig::options;
use serde_spanned::Spanned;

/// What a port signals with, and the code of its rate in the SA's records.
#[derive(Clone, Copy)]
struct Port {
    speed: &'static str,
    lanes: u8,
    code: u8,
    /// Payload, in Mb/s: a port says it itself up to QDR, a faster one's the SA knows.
    payload: u64,
}

const fn port(speed: &'static str, lanes: u8, code: u8, payload: u64) -> Port {
    Port { speed, lanes, code, payload }
}

/// Four lanes of each speed.
const SPEEDS: [Port; 8] = [
    port("sdr", 4, 3, 8_000),
    port("ddr", 4, 6, 16_000),
    port("qdr", 4, 7, 32_000),
    // Nobody can tell it from QDR.
    port("fdr10", 4, 7, 32_000),
    port("fdr", 4, 12, 54_545),
    port("edr", 4, 16, 100_000),
    port("hdr", 4, 17, 200_000),
    port("ndr", 4, 21, 400_000),
];

/// The rate codes that these do not have, each as a port has it.
const OTHERS: [Port; 16] = [
    port("sdr", 1, 2, 2_000),
    port("sdr", 12, 4, 24_000),
    port("ddr", 1, 5, 4_000),
    port("ddr", 12, 8, 48_000),
    port("qdr", 8, 9, 64_000),
    port("qdr", 12, 10, 96_000),
    port("fdr", 1, 11, 13_636),
    port("fdr", 8, 13, 109_090),
    port("fdr", 12, 14, 163_636),
    port("edr", 1, 15, 25_000),
    port("edr", 12, 18, 300_000),
    port("fdr", 2, 19, 27_272),
    port("hdr", 1, 20, 50_000),
    port("hdr", 12, 22, 600_000),
    port("ndr", 8, 23, 800_000),
    port("ndr", 12, 24, 1_200_000),
];

/// Hosts with these ports in one partition; whose broadcast group has this rate, or is made by a host. Everybody sends to everybody.
fn scenario(ports: &[Port], group: Option<u8>) -> Scenario {
    let mut text = String::from("name = \"speeds\"\n[[partition]]\npkey = 0xffff\n");
    // Writing to a String cannot fail.
    let _ = match group {
        Some(code) => writeln!(text, "rate = {code}"),
        None => writeln!(text, "ipoib = false"),
    };
    for (n, Port { speed, lanes, .. }) in (1..).zip(ports) {
        let addresses = format!("[\"10.0.0.{n}/24\", \"fd00::{n}/64\"]");
        let _ = writeln!(
            text,
            "[[host]]\nname = \"h{n}\"\nspeed = \"{speed}\"\nwidth = {lanes}\naddresses = {addresses}"
        );
    }
    text.push_str("[[step]]\nattach = {}\n[[step]]\nup = { within_ms = 60_000 }\n");
    let pairs = (1..=ports.len()).flat_map(|a| (1..=ports.len()).map(move |b| (a, b)));
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        for address in [format!("10.0.0.{to}"), format!("fd00::{to}")] {
            let _ =
                writeln!(text, "[[step]]\nping = {{ from = \"h{from}\", to = \"{address}\", count = 10 }}");
        }
        // A group of each pair: what is still on its way to one is not taken for another's.
        let group = format!("239.1.{from}.{to}");
        let _ = writeln!(
            text,
            "[[step]]\nmulticast = {{ from = \"h{from}\", to = \"h{to}\", group = \"{group}\", count = 1 }}"
        );
    }
    text.push_str("[[step]]\ncounts = {}\n[[step]]\nunload = {}\n");
    parse("speeds.toml".as_ref(), &text).expect("a scenario")
}

/// One row of a table, and whether it is as it should be.
fn row(cell: &Cell, options: Options) -> (String, bool) {
    let Cell { name, ports, scenario } = cell;
    let report = match run(scenario.clone(), options, |_| {}) {
        Ok(report) => report,
        Err(error) => return (format!("{name:<28} {error:#}"), false),
    };
    if let Some(failed) = report.steps.iter().find(|step| !step.ok) {
        return (format!("{name:<28} {}: {}", failed.step, failed.text), false);
    }
    let of = |step: &str| report.steps.iter().filter(|report| report.step == step).count();
    let (dropped, speeds) = (dropped(&report), speeds(&report, ports));
    let wanted: Vec<u64> = ports.iter().map(|port| port.payload).collect();
    let text = format!(
        "{name:<28} {} ways pinged, {} groups heard; {dropped} dropped; Mb/s {speeds:?}",
        of("ping"),
        of("multicast")
    );
    (text, dropped == 0 && speeds == wanted)
}

/// Packets that drivers dropped while others answered or heard.
fn dropped(report: &Report) -> u64 {
    let sends = report.steps.iter().filter(|step| matches!(step.step, "ping" | "multicast"));
    sends.map(|step| step.facts["dropped"].as_u64().expect("a number")).sum()
}

/// What each link says of its speed, in Mb/s.
fn speeds(report: &Report, ports: &[Port]) -> Vec<u64> {
    let counts = report.steps.iter().find(|step| step.step == "counts").expect("the step");
    let of = |n: usize| counts.facts[&format!("h{n}.ifspeed")].as_u64().expect("a number") / 1_000_000;
    (1..=ports.len()).map(of).collect()
}

struct Cell {
    name: String,
    ports: Vec<Port>,
    scenario: Scenario,
}

impl Cell {
    fn new(name: String, ports: Vec<Port>, group: Option<u8>) -> Self {
        Self { name, scenario: scenario(&ports, group), ports }
    }
}

/// Two equal ports, whose group is as fast as they are.
fn pairs(ports: &[Port]) -> Vec<Cell> {
    let name = |port: &Port| format!("{}x {}, rate code {}", port.lanes, port.speed, port.code);
    ports.iter().map(|port| Cell::new(name(port), vec![*port; 2], Some(port.code))).collect()
}

/// Runs every cell, a few at a time; each one's row, and whether it is as it should be.
fn rows(cells: &[Cell], workers: usize, options: impl Fn() -> Options + Sync) -> Vec<(String, bool)> {
    let rows = Mutex::new(Vec::new());
    let next = Mutex::new(cells.iter().enumerate());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let cell = next.lock().expect("no worker panics with it").next();
                    let Some((n, cell)) = cell else { return };
                    let row = row(cell, options());
                    rows.lock().expect("no worker panics with it").push((n, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no worker panics with it");
    rows.sort_by_key(|(n, _)| *n);
    assert_eq!(rows.len(), cells.len());
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Fails if a row is not as it should be.
fn check(rows: &[(String, bool)]) {
    let wrong: Vec<&str> = rows.iter().filter(|(_, ok)| !ok).map(|(row, _)| &**row).collect();
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Not through the test harness, which keeps what a passing test prints to itself.
fn print(title: &str, rows: &[(String, bool)]) {
    let text: String = rows.iter().map(|(row, _)| format!("  {row}\n")).collect();
    write!(std::io::stdout(), "{title}\n{text}").expect("standard output");
}

fn mixed(names: &[&str]) -> Vec<Cell> {
    let ports: Vec<Port> = SPEEDS.iter().filter(|port| names.contains(&port.speed)).copied().collect();
    assert_eq!(ports.len(), names.len());
    let name = |what: &str| format!("{}, {what}", names.join(" "));
    // The first to look for a group makes it.
    let fast_first = ports.iter().rev().copied().collect();
    vec![Cell::new(name("usual group"), ports, Some(3)), Cell::new(name("a host's group"), fast_first, None)]
}

/// Two to five hosts with any ports of 10 Gb/s or more and an MTU of 2048 or 4096 each, and a group that all of them can be in, or
/// one that a host makes.
fn any(seed: u64) -> Cell {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let all: Vec<Port> = SPEEDS.iter().chain(&OTHERS).filter(|port| port.payload >= 8_000).copied().collect();
    let ports: Vec<Port> =
        (0..rng.random_range(2..=5)).map(|_| all[rng.random_range(0..all.len())]).collect();
    let slowest = ports.iter().min_by_key(|port| port.payload).expect("two at least");
    let group = rng.random_bool(0.5).then_some(slowest.code);
    let mut cell = Cell::new(format!("seed {seed}"), ports, group);
    let at = |value| Spanned::new(0..0, value);
    let (fabric, partition) = (&mut cell.scenario.fabric, &mut cell.scenario.partition[0]);
    (fabric.mtu, fabric.sa_delay_ms) = (at(4096), rng.random_range(1..50));
    for host in cell.scenario.host.iter_mut().map(Spanned::get_mut) {
        host.mtu = Some(at(if rng.random() { 2048 } else { 4096 }));
        host.driver = if rng.random() { Driver::Ibd } else { Driver::Ibp };
    }
    let mtus = cell.scenario.host.iter().filter_map(|host| host.get_ref().mtu.as_ref());
    partition.get_mut().mtu = at(mtus.map(|mtu| *mtu.get_ref()).min().expect("two at least"));
    cell
}

#[test]
fn every_rate_code_on_the_embedded_subnet_manager() {
    let ports: Vec<Port> = SPEEDS.iter().chain(&OTHERS).copied().collect();
    let codes: Vec<u8> = (2..=24).filter(|code| !ports.iter().any(|port| port.code == *code)).collect();
    assert!(codes.is_empty(), "no port has {codes:?}");
    let cells: Vec<Cell> = pairs(&ports).into_iter().chain(mixed(&["sdr", "qdr", "edr", "ndr"])).collect();
    let rows = rows(&cells, 2, || options(1));
    print("speeds on the embedded subnet manager", &rows);
    check(&rows);
}

#[test]
fn any_ports_in_one_partition_reach_each_other() {
    let cells: Vec<Cell> = (1..=60).map(any).collect();
    check(&rows(&cells, 2, || options(1)));
}

#[test]
fn every_speed_that_ibsim_has_on_a_real_opensm() {
    let ports: Vec<Port> = SPEEDS.iter().filter(|port| port.speed != "ndr").copied().collect();
    let cells: Vec<Cell> = pairs(&ports).into_iter().chain(mixed(&["sdr", "qdr", "hdr"])).collect();
    // They wait most of the time, for each of several processes.
    let opensm = || Options { live: true, sm: SmKind::Opensm, ..options(1) };
    let rows = rows(&cells, 5, opensm);
    print("speeds on OpenSM", &rows);
    check(&rows);
}
