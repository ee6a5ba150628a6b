//! ^C, closed pipes and full disks in the middle of what `ibdlab` does: what is said then, and that nothing is left behind.

mod lab;

use std::fs::{self, File};
use std::io;
use std::process::{Command, Stdio};

use lab::{Lab, Signal, root, without_linux};

/// A run of a fraction of a second.
const SHORT: &str = "lab/ibdlab/tests/data/one-ping.toml";
const DESK: &str = "scenarios/desk.toml";

/// Numbers that are no time any more, and times that nobody waits for.
#[test]
fn a_command_that_waits_for_ever_ends_at_an_interrupt_and_its_lab_does_not() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    assert_eq!(lab.ibdlab(&["fabric", "unplug", "bob"]), (String::new(), 0));
    for line in [
        "dladm show-link -s -i 18446744073709551615 ibp0",
        "kstat -p -s link_state 18446744073709551615",
        "ping -s -I 1e19 10.0.0.1",
        "ping -s -I 18446744073 10.0.0.2",
        "ping -s -I 86400 10.0.0.2",
    ] {
        let mut command =
            lab.talk(&[&["exec", "alice", "--"], &line.split(' ').collect::<Vec<_>>()[..]].concat());
        assert_ne!(command.line(), "", "{line}");
        command.signal(Signal::INT);
        let (said, _) = command.end();
        assert!(!said.contains("ibdlab:"), "{line}: {said}");
    }
    lab.down();
}

#[test]
fn a_lab_that_is_to_end_ends_what_goes_on_in_it() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    let capture = lab.path("link.pcap");
    let mut running = Vec::new();
    for line in ["exec alice -- ping -s bob", "exec bob -- kstat -p -s link_state 3600"] {
        let mut command = lab.talk(&line.split(' ').collect::<Vec<_>>());
        assert_ne!(command.line(), "", "{line}");
        running.push(command);
    }
    let capturing = lab.talk(&["capture", &capture, "alice", "pFFFF.ibp0"]);
    lab.until("the capture goes on", || fs::metadata(&capture).is_ok_and(|file| file.len() > 24));
    lab.down();
    for command in running {
        let (said, _) = command.end();
        assert!(!said.contains("ibdlab:"), "{said}");
    }
    let (said, code) = capturing.end();
    assert!(code == 0 && said.ends_with(" packets\n"), "{said}");
}

#[test]
fn a_program_at_a_host_is_not_left_behind_by_what_started_it() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    let mut ping = lab.talk(&["exec", "alice", "--", "ping", "-s", "bob"]);
    assert_eq!(ping.line(), "PING bob: 56 data bytes\n");
    ping.signal_alone(Signal::TERM);
    // Whoever is left has our pipe.
    assert_eq!(ping.end().1, -1);
    lab.down();
}

#[test]
fn a_lab_whose_start_is_interrupted_does_not_come_up() {
    let lab = Lab::new();
    // The client reads its scenario; the daemon waits for somebody to write it once more.
    let scenario = lab.path("scenario.toml");
    assert!(Command::new("mkfifo").arg(&scenario).status().expect("mkfifo").success());
    let starting = lab.talk(&["up", &scenario]);
    fs::write(&scenario, fs::read_to_string(root().join(DESK)).expect("a scenario")).expect("written");
    lab.until("there is a daemon", || lab.daemon("lab").is_some());
    starting.signal(Signal::INT);
    let (said, code) = starting.end();
    assert_eq!((said.as_str(), code), ("ibdlab: interrupted: the lab `lab` is not up\n", 1));
    assert!(!lab.directory_of("lab").exists());
    assert!(lab.ibdlab(&["status"]).0.starts_with("ibdlab: no lab is up"));
}

#[test]
fn of_two_that_start_a_lab_at_once_one_does_and_the_other_leaves_it_alone() {
    let lab = Lab::new();
    for _ in 0..3 {
        let both = [lab.talk(&["up", DESK]), lab.talk(&["up", DESK])];
        let mut ended = both.map(lab::Talk::end);
        ended.sort_by_key(|(_, code)| *code);
        let [(up, good), (refused, bad)] = ended;
        assert_eq!((up.as_str(), good), ("lab lab is up: alice, bob\n", 0));
        assert!(bad == 1 && refused.contains("the lab `lab` is up already"), "{refused}");
        assert_eq!(lab.run("alice", "ping alice"), ("alice is alive\n".into(), 0));
        lab.down();
    }
}

#[test]
fn a_lab_whose_starter_is_gone_when_it_is_up_ends() {
    let lab = Lab::new();
    let mut starting = lab.command(&["up", "--foreground", DESK]);
    let output = starting.stdout(nobody()).output().expect("ibdlab starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "ibdlab: whoever started it is gone: Broken pipe (os error 32)\n";
    assert_eq!((said.as_ref(), output.status.code()), (expected, Some(1)));
    lab.up(&root().join(DESK), &[]);
    lab.down();
}

/// A pipe that nobody reads.
fn nobody() -> io::PipeWriter {
    io::pipe().expect("a pipe").1
}

#[test]
fn a_reader_that_has_had_enough_is_no_failure_and_a_full_disk_is_one() {
    let lab = Lab::new();
    let mut run = lab.command(&["run", SHORT]);
    let output = run.stdout(nobody()).output().expect("ibdlab starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((said.as_ref(), output.status.code()), ("", Some(0)));

    let full = || File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = lab.command(&["run", SHORT]).stdout(full()).output().expect("ibdlab starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "ibdlab: standard output: No space left on device (os error 28)\n";
    assert_eq!((said.as_ref(), output.status.code()), (expected, Some(1)));

    let status = lab.command(&["run", "nowhere"]).stderr(full()).status().expect("ibdlab starts");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_capture_on_a_full_disk_says_so() {
    let lab = Lab::new();
    lab.up(&root().join(DESK), &[]);
    for what in [&["/dev/full"][..], &["/dev/full", "alice", "pFFFF.ibp0"]] {
        let (said, code) = lab.ibdlab(&[&["capture"], what].concat());
        assert!(said.ends_with("ibdlab: /dev/full: No space left on device (os error 28)\n"), "{said}");
        assert_eq!(code, 1);
    }
    lab.down();
}

#[test]
fn a_user_without_a_home_keeps_the_hosts_files_beside_the_labs() {
    let lab = Lab::new();
    let mut up = lab.command(&["up", DESK]);
    up.env_remove("IBDLAB_STATE").env("XDG_STATE_HOME", "").env("HOME", "");
    assert!(up.output().expect("ibdlab starts").status.success());
    lab.down();
    assert!(lab.directory_of(".state").join("lab/alice/etc/dladm/datalink.conf").exists());
    assert!(lab.ibdlab(&["status"]).0.ends_with("`ibdlab up SCENARIO` starts one\n"), "it is no lab");
}

#[test]
fn what_a_run_is_to_write_is_tried_before_the_run() {
    let lab = Lab::new();
    let (said, code) = lab.ibdlab(&["run", SHORT, "--report", "/nowhere/report.json"]);
    assert!(!said.contains("attach"), "{said}");
    assert!(said.contains("cannot write the report /nowhere/report.json: No such file"), "{said}");
    assert_eq!(code, 1);
    let expected = "ibdlab: nowhere.toml: No such file or directory (os error 2)\n";
    assert_eq!(lab.ibdlab(&["run", "nowhere.toml"]), (expected.to_owned(), 1));
}

/// Before, it was read until there was no memory.
#[test]
fn a_file_without_an_end_is_refused() {
    let lab = Lab::new();
    let (said, code) = lab.ibdlab(&["run", "/dev/zero"]);
    assert_eq!((said.as_str(), code), ("ibdlab: /dev/zero: larger than 16 MiB\n", 1));
    let (said, code) = lab.ibdlab(&["run", SHORT, "--suppress", "/dev/zero"]);
    assert!(said.contains("the suppressions /dev/zero: larger than 16 MiB") && code == 1, "{said}");
}

/// Processes whose arguments have this in them.
fn processes(with: &str) -> usize {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let arguments = all.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    arguments.filter(|arguments| String::from_utf8_lossy(arguments).contains(with)).count()
}

#[test]
fn a_run_with_programs_of_linux_leaves_nothing_when_it_is_interrupted_or_killed() {
    if without_linux() {
        return;
    }
    let lab = Lab::new();
    let temporary = lab.path("tmp");
    fs::create_dir(&temporary).expect("made");
    for signal in [Signal::INT, Signal::KILL] {
        let run = ["run", "--live", "scenarios/linux-programs.toml"];
        let mut run = lab.talk_in(&run, &[("TMPDIR", &temporary)]);
        // The web server and who cleans up behind it.
        lab.until("the last step has begun", || run.is_over() || processes(&temporary) >= 2);
        let name = format!("ibdlab-{}-", run.id());
        run.signal(signal);
        run.end();
        let namespaces = || {
            let list = Command::new("ip").args(["netns", "list"]).stdin(Stdio::null()).output().expect("ip");
            String::from_utf8_lossy(&list.stdout).matches(&name).count()
        };
        lab.until("the namespaces are gone", || namespaces() == 0);
        lab.until("the programs are gone", || processes(&name) == 0);
        let left = || fs::read_dir(&temporary).expect("it is there").count();
        lab.until("the files are gone", || left() == 0);
    }
}

/// Before, it ended without a word of where it was, and the report was an empty file.
#[test]
fn a_run_whose_module_loops_says_where_at_an_interrupt() {
    let lab = Lab::new();
    let [source, object, module, report] =
        ["loop.c", "loop.o", "ibd", "report.json"].map(|name| lab.path(name));
    let text = "static volatile int zero; static void around(void) { while (zero == 0) ; }
        int _init(void) { around(); return (0); } int _fini(void) { return (0); } int _info(void *i) { return (0); }";
    fs::write(&source, text).expect("written");
    let flags = "-O1 -mcmodel=kernel -mno-red-zone -ffreestanding -fno-pic -fno-pie -fno-omit-frame-pointer -fno-inline \
        -fno-asynchronous-unwind-tables -fno-stack-protector -fcf-protection=none -mno-sse -mno-80387 -c -o";
    let compiled = Command::new("gcc").args(flags.split_whitespace()).args([&object, &source]).status();
    assert!(compiled.expect("gcc runs").success());
    assert!(
        Command::new("ld").args(["-r", "-d", "-o", &module, &object]).status().expect("ld runs").success()
    );
    let own = format!("bob/ibd={module}");
    let mut run = lab.talk(&["run", SHORT, "--module", &own, "--report", &report]);
    assert_ne!(run.line(), "", "its title");
    run.signal(Signal::INT);
    let (said, code) = run.end();
    assert!(said.contains("interrupted; thread ") && code == 130, "{code}: {said}");
    assert!(fs::read_to_string(&report).expect("a report").contains("interrupted; thread "));
}

#[test]
fn numbers_that_nobody_can_mean_are_wrong_command_lines() {
    let lab = Lab::new();
    for line in ["campaign --minutes 9999999999999999999", "bench --rounds 0", "bench --packets 0"] {
        let (said, code) = lab.ibdlab(&line.split(' ').collect::<Vec<_>>());
        assert!(said.starts_with("error: invalid value"), "{line}: {said}");
        assert_eq!(code, 2, "{line}");
    }
}
