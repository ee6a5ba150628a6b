//! The tables of `abi/`, read.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone)]
pub struct Tables {
    pub records: BTreeMap<String, Record>,
    pub enums: BTreeMap<String, BTreeMap<String, i64>>,
    pub constants: BTreeMap<String, Constant>,
    pub functions: BTreeMap<String, Symbol>,
    pub typedefs: BTreeMap<String, Typedef>,
}

#[derive(Clone, Deserialize)]
pub struct Record {
    pub size: usize,
    pub align: usize,
    pub fields: Vec<Field>,
}

#[derive(Clone, Deserialize)]
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

#[derive(Clone, Deserialize)]
pub struct Constant {
    pub value: i64,
}

/// A function, or with `data` a variable.
#[derive(Clone, Deserialize)]
pub struct Symbol {
    #[serde(default)]
    pub proto: String,
    #[serde(default)]
    pub args: Vec<(String, String)>,
    #[serde(default)]
    pub ret: String,
    #[serde(default)]
    pub variadic: bool,
    pub data: Option<String>,
}

#[derive(Clone, Deserialize)]
pub struct Typedef {
    #[serde(rename = "type")]
    pub ctype: String,
}

impl Tables {
    pub fn committed() -> Self {
        Self {
            records: read(include_str!("../../abi/records.json")),
            enums: read(include_str!("../../abi/enums.json")),
            constants: read(include_str!("../../abi/constants.json")),
            functions: read(include_str!("../../abi/functions.json")),
            typedefs: read(include_str!("../../abi/typedefs.json")),
        }
    }

    /// The record that bindgen names by its tag alone.
    pub fn record(&self, tag: &str) -> Option<&Record> {
        ["struct", "union"].iter().find_map(|kind| self.records.get(&format!("{kind} {tag}")))
    }

    /// The value of a macro or of an enumerator.
    pub fn constant(&self, name: &str) -> Option<i64> {
        let enumerator = || self.enums.values().find_map(|e| e.get(name)).copied();
        self.constants.get(name).map(|c| c.value).or_else(enumerator)
    }
}

fn read<T: for<'a> Deserialize<'a>>(json: &str) -> T {
    serde_json::from_str(json).expect("abi/ holds the tables in the form that tools/bindings writes")
}
