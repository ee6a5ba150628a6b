//! The programs that a build needs, and running them.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Every program of a build, with the Debian package that has it.
const NEEDED: [(&str, &str); 9] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("as", "binutils"),
    ("objcopy", "binutils"),
    ("awk", "mawk"),
    ("perl", "perl"),
    ("ksh", "ksh"),
    ("rpcgen", "rpcsvc-proto"),
    ("genisoimage", "genisoimage"),
];

/// Makes sure that they are there, and returns what the compiler and the assembler call themselves: an object made by
/// another one is out of date.
///
/// # Errors
///
/// Some are missing: one line says what to install.
pub fn check() -> Result<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = env::split_paths(&path).collect();
    if let Some(line) = missing(&|tool| dirs.iter().any(|dir| dir.join(tool).is_file())) {
        bail!("{line}");
    }
    let mut identity = String::new();
    for tool in ["gcc", "as"] {
        let said = run(Command::new(tool).arg("--version"))?;
        identity += String::from_utf8_lossy(&said).lines().next().unwrap_or_default();
    }
    Ok(identity)
}

/// The line about what is not there.
fn missing(there: &dyn Fn(&str) -> bool) -> Option<String> {
    let absent: Vec<_> = NEEDED.iter().filter(|(tool, _)| !there(tool)).collect();
    let tools: Vec<&str> = absent.iter().map(|(tool, _)| *tool).collect();
    let mut packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let line =
        || format!("a kernel's build needs {}: apt-get install {}", tools.join(", "), packages.join(" "));
    (!absent.is_empty()).then(line)
}

/// Runs `command` to its end and returns what it wrote to standard output.
///
/// # Errors
///
/// It cannot be run or fails; its own words are in the error.
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let tool = command.get_program().to_string_lossy().into_owned();
    // These would add directories behind -nostdinc's back, and messages are read in English.
    for leak in ["CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LD_LIBRARY_PATH"] {
        command.env_remove(leak);
    }
    let output = command.env("LC_ALL", "C").output().with_context(|| format!("cannot run {tool}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().take(MOST_LINES).collect();
        bail!("{tool} failed ({}):\n{}", output.status, lines.join("\n"));
    }
    Ok(output.stdout)
}

/// So many lines of a tool's complaint are shown.
const MOST_LINES: usize = 30;

/// Assembles `text` of our own into `object`; the text stays beside it.
///
/// # Errors
///
/// It cannot be written, or the assembler refuses it.
pub fn assemble(text: &str, object: &Path) -> Result<()> {
    let source = object.with_extension("s");
    std::fs::write(&source, text).with_context(|| source.display().to_string())?;
    run(Command::new("as").arg("--64").arg("-o").arg(object).arg(&source))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_to_install() {
        assert_eq!(missing(&|_| true), None);
        let line = missing(&|tool| !["ld", "as", "ksh"].contains(&tool)).unwrap_or_default();
        assert_eq!(line, "a kernel's build needs ld, as, ksh: apt-get install binutils ksh");
    }

    #[test]
    fn a_tool_that_fails_is_quoted() {
        let error = run(Command::new("sh").args(["-c", "echo it is broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("it is broken"), "{error}");
    }
}
