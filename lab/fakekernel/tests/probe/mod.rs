//! Small C modules, built the way a kernel module is.

#![allow(dead_code)] // Each test file uses its part.

use std::path::{Path, PathBuf};
use std::process::Command;

use fakekernel::{Config, Halt, Kernel, Machine, Module};

/// What the sources begin with.
const PRELUDE: &str = include_str!("prelude.h");

/// Compiler flags of a kernel module.
const FLAGS: &[&str] = &[
    "-O2",
    "-m64",
    "-mcmodel=kernel",
    "-mno-red-zone",
    "-ffreestanding",
    "-fno-pic",
    "-fno-pie",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-fno-strict-aliasing",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-mno-sse",
    "-mno-mmx",
    "-mno-80387",
    "-fno-common",
    "-fno-builtin",
    "-fno-inline",
];

/// A compiled module, deleted with the value.
pub struct Probe {
    dir: tempfile::TempDir,
    pub name: &'static str,
}

impl Probe {
    /// Compiles `source` after the prelude. `depends_on` is the dependency string.
    pub fn build(name: &'static str, depends_on: &str, source: &str) -> Self {
        Self::compile(name, depends_on, source, &[])
    }

    /// As [`build`](Self::build), for a source with `_init`, `_fini` and `_info` of its own.
    pub fn build_own_linkage(name: &'static str, source: &str) -> Self {
        Self::compile(name, "", source, &["-DOWN_LINKAGE"])
    }

    fn compile(name: &'static str, depends_on: &str, source: &str, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let c = dir.path().join("probe.c");
        let depends = if depends_on.is_empty() {
            String::new()
        } else {
            format!("char _depends_on[] = \"{depends_on}\";\n")
        };
        std::fs::write(&c, format!("{PRELUDE}\n{depends}{source}")).unwrap();
        let object = dir.path().join("probe.o");
        run(Command::new("cc").args(FLAGS).args(more).arg("-c").arg(&c).arg("-o").arg(&object));
        let module = dir.path().join(name);
        run(Command::new("ld").args(["-r", "-d", "-o"]).arg(&module).arg(&object));
        run(Command::new("objcopy").args(["-R", ".comment", "-R", ".note.GNU-stack"]).arg(&module));
        Self { dir, name }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join(self.name)
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Loads and installs the module on a host.
pub fn install(host: &Kernel, path: &Path, name: &str) -> Module {
    let module = host.load(path, name, "misc").unwrap_or_else(|e| panic!("{e}"));
    module.install().unwrap_or_else(|e| panic!("_init: {e}"));
    module
}

/// The address of a function of the module as a pointer of type `F`.
///
/// # Safety
///
/// The symbol is a function of that type.
pub unsafe fn function<F: Copy>(module: &Module, name: &str) -> F {
    let addr = module.symbol(name).unwrap_or_else(|| panic!("no symbol {name}"));
    assert_eq!(size_of::<F>(), size_of::<usize>());
    // SAFETY: function pointers have the size of an address; the type is the caller's word.
    unsafe { std::mem::transmute_copy(&addr) }
}

pub type Int = unsafe extern "C" fn() -> i32;

/// Loads the probe on a host of a machine with `config`, installs it, calls its function `go` in user context and unloads it.
pub fn go_with(config: Config, probe: &Probe) -> (Machine, Result<i32, Halt>) {
    let machine = Machine::new(config);
    let host = machine.add_host("alpha");
    let (path, name) = (probe.path(), probe.name);
    let result = machine.run(move || {
        host.scope(|| {
            let module = install(&host, &path, name);
            // SAFETY: every probe's `go` takes nothing and returns an int.
            let go: Int = unsafe { function(&module, "go") };
            // SAFETY: as above.
            let value = unsafe { module.enter(go, (), fakekernel::EntryKind::callback("go")) };
            module.unload().unwrap_or_else(|e| panic!("unload: {e}"));
            value
        })
    });
    (machine, result)
}

pub fn go(seed: u64, probe: &Probe) -> Result<i32, Halt> {
    go_with(Config::seeded(seed), probe).1
}
