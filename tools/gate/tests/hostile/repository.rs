//! What a gate's own git repository would have git do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::support::{self, Small, assert_same, files, git};
use super::{FILES, Hostile, run, said};

/// A program that leaves a trace in the directory `outside` and lets its input through.
fn program(hostile: &Hostile) -> PathBuf {
    let path = hostile.gate.root().join(".git/program");
    let trace = hostile.outside.path().join("trace");
    fs::write(&path, format!("#!/bin/sh\ntouch {}\nexec cat\n", trace.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Before, a monitor, a filter and a hook of the gate's own configuration ran, each as the user.
#[test]
fn git_runs_nothing_that_the_gate_configures() {
    type Configure = fn(&Small, &str);
    let cases: [(&str, Configure); 4] = [
        ("a monitor", |gate, program| drop(git(gate.root(), &["config", "core.fsmonitor", program]))),
        ("hooks elsewhere", |gate, program| {
            let hooks = gate.root().join(".git/theirs");
            fs::create_dir(&hooks).unwrap();
            fs::copy(program, hooks.join("post-index-change")).unwrap();
            drop(git(gate.root(), &["config", "core.hooksPath", hooks.to_str().unwrap()]));
        }),
        ("a hook", |gate, program| {
            fs::create_dir_all(gate.root().join(".git/hooks")).unwrap();
            fs::copy(program, gate.root().join(".git/hooks/post-index-change")).unwrap();
        }),
        ("a pager", |gate, program| {
            drop(git(gate.root(), &["config", "core.pager", program]));
            drop(git(gate.root(), &["config", "pager.status", program]));
        }),
    ];
    for (what, configure) in cases {
        let hostile = Hostile::new();
        let program = program(&hostile);
        configure(&hostile.gate, program.to_str().unwrap());
        // Whether a file has changed can be told by its content alone.
        let touched = fs::File::options().append(true).open(hostile.gate.root().join(FILES)).unwrap();
        touched.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
        let outside = files(hostile.outside.path());
        let output = hostile.run("install");
        assert!(output.status.success(), "{what}: {}", said(&output));
        assert_same(&files(hostile.outside.path()), &outside, what);
    }
}

#[test]
fn a_gate_with_filters_of_its_own_is_refused_by_name() {
    for (key, scope) in [
        ("filter.theirs.clean", "--local"),
        ("filter.theirs.process", "--worktree"),
        ("filter.A=b.smudge", "--local"),
    ] {
        let hostile = Hostile::new();
        let program = program(&hostile);
        git(hostile.gate.root(), &["config", "extensions.worktreeConfig", "true"]);
        git(hostile.gate.root(), &["config", scope, key, program.to_str().unwrap()]);
        fs::create_dir_all(hostile.gate.root().join(".git/info")).unwrap();
        fs::write(hostile.gate.root().join(".git/info/attributes"), "* filter=theirs\n").unwrap();
        let touched = fs::File::options().append(true).open(hostile.gate.root().join(FILES)).unwrap();
        touched.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
        hostile.refuses("install", &format!("`{key}`"));
    }
    // Behind an include, too.
    let hostile = Hostile::new();
    let program = program(&hostile);
    fs::write(
        hostile.gate.root().join(".git/more"),
        format!("[filter \"x\"]\nclean = {}\n", program.display()),
    )
    .unwrap();
    git(hostile.gate.root(), &["config", "include.path", "more"]);
    hostile.refuses("install", "`filter.x.clean`");
}

/// A repository that says that its files are elsewhere, and one that lies above: neither is what is asked.
#[test]
fn another_work_tree_does_not_hide_a_change() {
    let hostile = Hostile::new();
    let other = Small::new();
    git(hostile.gate.root(), &["config", "core.worktree", other.root().to_str().unwrap()]);
    hostile.gate.write("usr/src/cmd/Makefile", "changed\n");
    hostile.refuses("install", "usr/src/cmd/Makefile has a change that is not committed");

    let above = tempfile::tempdir().unwrap();
    git(above.path(), &["init", "-q"]);
    let below = above.path().join("gate");
    let moved = Hostile::new();
    fs::remove_dir_all(moved.gate.root().join(".git")).unwrap();
    fs::create_dir(moved.gate.root().join(".git")).unwrap();
    let copied = Command::new("cp").arg("-r").args([moved.gate.root(), &below]).status().unwrap();
    assert!(copied.success());
    let output = run("install", &below);
    assert!(!output.status.success() && said(&output).contains("not a git repository"), "{}", said(&output));
}

/// Before, the whole answer of git was refused, without a name.
#[test]
fn names_that_are_not_utf_8_are_named() {
    let hostile = Hostile::new();
    let name = OsStr::from_bytes(b"usr/src/\xff\x1b[2Jname");
    fs::write(hostile.gate.root().join(name), "").unwrap();
    hostile.refuses("install", "usr/src/\u{fffd}\\u{1b}[2Jname has a change that is not committed");
    hostile.gate.commit();
    let output = hostile.run("install");
    assert!(output.status.success(), "{}", said(&output));
}

/// Before, filters and hooks of the gate's own configuration ran when the copy was made.
#[test]
fn a_copy_is_made_without_running_anything_of_the_gate() {
    let hostile = Hostile::new();
    hostile.gate.write(".gitattributes", "* filter=theirs\n");
    hostile.gate.commit();
    let program = program(&hostile);
    for key in ["filter.theirs.smudge", "filter.theirs.clean", "core.fsmonitor"] {
        git(hostile.gate.root(), &["config", key, program.to_str().unwrap()]);
    }
    fs::create_dir_all(hostile.gate.root().join(".git/hooks")).unwrap();
    for hook in ["post-index-change", "post-checkout"] {
        fs::copy(&program, hostile.gate.root().join(".git/hooks").join(hook)).unwrap();
    }
    let (gate, outside) = (hostile.listed(), files(hostile.outside.path()));
    let script = support::tree().join("tools/gate/try-public-gate.sh");
    let output = Command::new("sh")
        .arg(script)
        .arg(hostile.gate.root())
        .env("GATE_TOOL", env!("CARGO_BIN_EXE_gate"))
        .output()
        .unwrap();
    let said = said(&output);
    assert!(output.status.success() && said.contains("out without a trace"), "{said}");
    assert_same(&files(hostile.outside.path()), &outside, "outside");
    assert_eq!(hostile.listed(), gate);
}
