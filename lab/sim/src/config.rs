//! What a machine is made of.

use std::collections::BTreeMap;

use crate::nanos::Nanos;
use crate::strategy::Strategy;
use crate::suppress::Suppressions;

/// How threads and the clock run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One thread at a time, next one chosen by the seed, virtual clock. The same seed gives the same run.
    Virtual {
        /// Chooses interleavings, spurious wake-ups and injected faults.
        seed: u64,
    },
    /// All threads in parallel on the wall clock.
    Live,
}

/// What a thread of a virtual machine is to the workstation. The same seed gives the same run with either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A coroutine: all threads share one operating-system thread.
    Coroutine,
    /// An operating-system thread, so that a debugger sees each: also where `fakekernel::debugger::tell_of` was called.
    OsThread,
}

/// Settings of one machine. `Config::default()` is virtual with seed 0 and every check on.
#[derive(Clone, Debug)]
pub struct Config {
    /// Virtual or live.
    pub mode: Mode,
    /// Virtual mode: what threads are.
    pub carrier: Carrier,
    /// Known violations that are counted instead of halting.
    pub suppress: Suppressions,
    /// Enforce the rules and keep the books they need. Off: neither, for measuring.
    pub checks: bool,
    /// Processors each host believes to have, at least 1: soft interrupts coalesce per processor.
    pub cpus: u32,
    /// Virtual mode: how the next thread to run is chosen.
    pub strategy: Strategy,
    /// Virtual mode: at one in this many scheduling points the seed may hand the baton on. 1 tries at every one, 0 at none.
    pub switch_one_in: u32,
    /// Virtual mode: one in this many of those times the thread that runs is taken off its processor for a while, whatever it is
    /// doing and whatever locks it holds. 0 is never.
    pub preempt_one_in: u32,
    /// The longest such while.
    pub preempt_at_most: Nanos,
    /// One allocation in this many ends where a page ends, with nothing readable behind it, and cannot be read once it is freed
    /// (rule 16). 0 is none.
    pub wall_one_in: u32,
    /// Virtual mode: one in this many waits on a condition variable ends without a signal (rule 11). 0 is never.
    pub spurious_one_in: u32,
    /// Virtual mode: what one kernel call costs on the clock. Non-zero, so that who polls sees time pass.
    pub call_cost: Nanos,
    /// Virtual mode: work takes as long as it takes on this machine, and only waiting is skipped.
    pub real_work: bool,
    /// Virtual mode: a run whose clock passes this halts.
    pub time_limit: Nanos,
    /// A module that takes so much processor time, neither calling nor being entered meanwhile, halts the machine; 0: none does. It
    /// is measured by looking thirty times: a good module is never found so, however slow the workstation.
    pub processor_limit: Nanos,
    /// Which fault points fail, and how often.
    pub faults: Faults,
    /// Every DTrace probe of every module is enabled (`fakekernel::Machine::probe_hits`).
    pub probes: bool,
    /// What frameworks and drivers ask of one another is written down (`fakekernel::Machine::journal`).
    pub journal: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Virtual { seed: 0 },
            carrier: Carrier::Coroutine,
            suppress: Suppressions::default(),
            checks: true,
            cpus: 2,
            strategy: Strategy::Random,
            switch_one_in: 32,
            preempt_one_in: 0,
            preempt_at_most: Nanos::from_millis(100),
            wall_one_in: 32,
            spurious_one_in: 16,
            call_cost: Nanos(100),
            real_work: false,
            time_limit: Nanos::from_secs(6 * 3600),
            processor_limit: Nanos::from_secs(30),
            faults: Faults::default(),
            probes: false,
            journal: false,
        }
    }
}

impl Config {
    /// The default with another seed.
    pub fn seeded(seed: u64) -> Self {
        Self { mode: Mode::Virtual { seed }, ..Self::default() }
    }

    /// For measuring: no checks, one thread at a time until it waits, and a clock that shows the work done and skips every wait.
    /// What a fault shows, and nothing else, is still found.
    pub fn timed(seed: u64) -> Self {
        Self {
            checks: false,
            switch_one_in: 0,
            spurious_one_in: 0,
            call_cost: Nanos(0),
            real_work: true,
            ..Self::seeded(seed)
        }
    }

    /// Wall clock, all threads in parallel.
    pub fn live() -> Self {
        Self { mode: Mode::Live, ..Self::default() }
    }
}

/// Something that can fail in a real system, by name. Crates add their own: `FaultKind("ibt_alloc_cq")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultKind(pub &'static str);

impl FaultKind {
    /// `kmem_alloc`, `kmem_zalloc`, `kmem_cache_alloc` with `KM_NOSLEEP`.
    pub const KMEM: Self = Self("kmem");
    /// `allocb` and what is built on it.
    pub const ALLOCB: Self = Self("allocb");
    /// `desballoc`, `esballoc`.
    pub const DESBALLOC: Self = Self("desballoc");
    /// `dupb`, `dupmsg`.
    pub const DUPB: Self = Self("dupb");
    /// `taskq_dispatch` and `ddi_taskq_dispatch` that may not sleep.
    pub const TASKQ: Self = Self("taskq");
    /// `ddi_soft_state_zalloc`, `ddi_add_softintr` and other attach-time services that report failure.
    pub const DDI: Self = Self("ddi");

    /// Those of this crate.
    pub const KERNEL: [Self; 6] =
        [Self::KMEM, Self::ALLOCB, Self::DESBALLOC, Self::DUPB, Self::TASKQ, Self::DDI];
    /// Kinds that fail for want of kernel memory, and do not wait for it.
    pub const MEMORY: [Self; 5] = [Self::KMEM, Self::ALLOCB, Self::DESBALLOC, Self::DUPB, Self::TASKQ];
}

/// How often a fault point fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultPlan {
    /// Never.
    #[default]
    Never,
    /// One in `n` times, by the seed. 0 is never, 1 is always.
    OneIn(u32),
    /// Exactly the `n`th time (from 0) counted over the whole machine, once.
    Nth(u64),
    /// From the `n`th time (from 0) on.
    From(u64),
    /// From the `first` time (from 0) on, so many times.
    Some {
        /// Calls that succeed first.
        first: u64,
        /// Calls that fail then.
        times: u64,
    },
}

/// The plan for each kind of fault.
#[derive(Clone, Debug, Default)]
pub struct Faults(pub BTreeMap<FaultKind, FaultPlan>);
