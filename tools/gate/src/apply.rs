//! Writing a plan: all of it or nothing.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use tempfile::NamedTempFile;

use crate::record;

/// What may stop a step; a test stops each in turn.
pub type BeforeStep<'a> = dyn FnMut(&Path) -> Result<()> + 'a;

/// One file that is ready to be put in place or taken away.
struct Staged {
    path: PathBuf,
    new: Option<NamedTempFile>,
    old: Option<Vec<u8>>,
}

/// Writes `writes` below `root`. `None` removes a file, and directories that this leaves empty.
///
/// Everything is written beside its place first; then each is renamed into it, the record and what it needs before the
/// rest, so that an installation cut short by a power failure can still be removed. What fails is undone.
///
/// # Errors
///
/// A file cannot be written; nothing has changed then.
pub fn apply(
    root: &Path,
    writes: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    before_step: &mut BeforeStep<'_>,
) -> Result<()> {
    let mut made = Vec::new();
    let staged = match stage(root, writes, &mut made) {
        Ok(staged) => staged,
        Err(error) => return undo(root, error, Vec::new(), &made),
    };
    let mut done = Vec::new();
    let mut failure = None;
    let mut staged = staged.into_iter();
    for Staged { path, new, old } in staged.by_ref() {
        match put(&root.join(&path), new, before_step) {
            Ok(()) => done.push((path, old)),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    drop(staged); // What is still beside its place goes, so that directories made for it can.
    if let Some(error) = failure {
        return undo(root, error, done, &made);
    }
    for (path, _) in done.iter().filter(|(path, _)| !root.join(path).exists()) {
        remove_empty_parents(root, path);
    }
    Ok(())
}

fn stage(
    root: &Path,
    writes: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    made: &mut Vec<PathBuf>,
) -> Result<Vec<Staged>> {
    let mut staged = Vec::new();
    for (path, content) in writes {
        let full = root.join(path);
        let old = if full.exists() {
            Some(fs::read(&full).with_context(|| full.display().to_string())?)
        } else {
            None
        };
        let new = content.as_deref().map(|bytes| beside(&full, bytes, made)).transpose()?;
        staged.push(Staged { path: path.clone(), new, old });
    }
    staged.sort_by_key(|one| (turn(one), one.path.clone()));
    Ok(staged)
}

/// The record comes before what it tells of and goes after it; the originals it tells of are there as long as it is.
fn turn(one: &Staged) -> u8 {
    let recorded = one.path.starts_with(record::DIR);
    let original = recorded && one.path != Path::new(record::FILE);
    match (recorded, original, one.new.is_some()) {
        (true, true, true) => 0,
        (true, false, true) => 1,
        (false, ..) => 2,
        (true, false, false) => 3,
        (true, true, false) => 4,
    }
}

/// A file with `bytes` in the directory of `full`, with the mode that `full` has.
fn beside(full: &Path, bytes: &[u8], made: &mut Vec<PathBuf>) -> Result<NamedTempFile> {
    let dir = full.parent().context("a file has a directory")?;
    let missing: Vec<PathBuf> = dir.ancestors().take_while(|dir| !dir.exists()).map(PathBuf::from).collect();
    for dir in missing.into_iter().rev() {
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        made.push(dir);
    }
    let mode = fs::metadata(full).map_or(0o644, |metadata| metadata.permissions().mode());
    let mut file = NamedTempFile::new_in(dir).with_context(|| dir.display().to_string())?;
    file.write_all(bytes).with_context(|| full.display().to_string())?;
    file.as_file()
        .set_permissions(Permissions::from_mode(mode))
        .with_context(|| full.display().to_string())?;
    Ok(file)
}

fn put(full: &Path, new: Option<NamedTempFile>, before_step: &mut BeforeStep<'_>) -> Result<()> {
    before_step(full)?;
    match new {
        Some(file) => file.persist(full).map(drop).map_err(|e| Error::from(e.error)),
        None => fs::remove_file(full).map_err(Error::from),
    }
    .with_context(|| full.display().to_string())
}

/// Puts back what was there, and says what could not be.
fn undo(root: &Path, error: Error, done: Vec<(PathBuf, Option<Vec<u8>>)>, made: &[PathBuf]) -> Result<()> {
    let mut stuck = Vec::new();
    for (path, old) in done.into_iter().rev() {
        let full = root.join(&path);
        let back = match old {
            Some(bytes) => beside(&full, &bytes, &mut Vec::new())
                .and_then(|file| put(&full, Some(file), &mut |_| Ok(()))),
            None => fs::remove_file(&full).map_err(Error::from),
        };
        if back.is_err() {
            stuck.push(path.display().to_string());
        }
    }
    for dir in made.iter().rev() {
        let _ = fs::remove_dir(dir); // Not empty: somebody else's by now.
    }
    if stuck.is_empty() {
        return Err(error.context("nothing was changed"));
    }
    bail!("{error:#}; and these could not be put back: {}", stuck.join(", "))
}

fn remove_empty_parents(root: &Path, path: &Path) {
    for dir in path.ancestors().skip(1).take_while(|dir| !dir.as_os_str().is_empty()) {
        if fs::remove_dir(root.join(dir)).is_err() {
            return;
        }
    }
}
