//! The kernel interface as our objects were compiled for it, against a gate's real headers.
//!
//! Every record, offset, constant and prototype of `rust/illumos-sys-hdrs/abi` becomes one line of C that the gate's
//! headers make true or false. A second compilation says what those that are false are there instead. A difference in
//! something that ships is a finding; one in something that nothing of ours uses is told and does no harm.

mod cc;
mod checks;
mod tables;
mod uses;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use cc::Compiler;
pub use cc::include_dirs;
use checks::{Check, Kind, checks};
use tables::Tables;
use uses::Uses;

use crate::gate::Gate;

/// One difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What differs: `record`, `record.field`, a constant, a function.
    pub name: String,
    /// What is there, and what we assume.
    pub what: String,
    /// What it means for our modules.
    pub consequence: String,
    /// Whether what ships uses it and nobody has found out that it does no harm.
    pub harmful: bool,
}

/// `tools/gate/known-differences.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explained {
    known: Vec<Known>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    name: String,
    what: String,
    because: String,
}

/// What was compared and what was found.
#[derive(Debug)]
pub struct Report {
    /// How many records, offsets, constants and prototypes were compared.
    pub compared: usize,
    /// In the order of the tables.
    pub differences: Vec<Difference>,
}

/// Compares the tables of our tree at `tree` with the headers of `gate`.
///
/// # Errors
///
/// gcc is missing, a header that we rely on is missing in the gate, or its headers do not compile by themselves.
pub fn check(tree: &Path, gate: &Gate) -> Result<Report> {
    let tables = Tables::read(&tree.join("rust/illumos-sys-hdrs"))?;
    let compiler = Compiler::new(tree, gate, &tables)?;
    compiler.preamble_compiles()?;
    let checks = checks(&tables);
    let failed = compiler.failing(&checks)?;
    let differing: Vec<&Check> =
        failed.iter().filter(|(_, missing)| !**missing).map(|(at, _)| &checks[*at]).collect();
    let mut found = compiler.values(&differing)?.into_iter();
    let uses = Uses::read(tree)?;
    let mut differences = Vec::new();
    for (at, missing) in failed {
        let check = &checks[at];
        let there = if missing { None } else { Some(found.next().unwrap_or_default()) };
        differences.push(difference(check, there, &tables, &uses));
    }
    // What is not there at all is so in every respect.
    differences.dedup_by(|a, b| a.name == b.name && a.what == b.what);
    differences.extend(bit_fields(&compiler, &tables, &uses)?);
    explain(tree, &mut differences)?;
    if differences.len() == checks.len() {
        bail!("nothing at all agrees: the comparison itself is at fault");
    }
    Ok(Report { compared: checks.len() + tables.bit_fields().count(), differences })
}

/// Says of each known difference why it does no harm.
fn explain(tree: &Path, differences: &mut [Difference]) -> Result<()> {
    let path = tree.join("tools/gate/known-differences.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let explained: Explained = toml::from_str(&text).with_context(|| path.display().to_string())?;
    for known in explained.known {
        let same =
            |difference: &&mut Difference| difference.name == known.name && difference.what == known.what;
        for difference in differences.iter_mut().filter(same) {
            difference.consequence = format!("none: {}", known.because);
            difference.harmful = false;
        }
    }
    Ok(())
}

fn difference(check: &Check, there: Option<String>, tables: &Tables, uses: &Uses) -> Difference {
    let there = there.map(|there| match (check.kind, there.parse::<i64>()) {
        (Kind::Value, Ok(value)) => format!("{value:#x}"),
        _ => there,
    });
    let what = match &there {
        Some(there) => format!("{} is {there} there, {} here", check.kind.noun(), check.ours),
        None => "is not there".into(),
    };
    consequence(&check.name, &check.kind, what, there.is_none(), tables, uses)
}

fn bit_fields(compiler: &Compiler<'_>, tables: &Tables, uses: &Uses) -> Result<Vec<Difference>> {
    let ours: Vec<_> = tables.bit_fields().collect();
    let there = compiler.bit_fields(&ours)?;
    let pairs = ours.iter().zip(there).filter(|(ours, there)| *there != Some((ours.bit, ours.bits)));
    Ok(pairs
        .map(|(ours, there)| {
            let what = match there {
                Some((bit, bits)) => {
                    format!("bits {bit}+{bits} of the record there, {}+{} here", ours.bit, ours.bits)
                }
                None => "is not there".into(),
            };
            let name = format!("{}.{}", ours.record, ours.field);
            consequence(&name, &Kind::Offset, what, there.is_none(), tables, uses)
        })
        .collect())
}

/// Says what a difference means, by who of those that ship uses the name.
fn consequence(
    name: &str,
    kind: &Kind,
    what: String,
    missing: bool,
    tables: &Tables,
    uses: &Uses,
) -> Difference {
    let users = uses.of(&tables.rust_names(name));
    let consequence = if users.is_empty() {
        "none: nothing that ships uses it".into()
    } else {
        let users = users.join(", ");
        match (kind, missing) {
            (Kind::Prototype, true) => format!("the module would not load, for it calls this from {users}"),
            (Kind::Prototype, false) => {
                format!("{users} would pass or take other arguments than this kernel")
            }
            (_, true) => format!("{users} would use what this kernel does not know"),
            (Kind::Size | Kind::Alignment, _) => {
                format!("{users} would make one that is too short or too long for this kernel")
            }
            (Kind::Offset | Kind::FieldSize | Kind::FieldType, _) => {
                format!("{users} would read or write other bytes than this kernel")
            }
            (Kind::Value, _) => format!("{users} would mean something else by it than this kernel"),
        }
    };
    Difference { name: name.into(), what, consequence, harmful: !users.is_empty() }
}
