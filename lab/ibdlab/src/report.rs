//! What a run found: lines for a person while it goes on, JSON for a program when it is over.
//!
//! In virtual time everything in here follows from the scenario and the seed, so two runs write equal reports.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::coverage::Blocks;
use crate::reached::Reached;

/// Which subnet manager a fabric has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SmKind {
    /// The lab's own.
    #[default]
    Embedded,
    /// A real OpenSM on a real ibsim, in real time: a run is live with it.
    Opensm,
}

/// What the hosts' links are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum HcaKind {
    /// The lab's own adapters, on its fabric.
    #[default]
    Model,
    /// Ports of `swhca`, the object that ships: one kernel, whose fabric is in the module.
    Swhca,
}

impl HcaKind {
    /// As ever.
    pub fn is_model(&self) -> bool {
        *self == Self::Model
    }
}

/// The whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub scenario: String,
    pub seed: u64,
    /// `virtual` or `live`.
    pub mode: &'static str,
    pub sm: SmKind,
    /// What the links are on.
    #[serde(skip_serializing_if = "HcaKind::is_model")]
    pub hca: HcaKind,
    pub ok: bool,
    pub steps: Vec<StepReport>,
    /// Kernel calls the modules made, and a hash over their order (virtual time only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Rule violations that were tolerated or suppressed: rule, module, call, times, and the evidence of a suppressed one.
    pub notes: Vec<Value>,
    /// Which blocks of the modules were run, of objects that count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Blocks>,
    /// What was reached, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// Known violations that did not come up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused_suppressions: Vec<String>,
    /// The DTrace probes that fired, if they were enabled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
    /// What mac and the driver asked of one another, if that was written down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// How threads were interleaved, if that was asked for: `replay` of a scenario's `[schedule]` does the same again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Trace {
    pub kernel_calls: u64,
    pub hash: String,
}

/// One step.
#[derive(Debug, Serialize)]
pub struct StepReport {
    pub step: &'static str,
    pub ok: bool,
    /// Machine time when it began and how long it took, microseconds.
    pub at_us: u64,
    pub took_us: u64,
    /// One line for a person.
    pub text: String,
    pub facts: Map<String, Value>,
}

/// What a step that went well says.
#[derive(Debug, Default)]
pub struct Findings {
    pub text: String,
    pub facts: Map<String, Value>,
}

impl Findings {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), facts: Map::new() }
    }

    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.facts.insert(name.into(), value.into());
        self
    }
}

impl StepReport {
    /// `    0.012345 s  ok    attach     alice: ibd0, bob: ibd0`
    pub fn line(&self) -> String {
        let mut line = format!(
            "{:>12} s  {:4}  {:<10} ",
            seconds(self.at_us + self.took_us),
            if self.ok { "ok" } else { "FAIL" },
            self.step
        );
        let mut parts = self.text.lines();
        line.push_str(parts.next().unwrap_or_default());
        for part in parts {
            // Writing to a String cannot fail.
            let _ = write!(line, "\n{:>32}{part}", "");
        }
        line
    }
}

impl Report {
    pub fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("the report is plain data")?;
        std::fs::write(file, text + "\n").with_context(|| unwritable(file))
    }

    /// Whether a report can be written there, which makes the file.
    ///
    /// # Errors
    ///
    /// What is in the way.
    pub fn is_writable(file: &Path) -> Result<()> {
        let opened = File::options().create(true).append(true).open(file);
        opened.map(drop).with_context(|| unwritable(file))
    }
}

fn unwritable(file: &Path) -> String {
    format!("cannot write the report {}", file.display())
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
