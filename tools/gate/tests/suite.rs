//! The suite for a real machine, on one of our own making: what it makes it undoes, however it ends; what a machine lacks it
//! says; what a machine does wrong it finds.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::{assert_same, each_so_many, files, tree, write};

const COMMANDS: [&str; 21] = [
    "dladm",
    "ipadm",
    "modinfo",
    "modunload",
    "devfsadm",
    "id",
    "uname",
    "sleep",
    "digest",
    "awk",
    "nawk",
    "if_mpadm",
    "ipmpstat",
    "zoneadm",
    "zonecfg",
    "zlogin",
    "ifconfig",
    "netstat",
    "nc",
    "kstat",
    "ping",
];

/// What is there before anything runs: two ports that reach each other, a third one, a zone to clone, a Linux peer.
const STATE: [(&str, &str); 16] = [
    ("loaded", "kernel/drv/amd64/ibp, ours\n"),
    ("loaded-plugin", "kernel/mac/amd64/mac_ib, theirs\n"),
    ("parts", ""),
    ("conf-parts", ""),
    ("ifs", "lo0\n"),
    ("conf-ifs", ""),
    ("addrs", "lo0/v4 static 127.0.0.1/8\nlo0/peer static 10.77.0.9/24\n"),
    ("conf-addrs", ""),
    ("props", ""),
    ("zones", "template installed\n"),
    ("ports", "ibp0 up FFFF,8001\nibp1 up FFFF,8001\nibp2 up FFFF\n"),
    ("cable", "up\n"),
    ("changes", "0\n"),
    ("packets", "0\n"),
    ("bytes", "0\n"),
    ("lost", "0\n"),
];

/// What the stand-ins count; not what the machine is like.
const COUNTED: [&str; 4] = ["changes", "packets", "bytes", "log"];

/// How a suite is cut short at one of its changes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    does: &'static str,
    when: &'static str,
}

const CUTS: [Cut; 5] = [
    Cut { does: "fail", when: "before" },
    Cut { does: "INT", when: "before" },
    Cut { does: "INT", when: "after" },
    Cut { does: "KILL", when: "before" },
    Cut { does: "KILL", when: "after" },
];

struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { dir: tempfile::tempdir().unwrap() };
        for path in ["kernel/drv/amd64/ibp", "kernel/mac/amd64/mac_ib"] {
            write(&machine.path("root"), path, &format!("{path}, ours\n"));
        }
        for (file, text) in STATE {
            write(&machine.path("state"), file, text);
        }
        let command = machine.path("command");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine/command"), &command).unwrap();
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(machine.path("bin")).unwrap();
        for name in COMMANDS.into_iter().chain(["snoop"]) {
            symlink(&command, machine.path("bin").join(name)).unwrap();
        }
        fs::create_dir(machine.path("scratch")).unwrap();
        machine.configure("");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A configuration that leaves nothing out, and `more`.
    fn configure(&self, more: &str) {
        let text = format!(
            "ZONE_TEMPLATE=template\nPKEY2=8001\nA_PORT2=ibp2\nDHCP=yes\nROUNDS=1\n\
             PORT_DOWN='echo down >\"$MACHINE/cable\"'\nPORT_UP='echo up >\"$MACHINE/cable\"'\n\
             PEER_REACH='sh -c'\nPEER_ADDR=10.77.0.9\nSCRATCH={}\nTCP_MB=1\nTHROUGHPUT_MB=1\n{more}",
            self.path("scratch").display()
        );
        write(self.dir.path(), "config", &text);
    }

    fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        // Whoever runs the tests in the background has them ignore ^C, and a shell cannot trap what it is to ignore.
        let mut command = Command::new("env");
        // Its own process group, so that a signal to all of it is what ^C is.
        command.args(["--default-signal", "sh"]).arg(suite().join(script)).args(arguments).process_group(0);
        command.env("PATH", path).env("MACHINE", self.path("state")).env("SCRATCH_ROOT", self.path("root"));
        command.env("IPOIB_CONFIG", self.path("config")).env("IPOIB_WORK", self.path("work"));
        command
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        self.command(script, arguments).output().unwrap()
    }

    /// The change with number `at` ends the run as `cut` says.
    fn cut(&self, script: &str, arguments: &[&str], at: usize, cut: Cut) -> Output {
        write(&self.path("state"), "changes", "0\n");
        let mut command = self.command(script, arguments);
        command.env("AT", at.to_string()).env("DOES", cut.does).env("WHEN", cut.when).output().unwrap()
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn changes(&self) -> usize {
        self.text("state/changes").trim().parse().unwrap()
    }

    /// What the machine is like, and files of the suite beside its results.
    fn is_like(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = files(&self.path("state"));
        all.retain(|path, _| !COUNTED.contains(&path.to_str().unwrap()));
        all.extend(files(&self.path("scratch")));
        if self.path("work").exists() {
            let mut work = files(&self.path("work"));
            work.retain(|path, _| !path.starts_with("results") && !path.starts_with("compared"));
            all.extend(work);
        }
        all
    }

    /// What case by case came out: its name, result and reason.
    fn report(&self) -> Vec<(String, String, String)> {
        report(&self.text("work/results/report"))
    }
}

fn report(text: &str) -> Vec<(String, String, String)> {
    let words = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap())
    };
    text.lines().map(words).collect()
}

fn suite() -> PathBuf {
    tree().join("tests/illumos")
}

/// The names of the cases, in the order of the runfile.
fn cases() -> Vec<String> {
    let runfile = fs::read_to_string(suite().join("ipoib.run")).unwrap();
    let (_, list) = runfile.split_once("tests = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    list.split(',').map(|name| name.trim().trim_matches('\'').to_owned()).collect()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_runfile_names_every_case() {
    let mut named = cases();
    named.extend(["setup".to_owned(), "cleanup".to_owned()]);
    named.sort();
    let mut there: Vec<String> = fs::read_dir(suite().join("cases"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    assert_eq!(named, there);
}

#[test]
fn on_a_machine_that_has_everything_every_case_passes_and_it_is_left_as_it_was() {
    let machine = Machine::new();
    let before = machine.is_like();
    let output = machine.run("run", &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_same(&machine.is_like(), &before, "after the run");
    let report = machine.report();
    assert_eq!(report.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>(), cases());
    for (name, result, why) in &report {
        assert_eq!(result, "PASS", "{name}: {why}");
    }
    let first = machine.text("work/results/report");
    let summary: Value = serde_json::from_str(&machine.text("work/results/summary.json")).unwrap();
    assert_eq!(summary["passed"], report.len());
    assert_eq!(summary["machine"]["driver"], "ibp (InfiniBand GLDv3 Driver)");
    assert_eq!(summary["figures"].as_object().unwrap().len(), 6, "three rounds each way");
    assert!(summary["figures"]["tcp-a-b-1"]["value"].as_f64().unwrap() > 0.0);

    let output = machine.run("run", &["ping", "mtu"]);
    assert!(output.status.success(), "{}", said(&output));
    let two: Vec<String> = machine.text("work/results/report").lines().map(str::to_owned).collect();
    assert!(two.len() == 2 && two.iter().all(|line| first.contains(line.as_str())), "{two:?}");
}

#[test]
fn what_a_machine_lacks_is_said_line_by_line_and_nothing_is_changed() {
    let machine = Machine::new();
    let before = machine.is_like();
    let output = machine.run("preflight", &[]);
    assert!(output.status.success() && !said(&output).contains("missing"), "{}", said(&output));
    assert_eq!(machine.changes(), 0);
    assert_same(&machine.is_like(), &before, "preflight");

    fs::remove_file(machine.path("bin/snoop")).unwrap();
    write(&machine.path("state"), "ports", "ibp0 up FFFF\nibp2 up FFFF\n");
    write(&machine.path("state"), "zones", "");
    machine.configure("DHCP=no\nPORT_UP=\nPEER_ADDR=\nA_PORT2=\n");
    let before = machine.is_like();
    let output = machine.run("preflight", &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(machine.changes(), 0);
    assert_same(&machine.is_like(), &before, "preflight");
    for line in [
        "missing  b: port ibp1 (dladm show-ib)\n",
        "missing  zone 'template' is installed and not running\n",
        "ok       a: port ibp0 is up\n",
        "skip     snoop: no snoop on b\n",
        "skip     second-partition: port ibp0 does not have P_Key 8001\n",
        "skip     dhcp: DHCP is not yes\n",
        "skip     ipmp: A_PORT2 is not set\n",
        "skip     linux-peer: PEER_ADDR is not set\n",
        "skip     port-bounce: PORT_UP is not set\n",
        "run      ping\n",
    ] {
        assert!(said(&output).contains(line), "no `{line}` in\n{}", said(&output));
    }
}

#[test]
fn a_case_whose_thing_is_missing_is_skipped_with_the_reason() {
    let machine = Machine::new();
    fs::remove_file(machine.path("bin/snoop")).unwrap();
    machine.configure("DHCP=no\nPKEY2=9ABC\n");
    write(&machine.path("state"), "parts", "others0 8001 ibp1\n");
    let before = machine.is_like();
    let output = machine.run("run", &["snoop", "dhcp", "second-partition", "unload"]);
    assert!(output.status.success(), "{}", said(&output));
    let report = machine.text("work/results/report");
    assert_eq!(
        report,
        "snoop SKIP no snoop on b\ndhcp SKIP DHCP is not yes\n\
         second-partition SKIP port ibp0 does not have P_Key 9ABC\n\
         unload SKIP there are partitions that are not of the suite\n"
    );
    assert_same(&machine.is_like(), &before, "after the run");
}

#[test]
fn the_driver_of_the_links_is_ibp_whatever_an_older_configuration_says() {
    let machine = Machine::new();
    machine.configure("DRIVER=ibd\n");
    let output = machine.run("run", &["unload"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_template_with_a_net_of_its_own_is_cloned_without_it() {
    let machine = Machine::new();
    write(&machine.path("state"), "template.net", "net:\n\tphysical: vnic0\n");
    let before = machine.is_like();
    let output = machine.run("run", &["ping"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_same(&machine.is_like(), &before, "after the run");
}

#[test]
fn a_machine_that_loses_echoes_fails_the_cases_that_count_them() {
    let machine = Machine::new();
    write(&machine.path("state"), "lost", "1\n");
    let before = machine.is_like();
    let counting = ["second-partition", "ping", "ipv6", "mtu", "fragments", "properties", "unload"];
    let output = machine.run("run", &counting);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for (name, result, why) in machine.report() {
        assert_eq!(result, "FAIL", "{name}: {why}");
        assert!(why.contains("lost"), "{name}: {why}");
    }
    assert_same(&machine.is_like(), &before, "after the run");
}

#[test]
fn wrong_arguments_and_missing_configurations_are_refused_before_anything_is_done() {
    let machine = Machine::new();
    let before = machine.is_like();
    let mut refused: Vec<(String, Vec<&str>)> = cases()
        .iter()
        .flat_map(|name| [vec!["--need"], vec!["--needs", "x"]].map(|words| (format!("cases/{name}"), words)))
        .collect();
    for (script, words) in [
        ("cases/setup", vec!["x"]),
        ("cases/cleanup", vec!["x"]),
        ("run", vec!["-x"]),
        ("run", vec!["no-such-case"]),
        ("run", vec!["setup"]),
        ("run", vec!["../../run"]),
        ("preflight", vec!["x"]),
        ("summary", vec![]),
        ("compare", vec![]),
        ("compare", vec!["/nowhere"]),
    ] {
        refused.push((script.into(), words));
    }
    for (script, words) in &refused {
        let output = machine.run(script, words);
        assert_eq!(output.status.code(), Some(2), "{script} {words:?}: {}", said(&output));
    }
    fs::rename(machine.path("config"), machine.path("elsewhere")).unwrap();
    for script in ["run", "preflight", "cases/setup", "cases/cleanup", "cases/ping"] {
        let output = machine.run(script, &[]);
        assert_eq!(output.status.code(), Some(2), "{script}: {}", said(&output));
        assert!(said(&output).contains("copy config.example"), "{}", said(&output));
    }
    assert_eq!(machine.changes(), 0);
    assert_same(&machine.is_like(), &before, "refused");
}

/// Cuts `script` short at each so many of its changes, from number `first` on; how many changes there were.
fn cut_at_changes(machine: &Machine, script: &str, cases: &[&str], first: usize) -> usize {
    let before = machine.is_like();
    let each = each_so_many();
    for at in (first..).step_by(each) {
        // One way for each change of a case; all of them for those of setup, if all changes are tried.
        let ways = if cases.is_empty() && each == 1 { &CUTS[..] } else { &CUTS[at % CUTS.len()..][..1] };
        for way in ways {
            let output = machine.cut(script, cases, at, *way);
            let when = format!("{script} {cases:?}, change {at}, {way:?}: {}", said(&output));
            let through = machine.changes() < at;
            // A change may be asked for to be refused; and what undoes is not interrupted.
            assert!(output.status.success() == through || way.does != "KILL", "{when}");
            // Killed; or 3, what was made could not be undone; or set up and nothing more.
            if matches!(output.status.code(), None | Some(3)) || through && cases.is_empty() {
                let cleaned = machine.run("cases/cleanup", &[]);
                assert!(cleaned.status.success(), "{when}: {}", said(&cleaned));
            }
            assert_same(&machine.is_like(), &before, &when);
            if through {
                return at - first;
            }
        }
    }
    unreachable!("a run has an end")
}

/// How many changes setting up makes.
fn changes_of_setup(machine: &Machine) -> usize {
    write(&machine.path("state"), "changes", "0\n");
    let output = machine.run("cases/setup", &[]);
    assert!(output.status.success(), "{}", said(&output));
    let changes = machine.changes();
    let output = machine.run("cases/cleanup", &[]);
    assert!(output.status.success(), "{}", said(&output));
    changes
}

#[test]
fn cut_short_at_any_change_of_setup_nothing_is_left() {
    let machine = Machine::new();
    assert!(cut_at_changes(&machine, "cases/setup", &[], 1) > 15);
}

/// A case is cut short at each of its changes, and nothing of it is left; a test for each, so that they run side by side.
macro_rules! cut_short_at_any_change {
    ($($test:ident: $case:literal;)*) => { $(
        #[test]
        fn $test() {
            let machine = Machine::new();
            let first = changes_of_setup(&machine) + 1;
            assert!(cut_at_changes(&machine, "run", &[$case], first) > 15, "{} and cleanup", $case);
        }
    )* };
}

cut_short_at_any_change! {
    partitions_cut_short_at_any_change_leave_nothing: "partitions";
    a_second_partition_cut_short_at_any_change_leaves_nothing: "second-partition";
    addresses_cut_short_at_any_change_leave_nothing: "plumb";
    properties_cut_short_at_any_change_are_as_before: "properties";
    dhcp_cut_short_at_any_change_leaves_nothing: "dhcp";
    ipmp_cut_short_at_any_change_leaves_nothing: "ipmp";
}

#[test]
fn cut_short_at_any_change_of_the_case_that_unloads_the_driver_is_back() {
    let machine = Machine::new();
    let first = changes_of_setup(&machine) + 1;
    assert!(cut_at_changes(&machine, "run", &["unload"], first) > 40);
}

#[test]
fn both_drivers_are_compared_and_the_first_one_comes_back() {
    let machine = Machine::new();
    let archive = machine.path("archive");
    // Ours loses an echo of each ping, which the comparison has to tell.
    let add = "#!/bin/sh\necho ours >\"$MACHINE/driver\" && echo 1 >\"$MACHINE/lost\"\n";
    let remove = "#!/bin/sh\n[ -f \"$MACHINE/driver\" ] || { echo there is nothing to remove; exit 1; }\n\
                  rm \"$MACHINE/driver\" && echo 0 >\"$MACHINE/lost\"\n";
    for (name, text) in [("add", add), ("remove", remove)] {
        write(&archive, name, text);
        fs::set_permissions(archive.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let before = machine.is_like();
    let place = archive.to_str().unwrap();
    let output = machine.run("compare", &[place, "plumb", "ping"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let (c, rust) = (machine.text("work/compared/c/report"), machine.text("work/compared/rust/report"));
    assert!(
        c.contains("ping PASS") && rust.contains("ping FAIL") && rust.contains("plumb PASS"),
        "{c}{rust}"
    );
    assert!(machine.text("work/compared/differences").contains("> ping FAIL"));
    assert_same(&machine.is_like(), &before, "compared");

    // Killed while ours is there, in the middle of the second setup.
    write(&machine.path("state"), "changes", "0\n");
    assert!(machine.run("run", &["plumb"]).status.success());
    let output = machine.cut("compare", &[place, "plumb"], machine.changes() + 10, CUTS[3]);
    assert!(output.status.code().is_none() && machine.path("state/driver").exists(), "{}", said(&output));
    let cleaned = machine.run("cases/cleanup", &[]);
    assert!(cleaned.status.success(), "{}", said(&cleaned));
    assert_same(&machine.is_like(), &before, "killed while ours was there");
}
