//! Every speed that a port can have, on the embedded subnet manager and on a real OpenSM: hosts reach each other in both families
//! and by a group, both ways, and no driver drops a packet. Each test prints its table.

mod rig;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;

use ibdlab::report::{Report, SmKind};
use ibdlab::run::{Options, run};
use ibdlab::scenario::{Scenario, parse};
use rig::options;

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
fn row(name: &str, ports: &[Port], group: Option<u8>, options: Options) -> (String, bool) {
    let report = match run(scenario(ports, group), options, |_| {}) {
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
        "{name:<28} {} of {} pings, {} of {} groups; {dropped} dropped; Mb/s {speeds:?}",
        of("ping"),
        of("ping"),
        of("multicast"),
        of("multicast"),
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

type Cell = (String, Vec<Port>, Option<u8>);

/// Two equal ports, whose group is as fast as they are; and one that a host makes.
fn pairs(ports: &[Port]) -> Vec<Cell> {
    let name = |port: &Port| format!("{}x {}, rate code {}", port.lanes, port.speed, port.code);
    ports.iter().map(|port| (name(port), vec![*port; 2], Some(port.code))).collect()
}

/// Runs every cell, a few at a time, prints the table, and fails if a row is not as it should be.
fn table(title: &str, cells: &[Cell], workers: usize, options: impl Fn() -> Options + Sync) {
    let rows = Mutex::new(Vec::new());
    let next = Mutex::new(cells.iter().enumerate());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let cell = next.lock().expect("no worker panics with it").next();
                    let Some((n, (name, ports, group))) = cell else { return };
                    let row = row(name, ports, *group, options());
                    rows.lock().expect("no worker panics with it").push((n, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no worker panics with it");
    rows.sort_by_key(|(n, _)| *n);
    let text: String = rows.iter().map(|(_, (row, _))| format!("  {row}\n")).collect();
    // Not through the test harness, which keeps what a passing test prints to itself.
    write!(std::io::stdout(), "{title}\n{text}").expect("standard output");
    assert_eq!(rows.len(), cells.len());
    let wrong = rows.iter().filter(|(_, (_, ok))| !ok).count();
    assert_eq!(wrong, 0, "{wrong} of {} rows are wrong:\n{text}", rows.len());
}

fn mixed(names: &[&str]) -> Vec<Cell> {
    let ports: Vec<Port> = SPEEDS.iter().filter(|port| names.contains(&port.speed)).copied().collect();
    assert_eq!(ports.len(), names.len());
    let name = |what: &str| format!("{}, {what}", names.join(" "));
    vec![(name("usual group"), ports.clone(), Some(3)), (name("a host's group"), ports, None)]
}

#[test]
fn every_rate_code_on_the_embedded_subnet_manager() {
    let ports: Vec<Port> = SPEEDS.iter().chain(&OTHERS).copied().collect();
    let codes: Vec<u8> = (2..=24).filter(|code| !ports.iter().any(|port| port.code == *code)).collect();
    assert!(codes.is_empty(), "no port has {codes:?}");
    let cells: Vec<Cell> = pairs(&ports).into_iter().chain(mixed(&["sdr", "qdr", "edr", "ndr"])).collect();
    table("speeds on the embedded subnet manager", &cells, 2, || options(1));
}

#[test]
fn every_speed_that_ibsim_has_on_a_real_opensm() {
    let ports: Vec<Port> = SPEEDS.iter().filter(|port| port.speed != "ndr").copied().collect();
    let cells: Vec<Cell> = pairs(&ports).into_iter().chain(mixed(&["sdr", "qdr", "hdr"])).collect();
    // They wait most of the time, for each of several processes.
    let opensm = || Options { live: true, sm: SmKind::Opensm, ..options(1) };
    table("speeds on OpenSM", &cells, 5, opensm);
}
