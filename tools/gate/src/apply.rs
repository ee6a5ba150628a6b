//! Writing a plan: all of it or nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};

use crate::inside::{Beside, Inside};
use crate::record;

/// What may stop a step; a test stops each in turn.
pub type BeforeStep<'a> = dyn FnMut(&Path) -> Result<()> + 'a;

/// One file that is ready to be put in place or taken away.
struct Staged {
    path: PathBuf,
    new: Option<Beside>,
    old: Option<Vec<u8>>,
}

/// Writes `writes` below `root`. `None` removes a file, and directories that this leaves empty.
///
/// Everything is written beside its place first; then each is renamed into it, the record and what it needs before the
/// rest, so that an installation cut short by a power failure can still be removed. What fails is undone.
///
/// # Errors
///
/// A file cannot be written, or its path leads out of `root`; nothing has changed then.
pub fn apply(
    root: &Path,
    writes: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    before_step: &mut BeforeStep<'_>,
) -> Result<()> {
    let inside = Inside::of(root)?;
    let mut made = Vec::new();
    let staged = match stage(&inside, writes, &mut made) {
        Ok(staged) => staged,
        Err(error) => return undo(&inside, error, Vec::new(), &made),
    };
    let mut done = Vec::new();
    let mut failure = None;
    let mut staged = staged.into_iter();
    for Staged { path, new, old } in staged.by_ref() {
        match put(&inside, &path, new, before_step) {
            Ok(()) => done.push((path, old)),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    drop(staged); // What is still beside its place goes, so that directories made for it can.
    if let Some(error) = failure {
        return undo(&inside, error, done, &made);
    }
    for (path, _) in done.iter().filter(|(path, _)| writes[path].is_none()) {
        remove_empty_parents(&inside, path);
    }
    Ok(())
}

fn stage(
    inside: &Inside,
    writes: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    made: &mut Vec<PathBuf>,
) -> Result<Vec<Staged>> {
    let mut staged = Vec::new();
    for (path, content) in writes {
        let old = inside.read(path)?;
        let new = content.as_deref().map(|bytes| inside.beside(path, bytes, made)).transpose()?;
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

fn put(inside: &Inside, path: &Path, new: Option<Beside>, before_step: &mut BeforeStep<'_>) -> Result<()> {
    before_step(&inside.root().join(path))?;
    match new {
        Some(file) => file.put().with_context(|| path.display().to_string()),
        None => inside.remove(path),
    }
}

/// Puts back what was there, and says what could not be.
fn undo(
    inside: &Inside,
    error: Error,
    done: Vec<(PathBuf, Option<Vec<u8>>)>,
    made: &[PathBuf],
) -> Result<()> {
    let mut stuck = Vec::new();
    for (path, old) in done.into_iter().rev() {
        let back = match old {
            Some(bytes) => inside.beside(&path, &bytes, &mut Vec::new()).and_then(Beside::put),
            None => inside.remove(&path),
        };
        if back.is_err() {
            stuck.push(path.display().to_string());
        }
    }
    for dir in made.iter().rev() {
        let _ = inside.remove_dir(dir); // Not empty: somebody else's by now.
    }
    if stuck.is_empty() {
        return Err(error.context("nothing was changed"));
    }
    bail!("{error:#}; and these could not be put back: {}", stuck.join(", "))
}

fn remove_empty_parents(inside: &Inside, path: &Path) {
    for dir in path.ancestors().skip(1).take_while(|dir| !dir.as_os_str().is_empty()) {
        if inside.remove_dir(dir).is_err() {
            return;
        }
    }
}
