//! Which locks a thread holds, as far as reports and the rules about them go.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::host_mutex::HostMutex;
use crate::order::Class;

/// Lock addresses that a handler has been seen to take.
pub type SeenLocks = Arc<HostMutex<BTreeSet<usize>>>;

/// A lock a thread holds.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its address.
    pub addr: usize,
    /// What it is and how it is held.
    pub kind: HeldKind,
    /// Its node in the lock-order graph.
    pub class: Class,
    /// Who took it; 0 for lab code.
    pub pc: usize,
}

/// What a held lock is, and how it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldKind {
    /// A mutex whose waiters sleep.
    Adaptive,
    /// With the raised PIL to go back to.
    Spin {
        /// PIL, 0 for none.
        before: u8,
    },
    /// A readers/writer lock, to read.
    Reader,
    /// A readers/writer lock, to write.
    Writer,
    /// A `fakekernel::SleepMutex` of that name.
    Lab(&'static str),
}

impl Held {
    /// A lock in module memory, as opposed to one of the lab.
    pub fn is_driver(&self) -> bool {
        !matches!(self.kind, HeldKind::Lab(_))
    }

    /// A mutex whose waiters spin, at a raised PIL.
    pub fn is_spin(&self) -> bool {
        matches!(self.kind, HeldKind::Spin { .. })
    }
}

/// The addresses of the module locks in a list, sorted.
pub fn driver_locks(held: &[Held]) -> Vec<usize> {
    let mut locks: Vec<usize> = held.iter().filter(|h| h.is_driver()).map(|h| h.addr).collect();
    locks.sort_unstable();
    locks
}
