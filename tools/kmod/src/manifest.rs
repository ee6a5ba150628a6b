//! `modules.toml`: which modules there are, and what each is made of.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The modules of `tools/kmod/modules.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// In the order of the file, which is the order of building.
    #[serde(rename = "module")]
    pub modules: Vec<Module>,
}

/// One kernel module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// The module's name, at most 31 characters.
    pub name: String,
    /// The directory below `kernel/`: `mac`, `drv`, `misc`.
    pub class: String,
    /// The Rust crate that becomes the object.
    #[serde(rename = "crate")]
    pub package: String,
    /// The C source with the module linkage, relative to the workspace root.
    pub shim: PathBuf,
    /// Macros for the shim, `NAME` or `NAME=VALUE`.
    #[serde(default)]
    pub defines: Vec<String>,
    /// A driver.conf(5), relative to the workspace root.
    pub conf: Option<PathBuf>,
    /// Direct dependencies, `CLASS/NAME`, in search order.
    pub depends: Vec<String>,
    /// The symbols that stay global.
    pub globals: Vec<String>,
    /// The DTrace probes, as DTrace shows them.
    #[serde(default)]
    pub probes: Vec<String>,
}

impl Manifest {
    /// Reads the manifest of the workspace at `root`.
    ///
    /// # Errors
    ///
    /// The file is missing or is not what the fields above say; the error has the line.
    pub fn read(root: &Path) -> Result<Manifest> {
        let path = root.join("tools/kmod/modules.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// The modules called `names`, in the order of the manifest; all of them if `names` is empty.
    ///
    /// # Errors
    ///
    /// A name is not in the manifest.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Module>> {
        if let Some(name) = names.iter().find(|name| !self.modules.iter().any(|module| module.name == **name))
        {
            let known: Vec<&str> = self.modules.iter().map(|module| module.name.as_str()).collect();
            bail!("there is no module {name}; modules.toml has {}", known.join(", "));
        }
        Ok(self.modules.iter().filter(|module| names.is_empty() || names.contains(&module.name)).collect())
    }
}

impl Module {
    /// Where the module goes: `proto/kernel/<class>/amd64/<name>` below `root`.
    pub fn path(&self, root: &Path) -> PathBuf {
        self.path_in(&root.join("proto/kernel"))
    }

    /// Where the module goes below `proto`, which takes the place of `/kernel`.
    pub fn path_in(&self, proto: &Path) -> PathBuf {
        proto.join(&self.class).join("amd64").join(&self.name)
    }
}
