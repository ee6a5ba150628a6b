//! The root file system of one boot: the kernel's, what is laid over it, and the few edits a run makes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Which of the driver's names attaches to the IB nexus's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// A node is a port; partitions are made by ioctl.
    #[default]
    Ibp,
    /// A node is a partition of a port.
    Ibd,
}

impl Identity {
    /// The driver's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ibp => "ibp",
            Self::Ibd => "ibd",
        }
    }

    /// The alias that makes the nexus's nodes its own.
    fn alias(self) -> &'static str {
        match self {
            Self::Ibp => "ib.ipib",
            Self::Ibd => "ib.ibd",
        }
    }

    /// What the nexus is told to make.
    fn services(self) -> &'static str {
        match self {
            Self::Ibp => "port-svc-list=\"ipib\";\nvppa-svc-list=\"\";\nhca-svc-list=\"\";\n",
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
    /// The first program.
    pub init: &'a Path,
    /// Who attaches.
    pub identity: Identity,
    /// More than one CPU needs another module of the platform.
    pub cpus: u32,
    /// Lines of `/etc/system`.
    pub system: &'a str,
}

/// Puts the root together in `stage` and packs it into `archive`, which the kernel mounts.
///
/// # Errors
///
/// A file cannot be copied, or genisoimage is missing or fails.
pub fn pack(contents: &Contents<'_>, stage: &Path, archive: &Path) -> Result<()> {
    lay_out(contents, stage)?;
    // The kernel's hsfs reads plain ISO 9660 names of a root, so these must be the real ones (-U).
    let mut tool = Command::new("genisoimage");
    tool.args(["-quiet", "-R", "-U", "-o"]).arg(archive).arg(stage);
    let output = tool.output().context("genisoimage is not there: tools/setup.sh metal installs it")?;
    ensure!(output.status.success(), "genisoimage: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn lay_out(contents: &Contents<'_>, stage: &Path) -> Result<()> {
    if stage.exists() {
        fs::remove_dir_all(stage).with_context(|| format!("cannot empty {}", stage.display()))?;
    }
    copy_tree(contents.root, stage)?;
    for overlay in contents.overlays {
        copy_tree(overlay, stage)?;
    }
    let identity = contents.identity;
    let other = if identity == Identity::Ibp { "ibd" } else { "ibp" };
    for file in [format!("kernel/drv/amd64/{other}"), format!("kernel/drv/{other}.conf")] {
        // A kernel without our modules has one of them only.
        let _ = fs::remove_file(stage.join(file));
    }
    write(stage, "kernel/drv/ib.conf", identity.services())?;
    edit(stage, "etc/driver_aliases", |text| aliases(text, identity))?;
    let drivers = drivers(stage)?;
    edit(stage, "etc/name_to_major", |text| majors(text, &drivers))?;
    edit(stage, "etc/system", |text| format!("{text}{}", contents.system))?;
    write(stage, "etc/mach", if contents.cpus > 1 { "pcplusmp\n" } else { "" })?;
    for directory in
        ["etc/svc/volatile", "etc/mnt", "sbin", "dev", "devices", "proc", "system/contract", "tmp"]
    {
        fs::create_dir_all(stage.join(directory)).with_context(|| directory.to_owned())?;
    }
    fs::copy(contents.init, stage.join("sbin/init")).context("the agent")?;
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn write(stage: &Path, name: &str, text: &str) -> Result<()> {
    let file = stage.join(name);
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn edit(stage: &Path, name: &str, change: impl FnOnce(&str) -> String) -> Result<()> {
    let old = fs::read_to_string(stage.join(name)).unwrap_or_default();
    write(stage, name, &change(&old))
}

/// The driver's alias is that of its identity, and the other identity has none.
fn aliases(text: &str, identity: Identity) -> String {
    let foreign = |line: &&str| !line.starts_with("ibp ") && !line.starts_with("ibd ");
    let mut new: String = text.lines().filter(foreign).map(|line| format!("{line}\n")).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(new, "{} \"{}\"", identity.name(), identity.alias());
    new
}

/// The drivers that are there, by name.
fn drivers(stage: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for directory in ["kernel/drv/amd64", "usr/kernel/drv/amd64", "platform/i86pc/kernel/drv/amd64"] {
        let Ok(entries) = fs::read_dir(stage.join(directory)) else { continue };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.contains('.') {
                found.insert(name);
            }
        }
    }
    if found.is_empty() {
        bail!("{} holds no drivers: is it the root of a kernel?", stage.display());
    }
    Ok(found)
}

/// A driver without a major number gets the first one that is free.
fn majors(text: &str, drivers: &BTreeSet<String>) -> String {
    let known: Vec<(&str, u32)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, number)| Some((name, number.trim().parse().ok()?)))
        .collect();
    let mut used: BTreeSet<u32> = known.iter().map(|(_, number)| *number).collect();
    let mut new = text.to_owned();
    for driver in drivers.iter().filter(|driver| known.iter().all(|(name, _)| name != driver)) {
        let free = (1..).find(|number| !used.contains(number)).unwrap_or_default();
        used.insert(free);
        // Writing to a String cannot fail.
        let _ = writeln!(new, "{driver} {free}");
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_driver_gets_a_number_that_is_free_and_the_others_keep_theirs() {
        let drivers = ["asy", "ibp", "swhca"].map(str::to_owned).into();
        assert_eq!(majors("cn 0\nasy 2\nmm 3\n", &drivers), "cn 0\nasy 2\nmm 3\nibp 1\nswhca 4\n");
    }

    #[test]
    fn the_alias_is_that_of_the_identity() {
        let text = "ibp \"ib.ipib\"\nasy \"pci11c1,480\"\n";
        assert_eq!(aliases(text, Identity::Ibd), "asy \"pci11c1,480\"\nibd \"ib.ibd\"\n");
        assert_eq!(aliases(text, Identity::Ibp), "asy \"pci11c1,480\"\nibp \"ib.ipib\"\n");
    }

    #[test]
    fn a_root_is_the_kernel_with_what_is_laid_over_it() -> Result<()> {
        let place = tempfile::tempdir()?;
        let (root, over, stage) =
            (place.path().join("root"), place.path().join("over"), place.path().join("stage"));
        write(&root, "kernel/drv/amd64/ibp", "theirs")?;
        write(&root, "kernel/drv/amd64/asy", "asy")?;
        write(&root, "etc/name_to_major", "asy 2\nibp 5\n")?;
        write(&over, "kernel/drv/amd64/ibp", "ours")?;
        write(&over, "kernel/drv/amd64/ibd", "ours")?;
        write(place.path(), "init", "init")?;
        let contents = Contents {
            root: &root,
            overlays: &[over],
            init: &place.path().join("init"),
            identity: Identity::Ibp,
            cpus: 4,
            system: "set kmem_flags=0xf\n",
        };
        lay_out(&contents, &stage)?;
        let text = |name: &str| fs::read_to_string(stage.join(name)).unwrap_or_default();
        assert_eq!(text("kernel/drv/amd64/ibp"), "ours");
        assert!(!stage.join("kernel/drv/amd64/ibd").exists());
        assert_eq!(text("etc/name_to_major"), "asy 2\nibp 5\n");
        assert_eq!(
            (text("etc/mach").as_str(), text("etc/system").as_str()),
            ("pcplusmp\n", "set kmem_flags=0xf\n")
        );
        assert_eq!(text("sbin/init"), "init");
        Ok(())
    }

    #[test]
    fn a_directory_without_drivers_is_no_root() -> Result<()> {
        let place = tempfile::tempdir()?;
        let why = drivers(place.path()).expect_err("there are none");
        assert!(why.to_string().ends_with("is it the root of a kernel?"), "{why}");
        Ok(())
    }
}
