//! `make metal` and its relatives: see docs/metal.md.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use metal::build::{Options, build};
use metal::machine::options::{Driver, workspace};

/// The shipped modules on a real illumos kernel.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compile a gate's kernel, or what has changed of it.
    Build {
        /// The directory that holds the gate's usr/src; nothing in it is changed.
        gate: PathBuf,
        /// Where kernel and root file system go.
        #[arg(long, value_name = "DIR", default_value = "target/metal")]
        out: PathBuf,
        /// With the kernel's own checks (ASSERT).
        #[arg(long)]
        debug: bool,
        /// Also whose driver: the gate's own C driver goes to DIR/debug/driver-c (DIR/plain without --debug), to be laid over the root.
        #[arg(long, value_enum, default_value_t)]
        driver: Driver,
    },
    /// Boot a kernel and try the modules on it.
    Run(metal::suite::RunOptions),
    /// Boot a kernel and count the instructions of a packet and of a large write, over the loopback and over the adapter.
    Count(metal::suite::count::CountOptions),
    /// Boot a kernel and do what a person types.
    Shell(metal::machine::Options),
    /// Boot a kernel, load the driver, and give a person gdb with the symbols of all modules.
    Debug(metal::machine::Options),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Action::Build { gate, out, debug, driver } => {
            let options =
                Options { tree: workspace().into(), gate, out, debug, c_driver: driver == Driver::C };
            ended(build(&options).map(|_| true))
        }
        Action::Run(options) => ended(metal::suite::run(&options)),
        Action::Count(options) => ended(metal::suite::count::run(&options)),
        Action::Debug(options) => ended(metal::machine::debugger::run(&options)),
        Action::Shell(options) => ended(metal::machine::shell::run(&options)),
    }
}

/// 0 if all was well, and one line about what was not.
fn ended(outcome: anyhow::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("metal: {e:#}");
            ExitCode::FAILURE
        }
    }
}
