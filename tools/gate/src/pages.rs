//! The manual pages that land in a gate: in the section, under the name and with the references of that gate's manual.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::gate::{Gate, Manual};
use crate::overlay::{Item, What};

/// Pages that a gate has of its own; ours take their place, and its makefiles and packages name them already.
const KNOWN: [&str; 1] = ["ibd"];

/// A page of our tree.
#[derive(Debug)]
pub struct Page {
    source: PathBuf,
    /// Its name without the section.
    pub name: String,
    /// Its section of today, in lower case.
    pub section: String,
}

impl Page {
    fn new(source: PathBuf) -> Result<Page> {
        let file = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((name, section)) = file.rsplit_once('.') else {
            bail!("{}: a page is called NAME.SECTION", source.display());
        };
        Ok(Page { name: name.to_owned(), section: section.to_owned(), source: source.clone() })
    }

    /// Whether a gate has one of its own.
    pub fn is_known(&self) -> bool {
        KNOWN.contains(&&*self.name)
    }

    /// Its file in the manual, such as `man4d/mac_ib.4d`.
    pub fn file(&self, manual: Manual) -> String {
        let section = manual.section(&self.section);
        format!("man{section}/{}.{section}", self.name)
    }
}

/// The pages that land in a gate: those of `usr/src/man`, those of the drivers and the command's.
///
/// # Errors
///
/// Our tree cannot be read.
pub fn pages(tree: &Path) -> Result<Vec<Page>> {
    let documents = ["ibd.4d", "ibd.conf.5", "ibdpath.8", "swhca.4d"]
        .map(|name| Page::new(Path::new("docs/man").join(name)));
    let mut pages = documents.into_iter().collect::<Result<Vec<_>>>()?;
    let man = Path::new("usr/src/man");
    for section in fs::read_dir(tree.join(man)).context("usr/src/man")? {
        let section = man.join(section?.file_name());
        for page in fs::read_dir(tree.join(&section)).with_context(|| section.display().to_string())? {
            pages.push(Page::new(section.join(page?.file_name()))?);
        }
    }
    pages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pages)
}

/// The pages, the lines that have them installed, and the line that has the plugin's page delivered where the plugin is.
///
/// # Errors
///
/// As [`pages`].
pub fn items(tree: &Path, gate: &Gate) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    // A file is edited at one place: pages of one section have one line each there.
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for page in pages(tree)? {
        let text =
            fs::read_to_string(tree.join(&page.source)).with_context(|| page.source.display().to_string())?;
        let text = renumbered_page(&text, gate.manual).into_bytes();
        let file = page.file(gate.manual);
        let what = if page.is_known() { What::Replace(text) } else { What::Add(text) };
        items.push(Item { path: format!("usr/src/man/{file}").into(), what });
        if page.is_known() {
            continue;
        }
        let (dir, name) = file.split_once('/').unwrap_or_default();
        let makefile = lines.entry(format!("usr/src/man/{dir}/Makefile")).or_default();
        *makefile += &format!("i386_MANFILES +=\t{name}\n");
        if page.name == "mac_ib" {
            // The manual's part of the package that the plugin is in.
            let neighbour = format!("{dir}/lofi.{}", gate.manual.section(&page.section));
            items.push(edit(
                format!("usr/src/pkg/manifests/system-kernel.{dir}.inc"),
                format!(
                    "#@ after file path=usr/share/man/{neighbour}\n$(i386_ONLY)file path=usr/share/man/{file}\n"
                ),
            ));
        }
    }
    items.extend(lines.into_iter().map(|(path, lines)| edit(path, format!("#@ before MANFILES\n{lines}"))));
    Ok(items)
}

fn edit(path: String, fragment: String) -> Item {
    Item { path: path.into(), what: What::Edit(fragment) }
}

/// A page with its own section and those it refers to as this manual calls them.
fn renumbered_page(text: &str, manual: Manual) -> String {
    let line = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let place = match words[0].as_str() {
            ".Dt" | ".Xr" => 2,
            _ => return line.to_owned(),
        };
        if let Some(word) = words.get_mut(place) {
            *word = manual.section(&word.to_lowercase()).to_uppercase();
        }
        words.join(" ")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A package manifest with the pages where this manual has them.
pub fn renumbered_manifest(text: &str, pages: &[Page], manual: Manual) -> String {
    let mut text = text.to_owned();
    for page in pages {
        let (file, today) = (page.file(manual), page.file(Manual::Today));
        text = text.replace(&format!("usr/share/man/{today}"), &format!("usr/share/man/{file}"));
        let dir =
            |file: &str| format!("dir path=usr/share/man/{}\n", file.split('/').next().unwrap_or_default());
        text = text.replace(&dir(&today), &dir(&file));
    }
    text
}
