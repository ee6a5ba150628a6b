//! The tables of `rust/illumos-sys-hdrs/abi`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What our objects assume.
pub struct Tables {
    pub records: BTreeMap<String, Record>,
    pub enums: BTreeMap<String, BTreeMap<String, i64>>,
    pub constants: BTreeMap<String, Constant>,
    pub functions: BTreeMap<String, Symbol>,
    typedefs: BTreeMap<String, Typedef>,
    aliases: Vec<(String, String)>,
}

#[derive(Deserialize)]
pub struct Record {
    header: Option<String>,
    pub size: usize,
    pub align: usize,
    pub fields: Vec<Field>,
}

#[derive(Deserialize)]
pub struct Field {
    pub name: String,
    #[serde(rename = "type")]
    pub ctype: String,
    pub offset: usize,
    pub size: usize,
    /// First bit of a bit field, from the start of the record.
    pub bit: Option<usize>,
    /// Width of a bit field.
    pub bits: Option<usize>,
}

#[derive(Deserialize)]
pub struct Constant {
    header: Option<String>,
    pub value: i64,
}

/// A function, or with `data` a variable.
#[derive(Deserialize)]
pub struct Symbol {
    header: Option<String>,
    #[serde(default)]
    pub proto: String,
    pub data: Option<String>,
}

#[derive(Deserialize)]
struct Typedef {
    #[serde(rename = "type")]
    ctype: String,
}

/// A bit field: which, and where it is.
pub struct BitField<'a> {
    pub record: &'a str,
    pub field: &'a str,
    pub bit: usize,
    pub bits: usize,
}

impl Tables {
    /// Reads those of the crate at `hdrs`.
    pub fn read(hdrs: &Path) -> Result<Tables> {
        let dir = &hdrs.join("abi");
        let bindings = hdrs.join("src/bindings.rs");
        let bindings = fs::read_to_string(&bindings).with_context(|| bindings.display().to_string())?;
        Ok(Tables {
            records: table(dir, "records")?,
            enums: table(dir, "enums")?,
            constants: table(dir, "constants")?,
            functions: table(dir, "functions")?,
            typedefs: table(dir, "typedefs")?,
            aliases: aliases(&bindings),
        })
    }

    pub fn bit_fields(&self) -> impl Iterator<Item = BitField<'_>> {
        self.records.iter().flat_map(|(name, record)| {
            record.fields.iter().filter_map(move |field| {
                let (bit, bits) = (field.bit?, field.bits?);
                Some(BitField { record: name, field: &field.name, bit, bits })
            })
        })
    }

    /// The headers that the entries come from, as they are included.
    pub fn headers(&self) -> BTreeSet<&str> {
        let records = self.records.values().map(|record| &record.header);
        let constants = self.constants.values().map(|constant| &constant.header);
        let functions = self.functions.values().map(|symbol| &symbol.header);
        let paths = records.chain(constants).chain(functions).flatten();
        let below = ["usr/src/uts/common/", "usr/src/uts/intel/"];
        paths.filter_map(|path| below.iter().find_map(|dir| path.strip_prefix(dir))).collect()
    }

    /// How C names a record: by its tag, or by the typedef of one that has no tag.
    pub fn c_name<'a>(&self, name: &'a str) -> &'a str {
        let tag = name.rsplit(' ').next().unwrap_or(name);
        if self.typedefs.get(tag).is_some_and(|typedef| typedef.ctype == name) { tag } else { name }
    }

    /// What Rust calls it: a field by its name; a record by its tag and its typedefs; everything else as C does.
    pub fn rust_names(&self, name: &str) -> Vec<String> {
        if let Some((_, field)) = name.rsplit_once('.') {
            return vec![field.into()];
        }
        let tag = name.rsplit(' ').next().unwrap_or(name);
        let mut names = vec![tag.to_string()];
        names.extend(self.aliases.iter().filter(|(_, of)| of == tag).map(|(alias, _)| alias.clone()));
        names
    }
}

/// `pub type ALIAS = NAME;` of the bindings.
fn aliases(bindings: &str) -> Vec<(String, String)> {
    let types = bindings.lines().filter_map(|line| line.strip_prefix("pub type ")?.strip_suffix(';'));
    types.filter_map(|line| line.split_once(" = ")).map(|(alias, of)| (alias.into(), of.into())).collect()
}

fn table<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<T> {
    let path = dir.join(name).with_extension("json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
