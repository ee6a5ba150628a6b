//! Which sources that ship in the kernel use a name of the C interface.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The crates that ship and are written by hand; `illumos-sys-hdrs` declares everything and uses nothing.
const SHIPPED: [&str; 7] = ["kernel", "gldv3", "ibtf", "ibtf-provider", "mac_ib", "ibd", "swhca"];

/// How many users a message names.
const NAMED: usize = 3;

/// The words of each source file.
pub struct Uses {
    words: BTreeMap<String, BTreeSet<String>>,
}

impl Uses {
    pub fn read(tree: &Path) -> Result<Uses> {
        let mut words = BTreeMap::new();
        let mut dirs: Vec<PathBuf> =
            SHIPPED.iter().map(|name| tree.join("rust").join(name).join("src")).collect();
        dirs.push(tree.join("usr/src/uts/common/io"));
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
                let path = entry?.path();
                if path.is_dir() {
                    dirs.push(path);
                } else if path.extension().is_some_and(|x| x == "rs" || x == "c") {
                    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                    let name = path.strip_prefix(tree).unwrap_or(&path).display().to_string();
                    words.insert(name, identifiers(&text));
                }
            }
        }
        Ok(Uses { words })
    }

    /// The files that use one of `names`, the first few by name.
    pub fn of(&self, names: &[String]) -> Vec<String> {
        let users = self.words.iter().filter(|(_, words)| names.iter().any(|name| words.contains(name)));
        let mut users: Vec<String> = users.map(|(file, _)| file.clone()).collect();
        if users.len() > NAMED {
            let more = format!("{} more", users.len() - NAMED);
            users.truncate(NAMED);
            users.push(more);
        }
        users
    }
}

/// The identifiers of a source, without those of its comments.
fn identifiers(text: &str) -> BTreeSet<String> {
    let code = text.lines().filter_map(|line| line.split("//").next()).filter(|line| !line.starts_with(" *"));
    code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| !word.is_empty())
        .flat_map(|word| {
            // The setter of a bit field is named after it.
            let field = word.strip_prefix("set_").map(String::from);
            std::iter::once(word.to_string()).chain(field)
        })
        .collect()
}
