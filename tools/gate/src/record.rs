//! What an installation did, kept in the gate so that it can be undone whoever committed what meanwhile.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::inside::Inside;

/// The record's directory, from the top of the gate.
pub const DIR: &str = "usr/src/uts/intel/ipoib";
/// The record, from the top of the gate.
pub const FILE: &str = "usr/src/uts/intel/ipoib/installed.toml";

/// What is installed.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of this tool's tree.
    pub version: String,
    /// What was done, file by file.
    #[serde(default, rename = "file")]
    pub files: Vec<Entry>,
}

/// What was done to one file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The file, from the top of the gate.
    pub path: PathBuf,
    /// What was done.
    #[serde(flatten)]
    pub done: Done,
}

/// What was done to a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "done", rename_all = "lowercase", deny_unknown_fields)]
pub enum Done {
    /// There was none.
    Added {
        /// Of what was written.
        sha256: String,
    },
    /// The gate's own is kept in the record's directory.
    Replaced {
        /// Of what was written.
        sha256: String,
    },
    /// Lines were put in.
    Edited {
        /// The fragment file.
        fragment: String,
    },
}

impl Record {
    /// The record of the gate `inside`, if there is one, as it stands there: [`crate::plan`] asks whether it can be believed.
    ///
    /// # Errors
    ///
    /// It is there and is not a record.
    pub fn read(inside: &Inside) -> Result<Option<Record>> {
        let Some(bytes) = inside.read(Path::new(FILE))? else { return Ok(None) };
        let text = String::from_utf8(bytes).context(FILE)?;
        toml::from_str(&text).context(FILE).map(Some)
    }

    /// Its file, from the top of the gate, and text.
    ///
    /// # Errors
    ///
    /// None that is known of.
    pub fn file(&self) -> Result<(PathBuf, Vec<u8>)> {
        let text = toml::to_string(self).context("writing the record")?;
        Ok((FILE.into(), text.into_bytes()))
    }
}

/// Where the gate's own version of a replaced file is kept.
pub fn original(path: &Path) -> PathBuf {
    let flat = path.strip_prefix("usr/src").unwrap_or(path).to_string_lossy().replace('/', "%");
    Path::new(DIR).join("original").join(flat)
}

/// The SHA-256 of `bytes` in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
