//! A machine of our own making: a scratch root, and commands that stand for illumos's and can be made to fail one call at a time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gate::package::lay_out;

use super::{assert_same, each_so_many, files, tree, write};

/// What is up: more than one link, temporary and persistent ones, an IPv6 address, a link without an interface.
pub const STATE: [(&str, &str); 6] = [
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

pub const COMMANDS: [&str; 18] = [
    "bootadm",
    "chown",
    "cp",
    "date",
    "devfsadm",
    "dladm",
    "id",
    "ipadm",
    "ipmpstat",
    "kstat",
    "mdb",
    "mkdir",
    "modinfo",
    "modunload",
    "mv",
    "rm",
    "sleep",
    "update_drv",
];

/// With what the kernel begins its log of a boot.
pub const BOOTS: &str =
    "Jul  1 10:00:00 host genunix: [ID 540533 kern.notice] \rSunOS Release 5.11 Version nexenta 64-bit";
/// What IBTL says when it keeps a client.
pub const KEEPS: &str = "Jul  1 11:00:00 host ibtl: [ID 123456 kern.notice] IBT DETACH failed: resources not yet freed by client 'IBPART'";

/// The shells that are there of those that the scripts have to run under.
pub fn shells() -> impl Iterator<Item = &'static str> {
    ["sh", "ksh93", "bash"].into_iter().filter(|shell| Command::new(shell).args(["-c", ":"]).status().is_ok())
}

pub type Files = BTreeMap<PathBuf, Vec<u8>>;

pub struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Machine {
        let machine = Machine { dir: tempfile::tempdir().unwrap() };
        let (proto, root) = (machine.path("proto"), machine.path("root"));
        for (at, whose) in [(&proto, "ours"), (&root, "theirs")] {
            for path in ["kernel/drv/amd64/ibp", "kernel/drv/ibp.conf", "kernel/mac/amd64/mac_ib"] {
                write(at, path, &format!("{path}, {whose}\n"));
            }
        }
        write(&root, "etc/driver_aliases", "ib \"ib\"\nibp \"ib.ipib\"\n");
        write(&root, "var/adm/messages", &format!("{BOOTS}\n"));
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
        write(&state, "conf", "kernel/drv/ibp.conf, theirs\n");
        write(&state, "boot", "1700000000\n");
        write(&state, "clock", "1700000000\n");
        write(&state, "loaded-plugin", "kernel/mac/amd64/mac_ib, theirs\n");
        write(&state, "archive", "kernel/drv/amd64/ibp, theirs\n");
        let command = machine.path("command");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine/command"), &command).unwrap();
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(machine.path("bin")).unwrap();
        for name in COMMANDS {
            symlink(&command, machine.path("bin").join(name)).unwrap();
        }
        machine
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `add` or `remove` on the scratch root; call number `fail` of a command fails, 0 is none.
    pub fn run(&self, script: &str, options: &[&str], fail: usize) -> Output {
        self.run_with("sh", script, options, &[("FAIL", &fail.to_string())])
    }

    /// The same in shell `shell`, with variables that say what goes wrong (see the stand-in).
    pub fn run_with(
        &self,
        shell: &str,
        script: &str,
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Output {
        write(&self.path("state"), "calls", "0\n");
        write(&self.path("state"), "log", "");
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        Command::new(shell)
            .arg(self.path("archive").join(script))
            .arg("-R")
            .arg(self.path("root"))
            .args(options)
            .env("PATH", path)
            .env("MACHINE", self.path("state"))
            .env("SCRATCH_ROOT", self.path("root"))
            .env("FAIL", "0")
            .envs(variables.iter().copied())
            .process_group(0)
            .output()
            .unwrap()
    }

    /// Kills `script` before or after its call `at`, a number or the name of a command.
    pub fn kill(&self, script: &str, at: &str, when: &str) {
        let options = options_of(script, &["-l", "-p"]);
        let variables = [("FAIL", at), ("DOES", "KILL"), ("WHEN", when)];
        let output = self.run_with("sh", script, &options, &variables);
        assert_eq!(output.status.signal(), Some(9), "{when} {at}: {}", said(&output));
    }

    /// The calls of the last run that changed something: their numbers and commands.
    pub fn changes(&self) -> Vec<(usize, String)> {
        let question = |line: &str| {
            let mut words = line.split(' ');
            let command = words.next().unwrap();
            ["date", "id", "ipmpstat", "kstat", "mdb", "modinfo", "sleep"].contains(&command)
                || words.next().is_some_and(|word| word.starts_with("show-"))
        };
        let log = self.text("state/log");
        let changes = log.lines().enumerate().filter(|(_, line)| !question(line));
        changes.map(|(at, line)| (at + 1, line.split(' ').next().unwrap().to_owned())).collect()
    }

    /// Runs `script` through and says where to kill it: before each so many of its changes, and before the script writes down that it
    /// made a directory.
    pub fn kills(&self, script: &str) -> Vec<(String, &'static str)> {
        let options = options_of(script, &["-l", "-p"]);
        assert!(self.run_with("sh", script, &options, &[("DOES", "KILL")]).status.success());
        let kills = self.changes().into_iter().flat_map(|(call, command)| {
            let after = (command == "mkdir").then_some("after");
            [Some("before"), after].into_iter().flatten().map(move |when| (call.to_string(), when))
        });
        let kills: Vec<_> = kills.collect();
        assert!(kills.len() > 40, "{kills:?}");
        kills.into_iter().step_by(each_so_many()).collect()
    }

    /// Runs `remove`; the machine has to be as `root` and `running` say.
    #[track_caller]
    pub fn is_put_right_by_remove(&self, root: &Files, running: &Files, when: &str) {
        let output = self.run("remove", &["-l"], 0);
        let nothing = said(&output).contains("there is nothing to remove");
        let when = format!("{when}: {}", said(&output));
        assert!(output.status.success() || nothing, "{when}");
        assert_same(&self.root(), root, &when);
        assert_same(&self.running(), running, &when);
    }

    /// Makes directories `to` copies of `from`.
    pub fn copy(&self, from: [&str; 2], to: [&str; 2]) {
        for (from, to) in from.into_iter().zip(to) {
            let to = self.path(to);
            if to.exists() {
                fs::remove_dir_all(&to).unwrap();
            }
            assert!(Command::new("cp").arg("-a").arg(self.path(from)).arg(to).status().unwrap().success());
        }
    }

    /// Runs `add` or `remove`, which has to succeed, and returns what it said.
    #[track_caller]
    pub fn well(&self, script: &str, options: &[&str]) -> String {
        let output = self.run(script, options, 0);
        assert!(output.status.success(), "{script}: {}", said(&output));
        said(&output)
    }

    /// Which call of the last run was the first of `command`.
    pub fn call(&self, command: &str) -> usize {
        self.text("state/log").lines().position(|line| line.starts_with(command)).unwrap() + 1
    }

    /// Boots from the scratch root: what is configured is up, but for one partition.
    pub fn boot(&self) {
        let state = self.path("state");
        for what in ["parts", "ifs", "addrs"] {
            let configured = self.text(&format!("state/conf-{what}"));
            let up: Vec<&str> = configured.lines().filter(|line| !line.starts_with("absent0")).collect();
            let lo0 = match what {
                "ifs" => "lo0\n",
                "addrs" => "lo0/v4 static 127.0.0.1/8\n",
                _ => "",
            };
            write(&state, what, &format!("{lo0}{}\n", up.join("\n")));
        }
        write(&state, "loaded", &self.text("root/kernel/drv/amd64/ibp"));
        write(&state, "loaded-plugin", &self.text("root/kernel/mac/amd64/mac_ib"));
        write(&state, "conf", &self.text("root/kernel/drv/ibp.conf"));
        write(&state, "boot", "1700009999\n");
        let log = self.text("root/var/adm/messages");
        self.logs("messages", &[&log, BOOTS]);
    }

    /// What is in the root, but for the log.
    pub fn root(&self) -> Files {
        let mut root = files(&self.path("root"));
        root.retain(|path, _| !path.starts_with("var/adm"));
        root
    }

    /// What runs: links, interfaces and addresses in any order, and which driver.
    pub fn running(&self) -> Files {
        let mut state = files(&self.path("state"));
        state.retain(|path, _| {
            !["calls", "log", "late", "closing", "kept", "asked", "clock"].contains(&path.to_str().unwrap())
        });
        for content in state.values_mut() {
            let text = String::from_utf8(std::mem::take(content)).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            *content = lines.join("\n").into_bytes();
        }
        state
    }

    /// What time it is on it.
    pub fn clock(&self) -> u64 {
        self.text("state/clock").trim().parse().unwrap()
    }

    /// Puts `lines` into the kernel's log `file`.
    pub fn logs(&self, file: &str, lines: &[&str]) {
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        write(&self.path("root/var/adm"), file, &lines);
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Makes `script` fail at each so many of its calls; the machine has to be as before each time. Then it runs through; how many calls
    /// it made.
    pub fn fail_at_calls(&self, script: &str, options: &[&str]) -> usize {
        let (root, running) = (self.root(), self.running());
        for fail in (1..).step_by(each_so_many()) {
            let output = self.run(script, &options_of(script, options), fail);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let calls: usize = self.text("state/calls").trim().parse().unwrap();
            if calls < fail {
                assert!(output.status.success(), "{script}: {said}");
                return calls;
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
pub fn options_of<'a>(script: &str, options: &[&'a str]) -> Vec<&'a str> {
    options.iter().copied().filter(|option| script == "add" || *option != "-p").collect()
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
