//! The build for an illumos machine without a gate, as far as a Linux machine shows it: what it would run, that all it names is
//! there, and that the shims compile and join.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kmod::manifest::Manifest;
use kmod::shim::{CFLAGS, include_dir};
use support::tree;

/// Stand-ins for what an illumos machine has: `ld` takes what GNU ld does not know, `cargo` makes an object for the crate it is
/// asked for.
const TOOLS: [(&str, &str); 5] = [
    ("uname", "echo SunOS"),
    (
        "ld",
        "for word; do shift; case $word in -N*) echo \"$word\" >>\"$NEEDED\" ;; -dy) ;; *) set -- \"$@\" \"$word\" ;; esac\n\
         done; exec /usr/bin/ld \"$@\"",
    ),
    ("cargo", "echo \"int of_$7;\" | gcc -fno-pic -mcmodel=kernel -x c -c - -o \"$9\""),
    ("gld", ":"),
    ("gobjcopy", ":"),
];

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in TOOLS {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Machine(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn build(&self, options: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.arg(tree().join("tools/illumos-build.sh")).args(options).arg("-o").arg(self.path("out"));
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("HEADERS", include_dir(&tree())).env("NEEDED", self.path("needed"));
        command.env("CC", "gcc -nostdinc").env("LD", self.path("ld")).env("CARGO", self.path("cargo"));
        command.env("MODULE_TYPE", "-r -dy");
        command
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn what_it_would_run_is_what_our_own_build_does_and_names_nothing_that_is_not_there() {
    let machine = Machine::new();
    let output = machine.build(&["-n"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!machine.path("out").exists(), "a dry run writes nothing");
    let text = said(&output);
    for module in Manifest::read(&tree()).unwrap().modules {
        let compiled = text.lines().find(|line| {
            line.ends_with(&format!("/objects/{}/shim.o", module.name)) && line.contains(" -c ")
        });
        let words: Vec<&str> = compiled.expect("a compilation").split(' ').collect();
        for flag in CFLAGS {
            assert!(words.contains(flag), "{}: {flag} is missing", module.name);
        }
        assert!(words.contains(&module.shim.to_str().unwrap()), "{words:?}");
        let linked = text.lines().find(|line| line.contains(&format!("amd64/{} ", module.name)));
        let words: Vec<&str> = linked.expect("a link").split(' ').collect();
        let needed: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("-N")).collect();
        assert_eq!(needed, module.depends, "{}", module.name);
        let asked = format!("-p kmod -- object {} --output", module.package);
        assert!(text.contains(&asked), "{asked}");
        if let Some(conf) = module.conf {
            assert!(text.contains(&format!("cp {}", conf.display())), "{}", conf.display());
        }
    }
    for word in text.split_whitespace().filter(|word| word.starts_with("usr/src/")) {
        assert!(tree().join(word).is_file(), "{word}");
    }
}

#[test]
fn the_shims_compile_with_its_flags_and_join_with_the_rust_parts() {
    let machine = Machine::new();
    let output = machine.build(&[]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    for (module, crate_name, says) in [
        ("mac/amd64/mac_ib", "mac_ib", "Infiniband MAC Type plugin"),
        ("drv/amd64/ibd", "ibd", "InfiniBand GLDv3 Driver"),
        ("drv/amd64/ibp", "ibd", "InfiniBand GLDv3 Driver"),
        ("drv/amd64/swhca", "swhca", "Software InfiniBand Adapter"),
    ] {
        let bytes = fs::read(machine.path("out/kernel").join(module)).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(bytes.starts_with(b"\x7fELF") && has(says) && has(&format!("of_{crate_name}")), "{module}");
        assert!(!has("_depends_on"), "{module}: the linker's -N says it");
    }
    assert!(machine.path("out/kernel/drv/ibp.conf").is_file());
    let needed = fs::read_to_string(machine.path("needed")).unwrap();
    assert_eq!(needed.lines().count(), 1 + 5 + 5 + 2, "{needed}");
}

/// Before, a `tools` in a directory of CDPATH was taken for ours.
#[test]
fn it_builds_the_tree_it_lies_in_whatever_cdpath_says() {
    let machine = Machine::new();
    fs::create_dir(machine.path("tools")).unwrap();
    let mut command = Command::new("sh");
    command.args(["tools/illumos-build.sh", "-n", "-o"]).arg(machine.path("out")).current_dir(tree());
    let path = format!("{}:{}", machine.path("").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("HEADERS", include_dir(&tree())).env("LD", machine.path("ld"));
    command.env("CDPATH", machine.path("")).env("MODULE_TYPE", "-r -dy");
    let output = command.output().unwrap();
    assert!(output.status.success() && said(&output).contains("kmod -- object ibd"), "{}", said(&output));
    assert!(!said(&output).contains(&*machine.path("tools").to_string_lossy()), "{}", said(&output));
}

#[test]
fn a_machine_that_lacks_something_is_told_what() {
    let refused = |spoil: &dyn Fn(&mut Command, &Path), options: &[&str], code: i32, reason: &str| {
        let machine = Machine::new();
        let mut command = machine.build(options);
        spoil(&mut command, machine.0.path());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(reason), "{}", said(&output));
        assert!(!machine.path("out").exists());
    };
    refused(&|_, bin| fs::remove_file(bin.join("uname")).unwrap(), &[], 1, "for an illumos machine");
    refused(&|_, bin| fs::remove_file(bin.join("cargo")).unwrap(), &[], 1, "no ");
    refused(
        &|command, bin| {
            command.env("HEADERS", bin);
        },
        &[],
        1,
        "install the package system/header",
    );
    refused(&|_, _| {}, &["-x"], 2, "usage");
}
