//! `make metal` and its relatives: see docs/metal.md.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    },
    /// Boot a kernel and try the modules on it.
    Run(metal::machine::Options),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Action::Build { .. } => {
            eprintln!("metal: not yet");
            ExitCode::FAILURE
        }
        Action::Run(options) => ended(metal::suite::run(&options)),
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
