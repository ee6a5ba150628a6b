//! What git says of a gate whose repository may be a stranger's: its configuration can name programs for git to run.
//!
//! git decides by `safe.directory` whether a repository of another user is looked at, as ever. Of what the repository itself
//! configures, what can be turned off is; what cannot be, filters and hooks by name, is refused.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Settings that turn off what a repository could have git run or ask a network for.
const OFF: [&str; 6] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "core.askPass=false",
    "protocol.allow=never",
    "submodule.recurse=false",
];

/// The tracked files that differ from the last commit, and the files that git neither tracks nor ignores.
///
/// # Errors
///
/// git is missing or fails; the repository has a filter or hook of its own.
pub fn changed(root: &Path) -> Result<BTreeSet<PathBuf>> {
    refuse_programs(root)?;
    let status =
        ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"];
    let said = git(root, &status)?;
    let entries = said.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
    Ok(entries.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

/// A filter runs when git looks at a file that may have changed, and no setting turns all of them off.
fn refuse_programs(root: &Path) -> Result<()> {
    let said = git(root, &["config", "--list", "--includes", "--show-scope", "--name-only", "-z"])?;
    // Scope, name, scope, name.
    let mut words = said.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    while let (Some(scope), Some(name)) = (words.next(), words.next()) {
        let own = scope == "local" || scope == "worktree";
        let program = name.strip_prefix("filter.").is_some_and(|rest| !rest.ends_with(".required"))
            || name.starts_with("hook.");
        if own && program {
            bail!(
                "the gate's own git configuration has `{}`, a program that git would run here: take it out, or have it \
                 in yours",
                name.escape_debug()
            );
        }
    }
    Ok(())
}

fn git(root: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut git = Command::new("git");
    git.arg("--no-pager").arg("-C").arg(root).arg("--work-tree").arg(root);
    git.args(OFF.iter().flat_map(|setting| ["-c", *setting]));
    // The caller's own could point elsewhere; its configuration stays.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_gits(name)) {
        git.env_remove(name);
    }
    let above = root.parent().unwrap_or(root);
    git.env("GIT_CEILING_DIRECTORIES", above).env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    // No object is fetched that a partial clone lacks.
    git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    let output = git.args(arguments).output().context("cannot run git")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let what = arguments.first().copied().unwrap_or_default();
        bail!("git {what}: {}", said.trim_end());
    }
    Ok(output.stdout)
}

fn is_gits(name: &OsString) -> bool {
    name.as_bytes().starts_with(b"GIT_") && !name.as_bytes().starts_with(b"GIT_CONFIG")
}
