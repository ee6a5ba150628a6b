//! The root file system of one boot: the kernel's, what is laid over it, and the few edits a run makes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::build::{self, Layout};

/// Which of the driver's names attaches to the IB nexus's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// A node is a port; partitions are made by ioctl.
    #[default]
    Ibp,
    /// A node is a partition of a port.
    Ibd,
    /// Nodes of both kinds, each name attaches to its own.
    Both,
}

impl Identity {
    /// The driver's name; of both, the one whose links are made by hand.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ibp | Self::Both => "ibp",
            Self::Ibd => "ibd",
        }
    }

    /// What the nexus is told to make.
    fn services(self) -> &'static str {
        match self {
            Self::Ibp => "port-svc-list=\"ipib\";\nvppa-svc-list=\"\";\nhca-svc-list=\"\";\n",
            Self::Both => "port-svc-list=\"ipib\";\nvppa-svc-list=\"ibd\";\nhca-svc-list=\"\";\n",
            Self::Ibd => "port-svc-list=\"\";\nvppa-svc-list=\"ibd\";\nhca-svc-list=\"\";\n",
        }
    }
}

/// What a root is made of.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The kernel with its modules and `/etc`.
    pub root: &'a Path,
    /// Laid over it in this order: our modules, an adapter.
    pub overlays: &'a [PathBuf],
    /// Paths that are left out.
    pub without: &'a [&'a str],
    /// The first program.
    pub init: &'a Path,
    /// Who attaches.
    pub identity: Identity,
    /// More than one CPU needs another module of the platform.
    pub cpus: u32,
    /// Lines of `/etc/system`.
    pub system: &'a str,
    /// Further files, by their paths.
    pub files: &'a [(&'static str, String)],
}

/// Packs the root into `archive`, which the kernel mounts; what this run adds to it is put together in `edits` first.
///
/// # Errors
///
/// A file cannot be copied, the root is none that was built, or genisoimage fails.
pub fn pack(contents: &Contents<'_>, edits: &Path, archive: &Path) -> Result<()> {
    if edits.exists() {
        fs::remove_dir_all(edits).with_context(|| format!("cannot empty {}", edits.display()))?;
    }
    edit(contents, edits)?;
    let mut overlays: Vec<&Path> = contents.overlays.iter().map(PathBuf::as_path).collect();
    overlays.push(edits);
    // Whatever attaches to a port under the other name would take it first.
    let others: &[&str] = match contents.identity {
        Identity::Ibp => &["kernel/drv/amd64/ibd", "kernel/drv/ibd.conf"],
        Identity::Ibd => &["kernel/drv/amd64/ibp", "kernel/drv/ibp.conf"],
        Identity::Both => &[],
    };
    let without = [others, contents.without].concat();
    build::archive(&Layout { root: contents.root, overlays: &overlays, without: &without }, archive)
}

/// What differs from run to run.
fn edit(contents: &Contents<'_>, edits: &Path) -> Result<()> {
    write(edits, "kernel/drv/ib.conf", contents.identity.services())?;
    write(edits, "etc/system", contents.system)?;
    write(edits, "etc/mach", if contents.cpus > 1 { "pcplusmp\n" } else { "" })?;
    for directory in ["etc/mnt", "sbin"] {
        fs::create_dir_all(edits.join(directory)).with_context(|| directory.to_owned())?;
    }
    for (path, text) in contents.files {
        write(edits, path, text)?;
    }
    fs::copy(contents.init, edits.join("sbin/init")).context("the agent")?;
    Ok(())
}

fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let file = dir.join(name);
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_who_attaches_and_how_many_processors_there_are() -> Result<()> {
        let place = tempfile::tempdir()?;
        let (init, edits) = (place.path().join("init"), place.path().join("edits"));
        write(place.path(), "init", "init")?;
        let contents = Contents {
            root: place.path(),
            overlays: &[],
            without: &[],
            init: &init,
            identity: Identity::Ibd,
            cpus: 4,
            system: "set kmem_flags=0xf\n",
            files: &[("later/drv/x.conf", "x".into())],
        };
        edit(&contents, &edits)?;
        let text = |name: &str| fs::read_to_string(edits.join(name)).unwrap_or_default();
        assert!(text("kernel/drv/ib.conf").contains("vppa-svc-list=\"ibd\""));
        let system = (text("etc/mach"), text("etc/system"), text("sbin/init"));
        assert_eq!(system, ("pcplusmp\n".into(), "set kmem_flags=0xf\n".into(), "init".into()));
        assert_eq!(text("later/drv/x.conf"), "x");
        Ok(())
    }
}
