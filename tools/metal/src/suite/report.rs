//! What a run found: lines for a person while it goes on, JSON for a program when it is over.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::archive::Identity;
use crate::machine::options::Driver;

/// The whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `quick` or `full`.
    pub suite: super::Suite,
    /// Whose driver.
    pub driver: Driver,
    /// Under which name it attached.
    pub identity: Identity,
    /// How its links carry IP.
    pub linkmode: super::Linkmode,
    /// Processors of the machine.
    pub cpus: u32,
    /// Whether every step went well.
    pub ok: bool,
    /// From the first command to the last, with the boot.
    pub took_ms: u64,
    /// What was done, in order.
    pub steps: Vec<StepReport>,
    /// Where the kernel's console is kept.
    pub console: String,
}

/// One step.
#[derive(Debug, Serialize)]
pub struct StepReport {
    /// Its name: that of the case of tests/illumos where there is one.
    pub step: &'static str,
    /// Whether it went well.
    pub ok: bool,
    /// When it began and how long it took, milliseconds of real time.
    pub at_ms: u64,
    /// How long.
    pub took_ms: u64,
    /// For a person; more than one line if it takes more.
    pub text: String,
    /// For a program.
    pub facts: Map<String, Value>,
}

/// What a step that went well says.
#[derive(Debug, Default)]
pub struct Findings {
    text: String,
    facts: Map<String, Value>,
}

impl Findings {
    /// What it says to a person.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), facts: Map::new() }
    }

    /// And to a program.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.facts.insert(name.into(), value.into());
        self
    }

    /// A further line.
    #[must_use]
    pub fn and(mut self, line: impl AsRef<str>) -> Self {
        self.text.push('\n');
        self.text.push_str(line.as_ref());
        self
    }
}

impl StepReport {
    /// The report of a step that began and ended then.
    pub fn new(step: &'static str, at_ms: u64, took_ms: u64, outcome: Result<Findings>) -> Self {
        let ok = outcome.is_ok();
        let Findings { text, facts } = outcome.unwrap_or_else(|e| Findings::new(format!("{e:#}")));
        Self { step, ok, at_ms, took_ms, text, facts }
    }

    /// `    12.345 s  ok    attach     two ports`
    pub fn line(&self) -> String {
        let end = self.at_ms + self.took_ms;
        let verdict = if self.ok { "ok" } else { "FAIL" };
        let mut line = format!("{:>6}.{:03} s  {verdict:4}  {:<17} ", end / 1000, end % 1000, self.step);
        let mut parts = self.text.lines();
        line.push_str(parts.next().unwrap_or_default());
        for part in parts {
            // Writing to a String cannot fail.
            let _ = write!(line, "\n{:>37}{part}", "");
        }
        line
    }
}

impl Report {
    /// Writes it to a file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("the report is plain data")?;
        std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
    }

    /// The last line a person reads.
    pub fn verdict(&self) -> String {
        let failed = self.steps.iter().filter(|step| !step.ok).count();
        let seconds = self.took_ms / 1000;
        match failed {
            0 => format!("{} steps in {seconds} s, all well", self.steps.len()),
            _ => format!(
                "{failed} of {} steps in {seconds} s failed; the console: {}",
                self.steps.len(),
                self.console
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ok: bool) -> Report {
        let outcome = if ok {
            Ok(Findings::new("two ports").fact("ports", 2).and("both up"))
        } else {
            Err(anyhow::anyhow!("no port"))
        };
        let step = StepReport::new("attach", 12_000, 345, outcome);
        Report {
            suite: super::super::Suite::Quick,
            driver: Driver::Rust,
            identity: Identity::Ibp,
            linkmode: crate::suite::Linkmode::Ud,
            cpus: 4,
            ok,
            took_ms: 13_999,
            steps: vec![step],
            console: "console".into(),
        }
    }

    #[test]
    fn a_step_is_a_line_and_what_more_it_says_is_below() {
        let line = report(true).steps[0].line();
        assert_eq!(line, format!("    12.345 s  ok    attach            two ports\n{:37}both up", ""));
        assert!(report(false).steps[0].line().contains("FAIL  attach            no port"));
    }

    #[test]
    fn the_last_line_counts_what_failed() {
        assert_eq!(report(true).verdict(), "1 steps in 13 s, all well");
        assert_eq!(report(false).verdict(), "1 of 1 steps in 13 s failed; the console: console");
    }

    #[test]
    fn a_program_reads_the_same() -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        report(true).write(file.path())?;
        let value: Value = serde_json::from_str(&std::fs::read_to_string(file.path())?)?;
        assert_eq!(
            (&value["driver"], &value["suite"], &value["cpus"]),
            (&"rust".into(), &"quick".into(), &4.into())
        );
        assert_eq!(value["steps"][0]["facts"]["ports"], 2);
        Ok(())
    }
}
