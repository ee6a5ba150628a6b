//! One run.

use std::ops::DerefMut;

use rand_chacha::ChaCha8Rng;

use crate::config::{Config, FaultKind, FaultPlan};
use crate::halt::Halt;
use crate::kernel::Kernel;
use crate::nanos::Nanos;
use crate::rule::Rule;

/// One run: hosts, threads, one clock, one seed. Cheap clone.
#[derive(Clone, Debug)]
pub struct Machine {}

/// A tolerated or suppressed case, and how often it came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The rule.
    pub rule: Rule,
    /// Module.
    pub module: String,
    /// Kernel function or entry point.
    pub call: String,
    /// Detail of the first case.
    pub detail: String,
    /// From [`crate::Suppressions`], or tolerated by the rule.
    pub suppressed: bool,
    /// How often.
    pub count: u64,
}

impl Machine {
    /// A machine without hosts.
    pub fn new(config: Config) -> Self {
        let _ = config;
        unimplemented!()
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        unimplemented!()
    }

    /// Adds a host. Before or during [`run`](Self::run).
    pub fn add_host(&self, name: &str) -> Kernel {
        let _ = name;
        unimplemented!()
    }

    /// Runs `main` as the first thread (user context, no host) until it returns or the machine halts. Then every other thread is ended
    /// and the hosts are taken apart. A panic of `main` or of another lab thread is continued here. Once per machine.
    pub fn run<R: Send + 'static>(&self, main: impl FnOnce() -> R + Send + 'static) -> Result<R, Halt> {
        let _ = main;
        unimplemented!()
    }

    /// Since boot.
    pub fn now(&self) -> Nanos {
        unimplemented!()
    }

    /// The machine's random numbers, by the seed. A leaf lock: drop it before any scheduling point.
    pub fn rng(&self) -> impl DerefMut<Target = ChaCha8Rng> {
        unimplemented!() as crate::host_mutex::HostGuard<'_, ChaCha8Rng>
    }

    /// A hash over (thread, import) of every kernel call so far: equal for two virtual runs of one seed.
    pub fn trace_hash(&self) -> u64 {
        unimplemented!()
    }

    /// Kernel calls so far.
    pub fn crossings(&self) -> u64 {
        unimplemented!()
    }

    /// Tolerated and suppressed cases, sorted.
    pub fn notes(&self) -> Vec<Note> {
        unimplemented!()
    }

    /// Changes one fault plan while running.
    pub fn set_fault(&self, kind: FaultKind, plan: FaultPlan) {
        let _ = (kind, plan);
        unimplemented!()
    }
}
