//! Calls of a driver into the kernel, by what they cost on a real machine.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bed::Subject;

/// Calls, or calls per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Calls {
    /// `mutex_enter` and its kin: each is a locked operation, and what is shared by all senders is what they wait for.
    pub locks: f64,
    /// `atomic_*`. What a module does with the processor's own instructions is no call.
    pub atomics: f64,
    /// `kmem_*`.
    pub memory: f64,
    /// `allocb`, `desballoc`, `freemsg` and the rest of STREAMS.
    pub messages: f64,
    /// `ddi_dma_*`, `ibt_map_mem_iov`.
    pub mappings: f64,
    /// `ibt_post_*`, `ibt_poll_cq`, `ibt_enable_cq_notify`: each rings a doorbell or reads the adapter's memory.
    pub adapter: f64,
    /// Copies, comparisons, lists, clocks, and the MAC layer.
    pub other: f64,
}

/// Every call so far, by name.
pub fn named(subject: &Subject) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for module in subject.host.kernel.modules() {
        for (name, count) in module.calls() {
            *calls.entry(name).or_default() += count;
        }
    }
    calls
}

impl Calls {
    /// So far.
    pub fn of(subject: &Subject) -> Self {
        Self::of_named(&named(subject))
    }

    /// What calls by name are.
    pub fn of_named(named: &BTreeMap<String, u64>) -> Self {
        let mut calls = Self::default();
        for (name, count) in named {
            *calls.place(name) += *count as f64;
        }
        calls
    }

    fn place(&mut self, name: &str) -> &mut f64 {
        const MESSAGES: [&str; 14] = [
            "allocb",
            "allocb_tmpl",
            "desballoc",
            "esballoc",
            "freeb",
            "freemsg",
            "freemsgchain",
            "dupb",
            "dupmsg",
            "copyb",
            "copymsg",
            "pullupmsg",
            "msgpullup",
            "msgdsize",
        ];
        const UNLOCKS: [&str; 4] = ["mutex_exit", "rw_exit", "mutex_owned", "sema_v"];
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if starts(&["mutex_enter", "mutex_tryenter", "rw_enter", "sema_p"]) {
            &mut self.locks
        } else if UNLOCKS.contains(&name) {
            &mut self.other
        } else if starts(&["atomic_"]) {
            &mut self.atomics
        } else if starts(&["kmem_"]) {
            &mut self.memory
        } else if MESSAGES.contains(&name) {
            &mut self.messages
        } else if starts(&["ddi_dma_", "ibt_map_mem", "ibt_unmap_mem"]) {
            &mut self.mappings
        } else if starts(&["ibt_post_", "ibt_poll_cq", "ibt_enable_cq_notify"]) {
            &mut self.adapter
        } else {
            &mut self.other
        }
    }

    fn each(self, with: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            locks: f(self.locks, with.locks),
            atomics: f(self.atomics, with.atomics),
            memory: f(self.memory, with.memory),
            messages: f(self.messages, with.messages),
            mappings: f(self.mappings, with.mappings),
            adapter: f(self.adapter, with.adapter),
            other: f(self.other, with.other),
        }
    }

    pub fn since(self, before: &Self) -> Self {
        self.each(*before, |now, before| now - before)
    }

    pub fn per(self, packets: u64) -> Self {
        self.each(self, |all, _| all / packets.max(1) as f64)
    }
}
