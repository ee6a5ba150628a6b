//! Compiling C for the illumos amd64 kernel with a Linux gcc.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tool;

/// What makes gcc emit code that may run in the kernel and that krtld can relocate.
///
/// - `-mcmodel=kernel -fno-pic`: only the relocations krtld implements.
/// - no red zone, SSE, MMX, x87: interrupts use the current stack, and the kernel does not save that state.
/// - frame pointers, no shrink wrapping, no sibling calls, no `endbr64`: DTrace's fbt looks for `push %rbp` at the
///   entry, and a probe site has to be a `call`.
/// - no stack protector: gcc's guard under this code model is `%gs:40`, a field of something else in `cpu_t`.
/// - `-nostdinc`: the headers are ours alone, none of this machine's.
pub const CFLAGS: &[&str] = &[
    "-O2",
    "-std=gnu99",
    "-m64",
    "-mcmodel=kernel",
    "-mno-red-zone",
    "-ffreestanding",
    "-fno-pic",
    "-fno-pie",
    "-fno-omit-frame-pointer",
    "-fno-shrink-wrap",
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
    "-nostdinc",
    "-Wall",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-D_KERNEL",
    "-D_SYSCALL32",
    "-D_SYSCALL32_IMPL",
    "-D_ELF64",
    "-D_DDI_STRICT",
    "-Dsun",
    "-D__sun",
    "-D__SVR4",
];

/// The C headers of the kernel interface, below the workspace root.
pub fn include_dir(root: &Path) -> PathBuf {
    root.join("rust/illumos-sys-hdrs/include")
}

/// One C compilation.
#[derive(Debug)]
pub struct Compile<'a> {
    /// The C source.
    pub source: &'a Path,
    /// The object to write.
    pub object: &'a Path,
    /// Where `#include` looks, in this order, and nowhere else.
    pub includes: &'a [PathBuf],
    /// Macros, as `NAME` or `NAME=VALUE`.
    pub defines: &'a [String],
}

impl Compile<'_> {
    /// Compiles, with [`CFLAGS`].
    ///
    /// # Errors
    ///
    /// gcc is missing or does not accept the source.
    pub fn run(&self) -> Result<()> {
        let mut gcc = Command::new("gcc");
        // These would add search paths behind -nostdinc's back.
        for leak in ["CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH"] {
            gcc.env_remove(leak);
        }
        gcc.args(CFLAGS);
        for dir in self.includes {
            gcc.arg("-I").arg(dir);
        }
        gcc.args(self.defines.iter().map(|define| format!("-D{define}")));
        gcc.arg("-c").arg(self.source).arg("-o").arg(self.object);
        tool::run(&mut gcc).with_context(|| format!("compiling {}", self.source.display()))?;
        Ok(())
    }
}
