//! Makefiles in dmake's language, small ones of our own; and what `make install-gate` asks a build machine for.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use gate::make::Makefile;

/// A directory with these files; `Makefile` is read with `given`.
fn made(files: &[(&str, &str)], given: &[(&str, &str)]) -> (tempfile::TempDir, Makefile) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let makefile = Makefile::read(&dir.path().join("Makefile"), given).unwrap();
    (dir, makefile)
}

fn only(text: &str) -> Makefile {
    made(&[("Makefile", text)], &[]).1
}

#[test]
fn a_macro_is_worth_what_it_refers_to_when_it_is_asked_for() {
    let makefile =
        only("ALL = $(FIRST) $(KIND_$(CLASS))\nCLASS = 64\nKIND_64 = wide\nFIRST = one\nFIRST += two\n");
    assert_eq!(makefile.value("ALL").unwrap(), "one two wide");
    assert!(makefile.value("NOBODY").is_err());
    assert_eq!(makefile.expand("-$(NOBODY)-").unwrap(), "--");
}

#[test]
fn words_are_substituted_by_suffix_and_by_pattern() {
    let makefile = only(
        "OBJS = a.o b.o\nDIR = obj64\nC = $(OBJS:.o=.c)\nIN = $(OBJS:%=$(DIR)/%)\nMIX = $(OBJS:a%=z%)\n",
    );
    assert_eq!(makefile.value("C").unwrap(), "a.c b.c");
    assert_eq!(makefile.value("IN").unwrap(), "obj64/a.o obj64/b.o");
    assert_eq!(makefile.value("MIX").unwrap(), "z.o b.o");
}

#[test]
fn macros_in_front_of_a_line_switch_it_off() {
    let text = "POUND = \\043\nON =\n$(OFF)A = yes\n$(ON)$(OFF)B = no\n$(ON)$(ON)C = yes\n";
    let (_dir, makefile) = made(&[("Makefile", text)], &[("OFF", "#")]);
    assert!(!makefile.defines("A") && !makefile.defines("B"));
    assert_eq!(makefile.value("C").unwrap(), "yes");
}

#[test]
fn what_is_given_stays_and_the_rest_may_be_included_from_elsewhere() {
    let files = [("Makefile", "SRC = here\ninclude $(SUB)/more\n"), ("sub/more", "B = $(SRC)\\\n  x\n")];
    let (_dir, makefile) = made(&files, &[("SRC", "there"), ("SUB", "sub")]);
    assert_eq!(makefile.words("B").unwrap(), ["there", "x"]);
}

#[test]
fn an_include_that_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("Makefile"), "include absent.mk\n").unwrap();
    let error = Makefile::read(&dir.path().join("Makefile"), &[]).unwrap_err();
    assert!(format!("{error:#}").contains("absent.mk"), "{error:#}");
}

#[test]
fn a_macro_of_a_target_holds_for_that_target_alone() {
    let makefile = only(
        "O = obj\nFLAGS = -a $(EXTRA)\n$(O)/x.o $(O)/y.o := EXTRA = -x\n$(O)/x.o := FLAGS += -more\n\
         $(O)/z%.o := EXTRA += -z\n",
    );
    let flags = |target: &str| {
        let value = makefile.at(target).unwrap().value("FLAGS").unwrap();
        value.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(flags("obj/x.o"), "-a -x -more");
    assert_eq!(flags("obj/y.o"), "-a -x");
    assert_eq!(flags("obj/zed.o"), "-a -z");
    assert_eq!(flags("obj/other.o"), "-a");
}

#[test]
fn a_macro_in_front_of_a_target_names_its_directory_or_switches_the_line_off() {
    let text = "IF_DEBUG = $(POUND_$(KIND))OBJ/\nPOUND_plain = #\nPOUND_debug =\nFLAGS = $(DEFS)\n\
                $(IF_DEBUG)trap.o := DEFS += -DTRACE\n";
    let flags = |kind: &str| {
        // A `#` in a makefile's value would begin a comment: gates hand it in.
        let (_dir, makefile) = made(&[("Makefile", text)], &[("KIND", kind), ("POUND_plain", "#")]);
        makefile.at("OBJ/trap.o").unwrap().value("FLAGS").unwrap()
    };
    assert_eq!((flags("debug").trim(), flags("plain").trim()), ("-DTRACE", ""));
}

#[test]
fn a_rule_that_names_the_target_goes_before_a_pattern_and_a_pattern_needs_its_source() {
    let text = "O = obj\nCC = cc $(F)\n\
                $(O)/%.o: none/%.c\n\t$(CC) nowhere\n\
                $(O)/%.o: src/%.c\n\t$(CC) -o $@ $<\n\tsecond line\n\
                $(O)/b.o: src/a.c\n\t$(CC) -DB -o $@ $<\n";
    let (dir, makefile) = made(&[("Makefile", text), ("src/a.c", ""), ("src/b.c", "")], &[]);
    let rules = makefile.rules().unwrap();
    let a = rules.recipe("obj/a.o", dir.path(), &Path::is_file).unwrap();
    assert_eq!(a.source, dir.path().join("src/a.c"));
    assert_eq!(a.lines, ["$(CC) -o $@ $<", "second line"]);
    let b = rules.recipe("obj/b.o", dir.path(), &Path::is_file).unwrap();
    assert_eq!((b.source, b.lines[0].as_str()), (dir.path().join("src/a.c"), "$(CC) -DB -o $@ $<"));
    assert!(rules.recipe("obj/c.o", dir.path(), &Path::is_file).is_none());
}

#[test]
fn macros_that_refer_to_each_other_in_a_circle_are_an_error() {
    let error = only("A = $(B)\nB = $(A)\n").value("A").unwrap_err();
    assert!(error.to_string().contains("circle"), "{error}");
}

#[test]
fn an_illumos_build_machine_is_asked_for_the_commands_that_the_build_calls_there() {
    let machine = tempfile::tempdir().unwrap();
    for (name, text) in [("uname", "echo \"$SYSTEM\""), ("gcc", ""), ("gobjcopy", "")] {
        support::write(machine.path(), name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(machine.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let missing = |system: &str| {
        let mut setup = Command::new("/bin/sh");
        setup.arg(support::tree().join("tools/setup.sh")).args(["modules", "--list"]);
        setup.env("PATH", machine.path()).env("SYSROOT", machine.path()).env("SYSTEM", system);
        let output = setup.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(missing("SunOS"), "gld");
    assert_eq!(missing("Linux"), "gcc binutils libc6-dev");
}
