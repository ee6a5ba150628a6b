//! What is tried on a kernel, case by case.

pub mod bench;
mod cases;
pub mod count;
pub mod report;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::machine::archive::Identity;
use crate::machine::calls::Tracer;
use crate::machine::debugger::Debugger;
use crate::machine::options::Driver;
use crate::machine::symbols::readable;
use crate::machine::{Options, Setup, Trouble};
use bench::{Bench, CASE};
use cases::{
    adapter, added, answers, connections, contract, dump, ip, life, link, patience, random, trouble,
};
use report::{Findings, Report, StepReport};

/// How much is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// Every case once, and small.
    #[default]
    Quick,
    /// Every size, 64 MiB, 102 cycles.
    Full,
}

/// How the links of the cases carry IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Linkmode {
    /// In datagrams.
    #[default]
    Ud,
    /// On connections, and in datagrams what goes to groups.
    Cm,
}

/// What is run, besides the machine.
#[derive(Clone, Debug, clap::Args)]
pub struct RunOptions {
    #[command(flatten)]
    machine: Options,
    /// How much is tried.
    #[arg(long, value_enum, default_value_t)]
    suite: Suite,
    /// The mode of the links that have an IP interface.
    #[arg(long, value_enum, default_value_t)]
    linkmode: Linkmode,
    /// Only this case, besides those it needs; may be repeated.
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// How many cycles of loading and unloading, instead of the suite's number.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(3..))]
    cycles: Option<u32>,
    /// How many seconds of trouble at random, instead of the suite's.
    #[arg(long, value_name = "SECONDS")]
    trouble: Option<u64>,
    /// Write the calls between mac and the driver there, up to the case that unloads it.
    #[arg(long, value_name = "FILE")]
    calls: Option<PathBuf>,
    /// Where the report goes; DIR/report.json of --work if not given.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// A case: its name, whether the cases after it need it, who can have it, and what it does.
struct Case {
    name: &'static str,
    base: bool,
    identities: &'static [Identity],
    /// It takes the driver out of the kernel.
    unloads: bool,
    run: fn(&mut Bench) -> Result<Findings>,
}

const ONE: &[Identity] = &[Identity::Ibp, Identity::Ibd];
const IBP: &[Identity] = &[Identity::Ibp];
const IBD: &[Identity] = &[Identity::Ibd];
const ALL: &[Identity] = &[Identity::Ibp, Identity::Ibd, Identity::Both];
const PARTITIONS: &[Identity] = &[Identity::Ibp, Identity::Both];
const BOTH: &[Identity] = &[Identity::Both];

/// The case that compares calls.
const CONTRACT: &str = "contract";

/// All cases, in an order in which each finds what it needs.
const CASES: &[Case] = &[
    Case { name: "attach", base: true, identities: ALL, unloads: false, run: link::attach },
    Case { name: "partitions", base: true, identities: PARTITIONS, unloads: false, run: link::partitions },
    Case { name: "links", base: true, identities: IBD, unloads: false, run: link::ready },
    Case { name: "side-by-side", base: false, identities: BOTH, unloads: false, run: link::side_by_side },
    Case { name: "properties", base: false, identities: ONE, unloads: false, run: link::properties },
    Case { name: "bind", base: false, identities: ONE, unloads: false, run: link::bind },
    Case { name: "first-packet", base: false, identities: ONE, unloads: false, run: link::first_packet },
    Case { name: "unicast", base: false, identities: ONE, unloads: false, run: link::unicast },
    Case { name: "raw", base: false, identities: ONE, unloads: false, run: link::raw },
    Case { name: CONTRACT, base: false, unloads: false, identities: IBP, run: contract::contract },
    Case { name: "answers", base: false, unloads: false, identities: ONE, run: answers::answers },
    Case { name: "setup", base: true, identities: ONE, unloads: false, run: ip::setup },
    Case { name: "ping", base: false, identities: ONE, unloads: false, run: ip::ping },
    Case { name: "ipv6", base: false, identities: ONE, unloads: false, run: ip::ipv6 },
    Case { name: "fragments", base: false, identities: ONE, unloads: false, run: ip::fragments },
    Case { name: "mtu", base: false, identities: ONE, unloads: false, run: ip::mtu },
    Case { name: "kstats", base: false, identities: ONE, unloads: false, run: ip::kstats },
    Case { name: "dump", base: false, identities: ONE, unloads: false, run: dump::dump },
    Case { name: "tcp", base: false, identities: ONE, unloads: false, run: ip::tcp },
    Case { name: "multicast", base: false, identities: ONE, unloads: false, run: ip::multicast },
    Case { name: "snoop", base: false, identities: ONE, unloads: false, run: ip::snoop },
    Case { name: "connected", base: false, identities: ONE, unloads: false, run: connections::connected },
    Case { name: "plumb", base: false, identities: ONE, unloads: false, run: ip::plumb_again },
    // Long before the queues fail once more, for which a link has to have been well for ten seconds.
    Case {
        name: "silent-sa-qp-error",
        base: false,
        identities: ONE,
        unloads: false,
        run: patience::qp_error_unanswered,
    },
    Case { name: "in-use", base: false, identities: IBP, unloads: false, run: trouble::in_use },
    Case { name: "unread", base: false, identities: IBP, unloads: false, run: patience::unread },
    Case {
        name: "second-partition",
        base: false,
        identities: IBP,
        unloads: false,
        run: trouble::second_partition,
    },
    Case { name: "made-again", base: false, identities: IBP, unloads: false, run: trouble::made_again },
    Case { name: "port-bounce", base: false, identities: ONE, unloads: false, run: trouble::port_bounce },
    Case { name: "lid-changes", base: false, identities: ONE, unloads: false, run: trouble::lid_changes },
    Case { name: "sm-restart", base: false, identities: ONE, unloads: false, run: trouble::sm_restart },
    Case { name: "pkey-moves", base: false, identities: ONE, unloads: false, run: trouble::pkey_moves },
    Case { name: "late-sa", base: false, identities: ONE, unloads: false, run: patience::late_sa },
    Case { name: "many-neighbours", base: false, identities: ONE, unloads: false, run: patience::many_known },
    Case { name: "silent-sa", base: false, identities: ONE, unloads: false, run: trouble::silent_sa },
    Case {
        name: "silent-sa-asked",
        base: false,
        identities: ONE,
        unloads: false,
        run: patience::many_unanswered,
    },
    Case {
        name: "deleted-unanswered",
        base: false,
        identities: IBP,
        unloads: false,
        run: patience::deleted_unanswered,
    },
    Case { name: "cq-error", base: false, identities: ONE, unloads: false, run: adapter::cq_error },
    // Between the two, so that each port has been well for a while when its queues fail once more.
    Case { name: "notices", base: false, identities: ONE, unloads: false, run: adapter::notices },
    Case { name: "qp-error", base: false, identities: ONE, unloads: false, run: adapter::qp_error },
    Case {
        name: "adapter-in-use",
        base: false,
        identities: ONE,
        unloads: false,
        run: adapter::adapter_in_use,
    },
    Case {
        name: "another-client",
        base: false,
        identities: ONE,
        unloads: false,
        run: adapter::another_client,
    },
    Case { name: "trouble", base: false, identities: ONE, unloads: false, run: random::trouble },
    Case { name: "suspend", base: false, identities: ONE, unloads: false, run: trouble::suspend },
    Case { name: "unload", base: false, identities: ONE, unloads: true, run: life::unload },
    Case { name: "cycles", base: false, identities: ONE, unloads: true, run: life::cycles },
];

/// A case on a machine of its own, which differs from the others'.
struct OwnMachine {
    name: &'static str,
    change: fn(&Options, &mut Setup) -> Result<()>,
    run: fn(&mut Bench) -> Result<Findings>,
}

/// All of them.
const OWN_MACHINES: &[OwnMachine] = &[
    OwnMachine { name: "no-class", change: added::without_class, run: added::no_class },
    OwnMachine { name: "added", change: added::not_yet, run: added::in_order },
    OwnMachine { name: "added-early", change: added::not_yet, run: added::out_of_order },
];

/// Boots, tries, reports; whether all was well.
///
/// # Errors
///
/// There is no such case, or the machine could not be booted.
#[expect(clippy::disallowed_methods, reason = "a machine in QEMU lives in real time")]
pub fn run(options: &RunOptions) -> Result<bool> {
    let RunOptions { machine: setup, suite, case, report: file, .. } = options;
    let names: Vec<&str> =
        CASES.iter().map(|case| case.name).chain(OWN_MACHINES.iter().map(|case| case.name)).collect();
    if let Some(unknown) = case.iter().find(|name| !names.contains(&name.as_str())) {
        anyhow::bail!("there is no case {unknown}; there are {}", names.join(", "));
    }
    let began = Instant::now();
    let mut steps = Vec::new();
    if case.is_empty() || CASES.iter().any(|known| case.iter().any(|name| name == known.name)) {
        on_one_machine(options, began, &mut steps)?;
    }
    // The adapter of another tree has other ways, and the control needs no proof of ours.
    let ours = setup.adapter.is_none() && setup.driver == Driver::Rust && setup.identity == Identity::Ibp;
    for own in OWN_MACHINES.iter().filter(|own| ours && wanted(case, own.name)) {
        let step = on_its_own(options, own, began);
        println!("{}", step.line());
        steps.push(step);
    }
    let report = Report {
        suite: *suite,
        driver: setup.driver,
        identity: setup.identity,
        linkmode: options.linkmode,
        cpus: setup.cpus,
        ok: steps.iter().all(|step| step.ok),
        took_ms: since(began),
        steps,
        console: setup.work.join("console").display().to_string(),
    };
    let file = file.clone().unwrap_or_else(|| setup.work.join("report.json"));
    report.write(&file)?;
    println!("{}", report.verdict());
    Ok(report.ok)
}

fn wanted(cases: &[String], name: &str) -> bool {
    cases.is_empty() || cases.iter().any(|wanted| wanted == name)
}

fn since(then: Instant) -> u64 {
    u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A case that boots a machine for itself.
fn on_its_own(options: &RunOptions, own: &OwnMachine, began: Instant) -> StepReport {
    let at = since(began);
    let mut changed = Ok(());
    let machine =
        options.machine.boot_another(own.name, |setup| changed = (own.change)(&options.machine, setup));
    let outcome = changed.and(machine).and_then(|machine| {
        let (session, debugger) = machine.apart();
        let mut bench =
            Bench::new(session, debugger, options.machine.driver, options.machine.identity, options.suite);
        let outcome = bench
            .must("0", &format!("say metal: {}", own.name))
            .and_then(|_| bench.must("router", &format!("spawn {CASE}")))
            .and_then(|_| (own.run)(&mut bench));
        let outcome = outcome.map_err(|error| explained(error, &bench.debugger));
        bench.session.end();
        outcome
    });
    StepReport::new(own.name, at, since(began) - at, outcome)
}

/// The cases that share a machine, up to one that the others need, or that leaves the machine in trouble.
fn on_one_machine(options: &RunOptions, began: Instant, steps: &mut Vec<StepReport>) -> Result<()> {
    let RunOptions { machine: setup, suite, case, cycles, trouble, .. } = options;
    let machine = setup.boot()?;
    let boot = StepReport::new(
        "boot",
        0,
        since(began),
        Ok(Findings::new("the kernel runs, its first program answers")),
    );
    println!("{}", boot.line());
    steps.push(boot);
    let (session, debugger) = machine.apart();
    let mut bench = Bench::new(session, debugger, setup.driver, setup.identity, *suite);
    bench.cpus = setup.cpus;
    bench.linkmode = options.linkmode;
    bench.trouble = trouble.unwrap_or(if *suite == Suite::Full { 600 } else { 20 });
    bench.cycles = cycles.unwrap_or(if *suite == Suite::Full { 102 } else { 3 });
    let of_identity = CASES.iter().filter(|case| case.identities.contains(&setup.identity));
    for case in of_identity.filter(|known| known.base || wanted(case, known.name)) {
        let at = since(began);
        trace(&mut bench, case, options)?;
        let outcome = one(&mut bench, case);
        let over = outcome.as_ref().err().is_some_and(|e| e.is::<Trouble>());
        if over {
            // One gdb at a time.
            bench.tracer = None;
        }
        let outcome = outcome.map_err(|error| explained(error, &bench.debugger));
        if !over {
            // Where the modules are now, for the case that the next one hangs.
            bench.debugger.learn(&mut bench.session)?;
        }
        let step = StepReport::new(case.name, at, since(began) - at, outcome);
        println!("{}", step.line());
        let failed = !step.ok;
        steps.push(step);
        if over || failed && case.base {
            break;
        }
    }
    bench.tracer = None;
    bench.session.end();
    Ok(())
}

/// Has the calls of this case written, if they are wanted or it compares them: not while the driver is loaded or unloaded.
fn trace(bench: &mut Bench, case: &Case, options: &RunOptions) -> Result<()> {
    let compares = case.name == CONTRACT;
    if case.unloads || options.calls.is_none() && !compares {
        bench.tracer = None;
        return Ok(());
    }
    if bench.tracer.is_none() && case.name != "attach" {
        let file = options.calls.clone().unwrap_or_else(|| options.machine.work.join("calls"));
        bench.tracer = Some(Tracer::begin(&bench.debugger, bench.identity.name(), &file)?);
    }
    bench.mark(case.name)
}

/// A case, with a process of its own. The console says where it begins.
fn one(bench: &mut Bench, case: &Case) -> Result<Findings> {
    bench.must("0", &format!("say metal: {}", case.name))?;
    bench.must("router", &format!("spawn {CASE}"))?;
    let outcome = (case.run)(bench);
    if outcome.as_ref().err().is_none_or(|e| !e.is::<Trouble>()) {
        bench.must("router", &format!("end {CASE}"))?;
    }
    outcome
}

/// A panic with its stack, as a person reads it, and a hang with the places where the processors are.
fn explained(error: anyhow::Error, debugger: &Debugger) -> anyhow::Error {
    let more = match error.downcast_ref::<Trouble>() {
        Some(Trouble::Panic(panic)) => {
            panic.stack.iter().map(|frame| readable(frame)).collect::<Vec<_>>().join("\n")
        }
        Some(Trouble::Silence { .. }) => {
            let links = debugger.links().unwrap_or_default();
            debugger.stacks().unwrap_or_else(|e| format!("{e:#}")) + "\n" + &links.join("\n")
        }
        _ => return error,
    };
    anyhow::anyhow!("{error}\n{more}")
}
