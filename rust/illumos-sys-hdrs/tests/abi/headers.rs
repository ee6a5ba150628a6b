//! The same comparison made by a C compiler on `include/` itself, for the shims are compiled against that.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::table::{Symbol, Tables};

/// How a kernel module is compiled, as far as the layout of anything depends on it.
const FLAGS: &[&str] = &[
    "-std=gnu99",
    "-m64",
    "-mcmodel=kernel",
    "-fno-pic",
    "-ffreestanding",
    "-nostdinc",
    "-Wall",
    "-Wextra",
    "-Werror",
];

/// Compiles one file that asserts every entry of the tables; the compiler's complaints are the error.
pub fn check(tables: &Tables) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = dir.path().join("abi.c");
    std::fs::write(&file, assertions(tables)).map_err(|e| e.to_string())?;
    compile(&file)
}

/// Type-checks `file` against the crate's headers and those of the named interface.
pub fn compile(file: &Path) -> Result<(), String> {
    run(Command::new(compiler()).args(FLAGS).args(include_paths()).arg("-fsyntax-only").arg(file))
}

/// Builds `file` as a program against the same headers and runs it.
pub fn execute(file: &Path) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let program = dir.path().join("program");
    let warnings = ["-Wall", "-Wextra", "-Werror"];
    run(Command::new(compiler()).args(warnings).args(include_paths()).arg(file).arg("-o").arg(&program))?;
    run(&mut Command::new(&program))
}

/// Every header of the crate, as it is included.
pub fn all() -> Vec<String> {
    let wrapper = include_str!("../../wrapper.h");
    let included =
        |line: &str| line.strip_prefix("#include <").and_then(|l| l.strip_suffix('>')).map(String::from);
    wrapper.lines().filter_map(included).collect()
}

fn include_paths() -> [String; 3] {
    let root = env!("CARGO_MANIFEST_DIR");
    [format!("-I{root}"), format!("-I{root}/include"), format!("-I{root}/../../usr/src/uts/common")]
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{:?} does not start: {e}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// The C compiler that `cc` finds, `CC` respected.
fn compiler() -> std::path::PathBuf {
    let target = "x86_64-unknown-linux-gnu";
    cc::Build::new()
        .cargo_metadata(false)
        .target(target)
        .host(target)
        .opt_level(0)
        .get_compiler()
        .path()
        .to_owned()
}

fn assertions(tables: &Tables) -> String {
    let mut c = String::from("#include \"wrapper.h\"\n");
    for (name, record) in &tables.records {
        assert_that(&mut c, format_args!("sizeof ({name}) == {}", record.size), name);
        assert_that(&mut c, format_args!("_Alignof({name}) == {}", record.align), name);
        for field in record.fields.iter().filter(|f| f.bits.is_none()) {
            let at = format!("{name}.{}", field.name);
            assert_that(
                &mut c,
                format_args!("__builtin_offsetof({name}, {}) == {}", field.name, field.offset),
                &at,
            );
            let member = format!("(({name} *)0)->{}", field.name);
            assert_that(&mut c, format_args!("sizeof ({member}) == {}", field.size), &at);
            if !field.ctype.contains("(anonymous)") {
                assert_that(&mut c, same_type(&member, &field.ctype), &at);
            }
        }
    }
    let enumerators = tables.enums.values().flatten().map(|(name, value)| (name, *value));
    let macros = tables.constants.iter().map(|(name, c)| (name, c.value));
    for (name, value) in enumerators.chain(macros) {
        // A hexadecimal literal has a type wide enough for INT64_MIN too.
        assert_that(&mut c, format_args!("(long)({name}) == (long){value:#x}"), name);
    }
    for (name, symbol) in &tables.functions {
        assert_that(&mut c, same_type(name, &declared_type(symbol)), name);
    }
    c
}

fn assert_that(c: &mut String, condition: impl std::fmt::Display, about: &str) {
    let _ = writeln!(c, "_Static_assert({condition}, \"{about}\");");
}

fn same_type(expression: &str, ctype: &str) -> String {
    format!("__builtin_types_compatible_p(__typeof__({expression}), __typeof__({ctype}))")
}

/// An attribute is no part of the type, and the compiler's own tag behind `va_list` has no name in gcc.
fn declared_type(symbol: &Symbol) -> String {
    let text = symbol.data.as_deref().unwrap_or(&symbol.proto);
    let text = text.split("__attribute__").next().unwrap_or(text);
    text.replace("struct __va_list_tag *", "__va_list")
}
