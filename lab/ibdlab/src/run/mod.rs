//! Runs a scenario on a machine and reports what happened.

mod group_headers;
mod host_run;
mod recording;
mod steps;
mod world;

use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::{Context, Result, bail};
use fakekernel::{Config, Halt, Machine, Suppression, Suppressions};
use serde_json::json;

use crate::calls;
use crate::coverage::Blocks;
use crate::mappings;
use crate::objects::Objects;
use crate::probes;
use crate::reached::Reached;
use crate::report::{HcaKind, SmKind};
use crate::report::{Report, StepReport, Trace};
use crate::scenario::{ModuleOverride, Scenario, Step};
use crate::suppress::for_objects;
use crate::swhca;

pub(crate) use host_run::listens;
pub use steps::{Happened, Place};
pub(crate) use world::World;

/// How to run it.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub live: bool,
    /// Which subnet manager; a real one needs `live`.
    pub sm: SmKind,
    /// What the links are on; the subnet manager of a software adapter is its own.
    pub hca: HcaKind,
    /// `proto/kernel` of the build.
    pub proto: PathBuf,
    pub modules: Vec<ModuleOverride>,
    /// What the foreign ones of `modules` are known to do wrong.
    pub suppress: Suppressions,
    /// Where the capture goes; none is kept when absent.
    pub capture: Option<PathBuf>,
    /// Every DTrace probe of the modules is enabled.
    pub probes: bool,
    /// Also what mac and the driver ask of one another.
    pub calls: bool,
    /// Also what was decided about the interleaving of threads.
    pub decisions: bool,
    /// Also what was reached, to be compared with other runs.
    pub reached: bool,
}

impl Options {
    /// In virtual time with the objects below `proto`, our own on every host.
    pub fn new(seed: u64, proto: PathBuf) -> Self {
        let (modules, suppress) = (Vec::new(), Suppressions::default());
        Self {
            seed,
            live: false,
            sm: SmKind::Embedded,
            hca: HcaKind::Model,
            proto,
            modules,
            suppress,
            capture: None,
            probes: false,
            calls: false,
            decisions: false,
            reached: false,
        }
    }
}

/// Runs `scenario` to its end or its first failure; `progress` hears of each step as it ends.
///
/// # Errors
///
/// What keeps a run from beginning: a missing object, an unwritable capture. A step that fails is in the report.
pub fn run(scenario: Scenario, options: Options, progress: impl FnMut(&StepReport)) -> Result<Report> {
    if scenario.step.is_empty() {
        bail!("this scenario has no steps: it is for `ibdlab up`");
    }
    if scenario.uses_linux() && !options.live {
        bail!("this scenario has TUN devices, which need --live");
    }
    if scenario.schedule.is_some() && options.live {
        bail!("this scenario has a [schedule], which needs virtual time: run it without --live");
    }
    if options.sm == SmKind::Opensm && !options.live {
        bail!("OpenSM runs in real time: it needs --live");
    }
    let options = match options.hca {
        HcaKind::Model => Options { hca: scenario.fabric.hca, ..options },
        HcaKind::Swhca => options,
    };
    let adapter = adapter(&scenario, &options)?;
    mappings::check(scenario.host.len(), mappings::OF_A_HOST)?;
    let objects = Objects::find(&scenario, &options.proto, &options.modules)?;
    let config = config(&scenario, &options);
    let suppress = for_objects(&options.suppress, &options.modules);
    let probes = options.probes || options.reached;
    let machine = Machine::new(Config { suppress, probes, journal: options.calls, ..config });
    let plan = options.reached.then(|| scenario.clone());
    let mut report = Report {
        scenario: scenario.name.clone(),
        seed: options.seed,
        mode: if options.live { "live" } else { "virtual" },
        sm: options.sm,
        hca: options.hca,
        ok: false,
        steps: Vec::new(),
        trace: None,
        notes: Vec::new(),
        blocks: None,
        reached: None,
        unused_suppressions: Vec::new(),
        probes: Vec::new(),
        calls: Vec::new(),
        decisions: Vec::new(),
    };
    let steps = run_steps(&machine, scenario, &options, objects, adapter, progress)?;
    report.steps = steps;
    report.ok = report.steps.iter().all(|step| step.ok);
    report.notes = notes(&machine);
    report.probes = if options.probes { probes::lines(&machine) } else { Vec::new() };
    report.reached = plan.map(|scenario| Reached::of(&machine, &scenario, &report.steps));
    report.calls = calls::lines(&machine);
    report.decisions = decisions(&machine, &options);
    report.blocks = Some(Blocks::of_counters(machine.coverage())).filter(|blocks| !blocks.0.is_empty());
    report.unused_suppressions = machine.unused_suppressions().iter().map(in_words).collect();
    report.trace = (!options.live)
        .then(|| Trace { kernel_calls: machine.crossings(), hash: format!("{:016x}", machine.trace_hash()) });
    Ok(report)
}

/// The software adapter's object, if the scenario is to run on it.
fn adapter(scenario: &Scenario, options: &Options) -> Result<Option<PathBuf>> {
    if options.hca == HcaKind::Model {
        return Ok(None);
    }
    if options.sm != SmKind::Embedded {
        bail!("--hca swhca: the adapter has a subnet manager of its own, so --sm cannot choose one");
    }
    if options.capture.is_some() {
        bail!("--hca swhca: its packets do not cross the lab's fabric, so --capture has nothing to capture");
    }
    swhca::check(scenario)?;
    swhca::object(&options.proto).map(Some)
}

fn config(scenario: &Scenario, options: &Options) -> Config {
    if options.live {
        return Config::live();
    }
    let config = Config::seeded(options.seed);
    scenario.schedule.iter().fold(config, |config, schedule| schedule.of(config))
}

fn decisions(machine: &Machine, options: &Options) -> Vec<String> {
    if options.decisions { machine.decisions().iter().map(ToString::to_string).collect() } else { Vec::new() }
}

fn in_words(entry: &Suppression) -> String {
    let place = [entry.call.as_deref(), entry.function.as_deref()].into_iter().flatten().collect::<Vec<_>>();
    let host = entry.host.iter().filter(|host| !host.is_empty()).map(|host| format!(" on {host}"));
    let host: String = host.collect();
    format!("{}{host}, rule {} in {}", entry.module, entry.rule.number(), place.join(" of "))
}

fn notes(machine: &Machine) -> Vec<serde_json::Value> {
    let known = &machine.config().suppress.0;
    let note = |note: &fakekernel::Note| {
        let evidence = note.suppressed.and_then(|number| known.get(number)).map(|entry| &entry.evidence);
        json!({
            "rule": note.rule.number(),
            "module": note.module,
            "call": note.call,
            "detail": note.detail,
            "suppressed": evidence,
            "times": note.count,
        })
    };
    machine.notes().iter().map(note).collect()
}

/// What the machine's thread tells the one that reports.
enum Progress {
    Step(StepReport),
    End,
}

/// Says that there is nothing more to come: a halt leaves the machine's first thread where it is, its own sender never dropped.
struct AtEnd(mpsc::Sender<Progress>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        // The receiver waits for this.
        let _ = self.0.send(Progress::End);
    }
}

/// The steps on the machine's first thread. A halt becomes the failure of the step it came in.
fn run_steps(
    machine: &Machine,
    scenario: Scenario,
    options: &Options,
    objects: Objects,
    adapter: Option<PathBuf>,
    mut progress: impl FnMut(&StepReport),
) -> Result<Vec<StepReport>> {
    let (sender, receiver) = mpsc::channel();
    let names: Vec<&'static str> = scenario.step.iter().map(|step| step.get_ref().name()).collect();
    let (on, capture, seed, sm) = (machine.clone(), options.capture.clone(), options.seed, options.sm);
    let ended = AtEnd(sender.clone());
    let run = move || {
        let _ended = ended;
        on.clone().run(move || -> Result<()> {
            let mut world = match &adapter {
                Some(adapter) => World::on_software(&on, &scenario, &objects, adapter, seed)?,
                None => World::build(&on, &scenario, &objects, seed, capture, sm)?,
            };
            for step in &scenario.step {
                let report = world.step(step.get_ref());
                let failed = !report.ok;
                // The receiver lives until this thread is done.
                let _ = sender.send(Progress::Step(report));
                if failed {
                    break;
                }
            }
            world.close()
        })
    };
    let mut steps = Vec::new();
    let mut hear = || {
        while let Ok(Progress::Step(report)) = receiver.recv() {
            progress(&report);
            steps.push(report);
        }
    };
    let end = if lab_lock::is_alone() {
        let end = run();
        hear();
        end
    } else {
        std::thread::scope(|scope| {
            let running = scope.spawn(run);
            hear();
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    };
    match end {
        Ok(result) => result.context("the run could not go on")?,
        Err(halt) => {
            let report = halted(names.get(steps.len()).copied().unwrap_or("close"), machine, &halt);
            progress(&report);
            steps.push(report);
        }
    }
    Ok(steps)
}

fn halted(step: &'static str, machine: &Machine, halt: &Halt) -> StepReport {
    StepReport {
        step,
        ok: false,
        at_us: machine.now().0 / 1_000,
        took_us: 0,
        text: halt.to_string(),
        facts: serde_json::Map::new(),
    }
}

impl Step {
    /// As a scenario has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Step::Attach(_) => "attach",
            Step::Up(_) => "up",
            Step::Resolve(_) => "resolve",
            Step::Ping(_) => "ping",
            Step::Tcp(_) => "tcp",
            Step::Multicast(_) => "multicast",
            Step::Turns(_) => "turns",
            Step::Flap(_) => "flap",
            Step::RouterAway(_) => "router-away",
            Step::Idle(_) => "idle",
            Step::Eavesdrop(_) => "eavesdrop",
            Step::SmRestart(_) => "sm-restart",
            Step::PkeyMoves(_) => "pkey-moves",
            Step::HcaRemoval(_) => "hca-removal",
            Step::GroupChanges(_) => "group-changes",
            Step::MembershipChanges(_) => "membership-changes",
            Step::UnloadUnderTraffic(_) => "unload-under-traffic",
            Step::Link(_) => "link",
            Step::Trouble(_) => "trouble",
            Step::FaultPoints(_) => "fault-points",
            Step::LinuxPing(_) => "linux-ping",
            Step::LinuxFetch(_) => "linux-fetch",
            Step::Memberships(_) => "memberships",
            Step::Counts(_) => "counts",
            Step::Unload(_) => "unload",
        }
    }
}
