//! The installable archive: the modules, their manual pages, and the scripts that put them on a machine and take them away.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What the archive has for the machine: where it goes, from the root, its mode, and whether it is built (below
/// `proto/`) or a file of our tree.
const FILES: [(&str, u32, &str); 5] = [
    ("kernel/drv/amd64/ibp", 0o755, "proto"),
    ("kernel/drv/ibp.conf", 0o644, "proto"),
    ("kernel/mac/amd64/mac_ib", 0o755, "proto"),
    ("usr/share/man/man4d/ibd.4d", 0o444, "docs/man/ibd.4d"),
    ("usr/share/man/man4d/mac_ib.4d", 0o444, "usr/src/man/man4d/mac_ib.4d"),
];

const SCRIPTS: [(&str, u32); 3] = [("add", 0o755), ("remove", 0o755), ("common.sh", 0o644)];

/// Lays out the archive's directory at `to`, which does not exist, from our tree at `tree` and the proto area `proto`.
///
/// # Errors
///
/// The modules have not been built, or a file cannot be written.
pub fn lay_out(tree: &Path, proto: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| to.display().to_string())?;
    for (path, mode, from) in FILES {
        let from = if from == "proto" { proto.join(path) } else { tree.join(from) };
        copy(&from, &to.join("files").join(path), mode)?;
    }
    for (script, mode) in SCRIPTS {
        copy(&tree.join("packaging/archive").join(script), &to.join(script), mode)?;
    }
    copy(&tree.join("LICENSE"), &to.join("LICENSE"), 0o644)?;
    let mut cksum = Command::new("cksum");
    let output = cksum.args(FILES.map(|(path, ..)| path)).current_dir(to.join("files")).output();
    let output = output.context("cannot run cksum")?;
    if !output.status.success() {
        bail!("cksum: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    fs::write(to.join("cksums"), output.stdout).context("writing cksums")
}

/// Makes `ipoib-VERSION.tar.gz` in `dir`; the same input is the same archive. Returns its path.
///
/// # Errors
///
/// As [`lay_out`]; tar is missing or fails.
pub fn archive(tree: &Path, proto: &Path, dir: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir().context("creating a scratch directory")?;
    let name = format!("ipoib-{}", env!("CARGO_PKG_VERSION"));
    lay_out(tree, proto, &scratch.path().join(&name))?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let path = dir.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    // root:sys, as kernel modules are; numbers, because sys has this one on illumos alone.
    tar.args([
        "--owner=0",
        "--group=3",
        "--numeric-owner",
        "--sort=name",
        "--mtime=@0",
        "--use-compress-program=gzip -n",
    ]);
    tar.arg("-cf").arg(&path).arg("-C").arg(scratch.path()).arg(&name);
    let output = tar.output().context("cannot run tar")?;
    if !output.status.success() {
        bail!("tar: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(path)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, Permissions::from_mode(mode)).with_context(|| to.display().to_string())
}
