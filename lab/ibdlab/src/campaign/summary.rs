//! What a campaign found, for a person and for a program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use super::conditions::{CONDITIONS, Provoked, Seen};
use super::kinds;
use super::timeline::{planned_events, timelines, waiting};
use super::trial::{Failure, Outcome, of_manager};
use crate::coverage::{Blocks, Lines};
use crate::report::SmKind;
use crate::scenario::Scenario;

/// A failure of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The first scenario that failed so.
    pub index: u64,
    pub failure: Failure,
    /// How its threads were interleaved; empty if the seed alone said.
    pub strategy: String,
    /// Decisions about the interleaving that it takes; `None` if they could not be told apart.
    pub decisions: Option<usize>,
    /// Events and hosts left.
    pub events: usize,
    pub hosts: usize,
    pub shrink_runs: usize,
    /// Of the kernel calls of the scenario that was kept; empty while it is being made small.
    pub hash: String,
    pub proto: PathBuf,
    pub sm: SmKind,
    /// Seconds since the campaign began.
    pub after_s: u64,
    /// Scenarios that failed so.
    pub times: u64,
    pub file: PathBuf,
}

impl Finding {
    /// Writes the scenario file, over an earlier one of this finding.
    pub(super) fn keep(mut self, out: &Path, mut scenario: Scenario) -> Result<Self> {
        let directory = out.join("findings");
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        self.file = directory.join(format!("{:05}.toml", self.index));
        let small = if self.hash.is_empty() { "not made small yet" } else { "made small" };
        scenario.name = format!("found by {}, {small}", scenario.name);
        let mut text = format!("# seed {}: fails with\n", scenario.seed);
        for line in self.failure.text.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "#   {line}");
        }
        if !self.hash.is_empty() {
            let _ = writeln!(text, "# kernel calls in the order of {}", self.hash);
        }
        let how: String = of_manager(self.sm).iter().map(|word| format!(" {word}")).collect();
        let (file, proto) = (self.file.display(), self.proto.display());
        let _ = writeln!(text, "#   ibdlab run {file} --proto {proto}{how}\n");
        text += &scenario.to_toml().context("a scenario in TOML")?;
        fs::write(&self.file, text).with_context(|| self.file.display().to_string())?;
        Ok(self)
    }

    /// One line for a person.
    pub fn line(&self) -> String {
        let decisions = self.decisions.map_or_else(String::new, |number| format!("{number} decisions, "));
        format!(
            "{}: {} events, {} hosts, {decisions}by {}, after {} runs: {}",
            self.file.display(),
            self.events,
            self.hosts,
            if self.strategy.is_empty() { "the seed" } else { &self.strategy },
            self.shrink_runs,
            self.failure.signature
        )
    }
}

/// Where a scenario came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Drawn,
    /// Made of one that was drawn, as its run went.
    Child,
    /// Made of one that was kept.
    Corpus,
    /// Of a list.
    Listed,
}

/// What came of the scenarios of one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CameOf {
    pub schedules: u64,
    /// Those that reached something that none before them had.
    pub news: u64,
    pub failed: u64,
}

impl Origin {
    const fn in_words(self) -> &'static str {
        match self {
            Self::Drawn => "drawn",
            Self::Child => "made of one that was drawn",
            Self::Corpus => "made of one that was kept",
            Self::Listed => "of the list",
        }
    }
}

/// The whole campaign.
#[derive(Debug)]
pub struct Summary {
    pub seed: u64,
    pub scenarios: u64,
    pub kernel_calls: u64,
    pub machine_us: u64,
    pub failed: u64,
    /// Events that waited for a call: those that took place, and all.
    pub waiting: (u64, u64),
    /// Events by kind: those that took place, and all of the scenarios.
    pub kinds: BTreeMap<String, (u64, u64)>,
    pub provoked: Provoked,
    /// Of each strategy: schedules, and how many failed.
    pub strategies: BTreeMap<String, (u64, u64)>,
    /// Scenarios that were kept for others to be made of, and different things that runs have reached.
    pub corpus: (usize, usize),
    /// By where scenarios came from.
    pub origins: BTreeMap<Origin, CameOf>,
    pub tolerated: BTreeMap<String, u64>,
    pub findings: Vec<Finding>,
    /// The longest that it took until all was well again, and to close a link: microseconds of machine time, and the scenario.
    slowest_recovery: (u64, u64),
    slowest_close: (u64, u64),
    /// By signature: the first scenario, and how many.
    seen: BTreeMap<String, (u64, u64)>,
    blocks: Blocks,
    lines: Option<Lines>,
    took: Duration,
}

impl Summary {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            scenarios: 0,
            kernel_calls: 0,
            machine_us: 0,
            failed: 0,
            waiting: (0, 0),
            kinds: BTreeMap::new(),
            provoked: Provoked::default(),
            strategies: BTreeMap::new(),
            corpus: (0, 0),
            origins: BTreeMap::new(),
            tolerated: BTreeMap::new(),
            findings: Vec::new(),
            slowest_recovery: (0, 0),
            slowest_close: (0, 0),
            seen: BTreeMap::new(),
            blocks: Blocks::default(),
            lines: None,
            took: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, index: u64, scenario: &Scenario, outcome: &Outcome) {
        self.scenarios += 1;
        self.slowest_recovery = self.slowest_recovery.max((outcome.recovery_us, index));
        self.slowest_close = self.slowest_close.max((outcome.close_us, index));
        self.kernel_calls += outcome.kernel_calls;
        self.machine_us += outcome.machine_us;
        self.failed += u64::from(outcome.failure.is_some());
        for (kind, times) in kinds(planned_events(scenario)) {
            self.kinds.entry(kind).or_default().1 += times;
        }
        let (came, waited) = waiting(scenario, &outcome.happened);
        self.waiting = (self.waiting.0 + came, self.waiting.1 + waited);
        let timelines = timelines(scenario, &outcome.happened);
        let spans = timelines.iter().flat_map(|timeline| &timeline.spans);
        for (kind, times) in kinds(spans.map(|span| &span.event)) {
            self.kinds.entry(kind).or_default().0 += times;
        }
        self.provoked.add(scenario, &timelines);
        if let Some(schedule) = &scenario.schedule {
            let (runs, failed) = self.strategies.entry(schedule.kind()).or_default();
            *runs += 1;
            *failed += u64::from(outcome.failure.is_some());
        }
        for (what, times) in &outcome.tolerated {
            *self.tolerated.entry(what.clone()).or_default() += times;
        }
        self.blocks.merge(&outcome.blocks);
    }

    /// What came of a scenario: whether it reached something that none before it had, and whether it failed.
    pub(super) fn came_of(&mut self, origin: Origin, news: bool, failed: bool) {
        let of = self.origins.entry(origin).or_default();
        of.schedules += 1;
        of.news += u64::from(news);
        of.failed += u64::from(failed);
    }

    /// Is this failure the first of its kind?
    pub(super) fn claim(&mut self, failure: &Failure, index: u64) -> bool {
        let entry = self.seen.entry(failure.signature.clone()).or_insert((index, 0));
        entry.1 += 1;
        entry.1 == 1
    }

    pub(super) fn finish(&mut self, took: Duration, counting: Option<&Path>) -> Result<()> {
        self.took = took;
        self.findings.sort_by_key(|finding| finding.index);
        for finding in &mut self.findings {
            finding.times = self.seen.get(&finding.failure.signature).map_or(1, |(_, times)| *times);
        }
        if let Some(counting) = counting.filter(|_| !self.blocks.0.is_empty()) {
            self.lines = Some(Lines::reached(counting, &self.blocks)?);
        }
        Ok(())
    }

    /// Did nothing fail?
    pub fn is_clean(&self) -> bool {
        self.failed == 0
    }

    /// How often a condition was there: `None` if a campaign cannot know or provoke it.
    fn times(&self, number: &'static str, seen: Seen) -> Option<u64> {
        match seen {
            Seen::Always | Seen::In(_) => Some(self.provoked.times(number)),
            Seen::Line(file, text) => {
                let lines = self.lines.as_ref()?;
                Some(u64::from(lines.ran(file, text)))
            }
            Seen::Beyond(_) => None,
        }
    }

    /// Conditions that were provoked, and all.
    fn conditions(&self) -> (usize, usize) {
        let there = CONDITIONS.iter().filter(|c| self.times(c.number, c.seen).is_some_and(|times| times > 0));
        (there.count(), CONDITIONS.len())
    }

    /// For a person.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (there, all) = self.conditions();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "campaign {}: {} schedules in {} s, {} kernel calls, {} s of machine time",
            self.seed,
            self.scenarios,
            self.took.as_secs(),
            self.kernel_calls,
            self.machine_us / 1_000_000
        );
        let sum = |of: fn(&(u64, u64)) -> u64| self.kinds.values().map(of).sum::<u64>();
        let (took_place, events) = (sum(|(took_place, _)| *took_place), sum(|(_, all)| *all));
        let kind =
            |(kind, (took_place, all)): (&String, &(u64, u64))| format!("{kind} {took_place} of {all}");
        let list: Vec<String> = self.kinds.iter().map(kind).collect();
        let _ = writeln!(text, "{took_place} of {events} events took place: {}", list.join(", "));
        let (came, waited) = self.waiting;
        let _ = writeln!(text, "{came} of {waited} events that waited for a call took place");
        if let Some(lines) = &self.lines {
            let _ = writeln!(text, "{}", lines.summary());
        }
        for (strategy, (runs, failed)) in &self.strategies {
            let _ = writeln!(text, "by {strategy}: {runs} schedules, {failed} failed");
        }
        let (kept, reached) = self.corpus;
        let _ = writeln!(text, "{reached} different things reached, {kept} schedules kept");
        for (origin, CameOf { schedules, news, failed }) in &self.origins {
            let words = origin.in_words();
            let _ = writeln!(
                text,
                "{words}: {schedules} schedules, {news} reached something new, {failed} failed"
            );
        }
        let ((recovery, of), (close, by)) = (self.slowest_recovery, self.slowest_close);
        let _ = writeln!(
            text,
            "all was well again after {} ms at most (scenario {of}), a link closed in {} (scenario {by})",
            recovery / 1_000,
            close / 1_000
        );
        let _ = writeln!(text, "conditions of known weaknesses provoked: {there} of {all}");
        for (what, times) in &self.tolerated {
            let _ = writeln!(text, "tolerated {times} times: {what}");
        }
        let _ = writeln!(text, "{} schedules failed, in {} ways", self.failed, self.findings.len());
        for finding in &self.findings {
            let _ = writeln!(text, "  {} times {}", finding.times, finding.line());
        }
        text
    }

    fn condition_table(&self) -> String {
        let mut text = String::new();
        for condition in &CONDITIONS {
            let times = match (self.times(condition.number, condition.seen), condition.seen) {
                (_, Seen::Beyond(why)) => format!("not in a campaign: {why}"),
                (None, _) => "not known: no run on objects that count".to_owned(),
                (Some(times), Seen::Line(..)) => if times > 0 { "reached" } else { "not reached" }.to_owned(),
                (Some(times), _) => format!("{times} schedules"),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:4} {}: {times}", condition.number, condition.what);
        }
        text
    }

    pub(super) fn write(&self, out: &Path) -> Result<()> {
        let put = |name: &str, text: String| {
            let path = out.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())
        };
        if let Some(lines) = &self.lines {
            lines.write(out)?;
        }
        put("summary.txt", format!("{}\n{}", self.text(), self.condition_table()))?;
        let (there, all) = self.conditions();
        let value = json!({
            "seed": self.seed,
            "schedules": self.scenarios,
            "seconds": self.took.as_secs(),
            "kernel_calls": self.kernel_calls,
            "machine_us": self.machine_us,
            "events": self.kinds.iter().map(|(kind, (took_place, all))| {
                (kind, json!({ "took_place": took_place, "of": all }))
            }).collect::<BTreeMap<_, _>>(),
            "strategies": self.strategies.iter().map(|(strategy, (runs, failed))| {
                json!({ "strategy": strategy, "schedules": runs, "failed": failed })
            }).collect::<Vec<_>>(),
            "corpus": { "kept": self.corpus.0, "reached": self.corpus.1 },
            "origins": self.origins.iter().map(|(origin, came)| {
                (origin.in_words(), came)
            }).collect::<BTreeMap<_, _>>(),
            "slowest_recovery_us": self.slowest_recovery.0,
            "slowest_close_us": self.slowest_close.0,
            "lines": self.lines.as_ref().map(Lines::share),
            "conditions": { "provoked": there, "of": all },
            "tolerated": self.tolerated,
            "failed": self.failed,
            "findings": self.findings,
        });
        put("summary.json", serde_json::to_string_pretty(&value).context("plain data")? + "\n")
    }
}
