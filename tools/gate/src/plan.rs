//! What installing and removing come to, worked out before anything is written.
//!
//! Both start from the gate as it would be without us: the record is undone in memory, and refused if it cannot be.
//! Installing then is that plus the overlay; what is on disk already and what changed are the difference. So an
//! installation can be repeated, and renewed from a newer tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::edit::Fragment;
use crate::gate::Gate;
use crate::overlay::{Item, What, items};
use crate::record::{self, Done, Entry, Record, sha256};

/// A file's content, or `None` if it is not to be there.
type Content = Option<Vec<u8>>;

/// The files to write, and what is said about them.
#[derive(Debug, Default)]
pub struct Plan {
    /// By path from the top of the gate; only what differs from what is on disk.
    pub writes: BTreeMap<PathBuf, Content>,
    /// What the gate keeps of its own that we have too.
    pub kept: Vec<PathBuf>,
}

/// A gate as it would be without us.
struct Base<'a> {
    gate: &'a Gate,
    /// What differs from what is on disk.
    files: BTreeMap<PathBuf, Content>,
}

impl Base<'_> {
    fn read(&self, path: &Path) -> Result<Content> {
        match self.files.get(path) {
            Some(content) => Ok(content.clone()),
            None => on_disk(self.gate, path),
        }
    }
}

fn on_disk(gate: &Gate, path: &Path) -> Result<Content> {
    let full = gate.root.join(path);
    match fs::read(&full) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| full.display().to_string()),
    }
}

/// What installing our tree at `tree` in `gate` comes to.
///
/// # Errors
///
/// The gate has changes that are not committed, has something of its own where ours would go, lacks an anchor, or what
/// was installed before has been changed since.
pub fn install(tree: &Path, gate: &Gate) -> Result<Plan> {
    let base = base(gate)?;
    let ours = Record::read(&gate.root)?.unwrap_or_default();
    let foreign = not_ours(gate, &ours)?;
    if let Some(path) = foreign.first() {
        bail!(
            "{} has a change that is not committed (of {}): commit or undo it first",
            path.display(),
            foreign.len()
        );
    }
    let (mut plan, record) = landed(&base, tree, gate)?;
    let (path, text) = record.file()?;
    plan.writes.insert(path, Some(text));
    settle(gate, plan)
}

/// What differs from `gate` in a gate with our tree at `tree` installed, for a copy of it: nobody commits there or takes it out
/// again, so the gate may have any changes and need not be under git.
///
/// # Errors
///
/// As [`install`], but for changes that are not committed.
pub fn copied(tree: &Path, gate: &Gate) -> Result<Plan> {
    settle(gate, landed(&base(gate)?, tree, gate)?.0)
}

fn landed(base: &Base<'_>, tree: &Path, gate: &Gate) -> Result<(Plan, Record)> {
    let mut plan = Plan { writes: base.files.clone(), kept: Vec::new() };
    let mut record = Record { version: env!("CARGO_PKG_VERSION").into(), files: Vec::new() };
    for item in items(tree, gate)? {
        land(base, item, &mut plan, &mut record)?;
    }
    Ok((plan, record))
}

/// What removing an installation from `gate` comes to.
///
/// # Errors
///
/// There is none, or what it put there has been changed since.
pub fn uninstall(gate: &Gate) -> Result<Plan> {
    if Record::read(&gate.root)?.is_none() {
        bail!("{}: nothing of ours is installed here", gate.root.display());
    }
    let files = base(gate)?.files;
    settle(gate, Plan { writes: files, kept: Vec::new() })
}

/// Undoes the record of `gate` in memory.
fn base(gate: &Gate) -> Result<Base<'_>> {
    let mut files = BTreeMap::new();
    let Some(record) = Record::read(&gate.root)? else { return Ok(Base { gate, files }) };
    for Entry { path, done } in &record.files {
        let now = on_disk(gate, path)?;
        let before = undone(gate, path, now, done).with_context(|| path.display().to_string())?;
        files.insert(path.clone(), before);
        if matches!(done, Done::Replaced { .. }) {
            files.insert(record::original(path), None);
        }
    }
    files.insert(record.file()?.0, None);
    Ok(Base { gate, files })
}

fn undone(gate: &Gate, path: &Path, now: Content, done: &Done) -> Result<Content> {
    let changed =
        "was changed since it was installed; keep what matters elsewhere and put back what was installed";
    match done {
        Done::Added { sha256: sum } => match now {
            Some(bytes) if sha256(&bytes) != *sum => bail!(changed),
            _ => Ok(None),
        },
        Done::Replaced { sha256: sum } => {
            let original =
                on_disk(gate, &record::original(path))?.context("the gate's own version is gone")?;
            match now {
                // Cut short, an installation leaves the record and the gate's own file.
                Some(bytes) if bytes == original => Ok(Some(bytes)),
                Some(bytes) if sha256(&bytes) == *sum => Ok(Some(original)),
                _ => bail!(changed),
            }
        }
        Done::Edited { fragment } => {
            let text = String::from_utf8(now.context("is gone")?).context("is not text")?;
            let fragment = Fragment::parse(fragment)?;
            match fragment.insert(&text) {
                // Not in yet: see above.
                Ok(_) => Ok(Some(text.into_bytes())),
                Err(_) => Ok(Some(fragment.remove(&text)?.into_bytes())),
            }
        }
    }
}

/// The changes in the gate that are not committed and that the record does not explain.
fn not_ours(gate: &Gate, record: &Record) -> Result<Vec<PathBuf>> {
    let ours: BTreeSet<&Path> = record.files.iter().map(|entry| entry.path.as_path()).collect();
    let changed = gate.changed()?;
    Ok(changed
        .into_iter()
        .filter(|path| !ours.contains(path.as_path()) && !path.starts_with(record::DIR))
        .collect())
}

fn land(base: &Base<'_>, item: Item, plan: &mut Plan, record: &mut Record) -> Result<()> {
    let Item { path, what } = item;
    let there = base.read(&path)?;
    let done = match what {
        What::Offer(_) if there.is_some() => {
            plan.kept.push(path);
            return Ok(());
        }
        What::Replace(bytes) if there.is_some() => {
            let done = Done::Replaced { sha256: sha256(&bytes) };
            plan.writes.insert(record::original(&path), there);
            plan.writes.insert(path.clone(), Some(bytes));
            done
        }
        What::Add(_) if there.is_some() => bail!("{}: the gate has one of its own", path.display()),
        What::Add(bytes) | What::Replace(bytes) | What::Offer(bytes) => {
            let done = Done::Added { sha256: sha256(&bytes) };
            plan.writes.insert(path.clone(), Some(bytes));
            done
        }
        What::Edit(fragment) => {
            let text = there.with_context(|| format!("{}: the gate has none", path.display()))?;
            let text = String::from_utf8(text).with_context(|| format!("{}: not text", path.display()))?;
            let edited =
                Fragment::parse(&fragment)?.insert(&text).with_context(|| path.display().to_string())?;
            plan.writes.insert(path.clone(), Some(edited.into_bytes()));
            Done::Edited { fragment }
        }
    };
    record.files.push(Entry { path, done });
    Ok(())
}

/// Leaves out what is on disk already.
fn settle(gate: &Gate, mut plan: Plan) -> Result<Plan> {
    let mut same = Vec::new();
    for (path, content) in &plan.writes {
        if on_disk(gate, path)? == *content {
            same.push(path.clone());
        }
    }
    plan.writes.retain(|path, _| !same.contains(path));
    Ok(plan)
}
