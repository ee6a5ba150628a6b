//! Building a module from cargo output, on a workspace of its own: a crate that makes the compiler call out for copies
//! and for 128-bit division, and a shim.

use std::fs;
use std::path::Path;

use kmod::audit::{self, Exports, Intent, Report};
use kmod::build::{build, rust_part};
use kmod::manifest::{Manifest, Module};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

const WORKSPACE: &str = r#"
[workspace]
members = ["divider"]
resolver = "3"
[profile.kmod]
inherits = "release"
lto = "fat"
codegen-units = 1
panic = "abort"
"#;

const CRATE: &str = r#"
[package]
name = "divider"
edition = "2024"
"#;

/// The loop over a slice of unknown length keeps `memcpy` a call, and the divisor keeps the division one.
const SOURCE: &str = r#"
#![no_std]
use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn panic(format: *const c_char, ...) -> !;
    fn mod_install(linkage: *mut c_void) -> c_int;
    fn mod_remove(linkage: *mut c_void) -> c_int;
    fn mod_info(linkage: *mut c_void, info: *mut c_void) -> c_int;
    static mut kmod_linkage: c_int;
}

#[panic_handler]
fn stop(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe { panic(c"%s".as_ptr(), c"stop".as_ptr()) }
}

#[unsafe(no_mangle)]
pub fn divide(of: &mut [u8; 512], from: &[u8], by: u64) -> u64 {
    of[..from.len()].copy_from_slice(from);
    let number = u128::from_le_bytes(*of.first_chunk().unwrap());
    (number / u128::from(by).pow(2)) as u64
}

#[unsafe(no_mangle)]
pub extern "C" fn _init() -> c_int {
    unsafe { mod_install((&raw mut kmod_linkage).cast()) }
}
#[unsafe(no_mangle)]
pub extern "C" fn _fini() -> c_int {
    unsafe { mod_remove((&raw mut kmod_linkage).cast()) }
}
#[unsafe(no_mangle)]
pub extern "C" fn _info(info: *mut c_void) -> c_int {
    unsafe { mod_info((&raw mut kmod_linkage).cast(), info) }
}
"#;

const SHIM: &str = r#"
#include <linkage.h>
int kmod_linkage = REVISION;
const char kmod_name[] = KMOD_NAME;
char _depends_on[] = "misc/mac";
"#;

const MODULES: &str = r#"
[[module]]
name = "divider"
class = "misc"
crate = "divider"
shim = "shim.c"
defines = ['KMOD_NAME="divider"']
conf = "divider.conf"
depends = ["misc/mac"]
globals = ["_init", "_fini", "_info", "_depends_on"]
"#;

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn audited(root: &Path, module: &Module) -> Report {
    let exports = Exports::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("exports")).unwrap();
    let image = fs::read(module.path(root)).unwrap();
    audit::object(
        &image,
        Intent { globals: &module.globals, depends: &module.depends, probes: &module.probes },
        &exports,
    )
}

#[test]
fn crate_that_copies_and_divides_becomes_a_module_that_breaks_no_rule() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    write(root, "Cargo.toml", WORKSPACE);
    write(root, "divider/Cargo.toml", CRATE);
    write(root, "divider/src/lib.rs", SOURCE);
    write(root, "shim.c", SHIM);
    write(root, "divider.conf", "# nothing\n");
    write(root, "rust/illumos-sys-hdrs/include/linkage.h", "#define REVISION 1\n");
    write(root, "tools/kmod/modules.toml", MODULES);

    let manifest = Manifest::read(root).unwrap();
    let modules = manifest.select(&[]).unwrap();
    assert_eq!(build(root, &modules).unwrap(), [root.join("proto/kernel/misc/amd64/divider")]);
    assert!(root.join("proto/kernel/misc/divider.conf").exists());
    let report = audited(root, modules[0]);
    // Imports are memcpy (through the GOT before it was rewritten), panic and mod_*; __udivti3 came along instead.
    assert_eq!(report.findings, []);
    assert_eq!(report.figures.imports, 5);

    // Cargo has nothing to do, and does not know that its object is gone.
    let first = fs::read(modules[0].path(root)).unwrap();
    fs::remove_file(root.join("target/kmod/obj/divider.o")).unwrap();
    build(root, &modules).unwrap();
    assert_eq!(fs::read(modules[0].path(root)).unwrap(), first, "the same sources are the same module");
}

#[test]
fn the_rust_part_shows_a_gates_linker_its_entry_points_and_asks_for_the_shim() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    write(root, "Cargo.toml", WORKSPACE);
    write(root, "divider/Cargo.toml", CRATE);
    write(root, "divider/src/lib.rs", SOURCE);
    let output = root.join("gate/obj64/divider_rust.o");
    rust_part(root, "divider", &output).unwrap();

    let image = fs::read(&output).unwrap();
    let file = object::File::parse(&*image).unwrap();
    let names = |wanted: fn(&object::Symbol<'_, '_>) -> bool| -> Vec<String> {
        let mut names: Vec<_> =
            file.symbols().filter(wanted).map(|symbol| symbol.name().unwrap().to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(|symbol| symbol.is_definition() && symbol.is_global()), ["_fini", "_info", "_init"]);
    let asked = names(|symbol| symbol.is_undefined() && symbol.name() != Ok(""));
    assert_eq!(asked, ["kmod_linkage", "memcpy", "mod_info", "mod_install", "mod_remove", "panic"]);
    let direct = |relocation: object::Relocation| {
        matches!(
            relocation.flags(),
            object::RelocationFlags::Elf {
                r_type: object::elf::R_X86_64_64
                    | object::elf::R_X86_64_PC32
                    | object::elf::R_X86_64_PLT32
                    | object::elf::R_X86_64_32S
            }
        )
    };
    assert!(file.sections().flat_map(|section| section.relocations()).all(|(_, found)| direct(found)));
}

#[test]
fn unknown_module_is_named_with_those_there_are() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "tools/kmod/modules.toml", MODULES);
    let manifest = Manifest::read(root.path()).unwrap();
    let error = manifest.select(&["ipoib".into()]).unwrap_err().to_string();
    assert_eq!(error, "there is no module ipoib; modules.toml has divider");
}

#[test]
fn misspelt_key_of_the_manifest_is_refused_with_its_line() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "tools/kmod/modules.toml", &MODULES.replace("depends", "dependson"));
    let error = format!("{:#}", Manifest::read(root.path()).unwrap_err());
    assert!(
        error.contains("modules.toml") && error.contains("line 9") && error.contains("dependson"),
        "{error}"
    );
}
