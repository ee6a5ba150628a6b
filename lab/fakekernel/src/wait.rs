//! The one way to wait, in both modes.

use crate::host_mutex::HostGuard;
use crate::nanos::Nanos;

/// Threads waiting for something. Waiters leave in the order they came.
///
/// The pattern is that of a condition variable with a [`crate::HostMutex`]: look at the state under the lock, wait with the guard,
/// look again. There are no spurious wake-ups, but the state may have changed between the wake-up and the return.
#[derive(Debug)]
pub struct WaitQueue {
    name: &'static str,
}

impl WaitQueue {
    /// `name` says in a hang report what is waited for.
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// Releases the lock, waits for a wake-up, takes the lock again.
    pub fn wait<'a, T>(&self, guard: HostGuard<'a, T>) -> HostGuard<'a, T> {
        let _ = (self.name, guard);
        unimplemented!()
    }

    /// As [`wait`](Self::wait) until `deadline` at most; false if the deadline passed first.
    pub fn wait_until<'a, T>(&self, guard: HostGuard<'a, T>, deadline: Nanos) -> (HostGuard<'a, T>, bool) {
        let _ = (self.name, guard, deadline);
        unimplemented!()
    }

    /// Wakes the first waiter; false if there is none. Any thread may call it, also one outside the machine.
    pub fn wake_one(&self) -> bool {
        unimplemented!()
    }

    /// Wakes every waiter; how many.
    pub fn wake_all(&self) -> usize {
        unimplemented!()
    }
}
