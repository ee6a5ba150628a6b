//! The way up: open from start to stop, whatever queue pairs come and go in between. Once it is shut nobody is on it any more.

use kernel::sync::Monitor;
use kernel::{AllocError, KArc};

/// Whether packets may go up, and how many threads are taking some.
pub(crate) struct Upward {
    open: bool,
    inside: u32,
}

impl Upward {
    /// Shut.
    pub(crate) fn new() -> Result<KArc<Monitor<Self>>, AllocError> {
        KArc::new(Monitor::new(Self { open: false, inside: 0 })?)
    }
}

/// The link is started. **Any** context.
pub(crate) fn open(upward: &Monitor<Upward>) {
    upward.lock().open = true;
}

/// The link is stopped: when this returns nobody hands packets up. **May block**, as long as IP holds the thread that does.
pub(crate) fn shut(upward: &Monitor<Upward>) {
    let mut state = upward.lock();
    state.open = false;
    while state.inside > 0 {
        state.wait();
    }
}

/// Somebody hands packets up, until this is dropped.
pub(crate) struct Inside<'a>(&'a Monitor<Upward>);

/// `None` while it is shut. **Any** context.
pub(crate) fn enter(upward: &Monitor<Upward>) -> Option<Inside<'_>> {
    let mut state = upward.lock();
    if !state.open {
        return None;
    }
    state.inside += 1;
    Some(Inside(upward))
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.inside -= 1;
        let last = state.inside == 0;
        drop(state);
        if last {
            self.0.notify_all();
        }
    }
}
