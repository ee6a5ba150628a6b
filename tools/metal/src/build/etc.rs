//! The files of /etc that the kernel reads by itself: what `add_drv` and the package system would have made of the manifests,
//! for the drivers that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Error, Result};
use gate::manifest;
use serde::{Deserialize, Serialize};

/// What is known of drivers, whether they are there or not.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Drivers {
    /// The numbers that the gate gives by name.
    numbers: BTreeMap<String, u32>,
    /// Permissions that no driver's package gives.
    permissions: String,
    by_name: BTreeMap<String, Driver>,
}

/// What packages say of one driver.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
struct Driver {
    aliases: Vec<String>,
    classes: Vec<String>,
    /// As in minor_perm(5): `* 0666 root sys`.
    permissions: Vec<String>,
    /// For nodes that the clone driver makes.
    clone_permissions: Vec<String>,
}

impl Drivers {
    /// From the sources `src` of a gate.
    ///
    /// # Errors
    ///
    /// A manifest or a file is not there or not understood.
    pub fn read(src: &Path) -> Result<Drivers> {
        let os = src.join("uts/intel/os");
        let text = |name: &str| {
            let path = os.join(name);
            fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        let numbers = text("name_to_major")?;
        let number = |line: &str| {
            let (name, number) = line.split_once(char::is_whitespace)?;
            Some((name.to_string(), number.trim().parse().ok()?))
        };
        let mut drivers = Drivers {
            numbers: numbers.lines().filter_map(number).collect(),
            permissions: text("minor_perm")?,
            ..Drivers::default()
        };
        for path in manifest::of_directory(&src.join("pkg/manifests"))? {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            drivers.manifest(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())?;
        }
        Ok(drivers)
    }

    /// Takes in the drivers of a manifest.
    fn manifest(&mut self, text: &str) -> Result<()> {
        let manifest = manifest::parse(text).map_err(Error::msg)?;
        let here = |action: &&manifest::Action| action.name == "driver" && !action.only.contains("sparc");
        for action in manifest.actions.iter().filter(here) {
            let driver = self.by_name.entry(action.value("name").unwrap_or_default().into()).or_default();
            let lists = [
                ("alias", &mut driver.aliases),
                ("class", &mut driver.classes),
                ("perms", &mut driver.permissions),
                ("clone_perms", &mut driver.clone_permissions),
            ];
            for (key, list) in lists {
                list.extend(action.values(key).map(String::from));
            }
        }
        Ok(())
    }

    /// The files for the drivers `there`, by path from the root. A driver without a number gets the lowest that is free.
    pub fn files(&self, there: &BTreeSet<String>) -> BTreeMap<&'static str, String> {
        let mut numbers = self.numbers.clone();
        let mut free = (1..).filter(|number| !self.numbers.values().any(|taken| taken == number));
        for name in there {
            if !numbers.contains_key(name) {
                numbers.extend(free.next().map(|number| (name.clone(), number)));
            }
        }
        let mut numbers: Vec<_> = numbers.into_iter().collect();
        numbers.sort_by_key(|(_, number)| *number);
        let numbers = numbers.iter().map(|(name, number)| format!("{name} {number}\n")).collect();
        let (mut aliases, mut classes) = (String::new(), String::new());
        let mut permissions = self.permissions.clone();
        for (name, driver) in there.iter().filter_map(|name| Some((name, self.by_name.get(name)?))) {
            aliases.extend(driver.aliases.iter().map(|alias| format!("{name} \"{alias}\"\n")));
            classes.extend(driver.classes.iter().map(|class| format!("{name} {class}\n")));
            permissions.extend(driver.permissions.iter().map(|line| format!("{name}:{line}\n")));
            permissions.extend(driver.clone_permissions.iter().map(|line| format!("clone:{line}\n")));
        }
        BTreeMap::from([
            ("etc/name_to_major", numbers),
            ("etc/driver_aliases", aliases),
            ("etc/driver_classes", classes),
            ("etc/minor_perm", permissions),
        ])
    }
}

/// Where drivers are, from the root.
const DIRECTORIES: [&str; 3] =
    ["kernel/drv/amd64", "platform/i86pc/kernel/drv/amd64", "usr/kernel/drv/amd64"];

/// The drivers that are in `root`.
pub fn drivers_in(root: &Path) -> BTreeSet<String> {
    let entries = DIRECTORIES.iter().filter_map(|dir| fs::read_dir(root.join(dir)).ok()).flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: &str = "cn 0\nclone 2\nip 3\n";
    const MANIFEST: &str = "# a package\ndriver name=ibp alias=ib.ipib clone_perms=\"ibp 0666 root sys\" \\\n    \
        perms=\"* 0666 root sys\"\n$(sparc_ONLY)driver name=ibp alias=sparc,only\n\
        $(i386_ONLY)driver name=pci alias=pci alias=pciex_root_complex class=bus\n\
        driver name=absent alias=absent\nfile path=kernel/drv/$(ARCH64)/ibp group=sys\n";

    fn gate() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("uts/intel/os/name_to_major", NUMBERS),
            ("uts/intel/os/minor_perm", "clone:ip 0666 root sys\n"),
            ("pkg/manifests/driver-network-ibp.mf", MANIFEST),
            (
                "pkg/manifests/driver-network-ibd.mf",
                "driver name=ibd alias=ib.ibd perms=\"* 0666 root sys\"\n",
            ),
        ];
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn manifests_become_the_files_that_the_kernel_reads() {
        let dir = gate();
        let there = ["ibd", "ibp", "pci", "swhca"].map(String::from).into();
        let files = Drivers::read(dir.path()).unwrap().files(&there);
        assert_eq!(
            files["etc/driver_aliases"],
            "ibd \"ib.ibd\"\nibp \"ib.ipib\"\npci \"pci\"\npci \"pciex_root_complex\"\n"
        );
        assert_eq!(files["etc/driver_classes"], "pci bus\n");
        assert_eq!(
            files["etc/minor_perm"],
            "clone:ip 0666 root sys\nibd:* 0666 root sys\nibp:* 0666 root sys\nclone:ibp 0666 root sys\n"
        );
        assert_eq!(files["etc/name_to_major"], "cn 0\nibd 1\nclone 2\nip 3\nibp 4\npci 5\nswhca 6\n");
    }

    #[test]
    fn a_manifest_that_is_none_is_named() {
        let dir = gate();
        fs::write(dir.path().join("pkg/manifests/broken.mf"), "driver name=\"x\n").unwrap();
        let error = format!("{:#}", Drivers::read(dir.path()).unwrap_err());
        assert!(error.contains("broken.mf") && error.contains("quote"), "{error}");
    }
}
