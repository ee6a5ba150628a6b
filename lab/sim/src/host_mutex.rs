//! The lab's own leaf locks.

use std::fmt;
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use lab_lock::Word;

use crate::thread;

/// How long a thread of a stopped machine waits for a lock whose holder may have been abandoned.
const STOPPED_PATIENCE: Duration = Duration::from_millis(200);

/// A short lock of lab code: never held across a call into a module, a wait or any other scheduling point. A scheduling
/// point with one held aborts the process, so a forgotten guard is found in the first run.
///
/// Use it for state that threads of a host share; use `fakekernel::SleepMutex` for what must be held longer.
#[derive(Default)]
pub struct HostMutex<T: ?Sized> {
    inner: lock_api::Mutex<Leaf, T>,
}

/// A held [`HostMutex`].
pub struct HostGuard<'a, T: ?Sized> {
    lock: &'a HostMutex<T>,
    guard: lock_api::MutexGuard<'a, Leaf, T>,
}

/// A [`Word`] for which a thread of a stopped machine does not wait for ever.
#[derive(Default)]
struct Leaf(Word);

// SAFETY: it is the word's own, which is taken and given back as the trait wants it.
unsafe impl lock_api::RawMutex for Leaf {
    #[allow(clippy::declare_interior_mutable_const, reason = "as the trait has it")]
    const INIT: Self = Self(<Word as lock_api::RawMutex>::INIT);
    type GuardMarker = <Word as lock_api::RawMutex>::GuardMarker;

    #[inline]
    fn lock(&self) {
        if !self.0.take() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.take()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds this lock, which is the word.
        unsafe { lock_api::RawMutex::unlock(&self.0) };
    }
}

impl Leaf {
    #[cold]
    #[expect(clippy::disallowed_methods, reason = "a machine that has stopped has no time of its own")]
    fn lock_contended(&self) {
        let mut stopped_since = None;
        while !self.0.take() {
            if thread::machine_stopped() {
                let since = *stopped_since.get_or_insert_with(Instant::now);
                if since.elapsed() > STOPPED_PATIENCE {
                    thread::abandon_here();
                }
            }
            // The holder is running and will not wait, so this is short.
            std::thread::yield_now();
        }
    }
}

impl<T> HostMutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { inner: lock_api::Mutex::new(value) }
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> HostMutex<T> {
    /// Takes the lock. Not a scheduling point.
    #[inline]
    pub fn lock(&self) -> HostGuard<'_, T> {
        HostGuard { lock: self, guard: self.inner.lock() }
    }
}

// A panic ends the machine; what is looked at afterwards is for a report.
impl<T: ?Sized> UnwindSafe for HostMutex<T> {}
impl<T: ?Sized> RefUnwindSafe for HostMutex<T> {}

impl<'a, T: ?Sized> HostGuard<'a, T> {
    /// The lock this guards.
    pub fn mutex(&self) -> &'a HostMutex<T> {
        self.lock
    }
}

impl<T: ?Sized> Deref for HostGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for HostGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for HostMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner.try_lock() {
            Some(value) => f.debug_tuple("HostMutex").field(&&*value).finish(),
            None => f.write_str("HostMutex(held)"),
        }
    }
}

/// Aborts if this thread holds a leaf lock.
pub fn assert_none_held(at: &str) {
    let held = lab_lock::held();
    if held != 0 {
        let trace = std::backtrace::Backtrace::force_capture();
        abort_saying(&format!("{at} is a scheduling point, reached with {held} HostMutex held\n{trace}"));
    }
}

/// Ends the process for a mistake of lab code. Past `eprintln`, whose output a test harness keeps to itself and then loses.
pub fn abort_saying(what: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "fakekernel: {what}");
    std::process::abort()
}

/// Forgets the guards of frames that were abandoned.
pub(crate) fn forget_held() {
    lab_lock::forget_held();
}
