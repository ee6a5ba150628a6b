//! Whether what was told of an address still holds: said in a place that the table and whoever sends share, so that nobody has to be told
//! and no lock is taken to look.
//!
//! Only the table changes it, under its lock. No operation here has an order of its own, and none needs one: a flag that is set once is
//! seen by everybody to whom anything that came after is known, through whatever lock or message that came.

use crate::atomic::{AtomicBool, AtomicU64, Ordering};

/// A part of every handle ([`Handle`](super::Handle)).
#[derive(Debug)]
pub struct Validity {
    withdrawn: AtomicBool,
    used: AtomicBool,
}

impl Validity {
    /// Of a handle that holds.
    pub const fn new() -> Self {
        Self { withdrawn: AtomicBool::new(false), used: AtomicBool::new(false) }
    }

    /// Whether packets may go by the handle. Once they may not, they never may again: whoever remembers the handle forgets it and asks
    /// the table.
    pub fn holds(&self) -> bool {
        !self.withdrawn.load(Ordering::Relaxed)
    }

    /// A packet goes by the handle. Written only if it has to be, as many queues share the handle.
    pub fn note_use(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// The table does not stand for the handle any more.
    pub(crate) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Relaxed);
    }

    /// Whether the handle was used since this was last asked.
    pub(crate) fn take_use(&self) -> bool {
        self.used.load(Ordering::Relaxed) && self.used.swap(false, Ordering::Relaxed)
    }
}

impl Default for Validity {
    fn default() -> Self {
        Self::new()
    }
}

/// How often an address that nothing was to go to has been given another chance early. Whoever remembers that nothing goes to an address
/// ([`Denial`](super::Denial)) remembers this, too, and asks the table again once it has changed.
#[derive(Debug)]
pub struct DenialEpoch(AtomicU64);

impl DenialEpoch {
    /// None so far.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Default for DenialEpoch {
    fn default() -> Self {
        Self::new()
    }
}
