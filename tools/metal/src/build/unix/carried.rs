//! Programs that unix carries as bytes: dboot, which a boot loader jumps to, and code that the kernel copies to low memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::tools;

/// The layouts: who has another one links again.
pub const SCRIPTS: &str = concat!(include_str!("dboot.ld"), include_str!("blob.ld"));

/// dboot from its `objects`, as an object with one section of its own.
///
/// # Errors
///
/// A tool fails.
pub fn dboot(objects: &[PathBuf], dir: &Path) -> Result<PathBuf> {
    let bytes = linked("elf_i386", include_str!("dboot.ld"), objects, &dir.join("dboot"))?;
    let object = dir.join("image.o");
    let text = format!(
        "\t.section .dboot,\"aw\",@progbits\n\t.globl dboot_image\ndboot_image:\n\t.incbin \"{}\"\n",
        bytes.display()
    );
    tools::assemble(&text, &object)?;
    Ok(object)
}

/// The program in `object` as data of the kernel: `SYMBOL_image`, and its length in `SYMBOL_size`.
///
/// # Errors
///
/// A tool fails.
pub fn blob(object: &Path, to: &Path, symbol: &str) -> Result<PathBuf> {
    let bytes = linked("elf_x86_64", include_str!("blob.ld"), &[object.to_path_buf()], to)?;
    let object = to.with_extension("o");
    let text = format!(
        "\t.data\n\t.globl {symbol}_image\n{symbol}_image:\n\t.incbin \"{}\"\n\t.align 4\n\
         \t.globl {symbol}_size\n{symbol}_size:\n\t.long . - {symbol}_image\n",
        bytes.display()
    );
    tools::assemble(&text, &object)?;
    Ok(object)
}

/// Links `objects` as `script` says into `to`.exe, and returns the file with the bytes alone.
fn linked(emulation: &str, script: &str, objects: &[PathBuf], to: &Path) -> Result<PathBuf> {
    let [layout, program, bytes] = ["lds", "exe", "bin"].map(|extension| to.with_extension(extension));
    fs::write(&layout, script).with_context(|| layout.display().to_string())?;
    let mut ld = Command::new("ld");
    // Everything in one section that may be written and run: that is how it is used.
    ld.args(["-m", emulation, "--no-warn-rwx-segments", "-T"]).arg(&layout);
    tools::run(ld.arg("-o").arg(&program).args(objects))?;
    tools::run(Command::new("objcopy").args(["-O", "binary", "-j", ".all"]).arg(&program).arg(&bytes))?;
    Ok(bytes)
}
