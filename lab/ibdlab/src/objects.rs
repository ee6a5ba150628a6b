//! Which file each host loads for each module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::scenario::{Driver, ModuleOverride, Scenario};

/// Objects as they ship, from the root of the tree.
pub const SHIPPED: &str = "proto/kernel";
/// Objects with block counters.
pub const COUNTING: &str = "proto/coverage";
/// Objects that call the lab for their atomic operations.
pub const ATOMICS: &str = "proto/atomics";
/// Objects that call it for their loads and stores, too.
pub const RACES: &str = "proto/races";

/// Paths by host and module name; every one of them was there when the run began.
#[derive(Clone, Debug)]
pub struct Objects(BTreeMap<(String, String), PathBuf>);

impl Objects {
    /// Those below `proto`, but for the overrides.
    ///
    /// # Errors
    ///
    /// An object that is missing or was built from other sources than its tree's, or an override for a host or module that the scenario does not have.
    pub fn find(scenario: &Scenario, proto: &Path, overrides: &[ModuleOverride]) -> Result<Self> {
        let mut objects = BTreeMap::new();
        for host in scenario.host.iter().map(serde_spanned::Spanned::get_ref) {
            for module in ["mac_ib", host.driver.name()] {
                let class = if module == "mac_ib" { "mac" } else { "drv" };
                let path = proto.join(class).join("amd64").join(module);
                objects.insert((host.name.get_ref().clone(), module.to_owned()), path);
            }
        }
        for change in overrides {
            let Some(path) = objects.get_mut(&(change.host.clone(), change.name.clone())) else {
                let known: Vec<String> =
                    objects.keys().map(|(host, name)| format!("{host}/{name}")).collect();
                bail!("--module {}/{}: expected one of {}", change.host, change.name, known.join(", "));
            };
            path.clone_from(&change.path);
        }
        for host in scenario.host.iter().map(serde_spanned::Spanned::get_ref) {
            // A driver that an administrator may want beside the scenario's.
            let (name, beside) = (host.name.get_ref().clone(), Driver::Ibd.name());
            let path = proto.join("drv/amd64").join(beside);
            if path.is_file() {
                objects.entry((name, beside.to_owned())).or_insert(path);
            }
        }
        objects.values().try_for_each(|path| sources::refresh(path))?;
        if let Some(path) = objects.values().find(|path| !path.is_file()) {
            bail!("{}: no such object", path.display());
        }
        Ok(Self(objects))
    }

    /// The file of a module that [`Objects::find`] knows of this host.
    pub fn path(&self, host: &str, module: &str) -> &Path {
        &self.0[&(host.to_owned(), module.to_owned())]
    }

    /// The file of a module that may be there for a host beside those of its scenario.
    pub fn beside(&self, host: &str, module: &str) -> Option<&Path> {
        self.0.get(&(host.to_owned(), module.to_owned())).map(PathBuf::as_path)
    }
}
