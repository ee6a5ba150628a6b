//! What installing and removing come to, worked out before anything is written.
//!
//! Both start from the gate as it would be without us: the record is undone in memory, and refused if it cannot be.
//! Installing then is that plus the overlay; what is on disk already and what changed are the difference. So an
//! installation can be repeated, and renewed from a newer tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::edit::Fragment;
use crate::gate::Gate;
use crate::inside::{Inside, shown};
use crate::known;
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
struct Base {
    inside: Inside,
    record: Option<Record>,
    /// What differs from what is on disk.
    files: BTreeMap<PathBuf, Content>,
}

impl Base {
    fn read(&self, path: &Path) -> Result<Content> {
        match self.files.get(path) {
            Some(content) => Ok(content.clone()),
            None => self.inside.read(path),
        }
    }
}

/// What installing our tree at `tree` in `gate` comes to.
///
/// # Errors
///
/// The gate has changes that are not committed, has something of its own where ours would go, lacks an anchor, or what
/// was installed before has been changed since.
pub fn install(tree: &Path, gate: &Gate) -> Result<Plan> {
    let base = base(tree, gate)?;
    let foreign = not_ours(gate, base.record.as_ref())?;
    if let Some(path) = foreign.first() {
        bail!(
            "{} has a change that is not committed (of {}): commit or undo it first",
            shown(path),
            foreign.len()
        );
    }
    let (mut plan, record) = landed(&base, tree, gate)?;
    let (path, text) = record.file()?;
    plan.writes.insert(path, Some(text));
    settle(&base, plan)
}

/// What differs from `gate` in a gate with our tree at `tree` installed, for a copy of it: nobody commits there or takes it out
/// again, so the gate may have any changes and need not be under git.
///
/// # Errors
///
/// As [`install`], but for changes that are not committed.
pub fn copied(tree: &Path, gate: &Gate) -> Result<Plan> {
    let base = base(tree, gate)?;
    settle(&base, landed(&base, tree, gate)?.0)
}

fn landed(base: &Base, tree: &Path, gate: &Gate) -> Result<(Plan, Record)> {
    let mut plan = Plan { writes: base.files.clone(), kept: Vec::new() };
    let mut record = Record { version: env!("CARGO_PKG_VERSION").into(), files: Vec::new() };
    for item in items(tree, gate)? {
        land(base, item, &mut plan, &mut record)?;
    }
    Ok((plan, record))
}

/// What removing an installation from `gate` comes to, by what this tool of our tree at `tree` can have put there.
///
/// # Errors
///
/// There is none, what it put there has been changed since, or its record tells of what this tool does not do.
pub fn uninstall(tree: &Path, gate: &Gate) -> Result<Plan> {
    let base = base(tree, gate)?;
    if base.record.is_none() {
        bail!("{}: nothing of ours is installed here", gate.root.display());
    }
    settle(&base, Plan { writes: base.files.clone(), kept: Vec::new() })
}

/// Undoes the record of `gate` in memory, if it can be believed.
fn base(tree: &Path, gate: &Gate) -> Result<Base> {
    let inside = Inside::of(&gate.root)?;
    let mut files = BTreeMap::new();
    let Some(record) = Record::read(&inside)? else { return Ok(Base { inside, record: None, files }) };
    known::check(&record, tree, gate)?;
    for Entry { path, done } in &record.files {
        let now = inside.read(path)?;
        let before = undone(&inside, path, now, done).with_context(|| path.display().to_string())?;
        files.insert(path.clone(), before);
        if matches!(done, Done::Replaced { .. }) {
            files.insert(record::original(path), None);
        }
    }
    files.insert(record.file()?.0, None);
    Ok(Base { inside, record: Some(record), files })
}

fn undone(inside: &Inside, path: &Path, now: Content, done: &Done) -> Result<Content> {
    let changed =
        "was changed since it was installed; keep what matters elsewhere and put back what was installed";
    match done {
        Done::Added { sha256: sum } => match now {
            Some(bytes) if sha256(&bytes) != *sum => bail!(changed),
            _ => Ok(None),
        },
        Done::Replaced { sha256: sum } => {
            let original = inside.read(&record::original(path))?.context("the gate's own version is gone")?;
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
fn not_ours(gate: &Gate, record: Option<&Record>) -> Result<Vec<PathBuf>> {
    let entries = record.iter().flat_map(|record| &record.files);
    let ours: BTreeSet<&Path> = entries.map(|entry| entry.path.as_path()).collect();
    let changed = gate.changed()?;
    Ok(changed
        .into_iter()
        .filter(|path| !ours.contains(path.as_path()) && !path.starts_with(record::DIR))
        .collect())
}

fn land(base: &Base, item: Item, plan: &mut Plan, record: &mut Record) -> Result<()> {
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
fn settle(base: &Base, mut plan: Plan) -> Result<Plan> {
    let mut same = Vec::new();
    for (path, content) in &plan.writes {
        if base.inside.read(path)? == *content {
            same.push(path.clone());
        }
    }
    plan.writes.retain(|path, _| !same.contains(path));
    Ok(plan)
}
