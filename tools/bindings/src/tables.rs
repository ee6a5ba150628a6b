//! Takes from full ABI tables the entries that concern what is declared here.
//!
//! A table is a JSON object with one entry per line, sorted by name, so that a change of one number is a change of one
//! line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::declared::Declared;

type Table = BTreeMap<String, Value>;

/// Writes the five tables of `from` to `to`, cut down to what `declared` names and what those entries refer to.
pub fn import(declared: &Declared, from: &Path, to: &Path) -> Result<()> {
    let [records, enums, constants, functions, typedefs] =
        ["records", "enums", "constants", "functions", "typedefs"].map(|name| read(from, name));
    let (records, enums) = (records?, enums?);
    let constant_names: BTreeSet<&str> = declared.constants.iter().map(|c| c.name.as_str()).collect();
    let record_names: BTreeSet<&str> = declared.records.iter().map(|r| r.name.as_str()).collect();

    let records = keep(records, |name, _| record_names.contains(untagged(name)));
    let enums = keep(enums, |_, values| {
        values.as_object().is_some_and(|v| v.keys().any(|k| constant_names.contains(k.as_str())))
    });
    let constants = keep(constants?, |name, _| constant_names.contains(name) || is_cast_macro(name));
    let functions = keep(functions?, |name, _| declared.functions.contains(name));
    let typedefs = reachable(&typedefs?, [&records, &functions]);
    for (name, table) in [
        ("records", records),
        ("enums", enums),
        ("constants", constants),
        ("functions", functions),
        ("typedefs", typedefs),
    ] {
        write(to, name, &table)?;
    }
    Ok(())
}

/// The macros of `src/macros.rs`, which no generated file names.
fn is_cast_macro(name: &str) -> bool {
    ["DDI_DEV_T_ANY", "DDI_DEV_T_NONE", "DDI_MAJOR_T_NONE", "DDI_MAJOR_T_UNKNOWN"].contains(&name)
}

/// `struct msgb` is declared as `msgb`.
fn untagged(name: &str) -> &str {
    name.rsplit(' ').next().unwrap_or(name)
}

/// The typedefs that the types in `users` lead to.
fn reachable(typedefs: &Table, users: [&Table; 2]) -> Table {
    let mut texts: Vec<String> = users.iter().flat_map(|t| t.values()).map(Value::to_string).collect();
    let mut found = Table::new();
    while let Some(text) = texts.pop() {
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if let (Some(typedef), false) = (typedefs.get(word), found.contains_key(word)) {
                found.insert(word.to_string(), typedef.clone());
                texts.push(typedef["type"].to_string());
            }
        }
    }
    found
}

fn keep(table: Table, wanted: impl Fn(&str, &Value) -> bool) -> Table {
    table.into_iter().filter(|(name, value)| wanted(name, value)).collect()
}

fn read(dir: &Path, name: &str) -> Result<Table> {
    let path = dir.join(name).with_extension("json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: not a table", path.display()))
}

fn write(dir: &Path, name: &str, table: &Table) -> Result<()> {
    let entries: Vec<String> =
        table.iter().map(|(key, value)| format!("{}: {value}", Value::from(key.as_str()))).collect();
    let path = dir.join(name).with_extension("json");
    fs::write(&path, format!("{{\n{}\n}}\n", entries.join(",\n")))
        .with_context(|| format!("cannot write {}", path.display()))
}
