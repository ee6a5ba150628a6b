//! Whose turn it is to change an adapter's ports and raise the events of it, or to detach it: one after the other, without a lock, since
//! `ibtl` is called meanwhile.

use kernel::sync::Monitor;
use kernel::{Errno, MayBlock};

/// The turns.
pub(crate) struct Changes(Monitor<State>);

struct State {
    taken: bool,
    /// The adapter has gone: there are no more.
    over: bool,
}

impl Changes {
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        Self(Monitor::new_waiting(State { taken: false, over: false }, may_block))
    }

    /// Waits for its turn, which lasts until what this returns is dropped. `ENXIO` if the adapter has gone. **May block**: as long as
    /// an adapter takes to detach; in none of the operations.
    pub(crate) fn begin(&self) -> Result<Turn<'_>, Errno> {
        let mut state = self.0.lock();
        while state.taken && !state.over {
            state.wait();
        }
        if state.over {
            return Err(Errno::ENXIO);
        }
        state.taken = true;
        Ok(Turn(self))
    }
}

/// Nobody else changes anything as long as this is there.
pub(crate) struct Turn<'a>(&'a Changes);

impl Turn<'_> {
    /// Nobody changes anything after this.
    pub(crate) fn end_all(self) {
        self.0.0.lock().over = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.0.lock().taken = false;
        self.0.0.notify_all();
    }
}
