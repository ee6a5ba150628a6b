//! The `ibdlab` command.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use ibdlab::bench::own;
use ibdlab::bench::traffic::{Handing, Load, Way};
use ibdlab::campaign::{RunOrder, serve_runs};
use ibdlab::cli::{
    BenchArgs, CampaignArgs, CaptureArgs, Cli, Command, DebugArgs, FabricArgs, RunArgs, SaArgs, UpArgs,
};
use ibdlab::coverage::Lines;
use ibdlab::debug;
use ibdlab::desk::capture::Capture;
use ibdlab::desk::daemon::{self, Plan};
use ibdlab::desk::fabric::Order;
use ibdlab::desk::kept;
use ibdlab::desk::sa::Asked;
use ibdlab::desk::{Place, client};
use ibdlab::linux;
use ibdlab::report::Report;
use ibdlab::run::{Options, run};
use ibdlab::sa;
use ibdlab::scenario::load;
use ibdlab::suppress;
use ibdlab::words::{Speaker, complain, say};
use lab_ibtf::umad::LibIbUmad;
use umad::SaClient;

/// A run asks for memory fifty times for each packet.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    debug::obey_environment();
    let mut arguments = std::env::args_os();
    let name = arguments.next().as_ref().and_then(client::called_as);
    // Those that start another command speak for themselves.
    let speaker = name.clone().filter(|name| client::CLIENTS.contains(&name.as_str()));
    let result = match name {
        Some(name) => {
            let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
            client::command(&name, arguments.collect())
        }
        None => obey(Cli::parse().command),
    };
    match result {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            complain(&format!("{}: {error:#}", speaker.as_deref().unwrap_or("ibdlab")));
            ExitCode::FAILURE
        }
    }
}

/// The exit code.
fn obey(command: Command) -> Result<i32> {
    match command {
        Command::Run(args) => {
            fakekernel::report_interrupts();
            let good = run_command(args)?;
            Ok(if fakekernel::interrupt::is_asked() { 130 } else { i32::from(!good) })
        }
        Command::Debug(args) => debug_command(args).map(|()| 0),
        Command::Campaign(args) => campaign_command(args).map(i32::from).map(|good| 1 - good),
        Command::Bench(args) => bench_command(args).map(|()| 0),
        Command::StartRuns => serve_runs(ordered).map(|()| 0),
        Command::Up(args) => up_command(args).map(|()| 0),
        Command::Exec(args) => client::exec(&client::find(args.lab.as_deref())?, &args.host, &args.program),
        Command::Shell(args) => {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            client::exec(&client::find(args.lab.as_deref())?, &args.host, &[shell])
        }
        Command::Status(args) => {
            let place = client::find(args.lab.as_deref())?;
            let shown = if args.watch {
                client::watch_status(&place)
            } else {
                client::show_status(&place, args.json)
            };
            shown.map(|()| 0)
        }
        Command::Fabric(args) => {
            let place = client::find(args.lab.as_deref())?;
            let FabricArgs { action, host, port, .. } = args;
            client::fabric(&place, Order { action, host, port }).map(|()| 0)
        }
        Command::Sa(args) => sa_command(args).map(|()| 0),
        Command::Capture(args) => {
            let place = client::find(args.lab.as_deref())?;
            let CaptureArgs { count, file, host, link, .. } = args;
            client::capture(&place, Capture { file, link: host.zip(link), count }).map(|()| 0)
        }
        Command::Send(args) => {
            let place = client::find(args.lab.as_deref())?;
            client::send(&place, &args.host, &args.link, &args.file, args.to).map(|()| 0)
        }
        Command::Down(args) => {
            let place = client::find(args.lab.as_deref());
            client::down(&place.inspect_err(|_| client::clear_away(args.lab.as_deref()))?).map(|()| 0)
        }
    }
}

fn sa_command(args: SaArgs) -> Result<()> {
    let question = args.question();
    let SaArgs { lab, host, port, adapter, json, .. } = args;
    let Some(adapter) = adapter else {
        return client::sa(&client::find(lab.as_deref())?, Asked { host, port, json, question });
    };
    let mut asking = SaClient::new(LibIbUmad::open(&adapter, port)?)?;
    let answer = sa::ask(&mut asking, &question, &[]).map_err(|why| anyhow!(why))?;
    say(&if json { answer.json() } else { answer.text() })?;
    if let Some(warning) = answer.warning() {
        complain(warning.trim_end());
    }
    Ok(())
}

fn up_command(args: UpArgs) -> Result<()> {
    let scenario = load(&args.scenario)?;
    ensure!(
        scenario.fabric.hca.is_model(),
        "this scenario is on the software adapter, which is for `ibdlab run`"
    );
    let place = Place::of(&args.lab)?;
    let hosts: Vec<&str> = scenario.host.iter().map(|host| host.get_ref().name.get_ref().as_str()).collect();
    if !args.foreground {
        let warning = kept::warning(&place, &args.scenario, &hosts).filter(|_| !args.fresh);
        warning.iter().for_each(|text| complain(text));
        return client::up(&place, std::env::args_os().skip(1));
    }
    let UpArgs { sm, modules, proto, scenario: file, fresh, .. } = args;
    let plan = Plan { place, scenario: scenario.clone(), file, fresh, sm, proto, modules };
    daemon::run(plan, |lab| {
        let hosts: Vec<&str> = lab.hosts.iter().map(|host| host.name.as_str()).collect();
        let mut out = std::io::stdout();
        writeln!(out, "lab {} is up: {}", lab.name, hosts.join(", ")).context("whoever started it is gone")
    })
}

/// Comes back only with an error: the process becomes gdb.
fn debug_command(args: DebugArgs) -> Result<()> {
    let scenario = load(&args.scenario)?;
    Err(debug::become_gdb(&args, scenario)?)
}

/// False if a step failed.
/// One run of a campaign; its exit code.
fn ordered(order: RunOrder) -> u8 {
    let args = RunArgs {
        proto: Some(order.proto),
        report: Some(order.report),
        decisions: order.decisions,
        reached: true,
        ..RunArgs::of(order.scenario)
    };
    match run_command(args) {
        Ok(good) => u8::from(!good),
        Err(error) => {
            complain(&format!("ibdlab: {error:#}"));
            1
        }
    }
}

fn run_command(args: RunArgs) -> Result<bool> {
    let scenario = load(&args.scenario)?;
    if let Some(reason) = scenario.uses_linux().then(linux::missing).flatten() {
        say(&format!("{}: left out, {reason}\n", scenario.name))?;
        return Ok(true);
    }
    let seed = args.seed.unwrap_or(scenario.seed);
    let speaker = Speaker::default();
    speaker.line(&format!("{} (seed {seed})", scenario.name));
    let proto = args.proto();
    // Before all the work, not behind it.
    args.report.as_deref().map(Report::is_writable).transpose()?;
    let suppress = args.suppress.as_deref().map(suppress::load).transpose()?.unwrap_or_default();
    let options = Options {
        seed,
        live: args.live(),
        sm: args.sm,
        hca: args.hca,
        proto: proto.clone(),
        modules: args.modules,
        suppress,
        capture: args.capture,
        probes: args.probes,
        calls: args.calls,
        decisions: args.decisions,
        reached: args.reached,
    };
    let report = run(scenario, options, |step| speaker.line(&step.line()))?;
    report.probes.iter().chain(&report.calls).for_each(|line| speaker.line(line));
    if let Some(file) = &args.report {
        report.write(file)?;
    }
    if let Some(directory) = &args.coverage {
        let lines = Lines::reached(&proto, &report.blocks.clone().unwrap_or_default())?;
        lines.write(directory)?;
        speaker.line(&format!("{}; {}", lines.summary(), directory.join("lines.txt").display()));
    }
    for note in &report.notes {
        speaker.line(&format!("note: {note}"));
    }
    for unused in &report.unused_suppressions {
        speaker.line(&format!("unused suppression: {unused}"));
    }
    match report.steps.iter().find(|step| !step.ok) {
        Some(failed) => complain(&format!("ibdlab: the step `{}` failed", failed.step)),
        None => speaker.line(&format!("{} steps, all well", report.steps.len())),
    }
    speaker.end()?;
    Ok(report.ok)
}

fn bench_command(args: BenchArgs) -> Result<()> {
    let out = args.out.clone();
    if let Some(way) = args.drive {
        return drive(way, args);
    }
    let speaker = Speaker::default();
    std::fs::create_dir_all(&out)?;
    if args.count {
        let (program, only) = (std::env::current_exe()?, args.only.clone());
        let report = args.bench().count(&program, &only, |line| speaker.line(line))?;
        report.write_figures(&out.join("count.json"))?;
    } else if args.processors {
        let report = args.bench().processors(|line| speaker.line(line))?;
        report.write_figures(&out.join("processors.json"))?;
    } else if let Some(mib) = args.bulk {
        let only = args.only.clone();
        let report = args.bench().bulk(mib, &only, |line| speaker.line(line))?;
        report.write_figures(&out.join("bulk.json"))?;
    } else if let Some(peers) = args.peers {
        let report = args.bench().peers(peers as usize, |line| speaker.line(line))?;
        report.write_figures(&out.join("peers.json"))?;
    } else {
        args.bench().run(|line| speaker.line(line))?.write(&out)?;
    }
    speaker.line(&format!("figures in {}", out.display()));
    speaker.end()
}

/// For a program that watches.
fn drive(way: Way, args: BenchArgs) -> Result<()> {
    let load = Load { way, addresses: 1, flows: 1, len: args.bytes as usize };
    let handing = Handing { burst: args.burst as usize, chain: args.chain.into() };
    let (tell, made, bare) = (args.tell.clone(), args.made, args.bare);
    let told = own::drive(&args.bench(), load, handing, made, bare)?;
    tell.map_or(Ok(()), |file| told.write(&file))
}

/// False if something was found.
fn campaign_command(args: CampaignArgs) -> Result<bool> {
    let speaker = Speaker::default();
    let summary = args.campaign().run(|line| speaker.line(line))?;
    speaker.end().and_then(|()| say(&summary.text()))?;
    Ok(summary.is_clean())
}
