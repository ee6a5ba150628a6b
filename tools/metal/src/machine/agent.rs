//! The agent as a program for illumos.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const TARGET: &str = "x86_64-unknown-none";

/// Builds the agent of the workspace at `root`; where it is.
///
/// It has a target directory of its own, so that its flags and a developer's do not evict each other's artefacts.
///
/// # Errors
///
/// cargo is missing or fails; what it had to say is on standard error already.
pub fn build(root: &Path) -> Result<PathBuf> {
    let target = root.join("target/metal-agent");
    let flags = [
        "-Crelocation-model=static".to_owned(),
        "-Ccode-model=small".to_owned(),
        format!("-Clink-arg=-T{}", root.join("tools/metal/agent/agent.ld").display()),
    ];
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).env_remove("RUSTFLAGS");
    // `core` has another code model: its objects can be linked with these, its bitcode cannot be optimised with theirs.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.args(["build", "--quiet", "--release", "--target", TARGET, "-p", "metal-agent", "--target-dir"]);
    let status = cargo.arg(&target).status().context("cannot run cargo")?;
    ensure!(status.success(), "the agent cannot be built");
    Ok(target.join(TARGET).join("release/metal-agent"))
}
