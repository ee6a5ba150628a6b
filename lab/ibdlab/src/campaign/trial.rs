//! One run of a scenario in a process of its own: whatever happens to that process is an outcome.

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::generate::{NAMES, Told};
use super::starter::{Order, Starter};
use crate::coverage::Blocks;
use crate::reached::Reached;
use crate::report::SmKind;
use crate::run::Happened;
use crate::scenario::{DecisionText, Scenario};

/// How long a run may take.
pub(super) struct Patience {
    pid: u32,
    begun: Instant,
    /// What the process had used before.
    used: Duration,
}

impl Patience {
    /// With a run that this process begins now.
    #[expect(clippy::disallowed_methods, reason = "the patience with a process")]
    pub(super) fn with(pid: u32) -> Self {
        Self { pid, begun: Instant::now(), used: processor_time(pid) }
    }

    /// Whether it counts as hung.
    pub(super) fn is_over(&self) -> bool {
        self.begun.elapsed() > WALL_PATIENCE || processor_time(self.pid).saturating_sub(self.used) > PATIENCE
    }
}

/// Processor time after which a run counts as hung; wall-clock time would call a busy machine a hang. Virtual time has its own
/// limit in the machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// For a process that waits and uses no processor.
const WALL_PATIENCE: Duration = Duration::from_secs(900);
/// Of `/proc/PID/stat`: the unit of times is fixed for programs.
const TICKS_PER_SECOND: u64 = 100;
const POLL: Duration = Duration::from_millis(2);
/// The signature of a process that had to be killed.
const HUNG: &str = "hung process";
/// What a run of our modules may do although a rule is against it: `mac_ib` takes itself back under the mutex that says whether it is
/// registered, and nothing that mac holds waits for that.
const TOLERATED: [&str; 1] = ["rule 3, mac_ib in mactype_unregister"];
/// Longest signature, in characters.
const SIGNATURE: usize = 110;

/// Runs scenarios one after the other.
#[derive(Clone, Debug)]
pub struct Trials {
    program: Option<PathBuf>,
    proto: PathBuf,
    directory: PathBuf,
    sm: SmKind,
    /// Begun with the first run that can be a copy.
    starter: Rc<RefCell<Option<Starter>>>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub failure: Option<Failure>,
    pub kernel_calls: u64,
    /// Microseconds of machine time.
    pub machine_us: u64,
    /// Microseconds of machine time after which all was well again, the most of all troubles; and the longest that closing a link took.
    pub recovery_us: u64,
    pub close_us: u64,
    /// Hash of the order of all kernel calls; empty if the process did not live to say it.
    pub hash: String,
    pub blocks: Blocks,
    /// Of each trouble that was over: the events that took place.
    pub happened: Vec<Vec<Happened>>,
    /// Of the same: the calls that each host's modules made, and from where.
    pub told: Told,
    /// What the run reached, if it said so.
    pub reached: Reached,
    /// Rule violations that were tolerated: rule, module and call, and how often.
    pub tolerated: Vec<(String, u64)>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The same for failures of one kind: without numbers and names of hosts.
    pub signature: String,
    /// In the words of the run.
    pub text: String,
}

impl Failure {
    /// Did its process have to be killed?
    pub fn is_hang(&self) -> bool {
        self.signature == HUNG
    }
}

impl Trials {
    /// With the objects below `proto`; its files go into `directory`, which it makes.
    pub fn new(proto: &Path, directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let (proto, directory) = (proto.to_owned(), directory.to_owned());
        Ok(Self { program: None, proto, directory, sm: SmKind::Embedded, starter: Rc::default() })
    }

    /// The same with the objects below `proto`.
    #[must_use]
    pub fn on(&self, proto: &Path) -> Self {
        Self { proto: proto.to_owned(), ..self.clone() }
    }

    /// With another program that takes `ibdlab run`'s arguments.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Under another subnet manager; a real one makes the runs live.
    #[must_use]
    pub fn with_manager(mut self, sm: SmKind) -> Self {
        self.sm = sm;
        self
    }

    /// # Errors
    ///
    /// What keeps the process from being started at all.
    pub fn run(&self, scenario: &Scenario) -> Result<Outcome> {
        let (ended, report, errors) = self.report(scenario, false)?;
        Ok(match (ended, report) {
            (true, Some(report)) => Outcome::of_report(&report),
            (true, None) => Outcome::crashed(&tail(&errors)),
            (false, _) => {
                let text =
                    format!("the process has not ended after {} s of processor time", PATIENCE.as_secs());
                Outcome::failed(Failure { signature: HUNG.to_owned(), text })
            }
        })
    }

    /// Runs the scenario and says how its threads were interleaved; nothing if its process did not live to say it.
    ///
    /// # Errors
    ///
    /// What keeps it from being run.
    pub fn decisions(&self, scenario: &Scenario) -> Result<Vec<DecisionText>> {
        let report = self.report(scenario, true)?.1.unwrap_or_default();
        let lines = report["decisions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(lines.filter_map(|line| DecisionText::try_from(line.to_owned()).ok()).collect())
    }

    /// Whether the process ended by itself, its report if it left one, and the file with what it said on standard error.
    fn report(&self, scenario: &Scenario, decisions: bool) -> Result<(bool, Option<Value>, PathBuf)> {
        let (file, report, errors) =
            (self.file("scenario.toml"), self.file("report.json"), self.file("stderr"));
        fs::write(&file, scenario.to_toml().context("a scenario in TOML")?)
            .with_context(|| file.display().to_string())?;
        let _ = fs::remove_file(&report);
        let ended = if self.program.is_none() && self.sm == SmKind::Embedded {
            let order = Order {
                scenario: file,
                proto: self.proto.clone(),
                report: report.clone(),
                errors: errors.clone(),
                decisions,
            };
            self.start(&order)?
        } else {
            self.spawn(&file, &report, &errors, decisions)?
        };
        let report = fs::read(&report).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        Ok((ended, report, errors))
    }

    /// A run in a copy of the starter.
    fn start(&self, order: &Order) -> Result<bool> {
        let mut starter = self.starter.borrow_mut();
        let started = match starter.as_mut() {
            Some(started) => started,
            None => starter.insert(Starter::new(&this_program()?)?),
        };
        started.run(order)
    }

    /// A run in a process of its own from the beginning.
    fn spawn(&self, file: &Path, report: &Path, errors: &Path, decisions: bool) -> Result<bool> {
        let stderr = fs::File::create(errors).with_context(|| errors.display().to_string())?;
        let program = self.program.clone().map_or_else(this_program, Ok)?;
        let mut child = Command::new(&program)
            .arg("run")
            .arg(file)
            .arg("--proto")
            .arg(&self.proto)
            .arg("--report")
            .arg(report)
            .args(of_manager(self.sm))
            .args((self.sm == SmKind::Embedded).then_some("--reached"))
            .args(decisions.then_some("--decisions"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        wait(&mut child)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("the path of ibdlab")
}

/// What `ibdlab run` is told of a subnet manager.
pub(super) fn of_manager(sm: SmKind) -> &'static [&'static str] {
    match sm {
        SmKind::Embedded => &[],
        SmKind::Opensm => &["--live", "--sm", "opensm"],
    }
}

/// False for a process that had to be killed.
fn wait(child: &mut Child) -> Result<bool> {
    let patience = Patience::with(child.id());
    while child.try_wait().context("waiting for a run")?.is_none() {
        if patience.is_over() {
            // It may have ended by itself meanwhile.
            let _ = child.kill();
            child.wait().context("waiting for a run")?;
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

/// What a process and its threads have used.
fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may contain anything, the 12th and 13th fields are user and system time.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

fn tail(file: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(mut file) = fs::File::open(file) {
        let _ = file.read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

impl Outcome {
    fn failed(failure: Failure) -> Self {
        Self {
            failure: Some(failure),
            kernel_calls: 0,
            machine_us: 0,
            recovery_us: 0,
            close_us: 0,
            hash: String::new(),
            blocks: Blocks::default(),
            happened: Vec::new(),
            told: Told::default(),
            reached: Reached::default(),
            tolerated: Vec::new(),
        }
    }

    fn crashed(said: &str) -> Self {
        let first = said.lines().next().unwrap_or("nothing on standard error");
        Self::failed(Failure {
            signature: signature(&format!("the process died: {first}")),
            text: format!("the process died without a report:\n{said}"),
        })
    }

    fn of_report(report: &Value) -> Self {
        let steps = report["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
        let failed = steps.iter().find(|step| step["ok"] == Value::Bool(false));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let failure = failed.map(|step| Failure {
            signature: signature(&format!("{}: {}", text(&step["step"]), text(&step["text"]))),
            text: format!("{}: {}", text(&step["step"]), text(&step["text"])),
        });
        let tolerated: Vec<(String, u64)> =
            report["notes"].as_array().into_iter().flatten().map(tolerated).collect();
        let new = tolerated.iter().find(|(what, _)| !TOLERATED.contains(&what.as_str()));
        let failure = failure.or_else(|| {
            let text = format!("tolerated, but not known: {}", new?.0);
            Some(Failure { signature: text.clone(), text })
        });
        let most =
            |fact: &str| steps.iter().filter_map(|step| step["facts"][fact].as_u64()).max().unwrap_or(0);
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        Self {
            failure,
            kernel_calls: number(&report["trace"]["kernel_calls"]),
            machine_us: steps.last().map_or(0, |step| number(&step["at_us"]) + number(&step["took_us"])),
            recovery_us: most("recovery_us"),
            close_us: most("slowest_close_us"),
            hash: text(&report["trace"]["hash"]),
            tolerated,
            blocks: serde_json::from_value(report["blocks"].clone()).unwrap_or_default(),
            happened: steps.iter().filter_map(|step| fact(&step["facts"]["happened"])).collect(),
            told: Told {
                calls: steps.iter().filter_map(|step| fact(&step["facts"]["calls"])).collect(),
                places: steps.iter().filter_map(|step| fact(&step["facts"]["sites"])).collect(),
            },
            reached: fact(&report["reached"]).unwrap_or_default(),
        }
    }
}

fn fact<'a, T: Deserialize<'a>>(fact: &'a Value) -> Option<T> {
    T::deserialize(fact).ok()
}

fn tolerated(note: &Value) -> (String, u64) {
    let text = |name: &str| note[name].as_str().unwrap_or_default().to_owned();
    let what = format!("rule {}, {} in {}", note["rule"], text("module"), text("call"));
    (what, note["times"].as_u64().unwrap_or(1))
}

/// The text up to its second line, numbers as `#` and hosts as `HOST`; of a hang, also who waits in a module for what.
fn signature(text: &str) -> String {
    let mut wanted: Vec<&str> = text.lines().take(1).collect();
    if text.contains("nobody can run") || text.contains("time limit") {
        wanted.extend(text.lines().filter(|line| line.contains("waits for") && line.contains("last call")));
    }
    let mut short = String::new();
    for word in wanted.join(" ").split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let (word, rest) =
            word.split_at(word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_').len());
        match word {
            host if NAMES.contains(&host) => short.push_str("HOST"),
            word if word.starts_with(|c: char| c.is_ascii_digit()) || is_hex(word) => short.push('#'),
            word => short.extend(word.chars().map(|c| if c.is_ascii_digit() { '#' } else { c })),
        }
        short.push_str(rest);
    }
    // Of a list, the first entry stands for all.
    let first = short.split("; HOST:").next().unwrap_or_default();
    let first = first.split(", # in").next().unwrap_or_default();
    first.chars().take(SIGNATURE).collect()
}

fn is_hex(word: &str) -> bool {
    word.len() >= 4 && word.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Outcome, signature};

    #[test]
    fn what_a_rule_tolerates_is_a_finding_unless_it_is_known() {
        let ended = |module: &str, call: &str| {
            let note = json!({"rule": 3, "module": module, "call": call, "times": 2});
            Outcome::of_report(&json!({"steps": [{"step": "up", "ok": true}], "notes": [note]}))
        };
        assert_eq!(ended("mac_ib", "mactype_unregister").failure, None);
        let found = ended("ibd", "ibt_alloc_ah").failure.expect("a finding");
        assert_eq!(found.signature, "tolerated, but not known: rule 3, ibd in ibt_alloc_ah");
    }

    #[test]
    fn a_signature_has_no_numbers_and_no_hosts() {
        let one = signature("trouble: after 300 s: alice: ibd0 is not up; bob: 192.168.80.1 does not answer");
        let other =
            signature("trouble: after 600 s: bob: ibd0 is not up; dave: 192.168.80.3 does not answer");
        assert_eq!(one, other);
        assert!(one.contains("is not up") && !one.contains("300"), "{one}");
    }
}
