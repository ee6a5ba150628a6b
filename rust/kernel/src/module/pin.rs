//! [`Pin`]: what keeps a module's text from being unloaded.

use core::sync::atomic::{AtomicUsize, Ordering};

static PINS: AtomicUsize = AtomicUsize::new(0);

/// While one exists, `_fini` answers `EBUSY`.
///
/// For everything that will call into the module at a time of its own choosing: a message block lent to STREAMS, an
/// IBTF callback that nothing waits for. Let go of it as the very last thing: what is left of the callback then is its way back to
/// the caller, a few instructions of this module that no count of its own can cover. **Any** context.
#[derive(Debug)]
pub struct Pin(());

impl Pin {
    /// One more reason to stay loaded.
    pub fn new() -> Self {
        PINS.fetch_add(1, Ordering::Relaxed);
        Self(())
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
        PINS.fetch_sub(1, Ordering::Release);
    }
}

/// How many pins there are now.
pub fn pins() -> usize {
    PINS.load(Ordering::Acquire)
}
