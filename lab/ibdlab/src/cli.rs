//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::report::SmKind;
use crate::scenario::ModuleOverride;

/// illumos hosts with real kernel modules on a software InfiniBand fabric.
#[derive(Debug, Parser)]
#[command(name = "ibdlab", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario to its end: exit 0 if every step went well, 1 if one did not.
    Run(RunArgs),
}

/// Objects as they ship, and objects with block counters.
const SHIPPED: &str = "proto/kernel";
pub const COUNTING: &str = "proto/coverage";

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario, a TOML file.
    pub scenario: PathBuf,
    /// All threads on the wall clock instead of one at a time in virtual time.
    #[arg(long)]
    pub live: bool,
    /// The subnet manager.
    #[arg(long, value_enum, default_value_t)]
    pub sm: SmKind,
    /// Another object for a module of one host.
    #[arg(long = "module", value_name = "HOST/NAME=PATH")]
    pub modules: Vec<ModuleOverride>,
    /// What foreign modules are known to do wrong, a TOML file: counted in the report instead of ending the run.
    #[arg(long, value_name = "FILE.toml")]
    pub suppress: Option<PathBuf>,
    /// Where the objects are; those of `make modules` if not said.
    #[arg(long, value_name = "DIR")]
    pub proto: Option<PathBuf>,
    /// Use the objects of `make coverage` and write which of the driver's lines were run.
    #[arg(long, value_name = "DIR")]
    pub coverage: Option<PathBuf>,
    /// Seed of schedule, faults and payload, instead of the scenario's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write what was found as JSON.
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,
    /// Keep the capture of the fabric: pcap that tshark and Wireshark read.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
}

impl RunArgs {
    /// Whether all threads run on the wall clock: asked for, or because a real subnet manager does.
    pub fn live(&self) -> bool {
        self.live || self.sm == SmKind::Opensm
    }

    /// Where the objects are.
    pub fn proto(&self) -> PathBuf {
        let default = if self.coverage.is_some() { COUNTING } else { SHIPPED };
        self.proto.clone().unwrap_or_else(|| default.into())
    }
}
