//! What `make run` shows, held to its word: the command, its report, its capture.

mod lab;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab::{root, without_linux};
use serde_json::Value;

fn ibdlab(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
    // Without cargo around it, it builds nothing.
    command.current_dir(root()).args(args).env_remove("CARGO").output().expect("ibdlab starts")
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn report(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("the report")).expect("JSON")
}

fn step<'a>(report: &'a Value, name: &str) -> &'a Value {
    let steps = report["steps"].as_array().expect("steps");
    steps.iter().find(|step| step["step"] == name).unwrap_or_else(|| panic!("no step {name}"))
}

/// Lines that tshark prints for one display filter and field.
fn tshark(capture: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-r", &text(capture), "-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark is installed (make test does it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What is left of a capture without the segments that are most of it: tshark takes seconds for them.
fn without_tcp(capture: &Path) -> PathBuf {
    let rest = capture.with_extension("without-tcp");
    let status =
        Command::new("tshark").args(["-r", &text(capture), "-Y", "not tcp", "-w", &text(&rest)]).status();
    assert!(status.expect("tshark is installed (make test does it)").success());
    rest
}

#[test]
fn one_seed_writes_one_report_and_tshark_reads_its_capture() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, second) = (directory.path().join("1.json"), directory.path().join("2.json"));
    let capture = directory.path().join("two-hosts.pcapng");
    let scenario = "scenarios/two-hosts.toml";
    let run =
        ibdlab(&["run", scenario, "--seed", "11", "--report", &text(&first), "--capture", &text(&capture)]);
    assert!(
        run.status.success(),
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
    let again = ibdlab(&["run", scenario, "--seed", "11", "--report", &text(&second)]);
    assert!(again.status.success());
    let (report, same) = (report(&first), report(&second));
    assert_eq!(report, same, "same seed, same report");
    assert_eq!(report["ok"], true);
    assert_eq!(step(&report, "ping")["facts"]["answered"], 1_000);
    assert_eq!(step(&report, "tcp")["facts"]["bytes"], 64 << 20);

    assert!(
        tshark(&capture, "tcp.port == 5001", &["tcp.len"]).len() > 60_000,
        "64 MiB in segments, out and in"
    );
    let capture = without_tcp(&capture);
    assert!(
        !tshark(&capture, "arp.opcode == 1 && arp.hw.type == 32", &["frame.number"]).is_empty(),
        "ARP over IB"
    );
    let echoes = tshark(&capture, "icmp.type == 8", &["ip.len"]);
    assert!(echoes.len() >= 2_000, "{} echo requests, out and in", echoes.len());
    assert!(echoes.iter().any(|len| len == "2044"), "one fills the MTU");
    let echoes = tshark(&capture, "icmpv6.type == 128", &["ipv6.plen"]);
    assert!(echoes.iter().any(|len| len == "2004"), "one fills the MTU, 40 octets of header included");
    let options = tshark(&capture, "icmpv6.type == 135", &["infiniband.payload", "icmpv6.opt.length"]);
    assert!(!options.is_empty(), "a neighbour solicitation");
    assert!(options.iter().all(|line| line.ends_with('3')), "24-byte options: {options:?}");
    padding_is_in_front_on_the_wire(&capture);
}

/// RFC 4391 section 9.3: two zero bytes, then the 20-byte address whose QPN follows a flags byte.
fn padding_is_in_front_on_the_wire(capture: &Path) {
    let output = Command::new("tshark")
        .args(["-r", &text(capture), "-Y", "icmpv6.type == 135", "-c", "10000", "-x"])
        .output()
        .expect("tshark is installed (make test does it)");
    let dump = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = dump.split("\n\n").next().expect("one packet");
    let bytes: Vec<u8> = first
        .lines()
        .flat_map(|line| {
            line.get(6..53).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter_map(|byte| u8::from_str_radix(&byte, 16).ok())
        .collect();
    // ICRC and VCRC end the frame; before them lie the 24 bytes of the source link-layer address option.
    let option = &bytes[bytes.len() - 6 - 24..bytes.len() - 6];
    assert_eq!(option[..4], [1, 3, 0, 0], "type, length, padding");
    assert_eq!(option[4], 0, "flags of a datagram address");
    assert_eq!(option[8..10], [0xfe, 0x80], "the GID follows the QPN");
}

#[test]
fn another_seed_is_another_trace() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |seed: &str| directory.path().join(seed);
    for seed in ["21", "22"] {
        let scenario = "lab/ibdlab/tests/data/random-unload.toml";
        let run = ibdlab(&["run", scenario, "--seed", seed, "--report", &text(&file(seed))]);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    }
    assert_ne!(report(&file("21"))["trace"], report(&file("22"))["trace"]);
}

#[test]
fn a_failed_step_is_exit_1_and_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("impatient.toml");
    let scenario = std::fs::read_to_string(root().join("scenarios/two-hosts.toml")).expect("the scenario");
    std::fs::write(&file, scenario.replace("up = { within_ms = 10_000 }", "up = { within_ms = 1 }"))
        .expect("written");
    let run = ibdlab(&["run", &text(&file)]);
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stdout).contains("FAIL  up"), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stderr).contains("the step `up` failed"), "{run:?}");
}

#[test]
fn what_keeps_a_run_from_beginning_is_said_in_one_line() {
    let scenario = "scenarios/two-hosts.toml";
    let cases: [(&[&str], &str); 5] = [
        (&["run", "scenarios/none.toml"], "scenarios/none.toml: No such file"),
        (&["run", scenario, "--module", "alice/ibd=/none"], "/none: no such object"),
        (
            &["run", scenario, "--module", "carol/ibd=/none"],
            "expected one of alice/ibd, alice/mac_ib, bob/ibd, bob/mac_ib",
        ),
        (&["run", scenario, "--module", "alice=/none"], "expected HOST/NAME=PATH"),
        (&["run", scenario, "--capture", "/none/capture"], "cannot write the capture /none/capture"),
    ];
    for (args, expected) in cases {
        let run = ibdlab(args);
        assert_ne!(run.status.code(), Some(0), "{args:?}");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(said.contains(expected), "{args:?} said {said}");
    }
}

#[test]
fn partitions_made_by_dladm_carry_the_same_traffic() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("partitions.toml");
    let scenario = std::fs::read_to_string(root().join("scenarios/two-hosts.toml")).expect("the scenario");
    let scenario = scenario.replace("[[host]]\n", "[[host]]\ndriver = \"ibp\"\n").replace("64MiB", "4MiB");
    std::fs::write(&file, scenario).expect("written");
    let run = ibdlab(&["run", &text(&file)]);
    assert!(
        run.status.success(),
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
fn all_threads_on_the_wall_clock_end_as_well() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("live.toml");
    let scenario = std::fs::read_to_string(root().join("scenarios/two-hosts.toml")).expect("the scenario");
    std::fs::write(&file, scenario.replace("down_ms = 3_000", "down_ms = 300")).expect("written");
    let run = ibdlab(&["run", &text(&file), "--live"]);
    assert!(
        run.status.success(),
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

/// The 100 MB of `curl` and the echoes of `ping`, on the wall clock.
#[test]
fn linux_programs_use_the_drivers() {
    if without_linux() {
        return;
    }
    let said = linux_programs(&[]);
    assert!(said.contains("100000000 bytes"), "{said}");
}

/// Where they cannot, the command says why in one line and ends well: `make run` is for everybody.
#[test]
fn without_network_namespaces_linux_programs_are_left_out_with_the_reason() {
    let without = ["setpriv", "--bounding-set=-net_admin,-sys_admin", "--inh-caps=-net_admin,-sys_admin"];
    // Only who can take part has anything to give up.
    let said = linux_programs(if ibdlab::linux::missing().is_none() { &without } else { &[] });
    assert!(said.contains("left out, "), "{said}");
    assert!(!said.contains("100000000 bytes"), "{said}");
}

/// What `make run` prints of them, started with these words in front.
fn linux_programs(with: &[&str]) -> String {
    let words =
        [with, &[env!("CARGO_BIN_EXE_ibdlab"), "run", "--live", "scenarios/linux-programs.toml"]].concat();
    let run = Command::new(words[0]).args(&words[1..]).current_dir(root()).output().expect("it starts");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    said
}

#[test]
fn an_object_built_from_other_sources_than_its_trees_is_not_run() {
    let tree = tempfile::tempdir().expect("a directory");
    let place = |file: &str| {
        let file = tree.path().join(file);
        std::fs::create_dir_all(file.parent().expect("below the tree")).expect("made");
        file
    };
    for source in
        ["rust/lib.rs", "usr/src/uts/shim.c", "tools/kmod/modules.toml", "Cargo.toml", "rust-toolchain.toml"]
    {
        std::fs::write(place(source), "changed since").expect("written");
    }
    for object in ["mac/amd64/mac_ib", "drv/amd64/ibd"] {
        for file in [object.to_owned(), format!("{object}.sources")] {
            let from = root().join("proto/kernel").join(&file);
            std::fs::copy(from, place(&format!("proto/kernel/{file}"))).expect("built");
        }
    }
    let proto = text(&tree.path().join("proto/kernel"));
    let run = ibdlab(&["run", "scenarios/two-hosts.toml", "--proto", &proto]);
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("not built from the sources as they are now; `make modules` builds it"), "{said}");
}
