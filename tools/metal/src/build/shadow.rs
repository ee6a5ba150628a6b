//! The gate with our sources in it, and the gate itself untouched: a tree of links to it, with directories of its own only
//! where `make install-gate` would write.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gate::gate::Gate;
use gate::plan;

use super::fresh;

/// What a name in a directory of the tree stands for.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Link(PathBuf),
    Directory,
    File(Vec<u8>),
}

/// Makes `shadow` a gate as `make install-gate` from our tree at `tree` would leave `gate`.
///
/// # Errors
///
/// The gate is none that our sources go into, or `shadow` cannot be written.
pub fn make(tree: &Path, gate: &Path, shadow: &Path) -> Result<()> {
    let gate = Gate::headers(gate)?;
    let plan = plan::copied(tree, &gate)?;
    for (dir, entries) in wanted(&gate.root, plan.writes)? {
        settle(&shadow.join(&dir), entries).with_context(|| format!("the copy of {}", dir.display()))?;
    }
    Ok(())
}

/// The directories that are not just links, from the top, with what is in them.
fn wanted(
    gate: &Path,
    writes: BTreeMap<PathBuf, Option<Vec<u8>>>,
) -> Result<BTreeMap<PathBuf, BTreeMap<String, Entry>>> {
    let mut dirs: BTreeMap<PathBuf, BTreeMap<String, Entry>> = BTreeMap::new();
    for path in writes.keys() {
        for dir in path.ancestors().skip(1) {
            dirs.entry(dir.to_path_buf()).or_default();
        }
    }
    for (dir, entries) in &mut dirs {
        let Ok(there) = fs::read_dir(gate.join(dir)) else { continue };
        for entry in there {
            let entry = entry.with_context(|| dir.display().to_string())?;
            entries.insert(entry.file_name().to_string_lossy().into_owned(), Entry::Link(entry.path()));
        }
    }
    let own: Vec<PathBuf> = dirs.keys().cloned().collect();
    let files = writes.into_iter().map(|(path, content)| (path, content.map(Entry::File)));
    for (path, entry) in own.into_iter().map(|dir| (dir, Some(Entry::Directory))).chain(files) {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let Some(entries) = dirs.get_mut(dir) else { continue };
        let name = name.to_string_lossy().into_owned();
        match entry {
            Some(entry) => entries.insert(name, entry),
            None => entries.remove(&name),
        };
    }
    Ok(dirs)
}

/// Makes the directory `dir` have `entries` and nothing else; what is right already stays, with its time.
fn settle(dir: &Path, entries: BTreeMap<String, Entry>) -> Result<()> {
    fs::create_dir_all(dir)?;
    for there in fs::read_dir(dir)? {
        let path = there?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if entries.get(name.as_ref()).is_some_and(|entry| holds(&path, entry)) {
            continue;
        }
        match path.is_dir() && !path.is_symlink() {
            true => fs::remove_dir_all(&path)?,
            false => fs::remove_file(&path)?,
        }
    }
    for (name, entry) in entries {
        let path = dir.join(name);
        match entry {
            Entry::Link(to) if !path.is_symlink() => symlink(to, &path)?,
            Entry::File(bytes) => fresh::write(&path, &bytes)?,
            // A directory has a turn of its own.
            Entry::Link(_) | Entry::Directory => {}
        }
    }
    Ok(())
}

/// Whether what is at `path` may stay for `entry`; a file's content may still differ.
fn holds(path: &Path, entry: &Entry) -> bool {
    match entry {
        Entry::Link(to) => fs::read_link(path).is_ok_and(|there| there == *to),
        Entry::Directory => path.is_dir() && !path.is_symlink(),
        Entry::File(_) => path.is_file() && !path.is_symlink(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_shadow_has_what_is_written_and_links_to_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let (gate, shadow) = (dir.path().join("gate"), dir.path().join("shadow"));
        fs::create_dir_all(gate.join("src/io")).unwrap();
        fs::create_dir_all(gate.join("doc")).unwrap();
        for name in ["src/Makefile", "src/io/old.c", "src/io/kept.c", "doc/page"] {
            fs::write(gate.join(name), "the gate's").unwrap();
        }
        let make = |writes: &[(&str, Option<&str>)]| {
            let writes =
                writes.iter().map(|(path, text)| (path.into(), text.map(|text| text.as_bytes().to_vec())));
            for (dir, entries) in wanted(&gate, writes.collect()).unwrap() {
                settle(&shadow.join(dir), entries).unwrap();
            }
        };
        make(&[("src/io/new/x.c", Some("ours")), ("src/io/old.c", None), ("src/Makefile", Some("edited"))]);
        assert_eq!(text(shadow.join("src/io/new/x.c")), "ours");
        assert_eq!(text(shadow.join("src/Makefile")), "edited");
        assert_eq!(text(shadow.join("src/io/kept.c")), "the gate's");
        assert!(!shadow.join("src/io/old.c").exists());
        assert!(shadow.join("doc").is_symlink() && shadow.join("doc/page").is_file());
        assert_eq!(text(gate.join("src/Makefile")), "the gate's");

        make(&[("src/io/old.c", Some("replaced"))]);
        assert_eq!(text(shadow.join("src/Makefile")), "the gate's");
        assert_eq!(text(shadow.join("src/io/old.c")), "replaced");
        assert!(!shadow.join("src/io/new").exists());
        assert_eq!(text(gate.join("src/io/old.c")), "the gate's");
    }
}
