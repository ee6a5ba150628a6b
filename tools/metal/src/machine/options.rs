//! What a person says about the machine, on every command that boots one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::archive::Identity;
use super::{Machine, Setup, agent, count};

/// Every kernel's /etc/system.
///
/// Not to follow the clock chip: a machine that waits for processors of its host finds the chip two seconds away, and turns its time
/// back a little with every tick. When ticks that were late then come at once, the nanoseconds of `hrestime` become negative, and
/// `pc_gethrestime`, which takes them for a huge number, counts them down for minutes at the clock's interrupt level.
///
/// Not to suspend the serial lines: the agent speaks over one of them, and `asy` of 2024 asserts that it holds a lock which its suspend has just
/// dropped. A kernel without DEBUG says that it does not know the variable, and suspends nothing.
const SYSTEM: &str = "set kmem_flags=0xf\nset dosynctodr=0\nset asy:asy_nosuspend=1\n";

/// Whose driver it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The modules of this workspace.
    #[default]
    Rust,
    /// The gate's own, as a control.
    C,
}

/// Which machine is booted.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The root file system of a kernel, as `metal build` leaves it.
    #[arg(long, value_name = "DIR", default_value = "target/metal/debug/root")]
    pub root: PathBuf,
    /// The modules under test: a directory with kernel/drv and kernel/mac.
    #[arg(long, value_name = "DIR", default_value = "proto")]
    pub modules: PathBuf,
    /// Another InfiniBand adapter than swhca: a directory that is laid over the root.
    #[arg(long, value_name = "DIR", env = "METAL_ADAPTER")]
    pub adapter: Option<PathBuf>,
    /// Whose driver: ours, or the gate's as a control.
    #[arg(long, value_enum, default_value_t)]
    pub driver: Driver,
    /// Which driver attaches to the adapter's ports.
    #[arg(long, value_enum, default_value_t)]
    pub identity: Identity,
    /// Processors of the machine.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub cpus: u32,
    /// A line for /etc/system, besides those that every kernel gets; may be repeated.
    #[arg(long, value_name = "LINE")]
    pub system: Vec<String>,
    /// Where console, archive and report go.
    #[arg(long, value_name = "DIR", default_value = "target/metal/run")]
    pub work: PathBuf,
}

impl Options {
    /// Builds the agent and boots.
    ///
    /// # Errors
    ///
    /// What is missing, or why the kernel does not come up.
    pub fn boot(&self) -> Result<Machine> {
        Machine::boot(&self.setup()?)
    }

    /// Builds the agent and boots a machine that differs, with its files in a place of its own.
    ///
    /// # Errors
    ///
    /// As [`Options::boot`].
    pub fn boot_another(&self, name: &str, change: impl FnOnce(&mut Setup)) -> Result<Machine> {
        let mut setup = Setup { work: self.work.join(name), ..self.setup()? };
        change(&mut setup);
        Machine::boot(&setup)
    }

    /// What `swhca.conf` says, as it ships.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn adapter_conf(&self) -> Result<String> {
        let file = self.modules.join("kernel/drv/swhca.conf");
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// Builds the agent and boots a machine whose instructions are counted; the file with the counts.
    ///
    /// # Errors
    ///
    /// As [`Options::boot`]; or the plugin that counts cannot be compiled.
    pub fn boot_counted(&self) -> Result<(Machine, PathBuf)> {
        std::fs::create_dir_all(&self.work).with_context(|| self.work.display().to_string())?;
        let work = self.work.canonicalize()?;
        let (plugin, counts) = (count::build(workspace(), &work)?, work.join("counts"));
        let setup = Setup { counts: Some((plugin, counts.clone())), ..self.setup()? };
        Ok((Machine::boot(&setup)?, counts))
    }

    fn setup(&self) -> Result<Setup> {
        let there = |dir: &Path, how: &str| {
            dir.canonicalize().with_context(|| format!("no modules in {}: {how}", dir.display()))
        };
        let mut overlays = vec![there(&self.modules, "make modules")?];
        let mut without = Vec::new();
        if self.driver == Driver::C {
            // Over ours, of which the adapter stays.
            overlays.push(there(&self.root.with_file_name("driver-c"), "metal build makes the gate's own")?);
        }
        if let Some(adapter) = &self.adapter {
            overlays.push(
                adapter.canonicalize().with_context(|| format!("no adapter in {}", adapter.display()))?,
            );
            without.extend(["kernel/drv/amd64/swhca", "kernel/drv/swhca.conf"]);
        }
        let mut system = String::from(SYSTEM);
        for line in &self.system {
            system.push_str(line);
            system.push('\n');
        }
        Ok(Setup {
            root: self.root.clone(),
            overlays,
            without,
            agent: agent::build(workspace())?,
            identity: self.identity,
            cpus: self.cpus,
            system,
            work: self.work.clone(),
            files: Vec::new(),
            counts: None,
        })
    }
}

/// The workspace this tool was built from.
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
