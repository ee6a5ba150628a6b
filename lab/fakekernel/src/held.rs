//! Which locks a thread holds, as far as reports and the rules about them go.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::host_mutex::HostMutex;
use crate::order::Class;

/// Lock addresses that a handler has been seen to take.
pub(crate) type SeenLocks = Arc<HostMutex<BTreeSet<usize>>>;

/// A lock a thread holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub addr: usize,
    pub kind: HeldKind,
    pub class: Class,
    /// Who took it; 0 for lab code.
    pub pc: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldKind {
    Adaptive,
    /// With the raised PIL to go back to.
    Spin {
        before: u8,
    },
    Reader,
    Writer,
    /// A [`crate::SleepMutex`] of that name.
    Lab(&'static str),
}

impl Held {
    /// A lock in module memory, as opposed to one of the lab.
    pub(crate) fn is_driver(&self) -> bool {
        !matches!(self.kind, HeldKind::Lab(_))
    }

    pub(crate) fn is_spin(&self) -> bool {
        matches!(self.kind, HeldKind::Spin { .. })
    }
}

/// The addresses of the module locks in a list, sorted.
pub(crate) fn driver_locks(held: &[Held]) -> Vec<usize> {
    let mut locks: Vec<usize> = held.iter().filter(|h| h.is_driver()).map(|h| h.addr).collect();
    locks.sort_unstable();
    locks
}
