//! [`Pin`]: what keeps a module's text from being unloaded.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Pins that keep `_fini` from succeeding.
static PINS: AtomicUsize = AtomicUsize::new(0);
/// Pins of registrations that `_init` has made: they go with the module's state, which goes after `mod_remove`.
static OF_STATE: AtomicUsize = AtomicUsize::new(0);
/// Whether the module's state is being made.
static IN_INIT: AtomicBool = AtomicBool::new(false);

/// While one exists, `_fini` answers `EBUSY`.
///
/// For everything that will call into the module at a time of its own choosing: a message block lent to STREAMS, an
/// IBTF callback that nothing waits for, a registration that is not taken back, since safe code may forget it. Let go of it as the very
/// last thing: what is left of the callback then is its way back to the caller, a few instructions of this module that no count of
/// its own can cover. **Any** context.
#[derive(Debug)]
pub struct Pin(&'static AtomicUsize);

impl Pin {
    /// One more reason to stay loaded.
    pub fn new() -> Self {
        Self::counted_in(&PINS)
    }

    /// The same, for a value that takes a registration back when it is dropped. What `_init` makes goes with the module's state, after
    /// `mod_remove`; `_fini` does not fail because of it, and does not return before it has gone.
    pub fn of_registration() -> Self {
        Self::counted_in(if IN_INIT.load(Ordering::Relaxed) { &OF_STATE } else { &PINS })
    }

    fn counted_in(count: &'static AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Default for Pin {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Whatever the callback did to the module's data happens before the unload.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// How many pins there are now that keep `_fini` from succeeding.
pub fn pins() -> usize {
    PINS.load(Ordering::Acquire)
}

/// Whether something will still call into the module, its state included.
pub(super) fn is_pinned() -> bool {
    pins() != 0 || OF_STATE.load(Ordering::Acquire) != 0
}

/// Runs `make`, which makes the module's state.
pub(super) fn in_init<R>(make: impl FnOnce() -> R) -> R {
    IN_INIT.store(true, Ordering::Relaxed);
    let made = make();
    IN_INIT.store(false, Ordering::Relaxed);
    made
}
