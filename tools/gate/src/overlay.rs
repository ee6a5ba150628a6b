//! What lands in a gate: the files under `usr/src` of our tree, and where each goes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::gate::Gate;
use crate::pages;

/// One file of the overlay.
#[derive(Debug)]
pub struct Item {
    /// Where it lands, from the top of the gate.
    pub path: PathBuf,
    /// What lands.
    pub what: What,
}

/// How a file lands.
#[derive(Debug)]
pub enum What {
    /// A file of ours; the gate has none of that name.
    Add(Vec<u8>),
    /// A file of ours, in the place of the gate's if it has one. The gate's comes back on removal.
    Replace(Vec<u8>),
    /// A header of the interface: the gate's own stays if it has one, for `make abi-check` to compare.
    Offer(Vec<u8>),
    /// Lines for a file of the gate, as a fragment file.
    Edit(String),
}

/// The parts of the gate's build that ours takes the place of: the C plugin's and the C driver's. Their sources stay, for
/// other platforms and for the way back.
const REPLACED: [&str; 3] = [
    "usr/src/uts/intel/mac_ib/Makefile",
    "usr/src/uts/intel/ibp/Makefile",
    "usr/src/uts/common/io/ib/clients/ibd/ibp.conf",
];

/// The packages of what only we have.
const MANIFESTS: [&str; 3] = ["driver-network-ibd", "diagnostic-ibdpath", "driver-infiniband-swhca"];

const OFFERED: [&str; 1] = ["usr/src/uts/common/sys/mac_ib.h"];

/// Everything that lands in `gate` from our tree at `tree`.
///
/// # Errors
///
/// Our tree cannot be read, or its path has a character that make would take for something else.
pub fn items(tree: &Path, gate: &Gate) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut dirs = vec![PathBuf::from("usr/src/uts"), PathBuf::from("usr/src/cmd")];
    while let Some(dir) = dirs.pop() {
        let full = tree.join(&dir);
        for entry in fs::read_dir(&full).with_context(|| full.display().to_string())? {
            let entry = entry?;
            let path = dir.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                dirs.push(path);
            } else {
                items.push(item(tree, gate, path)?);
            }
        }
    }
    items.extend(pages::items(tree, gate)?);
    let pages = pages::pages(tree)?;
    for name in MANIFESTS {
        let ours = tree.join(format!("packaging/manifests/{name}.p5m"));
        let text = fs::read_to_string(&ours).with_context(|| ours.display().to_string())?;
        items.push(Item {
            path: format!("usr/src/pkg/manifests/{name}.{}", gate.manifest_suffix).into(),
            what: What::Add(pages::renumbered_manifest(&text, &pages, gate.manual).into_bytes()),
        });
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(items)
}

fn item(tree: &Path, gate: &Gate, path: PathBuf) -> Result<Item> {
    let bytes = fs::read(tree.join(&path)).with_context(|| path.display().to_string())?;
    let name = path.to_string_lossy();
    if let Some(edited) = name.strip_suffix(".add") {
        let text = String::from_utf8(bytes).with_context(|| name.to_string())?;
        return Ok(Item { path: edited.into(), what: What::Edit(text) });
    }
    let what = if REPLACED.contains(&&*name) {
        What::Replace(bytes)
    } else if OFFERED.contains(&&*name) {
        What::Offer(bytes)
    } else {
        What::Add(filled_in(bytes, tree, gate)?)
    };
    Ok(Item { path, what })
}

/// A makefile with this machine's tree and this gate's linker.
fn filled_in(bytes: Vec<u8>, tree: &Path, gate: &Gate) -> Result<Vec<u8>> {
    let Ok(text) = String::from_utf8(bytes.clone()) else { return Ok(bytes) };
    if !text.contains('@') {
        return Ok(bytes);
    }
    let place = tree.to_str().context("the path of this tree is not UTF-8")?;
    if place.contains(|c: char| c.is_whitespace() || "$#:=\\'\"`;&|<>()".contains(c)) {
        bail!("{place}: make would not take this for one path; move the tree or link to it");
    }
    let module_type = if gate.linker_knows_modules { "" } else { "-dy " };
    Ok(text.replace("@IPOIB_SRC@", place).replace("@MODULE_TYPE@", module_type).into_bytes())
}
