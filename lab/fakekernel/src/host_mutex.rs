//! The lab's own leaf locks.

use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::thread;

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// How long a thread of a stopped machine waits for a lock whose holder may have been abandoned.
const STOPPED_PATIENCE: Duration = Duration::from_millis(200);

/// A short lock of lab code: never held across a call into a module, a wait or any other scheduling point. A scheduling
/// point with one held aborts the process, so a forgotten guard is found in the first run.
///
/// Use it for state that threads of a host share; use [`crate::SleepMutex`] for what must be held longer.
#[derive(Default)]
pub struct HostMutex<T: ?Sized> {
    inner: Mutex<T>,
}

/// A held [`HostMutex`].
pub struct HostGuard<'a, T: ?Sized> {
    lock: &'a HostMutex<T>,
    guard: MutexGuard<'a, T>,
    _count: Counted,
}

/// One unit of the thread's count of held leaf locks.
struct Counted;

impl Counted {
    fn new() -> Self {
        HELD.set(HELD.get() + 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

impl<T> HostMutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { inner: Mutex::new(value) }
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> HostMutex<T> {
    /// Takes the lock. Not a scheduling point.
    pub fn lock(&self) -> HostGuard<'_, T> {
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.lock_contended(),
        };
        HostGuard { lock: self, guard, _count: Counted::new() }
    }

    #[cold]
    #[expect(clippy::disallowed_methods, reason = "a machine that has stopped has no time of its own")]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        let mut stopped_since = None;
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if thread::machine_stopped() => {
                    let since = *stopped_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > STOPPED_PATIENCE {
                        thread::abandon_here();
                    }
                    std::thread::yield_now();
                }
                // The holder is running and will not wait, so this is short.
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }
}

impl<'a, T: ?Sized> HostGuard<'a, T> {
    /// The lock this guards.
    pub fn mutex(&self) -> &'a HostMutex<T> {
        self.lock
    }
}

impl<T: ?Sized> Deref for HostGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for HostGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for HostMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Aborts if this thread holds a leaf lock.
pub(crate) fn assert_none_held(at: &str) {
    if HELD.get() != 0 {
        let trace = std::backtrace::Backtrace::force_capture();
        let held = HELD.get();
        abort_saying(&format!("{at} is a scheduling point, reached with {held} HostMutex held\n{trace}"));
    }
}

/// Ends the process for a mistake of lab code. Past `eprintln`, whose output a test harness keeps to itself and then loses.
pub(crate) fn abort_saying(what: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "fakekernel: {what}");
    std::process::abort()
}

/// Forgets the guards of frames that were abandoned.
pub(crate) fn forget_held() {
    HELD.set(0);
}
