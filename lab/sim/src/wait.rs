//! The one way to wait, in both modes.

use std::collections::VecDeque;
use std::sync::Arc;

use lab_lock::{Mutex, MutexGuard};

use crate::current;
use crate::host_mutex::HostGuard;
use crate::nanos::Nanos;
use crate::race;
use crate::sched::Wake;
use crate::thread::ThreadInner;

/// Threads waiting for something. Waiters leave in the order they came.
///
/// The pattern is that of a condition variable with a [`crate::HostMutex`]: look at the state under the lock, wait with the guard,
/// look again. There are no spurious wake-ups, but the state may have changed between the wake-up and the return.
pub struct WaitQueue {
    name: &'static str,
    waiters: Mutex<VecDeque<Waiter>>,
}

struct Waiter {
    thread: Arc<ThreadInner>,
    seq: u64,
}

impl Waiter {
    /// False if its wait is over already.
    fn wake(&self) -> bool {
        let woken = self.thread.machine.0.wake(&self.thread, self.seq);
        if woken {
            race::wake(&self.thread);
        }
        woken
    }
}

// A panic ends the machine; what is looked at afterwards is for a report.
impl std::panic::RefUnwindSafe for WaitQueue {}

impl WaitQueue {
    /// `name` says in a hang report what is waited for.
    pub const fn new(name: &'static str) -> Self {
        Self { name, waiters: Mutex::const_new(lock_api::RawMutex::INIT, VecDeque::new()) }
    }

    /// Releases the lock, waits for a wake-up, takes the lock again.
    pub fn wait<'a, T: ?Sized>(&self, guard: HostGuard<'a, T>) -> HostGuard<'a, T> {
        self.wait_until(guard, Nanos::NEVER).0
    }

    /// As [`wait`](Self::wait) until `deadline` at most; false if the deadline passed first.
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: HostGuard<'a, T>,
        deadline: Nanos,
    ) -> (HostGuard<'a, T>, bool) {
        let mutex = guard.mutex();
        self.enter(0);
        drop(guard);
        let woken = self.sleep(deadline) == Wake::Signal;
        (mutex.lock(), woken)
    }

    /// Puts the calling thread on the queue: a wake-up from now on ends the coming [`sleep`](Self::sleep).
    pub fn enter(&self, addr: usize) {
        let thread = current::thread();
        let seq = thread.prepare(self.name, addr);
        self.waiters().push_back(Waiter { thread, seq });
    }

    /// Waits, after [`enter`](Self::enter).
    pub fn sleep(&self, deadline: Nanos) -> Wake {
        let thread = current::thread();
        let wake = thread.block(deadline);
        if wake == Wake::Deadline {
            self.waiters().retain(|w| !Arc::ptr_eq(&w.thread, &thread));
        }
        wake
    }

    /// Wakes the first waiter; false if there is none. Any thread may call it, also one outside the machine.
    pub fn wake_one(&self) -> bool {
        loop {
            let Some(waiter) = self.waiters().pop_front() else { return false };
            if waiter.wake() {
                return true;
            }
        }
    }

    /// Wakes every waiter; how many.
    pub fn wake_all(&self) -> usize {
        let all = std::mem::take(&mut *self.waiters());
        all.into_iter().filter(Waiter::wake).count()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters().len()
    }

    /// Does nobody wait?
    pub fn is_empty(&self) -> bool {
        self.waiters().is_empty()
    }

    fn waiters(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        self.waiters.lock()
    }
}

impl std::fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WaitQueue({})", self.name)
    }
}
