//! The perimeter of a mac: one thread at a time, which may enter again.

use std::sync::Arc;

use fakekernel::{SleepGuard, SleepMutex};

use super::Mac;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Perimeter {
    lock: SleepMutex<()>,
}

/// While it lives, the thread is inside; only the outermost entry holds the lock.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    _held: Option<SleepGuard<'a, ()>>,
}

/// A driver that is inside, until it says that it leaves (`mac_perim_exit`).
pub(crate) struct Entered {
    // In front of the mac it is in.
    _inside: Inside<'static>,
    _mac: Arc<Mac>,
}

impl Entered {
    /// Enters, waiting for another owner without end.
    pub(crate) fn new(mac: Arc<Mac>) -> Self {
        // SAFETY: the perimeter is the mac's, which is kept for as long.
        let perimeter = unsafe { &*std::ptr::from_ref(&mac.perimeter) };
        Self { _inside: perimeter.enter(), _mac: mac }
    }
}

impl Perimeter {
    pub(crate) fn new() -> Self {
        Self { lock: SleepMutex::new("mac perimeter", ()) }
    }

    /// Enters, waiting for another owner without end.
    pub(crate) fn enter(&self) -> Inside<'_> {
        Inside { _held: (!self.lock.is_mine()).then(|| self.lock.lock()) }
    }

    /// Enters unless anybody is inside, the caller included.
    pub(crate) fn enter_nowait(&self) -> Option<Inside<'_>> {
        if self.lock.is_mine() {
            return None;
        }
        self.lock.try_lock().map(|held| Inside { _held: Some(held) })
    }

    /// Is the calling thread inside?
    pub(crate) fn is_mine(&self) -> bool {
        self.lock.is_mine()
    }
}
