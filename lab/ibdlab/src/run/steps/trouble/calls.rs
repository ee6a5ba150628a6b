//! Calls of a host that fail or take long for a time.

use anyhow::Result;
use fakekernel::{FaultKind, FaultPlan, Kernel, Nanos};

use super::subnet::Undo;
use crate::scenario::trouble::{AllocationFails, Delayed, MemoryShort};

/// What was planned of that, to be taken back.
#[derive(Default)]
pub struct Calls {
    failing: Vec<Failing>,
    /// Hosts whose adapters were made slow.
    slow: Vec<Kernel>,
    /// Hosts without memory, for all of their modules or for one.
    short: Vec<(Kernel, Option<String>)>,
}

/// Planned failures of a host's calls.
struct Failing {
    event: usize,
    kernel: Kernel,
    kind: FaultKind,
    module: Option<String>,
    /// Calls that succeed first.
    after: u64,
}

impl Calls {
    /// The event of this number; that of one whose plan this takes the place of, if that one came to nothing.
    pub fn fail(&mut self, event: usize, kernel: &Kernel, fails: &AllocationFails) -> Option<usize> {
        let (kind, module) = (fails.kind.kind(), fails.module.clone());
        let plan = FaultPlan::Some { first: fails.after, times: fails.times };
        let same = |f: &Failing| f.kernel.name() == kernel.name() && f.kind == kind && f.module == module;
        let before = self.failing.iter().position(same).map(|before| self.failing.remove(before));
        let in_vain = before.and_then(Failing::end);
        kernel.set_fault(kind, module.as_deref(), plan);
        self.failing.push(Failing { event, kernel: kernel.clone(), kind, module, after: fails.after });
        in_vain
    }

    /// What ends it, and after how long.
    pub fn slow(&mut self, kernel: &Kernel, slow: &Delayed) -> Result<Option<(Nanos, Undo)>> {
        let span = [slow.from_us, slow.to_us].map(Nanos::from_micros);
        lab_ibtf::set_command_time(kernel, Some((span[0], span[1])));
        self.slow.push(kernel.clone());
        Ok(Some((Nanos::from_millis(slow.for_ms), Undo::Commands(kernel.clone()))))
    }

    /// What ends it, and after how long.
    pub fn run_short(&mut self, kernel: &Kernel, short: &MemoryShort) -> (Nanos, Undo) {
        kernel.begin_memory_shortage(short.module.as_deref());
        self.short.push((kernel.clone(), short.module.clone()));
        (Nanos::from_millis(short.for_ms), Undo::Memory(kernel.clone(), short.module.clone()))
    }

    /// Ends a shortage once.
    pub fn end_short(&mut self, kernel: &Kernel, module: Option<&String>) {
        let is =
            |(of, only): &(Kernel, Option<String>)| of.name() == kernel.name() && only.as_ref() == module;
        if let Some(at) = self.short.iter().position(is) {
            self.short.swap_remove(at);
            kernel.end_memory_shortage(module.map(String::as_str));
        }
    }

    /// Takes all of it back; the events that came to nothing.
    pub fn heal(&mut self) -> Vec<usize> {
        for kernel in self.slow.drain(..) {
            lab_ibtf::set_command_time(&kernel, None);
        }
        for (kernel, module) in self.short.drain(..) {
            kernel.end_memory_shortage(module.as_deref());
        }
        std::mem::take(&mut self.failing).into_iter().filter_map(Failing::end).collect()
    }
}

impl Failing {
    /// Its event, if no call failed for it.
    fn end(self) -> Option<usize> {
        let calls = self.kernel.clear_fault(self.kind, self.module.as_deref());
        (calls.unwrap_or(0) <= self.after).then_some(self.event)
    }
}
