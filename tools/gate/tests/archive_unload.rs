//! When the archive's scripts do not unload a driver, how long they try, and that they run one at a time.

mod support;

use std::fs;
use std::process::Command;

use support::machine::{BOOTS, KEEPS, Machine, said, shells};
use support::{assert_same, write};

/// Three links are busy, and each answer of ours takes 20 seconds.
#[test]
fn busy_links_have_three_minutes_together() {
    for (silent, goes) in [(2, true), (6, false)] {
        let machine = Machine::new();
        machine.well("add", &["-l"]);
        let (root, running) = (machine.root(), machine.running());
        write(&machine.path("state"), "silent", &format!("{silent}\n"));
        let before = machine.clock();
        let output = machine.run("remove", &["-l"], 0);
        assert_eq!(output.status.success(), goes, "{silent}: {}", said(&output));
        let passed = machine.clock() - before;
        assert!(passed < 60 + 180 + 30, "{passed}: {}", machine.text("state/log"));
        if !goes {
            fs::remove_file(machine.path("state/silent")).unwrap();
            assert_same(&machine.root(), &root, "going back");
            assert_same(&machine.running(), &running, "going back");
        }
    }
}

#[test]
fn a_link_that_a_program_has_open_is_asked_a_minute_and_not_again_on_the_way_back() {
    let machine = Machine::new();
    write(&machine.path("state"), "open", "p8001.ibp0\n");
    let (root, running, before) = (machine.root(), machine.running(), machine.clock());
    let output = machine.run("add", &["-l"], 0);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let (passed, log) = (machine.clock() - before, machine.text("state/log"));
    assert!(passed <= 60 + 60 + 1, "{passed}: {log}");
    let back = log.lines().position(|line| line.starts_with("dladm up-part")).unwrap();
    let deletes = |line: &&str| line.starts_with("dladm delete-part");
    assert!(log.lines().skip(back).all(|line| !deletes(&line)), "{log}");
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
}

#[test]
fn the_mode_of_a_link_is_kept() {
    for mode in ["cm", "ud"] {
        let machine = Machine::new();
        let props = if mode == "ud" { "pFFFF.ibp0 linkmode ud\n" } else { "" };
        write(&machine.path("state"), "props", props);
        machine.well("add", &["-l"]);
        let set = machine.text("state/props").contains("pFFFF.ibp0 linkmode cm");
        assert_eq!(set, mode == "cm", "{}", machine.text("state/props"));
        machine.well("remove", &["-l"]);
        assert_eq!(machine.text("state/props"), props);
    }
}

/// A partition was deleted soon after its link was taken down, hours ago.
#[test]
fn the_c_driver_is_not_unloaded_while_ibtl_keeps_a_client_of_it() {
    type Spoil = fn(&Machine);
    let cases: [(&str, Option<&str>, Spoil); 8] = [
        ("in the log", Some("IBTL keeps"), |machine| machine.logs("messages", &[BOOTS, KEEPS])),
        ("in an older log", Some("IBTL keeps"), |machine| {
            machine.logs("messages.1", &[BOOTS]);
            machine.logs("messages.0", &[KEEPS]);
            machine.logs("messages", &["Jul  9 10:00:00 host sendmail: hello"]);
        }),
        ("before the boot", None, |machine| machine.logs("messages", &[BOOTS, KEEPS, BOOTS])),
        ("known to mdb alone", Some("IBTL keeps"), |machine| {
            machine.logs("messages", &[]);
            write(&machine.path("state"), "kept", "p9000.ibp0\n");
        }),
        ("not kept, says mdb", None, |machine| machine.logs("messages", &[])),
        ("known to nobody", Some("nor mdb says"), |machine| {
            machine.logs("messages", &[]);
            write(&machine.path("state"), "no-mdb", "");
        }),
        ("kept of nobody knows which boot", Some("nor mdb says"), |machine| {
            machine.logs("messages", &[KEEPS]);
            write(&machine.path("state"), "no-mdb", "");
        }),
        ("no log", Some("nor mdb says"), |machine| {
            fs::remove_file(machine.path("root/var/adm/messages")).unwrap();
            write(&machine.path("state"), "no-mdb", "");
        }),
    ];
    for (what, refuses, spoil) in cases {
        for shell in shells() {
            let machine = Machine::new();
            spoil(&machine);
            let (root, running) = (machine.root(), machine.running());
            let output = machine.run_with(shell, "add", &["-l"], &[]);
            assert_eq!(output.status.code(), Some(i32::from(refuses.is_some())), "{what}: {}", said(&output));
            let Some(reason) = refuses else { continue };
            assert!(said(&output).contains(reason), "{shell}, {what}: {}", said(&output));
            assert!(said(&output).contains("beadm create"), "{shell}, {what}: {}", said(&output));
            assert!(
                machine.changes().iter().all(|(_, command)| ["mkdir", "rm"].contains(&&**command)),
                "{what}"
            );
            assert_same(&machine.root(), &root, what);
            assert_same(&machine.running(), &running, what);
            // Who knows that nothing is kept can say so; it is not believed against the log or mdb.
            let output = machine.run_with(shell, "add", &["-l", "-f"], &[]);
            assert_eq!(output.status.success(), reason == "nor mdb says", "{what}: {}", said(&output));
            assert!(!machine.path("state/leaked").exists());
        }
    }
}

/// The neighbour's acknowledgements may take longer than the scripts wait.
#[test]
fn the_c_driver_stays_when_ibtl_keeps_a_client_from_the_switch_itself() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    write(&machine.path("state"), "timewait", "100\n");
    let output = machine.run("add", &["-l"], 0);
    fs::remove_file(machine.path("state/timewait")).unwrap();
    assert!(!machine.path("state/leaked").exists(), "{}", machine.text("state/log"));
    assert!(said(&output).contains("IBTL keeps"), "{}", said(&output));
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
}

#[test]
fn one_script_is_at_work_at_a_time() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let boot = "unix:0:system_misc:boot_time\t1700000000";
    let (mine, dead) = (std::process::id(), ended.id());
    let cases = [
        (format!("{mine} {boot}\n"), true),
        (format!("{mine} \n"), true),
        (format!("{mine} unix:0:system_misc:boot_time\t1600000000\n"), false),
        (format!("{dead} {boot}\n"), false),
        (String::new(), false),
    ];
    for (owner, works) in cases {
        for script in ["add", "remove"] {
            for shell in shells() {
                if script == "remove" && !works {
                    machine.well("add", &["-l"]);
                }
                write(&machine.path("root/var/ipoib.lock"), "owner", &owner);
                let output = machine.run_with(shell, script, &["-l"], &[]);
                assert_eq!(output.status.success(), !works, "{shell}, {script}: {}", said(&output));
                if works {
                    assert!(
                        said(&output).contains(&format!("process {mine} is at work")),
                        "{}",
                        said(&output)
                    );
                    assert_eq!(machine.changes().len(), 1, "{}", machine.text("state/log"));
                    fs::remove_dir_all(machine.path("root/var/ipoib.lock")).unwrap();
                } else if script == "add" {
                    assert!(!machine.root().keys().any(|path| path.starts_with("var/ipoib.lock")), "{owner}");
                    machine.well("remove", &["-l"]);
                }
                assert_same(&machine.root(), &root, &owner);
                assert_same(&machine.running(), &running, &owner);
            }
        }
    }
}

/// While one waits the other is refused, in every shell.
#[test]
fn the_lock_is_held_until_the_end_also_of_an_interrupted_run() {
    for shell in shells() {
        let machine = Machine::new();
        let (root, running) = (machine.root(), machine.running());
        for call in ["sleep", "modunload", "bootadm"] {
            let at = {
                assert!(machine.run_with(shell, "add", &["-l"], &[]).status.success());
                let at = machine.call(call);
                machine.well("remove", &["-l"]);
                at
            };
            let variables = [("FAIL", &*at.to_string()), ("DOES", "TERM")];
            let output = machine.run_with(shell, "add", &["-l"], &variables);
            // ksh93 ends with 129 when what it waited for was terminated, too.
            assert!(!output.status.success(), "{shell}, {call}: {}", said(&output));
            assert!(machine.text("state/locked").contains(call), "{shell}: {}", machine.text("state/locked"));
            fs::remove_file(machine.path("state/locked")).unwrap();
            assert!(said(&output).contains("interrupted; going back"), "{shell}, {call}: {}", said(&output));
            if call == "sleep" {
                assert!(!machine.changes().iter().any(|(_, command)| command == "modunload"), "{shell}");
            }
            let when = format!("{shell}, {call}: {}\n{}", said(&output), machine.text("state/log"));
            assert_same(&machine.root(), &root, &when);
            assert_same(&machine.running(), &running, &when);
        }
    }
}

#[test]
fn without_the_wait_nothing_is_deleted() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    let output = machine.run_with("sh", "add", &["-l"], &[("FAIL", "sleep")]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(!machine.path("state/kept").exists(), "{}", machine.text("state/log"));
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
}
