//! What a framework of the lab asked of a driver and the driver of it, in words, for whoever compares that with a kernel.
//!
//! Writing a line is no kernel call: a run with a journal is the run without.

use sim::Nanos;

use crate::loader::kernel::Kernel;
use crate::loader::kernels::Machine;

/// More lines are counted and not kept.
const MOST: usize = 1 << 20;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    /// When.
    pub at: Nanos,
    /// On which host.
    pub host: String,
    /// What happened.
    pub what: String,
}

#[derive(Default)]
pub(crate) struct Journal {
    lines: Vec<JournalLine>,
    lost: u64,
}

impl Machine {
    /// All lines, in order, and how many more were not kept.
    pub fn journal(&self) -> (Vec<JournalLine>, u64) {
        let journal = self.kernels().journal.lock();
        (journal.lines.clone(), journal.lost)
    }
}

impl Kernel {
    /// Writes a line, if there is a journal ([`crate::Config::journal`]).
    pub fn journal(&self, what: impl FnOnce() -> String) {
        let machine = self.machine();
        if !machine.0.config.journal {
            return;
        }
        let line = JournalLine { at: machine.now(), host: self.name().to_owned(), what: what() };
        let mut journal = machine.kernels().journal.lock();
        if journal.lines.len() < MOST {
            journal.lines.push(line);
        } else {
            journal.lost += 1;
        }
    }
}
