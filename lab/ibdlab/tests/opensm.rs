//! Runs on a real OpenSM, in real time: waits for conditions, with deadlines that a busy machine keeps.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn ibdlab(scenario: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
    command.current_dir(root()).arg("run").arg(scenario).args(["--sm", "opensm"]);
    command
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn two_hosts_live_on_opensm_through_a_flap_and_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report.json");
    let run = ibdlab(&data("opensm.toml")).arg("--report").arg(&report).output().expect("ibdlab starts");
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(report).expect("the report")).expect("JSON");
    assert_eq!((&report["sm"], &report["mode"]), (&Value::from("opensm"), &Value::from("live")));
    let steps = report["steps"].as_array().expect("steps");
    let facts = |name: &str| &steps.iter().rfind(|step| step["step"] == name).expect(name)["facts"];
    let echoes = facts("sm-restart")["echoes"].as_u64().expect("a count");
    assert!(echoes > 20, "{said}");
    let groups = facts("memberships")["groups"].as_object().expect("groups");
    let broadcast = groups.iter().find(|(name, _)| name.ends_with("ff12:401b:ffff::ffff:ffff"));
    let (_, members) = broadcast.expect("the broadcast group in OpenSM's dump");
    assert_eq!(members.as_array().map(Vec::len), Some(2), "{said}");
}

#[test]
fn a_fast_host_that_makes_the_broadcast_group_lets_a_slow_one_in() {
    let run = ibdlab(&data("found/fast-host-makes-the-group.toml")).output().expect("ibdlab starts");
    let said = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(run.status.success(), "{said}");
}

/// Runs a scenario of `subnets`, with `change` made in its text. `turns` gives a switch no time, and OpenSM takes some to tell it of a member.
fn runs(file: &str, change: impl Fn(&str) -> String) {
    let directory = tempfile::tempdir().expect("a directory");
    let scenario = directory.path().join("changed.toml");
    let text = std::fs::read_to_string(data("subnets").join(file)).expect("the scenario");
    let without_turns =
        text.lines().map(|line| if line.starts_with("turns = ") { "resolve = {}" } else { line });
    let text: Vec<&str> = without_turns.collect();
    std::fs::write(&scenario, change(&text.join("\n"))).expect("a scenario");
    let run = ibdlab(&scenario).output().expect("ibdlab starts");
    let said = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(run.status.success(), "{said}");
}

/// OpenSM gives a group the hop limit of its scope, so the file's own goes.
#[test]
fn packets_to_opensms_groups_have_what_it_was_told() {
    runs("groups-of-their-own.toml", |text| text.replace("hop_limit = 3\n", ""));
}

/// All of ibsim's ports have one MTU, so carol can be in every group.
#[test]
fn a_port_too_slow_for_opensms_group_comes_up_later() {
    runs("ports-too-small.toml", |text| {
        let carol = "mtu = 2048\nspeed = \"qdr\"\nstays_down = true\n";
        let text = text.replace(carol, "speed = \"qdr\"\n");
        text.replace("mtu = 4096", "mtu = 2048").replace("mtu = 1024", "mtu = 2048")
    });
}

#[test]
fn a_port_that_opensm_makes_a_limited_member_waits_for_its_p_key() {
    runs("limited-members.toml", |text| text.replace("\"both\"", "\"full\""));
}

#[test]
fn limited_members_on_opensm_wait_until_they_are_full() {
    runs("limited-against-limited.toml", str::to_owned);
}

/// The first timeline needs the lab's own subnet manager. Before, the lab refused `lmc` on OpenSM.
#[test]
fn ports_to_which_opensm_gives_several_lids_are_reached_at_any() {
    let without_trouble = |text: &str| {
        let (before, rest) = text.split_once("[[step]]\n[step.trouble]").expect("a timeline");
        let (_, after) = rest.split_once("]\n\n").expect("its end");
        format!("{before}{after}")
    };
    runs("several-lids.toml", |text| without_trouble(text).replace("ports = 2\n", ""));
}

/// Processes that work in a directory below this one.
fn processes_in(directory: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let inside = processes.filter(|process| {
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    });
    inside.map(|process| std::fs::read_to_string(process.path().join("comm")).unwrap_or_default()).collect()
}

#[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_run_leaves_no_process_and_no_directory_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = std::fs::canonicalize(directory.path()).expect("it is there");
    let scenario = place.join("long.toml");
    let text = std::fs::read_to_string(data("opensm.toml")).expect("the scenario");
    std::fs::write(&scenario, text.replace("away_ms = 500", "away_ms = 600_000")).expect("a scenario");
    let mut run = ibdlab(&scenario)
        .env("TMPDIR", &place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ibdlab starts");
    until("OpenSM and ibsim run", || {
        let running = processes_in(&place);
        ["opensm\n", "ibsim\n"].iter().all(|name| running.iter().any(|process| process == name))
    });
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    until("the processes end", || processes_in(&place).is_empty());
    until("the directory goes", || {
        let left = std::fs::read_dir(&place).expect("the directory").flatten();
        !left.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("ibdlab-opensm-"))
    });
}

#[test]
fn what_ibsim_cannot_have_is_refused_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let scenario = directory.path().join("many.toml");
    let host = |n: u32| format!("[[host]]\nname = \"h{n}\"\naddresses = [\"192.168.81.{n}/24\"]\n");
    let hosts: String = (1..=10).map(host).collect();
    std::fs::write(&scenario, format!("name = \"ten\"\n{hosts}[[step]]\nattach = {{}}\n"))
        .expect("a scenario");
    let run = ibdlab(&scenario).output().expect("ibdlab starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success());
    assert!(said.contains("ibsim serves 10 clients: OpenSM and 9 adapters; this fabric has 10"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
