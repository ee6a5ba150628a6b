//! Running the tools of the build (gcc, ld, objcopy, cargo), and saying what to install when one is missing.

use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The Debian package that has `tool`.
fn package(tool: &str) -> &'static str {
    match tool {
        "gcc" => "gcc",
        "cargo" => "cargo (https://rustup.rs)",
        _ => "binutils",
    }
}

/// A GNU binutil: illumos has a linker of its own under the plain name, and GNU's with a `g` in front.
pub fn binutil(name: &str) -> Command {
    if cfg!(target_os = "illumos") { Command::new(format!("g{name}")) } else { Command::new(name) }
}

/// Runs `command` to its end and returns what it wrote to standard output.
///
/// # Errors
///
/// The tool is missing (one line that names the package to install), or it failed (its own messages are in the error).
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Ok(output) => output,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            bail!("{tool} is not installed: install {} (tools/setup.sh does)", package(&tool))
        }
        Err(e) => return Err(e).with_context(|| format!("cannot run {tool}")),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{tool} failed ({}):\n{}", output.status, said.trim_end());
    }
    Ok(output.stdout)
}
