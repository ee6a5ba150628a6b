//! The archive on a machine of our own making: a scratch root, and commands that stand for illumos's and can be made to
//! fail one call at a time.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gate::package::lay_out;
use support::{assert_same, files, tree, write};

/// What is up: more than one link, temporary and persistent ones, an IPv6 address, a link without an interface.
const STATE: [(&str, &str); 6] = [
    ("parts", "pFFFF.ibp0 FFFF ibp0\np8001.ibp0 8001 ibp0\nidle0 8002 ibp1\n"),
    ("conf-parts", "pFFFF.ibp0 FFFF ibp0\nidle0 8002 ibp1\nabsent0 8003 ibp1\n"),
    ("ifs", "lo0\npFFFF.ibp0\np8001.ibp0\n"),
    ("conf-ifs", "pFFFF.ibp0\n"),
    (
        "addrs",
        "lo0/v4 static 127.0.0.1/8\npFFFF.ibp0/v4 static 10.0.0.1/24\npFFFF.ibp0/extra static fd00:76::9/64\n\
         p8001.ibp0/v4 static 10.1.0.1/24\np8001.ibp0/v6 addrconf fe80::1\n",
    ),
    ("conf-addrs", "pFFFF.ibp0/v4 static 10.0.0.1/24\n"),
];

struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { dir: tempfile::tempdir().unwrap() };
        let (proto, root) = (machine.path("proto"), machine.path("root"));
        for (at, whose) in [(&proto, "ours"), (&root, "theirs")] {
            for path in ["kernel/drv/amd64/ibp", "kernel/drv/ibp.conf", "kernel/mac/amd64/mac_ib"] {
                write(at, path, &format!("{path}, {whose}\n"));
            }
        }
        write(&root, "etc/driver_aliases", "ib \"ib\"\nibp \"ib.ipib\"\n");
        fs::create_dir(root.join("var")).unwrap();
        lay_out(&tree(), &proto, &machine.path("archive")).unwrap();

        let state = machine.path("state");
        for (file, text) in STATE {
            write(&state, file, text);
        }
        for (file, text) in
            [("calls", "0\n"), ("props", ""), ("zones", ""), ("loaded", "kernel/drv/amd64/ibp, theirs\n")]
        {
            write(&state, file, text);
        }
        write(&state, "loaded-plugin", "kernel/mac/amd64/mac_ib, theirs\n");
        write(&state, "archive", "kernel/drv/amd64/ibp, theirs\n");
        let command = machine.path("command");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine/command"), &command).unwrap();
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(machine.path("bin")).unwrap();
        for name in
            ["dladm", "ipadm", "modinfo", "modunload", "devfsadm", "bootadm", "id", "cp", "mv", "mkdir"]
        {
            symlink(&command, machine.path("bin").join(name)).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `add` or `remove` on the scratch root; call number `fail` of a command fails, 0 is none.
    fn run(&self, script: &str, options: &[&str], fail: usize) -> Output {
        write(&self.path("state"), "calls", "0\n");
        write(&self.path("state"), "log", "");
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        Command::new("sh")
            .arg(self.path("archive").join(script))
            .arg("-R")
            .arg(self.path("root"))
            .args(options)
            .env("PATH", path)
            .env("MACHINE", self.path("state"))
            .env("SCRATCH_ROOT", self.path("root"))
            .env("FAIL", fail.to_string())
            .output()
            .unwrap()
    }

    /// What is in the root.
    fn root(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files(&self.path("root"))
    }

    /// What runs: links, interfaces and addresses in any order, and which driver.
    fn running(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut state = files(&self.path("state"));
        state.retain(|path, _| !["calls", "log"].contains(&path.to_str().unwrap()));
        for content in state.values_mut() {
            let text = String::from_utf8(std::mem::take(content)).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            *content = lines.join("\n").into_bytes();
        }
        state
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Makes `script` fail at each of its calls in turn; the machine has to be as before each time. Then it runs through.
    fn fail_at_every_call(&self, script: &str, options: &[&str]) -> usize {
        let (root, running) = (self.root(), self.running());
        for fail in 1.. {
            let output = self.run(script, &options_of(script, options), fail);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let calls: usize = self.text("state/calls").trim().parse().unwrap();
            if calls < fail {
                assert!(output.status.success(), "{script}: {said}");
                return fail - 1;
            }
            if output.status.success() {
                // A question whose answer was not needed; undo it for the next round.
                let back = if script == "add" { "remove" } else { "add" };
                let again = self.run(back, options_of(back, options).as_slice(), 0);
                assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
            } else {
                assert_eq!(
                    output.status.code(),
                    Some(1),
                    "{script}, call {fail}: {said}\n{}",
                    self.text("state/log")
                );
            }
            let when = format!("{script}, call {fail}: {said}\n{}", self.text("state/log"));
            assert_same(&self.root(), &root, &when);
            assert_same(&self.running(), &running, &when);
        }
        unreachable!("a script has an end")
    }
}

/// `remove` knows by itself whether the plugin was added.
fn options_of<'a>(script: &str, options: &[&'a str]) -> Vec<&'a str> {
    options.iter().copied().filter(|option| script == "add" || *option != "-p").collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_switch_to_our_driver_and_back_keeps_links_and_addresses() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    let output = machine.run("add", &["-l"], 0);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(machine.text("root/kernel/drv/amd64/ibp"), "kernel/drv/amd64/ibp, ours\n");
    assert_eq!(machine.text("root/kernel/mac/amd64/mac_ib"), "kernel/mac/amd64/mac_ib, theirs\n");
    assert_eq!(machine.text("state/loaded"), "kernel/drv/amd64/ibp, ours\n");
    assert_eq!(machine.text("state/archive"), "kernel/drv/amd64/ibp, ours\n");
    for (file, _) in STATE {
        let path = Path::new(file);
        assert_eq!(machine.running().get(path), running.get(path), "{file}");
    }
    let output = machine.run("remove", &["-l"], 0);
    assert!(output.status.success(), "{}", said(&output));
    assert_same(&machine.root(), &root, "after removal");
    assert_same(&machine.running(), &running, "after removal");
}

#[test]
fn whatever_call_of_add_fails_the_machine_is_as_before() {
    let machine = Machine::new();
    assert!(machine.fail_at_every_call("add", &["-l", "-p"]) > 40);
    assert_eq!(machine.text("state/loaded-plugin"), "kernel/mac/amd64/mac_ib, ours\n");
}

#[test]
fn whatever_call_of_remove_fails_the_machine_is_as_before() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    assert!(machine.run("add", &["-l", "-p"], 0).status.success());
    assert!(machine.fail_at_every_call("remove", &["-l", "-p"]) > 40);
    assert_same(&machine.root(), &root, "after removal");
    assert_same(&machine.running(), &running, "after removal");
}

#[test]
fn another_root_gets_files_only() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    assert!(machine.fail_at_every_call("add", &["-p"]) > 5);
    let log = machine.text("state/log");
    assert!(!log.contains("dladm") && !log.contains("ipadm") && !log.contains("mod"), "{log}");
    assert_eq!(machine.text("state/archive"), "kernel/drv/amd64/ibp, ours\n");
    assert!(machine.fail_at_every_call("remove", &["-p"]) > 5);
    assert_same(&machine.root(), &root, "after removal");
    assert_same(&machine.running(), &running, "after removal");
}

#[test]
fn a_driver_that_does_not_start_is_taken_out_again() {
    let machine = Machine::new();
    write(&machine.path("proto"), "kernel/drv/amd64/ibp", "broken\n");
    fs::remove_dir_all(machine.path("archive")).unwrap();
    lay_out(&tree(), &machine.path("proto"), &machine.path("archive")).unwrap();
    let (root, running) = (machine.root(), machine.running());
    let output = machine.run("add", &["-l"], 0);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the driver does not start; going back"), "{}", said(&output));
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_changed() {
    type Spoil = fn(&Machine);
    let cases: [(&str, Spoil); 5] = [
        ("install the package driver/network/ibp first", |machine| {
            fs::remove_file(machine.path("root/kernel/drv/amd64/ibp")).unwrap();
        }),
        ("does not bind ibp to ib.ipib", |machine| write(&machine.path("root"), "etc/driver_aliases", "")),
        ("is no root of an amd64 illumos system", |machine| {
            fs::remove_dir_all(machine.path("root/kernel/drv/amd64")).unwrap();
        }),
        ("the archive is damaged", |machine| {
            fs::set_permissions(
                machine.path("archive/files/kernel/drv/ibp.conf"),
                fs::Permissions::from_mode(0o644),
            )
            .unwrap();
            write(&machine.path("archive"), "files/kernel/drv/ibp.conf", "cut sh");
        }),
        ("it is here already", |machine| assert!(machine.run("add", &[], 0).status.success())),
    ];
    for (reason, spoil) in cases {
        let machine = Machine::new();
        spoil(&machine);
        let (root, running) = (machine.root(), machine.running());
        let output = machine.run("add", &["-l"], 0);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said(&output).contains(reason) && said(&output).contains("nothing was changed"),
            "{}",
            said(&output)
        );
        assert_same(&machine.root(), &root, reason);
        assert_same(&machine.running(), &running, reason);
    }
    let machine = Machine::new();
    assert!(said(&machine.run("remove", &[], 0)).contains("there is nothing to remove"));
    assert_eq!(machine.run("add", &["-x"], 0).status.code(), Some(2));
}

#[test]
fn an_address_without_a_name_is_not_lost_but_named() {
    let machine = Machine::new();
    let addrs = machine.text("state/addrs") + "pFFFF.ibp0/? static 10.0.0.7/24\n";
    write(&machine.path("state"), "addrs", &addrs);
    let running = machine.running();
    let output = machine.run("add", &["-l"], 0);
    assert!(said(&output).contains("pFFFF.ibp0 has an address without a name"), "{}", said(&output));
    assert_same(&machine.running(), &running, "refused");
}
