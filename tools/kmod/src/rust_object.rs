//! One relocatable object of a Rust crate and of everything it uses.
//!
//! Stable Rust, prebuilt `core` and `alloc`. Only fat LTO recompiles their bitcode with the code model, frame pointers
//! and relocation model given here; a staticlib archive would also hand over members that are not recompiled (floats,
//! weak copies of `memcpy`), so cargo is asked for the object itself.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use object::elf::{SHN_UNDEF, STB_LOCAL};
use object::read::archive::ArchiveFile;

use crate::elf::Elf;
use crate::tool;

/// The target of everything that ships in the kernel.
pub const TARGET: &str = "x86_64-unknown-none";

/// What makes rustc emit code that may run in the kernel and that krtld can relocate; see `shim::CFLAGS` for why.
const RUSTFLAGS: &[&str] = &[
    "-Crelocation-model=static",
    "-Crelro-level=off",
    "-Ccode-model=kernel",
    "-Cno-redzone=yes",
    "-Cforce-frame-pointers=yes",
    "-Cforce-unwind-tables=no",
    "-Csymbol-mangling-version=v0",
    "-Cpanic=abort",
    "-Cllvm-args=-enable-shrink-wrap=false",
];

/// 128-bit integer arithmetic, which LLVM calls out of line and no illumos module exports.
const INT128_HELPERS: &[&str] = &[
    "__udivti3",
    "__umodti3",
    "__divti3",
    "__modti3",
    "__udivmodti4",
    "__divmodti4",
    "__multi3",
    "__muloti4",
];

/// What a build of an object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// The kernel.
    Shipped,
    /// The lab: each basic block counts how often it was run, in a table of the module itself, there is line information, and
    /// arithmetic that overflows panics, which wraps where it ships.
    Coverage,
    /// The lab: each atomic operation is a call of a function that the lab has, so that another thread may run between any two.
    Atomics,
    /// The same, and each other load and store is announced by a call, so that the lab sees which of them nothing orders.
    Races,
}

/// LLVM's pass for ThreadSanitizer, of which a function without the attribute `sanitize_thread` gets the calls for its atomic
/// operations alone.
const ATOMICS_FLAGS: &[&str] = &["-Cpasses=tsan", "-Cllvm-args=-tsan-instrument-func-entry-exit=0"];

/// The same pass, for functions that have the attribute: LLVM's option gives it to all. The pass runs once before link-time
/// optimisation and once after it; the second announces what the first has announced already, which changes nothing.
const RACES_FLAGS: &[&str] = &[
    "-Cpasses=tsan",
    "-Cllvm-args=-tsan-instrument-func-entry-exit=0",
    "-Cllvm-args=-force-attribute=sanitize_thread",
];

/// LLVM's inline counters: no call in the code, so a run goes through the same kernel calls as with the shipped object.
/// Without pruning every basic block has its own counter. `opt-level=1` keeps what the source keeps apart.
const COVERAGE_FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-prune-blocks=0",
    "-Cdebuginfo=line-tables-only",
    "-Copt-level=1",
    "-Coverflow-checks=yes",
];

impl Flavour {
    fn target_dir(self) -> &'static str {
        match self {
            Self::Shipped => "target/kmod",
            Self::Coverage => "target/kmod-coverage",
            Self::Atomics => "target/kmod-atomics",
            Self::Races => "target/kmod-races",
        }
    }

    fn flags(self) -> String {
        let more = match self {
            Self::Shipped => &[],
            Self::Coverage => COVERAGE_FLAGS,
            Self::Atomics => ATOMICS_FLAGS,
            Self::Races => RACES_FLAGS,
        };
        [RUSTFLAGS, more].concat().join("\x1f")
    }
}

/// Builds `package` of the workspace at `root` and returns the object.
///
/// The build has its own target directory, so that these flags and a developer's do not evict each other's artefacts.
///
/// # Errors
///
/// cargo is missing or fails; what it had to say is on standard error already.
pub fn build(root: &Path, package: &str, flavour: Flavour) -> Result<PathBuf> {
    let target_dir = root.join(flavour.target_dir());
    let object = target_dir.join("obj").join(format!("{package}.o"));
    fs::create_dir_all(target_dir.join("obj"))
        .with_context(|| format!("creating {}/obj", flavour.target_dir()))?;
    // A gate's make asks for the same object of several modules at once. Released when the file is closed.
    let lock = fs::File::create(target_dir.join("obj/lock")).context("creating the lock of the objects")?;
    lock.lock().context("locking the objects")?;
    cargo_rustc(root, package, flavour, &target_dir, &object)?;
    if !object.exists() {
        // Cargo does not know of the object: when all else is fresh it does not run rustc again.
        let mut clean = cargo(root, flavour);
        clean.args(["clean", "--quiet", "--profile", "kmod", "--target", TARGET, "-p", package]);
        tool::run(clean.arg("--target-dir").arg(&target_dir))?;
        cargo_rustc(root, package, flavour, &target_dir, &object)?;
    }
    Ok(object)
}

fn cargo_rustc(root: &Path, package: &str, flavour: Flavour, target_dir: &Path, object: &Path) -> Result<()> {
    let mut emit = OsString::from("--emit=obj=");
    emit.push(object);
    let mut cargo = cargo(root, flavour);
    cargo.args([
        "rustc",
        "--quiet",
        "--profile",
        "kmod",
        "--target",
        TARGET,
        "--crate-type",
        "staticlib",
        "--lib",
    ]);
    cargo.args(["-p", package, "--target-dir"]).arg(target_dir).arg("--").arg(emit);
    cargo.stderr(Stdio::inherit());
    tool::run(&mut cargo).with_context(|| format!("building the Rust object of {package}"))?;
    Ok(())
}

/// cargo with our flags, and without those of the caller's environment.
fn cargo(root: &Path, flavour: Flavour) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let leaks =
            ["CARGO_PROFILE_", "CARGO_TARGET_", "CARGO_BUILD_RUST", "CARGO_BUILD_TARGET", "CARGO_UNSTABLE_"];
        if text == "RUSTFLAGS" || leaks.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flavour.flags()).current_dir(root);
    cargo
}

/// The objects with the 128-bit helpers that `object` needs, written to `scratch`; usually none.
///
/// # Errors
///
/// The toolchain has no `compiler_builtins` for the target, or a tool fails.
pub fn int128_helpers(root: &Path, object: &Path, scratch: &Path) -> Result<Vec<PathBuf>> {
    let mut wanted = undefined(&fs::read(object)?)?;
    wanted.retain(|name| INT128_HELPERS.contains(&name.as_str()));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let rlib = fs::read(compiler_builtins(root)?)?;
    let mut found = BTreeSet::new();
    let mut objects = Vec::new();
    while let Some(name) = wanted.pop_first() {
        let (index, member) = member_defining(&rlib, &name)?;
        if !found.insert(index) {
            continue;
        }
        let path = scratch.join(format!("int128-{index}.o"));
        fs::write(&path, member)?;
        tool::run(tool::binutil("objcopy").args(["-g", "-R", ".llvmbc", "-R", ".llvmcmd"]).arg(&path))?;
        wanted.extend(undefined(member)?);
        objects.push(path);
    }
    Ok(objects)
}

fn compiler_builtins(root: &Path) -> Result<PathBuf> {
    let sysroot = tool::run(Command::new("rustc").args(["--print", "sysroot"]).current_dir(root))?;
    let lib = Path::new(String::from_utf8(sysroot)?.trim()).join("lib/rustlib").join(TARGET).join("lib");
    let entries =
        fs::read_dir(&lib).with_context(|| format!("{}: rustup target add {TARGET}", lib.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libcompiler_builtins-") && name.ends_with(".rlib") {
            return Ok(path);
        }
    }
    bail!("{} has no libcompiler_builtins: rustup target add {TARGET}", lib.display())
}

/// The archive member that defines `name`, and its number.
fn member_defining<'data>(archive: &'data [u8], name: &str) -> Result<(usize, &'data [u8])> {
    for (index, member) in ArchiveFile::parse(archive)?.members().enumerate() {
        let data = member?.data(archive)?;
        let Ok(elf) = Elf::parse(data) else { continue }; // The crate's metadata is a member too.
        let defines = |symbol: &crate::elf::Symbol| {
            symbol.name == name && symbol.section != SHN_UNDEF.0 && symbol.bind != STB_LOCAL.0
        };
        if elf.symbols.iter().any(defines) {
            return Ok((index, data));
        }
    }
    bail!("compiler_builtins does not define {name}")
}

fn undefined(object: &[u8]) -> Result<BTreeSet<String>> {
    let elf = Elf::parse(object)?;
    let undefined =
        elf.symbols.into_iter().filter(|symbol| symbol.section == SHN_UNDEF.0 && !symbol.name.is_empty());
    Ok(undefined.map(|symbol| symbol.name).collect())
}
