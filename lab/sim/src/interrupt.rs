//! Somebody outside wants the machines of this process to stop, and to say where they are.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// The next thread that passes a scheduling point halts its machine. Async-signal-safe; true if it was asked for before.
pub fn ask() -> bool {
    ASKED.swap(true, Ordering::Relaxed)
}

/// Whether it was asked for. Async-signal-safe.
#[inline]
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
