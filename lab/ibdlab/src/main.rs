//! The `ibdlab` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use ibdlab::cli::{CampaignArgs, Cli, Command, RunArgs};
use ibdlab::coverage::Lines;
use ibdlab::linux;
use ibdlab::run::{Options, run};
use ibdlab::scenario::load;
use ibdlab::suppress;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run_command(args),
        Command::Campaign(args) => campaign_command(args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ibdlab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// False if a step failed.
fn run_command(args: RunArgs) -> Result<bool> {
    let scenario = load(&args.scenario)?;
    if let Some(reason) = scenario.uses_linux().then(linux::missing).flatten() {
        println!("{}: left out, {reason}", scenario.name);
        return Ok(true);
    }
    let seed = args.seed.unwrap_or(scenario.seed);
    println!("{} (seed {seed})", scenario.name);
    let proto = args.proto();
    let suppress = args.suppress.as_deref().map(suppress::load).transpose()?.unwrap_or_default();
    let options = Options {
        seed,
        live: args.live(),
        sm: args.sm,
        proto: proto.clone(),
        modules: args.modules,
        suppress,
        capture: args.capture,
    };
    let report = run(scenario, options, |step| println!("{}", step.line()))?;
    if let Some(file) = &args.report {
        report.write(file)?;
    }
    if let Some(directory) = &args.coverage {
        let lines = Lines::reached(&proto, &report.blocks.clone().unwrap_or_default())?;
        lines.write(directory)?;
        println!("{}; {}", lines.summary(), directory.join("lines.txt").display());
    }
    for note in &report.notes {
        println!("note: {note}");
    }
    for unused in &report.unused_suppressions {
        println!("unused suppression: {unused}");
    }
    match report.steps.iter().find(|step| !step.ok) {
        Some(failed) => eprintln!("ibdlab: the step `{}` failed", failed.step),
        None => println!("{} steps, all well", report.steps.len()),
    }
    Ok(report.ok)
}

/// False if something was found.
fn campaign_command(args: CampaignArgs) -> Result<bool> {
    let summary = args.campaign().run(|line| println!("{line}"))?;
    print!("{}", summary.text());
    Ok(summary.is_clean())
}
