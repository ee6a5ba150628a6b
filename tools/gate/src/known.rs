//! Which record can be believed: one that tells of nothing but what this tool does.
//!
//! A record lies in the gate, so it may be a stranger's. What it has put back or taken out is the gate's own then, at places
//! that this tool writes, and nowhere else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::gate::{Gate, Manual};
use crate::inside::shown;
use crate::overlay::{What, items};
use crate::record::{Done, FILE, Record};

/// The most files that a record tells of; this tool installs half as many.
const MOST: usize = 128;

/// Refuses a record that is not this tool's.
///
/// # Errors
///
/// It tells of a file that the tool does not install, of something else that was done to one, or of one twice; the error names
/// the file. Our tree cannot be read.
pub fn check(record: &Record, tree: &Path, gate: &Gate) -> Result<()> {
    if record.files.len() > MOST {
        bail!("{FILE}: tells of {} files, and this tool installs {MOST} at most", record.files.len());
    }
    let mut known = known(tree, gate)?;
    for entry in &record.files {
        let Some(what) = known.remove(&entry.path) else {
            bail!(
                "{FILE} tells of {}, {}: version {} of this tool or another hand wrote that, and this is version {}",
                shown(&entry.path),
                "which is no file that is installed, or is there twice",
                record.version.escape_debug(),
                env!("CARGO_PKG_VERSION")
            );
        };
        let possible = match entry.done {
            Done::Added { .. } => !matches!(what, What::Edit(_)),
            Done::Replaced { .. } => matches!(what, What::Replace(_)),
            Done::Edited { .. } => matches!(what, What::Edit(_)),
        };
        if !possible {
            bail!("{FILE} tells of {}, to which this tool does something else", shown(&entry.path));
        }
    }
    Ok(())
}

/// Every file that is installed, with the numbers of the manual and the names of manifests of any time: the gate may have
/// changed them since.
fn known(tree: &Path, gate: &Gate) -> Result<BTreeMap<PathBuf, What>> {
    let mut known = BTreeMap::new();
    for manual in [Manual::Today, Manual::Before2022] {
        for manifest_suffix in ["p5m", "mf"] {
            let then = Gate { manual, manifest_suffix, ..gate.clone() };
            known.extend(items(tree, &then)?.into_iter().map(|item| (item.path, item.what)));
        }
    }
    Ok(known)
}
