//! Linux's own TCP over the drivers, with as much left to the adapters as they offer.

mod lab;

use std::path::Path;
use std::process::Command;

use lab::without_linux;
use serde_json::Value;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const BYTES: u64 = 20_000_000;

/// Two hosts with TUN devices and these adapters, which `bytes` go between over both families.
fn scenario(offloads: [bool; 2]) -> String {
    let host = |name: &str, n: u8, offloads: bool| {
        format!(
            "[[host]]\nname = \"{name}\"\noffloads = {offloads}\ntun = true\n\
             addresses = [\"192.168.79.{n}/24\", \"fd00:79::{n}/64\"]\n\n"
        )
    };
    let fetch = |address: &str| {
        format!(
            "[[step]]\nlinux-fetch = {{ from = \"alice\", to = \"{address}\", bytes = \"{BYTES}B\" }}\n\n"
        )
    };
    [
        "name = \"Linux's TCP with the adapters' offloads\"\n\n".to_owned(),
        host("alice", 1, offloads[0]),
        host("bob", 2, offloads[1]),
        "[[step]]\nattach = {}\n\n[[step]]\nup = {}\n\n".to_owned(),
        fetch("192.168.79.2"),
        fetch("fd00:79::2"),
        "[[step]]\ncounts = {}\n\n[[step]]\nunload = {}\n".to_owned(),
    ]
    .concat()
}

/// What a run says, and how many packets of TCP its capture has: with checksums that hold, and with others.
struct Seen {
    over_ipv4: Value,
    over_ipv6: Value,
    good: usize,
    bad: usize,
}

/// `None` where Linux's programs cannot take part.
fn fetched(offloads: [bool; 2]) -> Option<Seen> {
    if without_linux() {
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let (report, capture) = (file("report.json"), file("capture.pcapng"));
    std::fs::write(file("scenario.toml"), scenario(offloads)).expect("written");
    let run = Command::new(env!("CARGO_BIN_EXE_ibdlab"))
        .current_dir(root())
        .args(["run", "--live"])
        .arg(file("scenario.toml"))
        .arg("--report")
        .arg(&report)
        .arg("--capture")
        .arg(&capture)
        .output()
        .expect("ibdlab starts");
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    let report = std::fs::read_to_string(report).expect("the report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let steps = report["steps"].as_array().expect("steps");
    let mut fetches =
        steps.iter().filter(|step| step["step"] == "linux-fetch").map(|step| step["facts"].clone());
    let (over_ipv4, over_ipv6) = fetches.next().zip(fetches.next()).expect("two fetches");
    for fetch in [&over_ipv4, &over_ipv6] {
        assert_eq!(fetch["bytes"], BYTES);
        assert_eq!(fetch["large_sends"], fetch["driver_large_sends"], "two witnesses");
    }
    let [good, bad] = checksums(&capture);
    Some(Seen { over_ipv4, over_ipv6, good, bad })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many packets of TCP on the fabric have checksums, of IPv4 and of TCP, that hold, and how many have not.
fn checksums(capture: &Path) -> [usize; 2] {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(capture)
        .args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y", "tcp", "-T", "fields"])
        .args(["-e", "ip.checksum.status", "-e", "tcp.checksum", "-e", "tcp.checksum_calculated"])
        .output()
        .expect("tshark is installed (make test does it)");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let hold = said.lines().filter(|line| holds(line)).count();
    [hold, said.lines().count() - hold]
}

/// Whether a packet's checksums hold: of IPv4, where there is one, its status; of TCP the written and the right one,
/// where a sum of zero may be either zero of ones' complement. Linux writes the one that tshark does not expect.
fn holds(line: &str) -> bool {
    let fields: Vec<&str> = line.split('\t').collect();
    let [ip, written, right] = fields[..] else { return false };
    matches!(ip, "" | "1") && (written == right || (written, right) == ("0xffff", "0x0000"))
}

fn large_sends(facts: &Value) -> u64 {
    facts["large_sends"].as_u64().expect("a number")
}

#[test]
fn large_sends_of_linux_are_cut_by_the_adapter_and_every_segment_has_its_checksum() {
    let Some(seen) = fetched([true, true]) else { return };
    // Each is of two segments at least and of 64 KiB at most; the slower the machine the smaller Linux makes them.
    let large = large_sends(&seen.over_ipv4);
    assert!((BYTES / 65_536..BYTES / 2_044).contains(&large), "{large} large sends for {BYTES} bytes");
    assert_eq!(large_sends(&seen.over_ipv6), 0, "no link offers them over IPv6");
    // Each of two million bytes and more in packets of 2,044, seen out and in.
    assert_eq!(seen.bad, 0, "of {}", seen.good);
    assert!(seen.good as u64 > 2 * 2 * BYTES / 2_044, "{}", seen.good);
}

#[test]
fn without_offloads_linux_sends_small_and_complete_packets() {
    let Some(seen) = fetched([false, false]) else { return };
    assert_eq!([&seen.over_ipv4, &seen.over_ipv6].map(large_sends), [0, 0]);
    assert_eq!(seen.bad, 0, "of {}", seen.good);
    assert!(seen.good as u64 > 2 * 2 * BYTES / 2_044, "{}", seen.good);
}

#[test]
fn an_adapter_with_offloads_and_one_without_understand_each_other() {
    let Some(seen) = fetched([false, true]) else { return };
    assert!(large_sends(&seen.over_ipv4) >= BYTES / 65_536);
    let Some(other) = fetched([true, false]) else { return };
    assert_eq!(large_sends(&other.over_ipv4), 0, "the server's adapter has none");
    assert_eq!([seen.bad, other.bad], [0, 0]);
}
