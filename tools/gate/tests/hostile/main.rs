//! Gates of strangers: what they lead to outside of themselves stays as it is, and the tool says by name what it refuses.
//!
//! Everything goes through the program itself, as `make install-gate` calls it.

mod repository;
#[path = "../support/mod.rs"]
mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gate::record::sha256;
use support::{Small, assert_same, files};

const RECORD: &str = "usr/src/uts/intel/ipoib/installed.toml";
const FILES: &str = "usr/src/uts/common/Makefile.files";

/// A gate, and a directory beside it that nothing may touch.
struct Hostile {
    gate: Small,
    outside: tempfile::TempDir,
}

impl Hostile {
    fn new() -> Hostile {
        let hostile = Hostile { gate: Small::new(), outside: tempfile::tempdir().unwrap() };
        fs::write(hostile.victim(), "mine\n").unwrap();
        hostile
    }

    fn victim(&self) -> PathBuf {
        self.outside.path().join("victim")
    }

    /// Commits a record with one entry.
    fn tells(&self, path: &str, done: &str, rest: &str) {
        let text = format!("version = \"0.1.0\"\n[[file]]\npath = \"{path}\"\ndone = \"{done}\"\n{rest}\n");
        self.gate.write(RECORD, &text);
        self.gate.commit();
    }

    fn run(&self, command: &str) -> Output {
        run(command, self.gate.root())
    }

    /// `command` fails, says `reason`, and changes nothing in the gate or beside it.
    #[track_caller]
    fn refuses(&self, command: &str, reason: &str) {
        let (gate, outside) = (self.listed(), files(self.outside.path()));
        let output = self.run(command);
        let said = said(&output);
        assert!(!output.status.success() && said.contains(reason), "{command}: no `{reason}` in: {said}");
        assert_same(&files(self.outside.path()), &outside, "outside");
        assert_eq!(self.listed(), gate);
    }

    /// The names in the gate; not everything in it can be read.
    fn listed(&self) -> String {
        let found = Command::new("find")
            .arg(self.gate.root())
            .args(["-name", ".git", "-prune", "-o", "-ls"])
            .output();
        String::from_utf8_lossy(&found.unwrap().stdout).into_owned()
    }

    fn replace(&self, path: &str, with: impl FnOnce(&Path)) {
        let path = self.gate.root().join(path);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            drop(fs::remove_file(&path))
        }
        with(&path);
    }
}

/// One that waits for something is ended, and has failed.
fn run(command: &str, gate: &Path) -> Output {
    let program = ["60", env!("CARGO_BIN_EXE_gate"), command].map(OsStr::new);
    Command::new("timeout").args(program).arg(gate).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Before, `uninstall` wrote such files of the user over, removed them or took lines out: the record's paths were believed.
#[test]
fn a_record_that_names_a_file_elsewhere_is_refused() {
    for done in ["added", "replaced", "edited"] {
        for absolute in [true, false] {
            let hostile = Hostile::new();
            let victim = hostile.victim();
            let path = if absolute {
                victim.display().to_string()
            } else {
                let up = "../".repeat(hostile.gate.root().components().count());
                format!("{up}{}", victim.strip_prefix("/").unwrap().display())
            };
            let flat = path.strip_prefix("usr/src").unwrap_or(&path).replace('/', "%");
            hostile.gate.write(&format!("usr/src/uts/intel/ipoib/original/{flat}"), "theirs\n");
            let rest = match done {
                "edited" => "fragment = \"#@ after mine\\ntheirs\\n\"".to_string(),
                _ => format!("sha256 = \"{}\"", sha256(b"mine\n")),
            };
            if done == "edited" {
                let begin =
                    "# BEGIN ipoib (make install-gate put this here; make uninstall-gate takes it out)";
                fs::write(&victim, format!("mine\n{begin}\ntheirs\n# END ipoib\n")).unwrap();
            }
            hostile.tells(&path, done, &rest);
            hostile.refuses("uninstall", &path);
            hostile.refuses("install", &path);
        }
    }
}

/// Before, any file of the gate could be taken out or put back too, such as `.git/hooks` and its configuration.
#[test]
fn a_record_of_what_the_tool_never_does_is_refused() {
    let sum = "sha256";
    let fragment = "fragment = \"#@ after x\\ny\\n\"";
    let shim = "usr/src/uts/common/io/ib/clients/ibd/ibd_linkage.c";
    for (path, done, rest) in [
        ("usr/src/Makefile.master", "added", sum),
        (".git/config", "added", sum),
        ("usr/src/uts/intel/ipoib/installed.toml", "added", sum),
        ("usr/src/uts/intel/ipoib/original/x", "added", sum),
        ("./usr/src/uts/intel/ibp/Makefile/../Makefile", "replaced", sum),
        ("usr/src/uts/intel/ibp/Makefile/", "edited", fragment),
        (FILES, "added", sum),
        (FILES, "replaced", sum),
        (shim, "replaced", sum),
        (shim, "edited", fragment),
        ("", "added", sum),
        ("/", "added", sum),
        ("..", "added", sum),
        ("usr/src/uts/common/\\u0000", "added", sum),
        ("\\u001b[2J", "added", sum),
    ] {
        let hostile = Hostile::new();
        // With the right sum, so that the record is refused for what it tells alone.
        let now = fs::read(hostile.gate.root().join(path)).unwrap_or_default();
        let sum = format!("sha256 = \"{}\"", sha256(&now));
        hostile.tells(path, done, if rest == "sha256" { &sum } else { rest });
        hostile.refuses("uninstall", RECORD);
        hostile.refuses("install", RECORD);
    }
}

#[test]
fn a_record_of_another_version_or_of_no_size_is_refused() {
    let entry = |path: &str| format!("[[file]]\npath = \"{path}\"\ndone = \"added\"\nsha256 = \"0\"\n");
    let twice = [entry(FILES), entry(FILES)].concat();
    let many: String = (0..1000).map(|number| entry(&format!("usr/src/{number}"))).collect();
    let cases = [
        (
            format!("version = \"9.9.9\"\n{}", entry("usr/src/uts/intel/rdma/Makefile")),
            "version 9.9.9 of this tool",
        ),
        (format!("version = \"0.1.0\"\n{twice}"), FILES),
        (format!("version = \"0.1.0\"\n{many}"), "tells of 1000 files"),
        ("#".repeat(17 << 20), "larger than 16 MiB"),
        (String::from("version = \"0.1.0\"\nfiles = 3\n"), RECORD),
    ];
    for (text, reason) in cases {
        let hostile = Hostile::new();
        hostile.gate.write(RECORD, &text);
        hostile.gate.commit();
        hostile.refuses("uninstall", reason);
        hostile.refuses("install", reason);
    }
    let hostile = Hostile::new();
    hostile.replace(RECORD, |path| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"version = \"\xff\"\n").unwrap();
    });
    hostile.refuses("uninstall", RECORD);
}

/// A sum that is not that of what is there; it is the old refusal, and nothing outside is looked at.
#[test]
fn a_record_with_wrong_sums_is_refused() {
    let hostile = Hostile::new();
    hostile.gate.write("usr/src/uts/intel/ibd/Makefile", "MODULE = ibd\n");
    hostile.tells("usr/src/uts/intel/ibd/Makefile", "added", &format!("sha256 = \"{}\"", sha256(b"other")));
    hostile.refuses("uninstall", "usr/src/uts/intel/ibd/Makefile: was changed since it was installed");
}

/// Before, `install` wrote through links: into a home, or over a file that one names.
#[test]
fn a_link_on_the_way_to_a_file_is_refused_by_name() {
    for path in
        ["usr/src/uts/common/io/ib/clients/ibd", "usr/src/pkg/manifests", "usr/src/man/man7d", "usr/src/cmd"]
    {
        let hostile = Hostile::new();
        let there = hostile.outside.path().join("dir");
        fs::rename(hostile.gate.root().join(path), &there).unwrap();
        hostile.replace(path, |path| symlink(&there, path).unwrap());
        hostile.gate.commit();
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        hostile.refuses("install", &format!("{name} is a symbolic link"));
    }
    for path in ["usr/src/uts/intel/ipoib", "usr/src/uts/intel/ibd", "usr/src/uts/common/io/ib/adapters"] {
        let hostile = Hostile::new();
        hostile.replace(path, |path| symlink(hostile.outside.path(), path).unwrap());
        hostile.gate.commit();
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        hostile.refuses("install", &format!("{name} is a symbolic link"));
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_refused_by_name() {
    for path in [
        FILES,
        "usr/src/uts/intel/ibp/Makefile",
        "usr/src/man/man7d/ibd.7d",
        "usr/src/uts/intel/ibd/Makefile",
    ] {
        let hostile = Hostile::new();
        let there = hostile.victim();
        if hostile.gate.root().join(path).exists() {
            fs::copy(hostile.gate.root().join(path), &there).unwrap();
        }
        hostile.replace(path, |path| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(&there, path).unwrap();
        });
        hostile.gate.commit();
        hostile.refuses("install", &format!("{path}: a symbolic link"));
    }
}

/// A link to itself, to nothing, to a directory of the gate: they lead nowhere, and are refused all the same.
#[test]
fn a_link_within_the_gate_is_refused_where_the_tool_writes() {
    for to in ["ibd", "/nowhere", "../ibp", "ibp"] {
        let hostile = Hostile::new();
        hostile.replace("usr/src/uts/intel/ibd", |path| symlink(to, path).unwrap());
        hostile.gate.commit();
        hostile.refuses("install", "ibd is a symbolic link");
    }
}

/// Before, reading a pipe waited for good.
#[test]
fn what_is_no_file_is_refused_by_name() {
    for command in ["install", "uninstall"] {
        for path in [RECORD, "usr/src/uts/Makefile.targ"] {
            let hostile = Hostile::new();
            hostile.replace(path, |path| {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let made = Command::new("mkfifo").arg(path).status().unwrap();
                assert!(made.success());
            });
            hostile.refuses(command, path);
        }
    }
    let hostile = Hostile::new();
    hostile.replace(RECORD, |path| fs::create_dir_all(path).unwrap());
    hostile.refuses("uninstall", "a directory, and a file is expected");
    let hostile = Hostile::new();
    hostile.replace("usr/src/uts/Makefile.targ", |path| symlink("/dev/zero", path).unwrap());
    hostile.refuses("install", "usr/src/uts/Makefile.targ");
}

/// The other name of a file keeps what it had: what is replaced gets a file of its own.
#[test]
fn another_name_of_a_file_outside_keeps_its_content() {
    let hostile = Hostile::new();
    let there = hostile.victim();
    fs::copy(hostile.gate.root().join(FILES), &there).unwrap();
    hostile.replace(FILES, |path| fs::hard_link(&there, path).unwrap());
    let before = files(hostile.outside.path());
    let gate = hostile.gate.files();
    for command in ["install", "uninstall"] {
        let output = hostile.run(command);
        assert!(output.status.success(), "{}", said(&output));
        assert_same(&files(hostile.outside.path()), &before, command);
    }
    assert_same(&hostile.gate.files(), &gate, "afterwards");
}

/// Before, sixty macros that each name the next twice took the memory and the day.
#[test]
fn makefiles_without_an_end_are_refused() {
    let doubled: String = (0..60).map(|at| format!("A{at} = $(A{0})$(A{0})\n", at + 1)).collect();
    let cases = [
        ("MODULE = $(A0)\n".to_string() + &doubled, "without an end that is near"),
        ("include Makefile\ninclude Makefile\n".to_string(), "Makefile"),
        ("include /dev/zero\n".to_string(), "neither a file nor a directory"),
    ];
    for (text, reason) in cases {
        let hostile = Hostile::new();
        let output = hostile.run("install");
        assert!(output.status.success(), "{}", said(&output));
        hostile.gate.write("usr/src/uts/intel/ibd/Makefile", &text);
        let output = hostile.run("check");
        let said = said(&output);
        assert!(!output.status.success() && said.contains(reason) && said.len() < 10_000, "{reason}: {said}");
    }
}
