//! The driver under its two names.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use fakekernel::genunix::{PropertyValue, parse_conf};
use serde::{Deserialize, Serialize};

/// Which of the two a host has.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// A link for each node of a P_Key.
    #[default]
    Ibd,
    /// A link for each port, and partitions that an administrator makes on it.
    Ibp,
}

impl Driver {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ibd, Self::Ibp];

    /// Name of the module.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ibd => "ibd",
            Self::Ibp => "ibp",
        }
    }

    /// The service of the IB nexus that its nodes are for.
    pub const fn service(self) -> &'static str {
        match self {
            Self::Ibd => "ibd",
            Self::Ibp => "ipib",
        }
    }
}

/// What the configuration file of a driver says, which lies a directory above its object; nothing if there is none.
///
/// # Errors
///
/// A file that cannot be read, or that has anything but global properties in it.
pub fn shipped_conf(object: &Path, driver: Driver) -> Result<Vec<(String, PropertyValue)>> {
    let name = format!("{}.conf", driver.name());
    let file = object.parent().and_then(Path::parent).map(|above| above.join(name));
    let Some(file) = file.filter(|file| file.is_file()) else { return Ok(Vec::new()) };
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    parse_conf(&text).map_err(|error| anyhow!("{}: {error}", file.display()))
}
