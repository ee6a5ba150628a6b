//! Every kernel symbol that illumos's `mac_ib` and `ibp` import is there for a module of the lab, from the kernel modules that those
//! depend on.

#![forbid(unsafe_code)]

use std::fmt::Write as _;

use conformance::probe::Probe;
use fakekernel::{Config, LoadError, Machine};

/// One name to a line, as `nm -u` prints them of the two objects, without doubles.
const NAMES: &str = include_str!("../data/reference-imports.txt");

/// What a `DEBUG` build of them imports besides, and one with stack guards.
const DEBUG_NAMES: &str = "assfail\nassfail3\nkstat_create\nkstat_delete\nkstat_install\nkstat_named_init\nmutex_owned\n\
    panicstr\nrw_lock_held\nvcmn_err\n__stack_chk_guard\n__stack_chk_fail\n";

/// What the C driver depends on, in its order.
const DEPENDS: [&str; 7] =
    ["misc/mac", "misc/ibtl", "misc/ibcm", "misc/ibmf", "drv/ip", "misc/dls", "drv/dld"];

/// Loads a module with a pointer to each of these symbols.
fn load(names: &str) -> Result<(), LoadError> {
    let pointers = names.lines().fold(String::new(), |mut text, name| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "__asm__(\".data\\n .balign 8\\n .quad {name}\");");
        text
    });
    let source = format!("{pointers}\nint _init(void) {{ return (0); }}");
    let probe = DEPENDS.iter().fold(Probe::new("importer").source(&source), |probe, on| probe.depends(on));
    let path = probe.build();
    let machine = Machine::new(Config::default());
    let kernel = machine.add_host("examined");
    lab_gldv3::provide(&kernel);
    lab_ibtf::provide(&kernel);
    machine.run(move || kernel.load(&path, "importer", "misc").map(drop)).expect("nothing is run of it")
}

#[test]
fn every_import_of_the_c_objects_resolves() {
    assert_eq!(NAMES.lines().count(), 191);
    load(NAMES).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_import_of_a_debug_build_resolves() {
    load(DEBUG_NAMES).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_symbol_nobody_exports_is_named() {
    let error = load("mutex_enter\nmutex_entered\n").expect_err("one of them is nobody's");
    assert!(error.to_string().contains("undefined symbol 'mutex_entered'"), "{error}");
}
