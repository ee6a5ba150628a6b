//! [`Monitor`]: a mutex with the one condition variable that belongs to it.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use illumos_sys_hdrs as sys;

use super::raw::RawLock;
use crate::boxed::Vacant;
use crate::may_block::MayBlock;
use crate::mem::AllocError;
use crate::time::Instant;

/// A mutex around a `T` that threads can wait in.
///
/// The kernel forbids waiting on one condition variable with two different locks; here the two are one object, so it
/// cannot be written. Waking is legal in **any** context, waiting **may block**.
pub struct Monitor<T>(RawLock<T>);

impl<T> Monitor<T> {
    /// A free monitor around `value`. Never sleeps.
    pub fn new(value: T) -> Result<Self, AllocError> {
        RawLock::new(value).map(Self)
    }

    /// The same; waits for memory. **May block.**
    pub fn new_waiting(value: T, may_block: &MayBlock) -> Self {
        Self(RawLock::fill(Vacant::new_waiting(may_block), value))
    }

    /// Waits for the lock. Taking it twice on one thread is a kernel panic.
    pub fn lock(&self) -> MonitorGuard<'_, T> {
        self.0.enter();
        MonitorGuard { lock: &self.0, not_send: PhantomData }
    }

    /// Wakes one waiter. **Any** context, with or without the lock.
    pub fn notify_one(&self) {
        // SAFETY: the condition variable is initialised as long as `self` lives.
        unsafe { sys::cv_signal(self.0.cv_ptr()) };
    }

    /// Wakes every waiter. **Any** context, with or without the lock.
    pub fn notify_all(&self) {
        // SAFETY: as in `notify_one`.
        unsafe { sys::cv_broadcast(self.0.cv_ptr()) };
    }

    /// The value without locking: `&mut self` proves that nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Destroys the monitor and keeps the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    pub(crate) fn lock_ptr(&self) -> *mut sys::kmutex_t {
        self.0.lock_ptr()
    }
}

impl<T> fmt::Debug for Monitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Monitor")
    }
}

/// The right to touch the value and to wait, until dropped.
#[must_use]
pub struct MonitorGuard<'a, T> {
    lock: &'a RawLock<T>,
    not_send: PhantomData<*mut ()>,
}

// SAFETY: sharing the guard shares `&T` only.
unsafe impl<T: Sync> Sync for MonitorGuard<'_, T> {}

impl<T> MonitorGuard<'_, T> {
    pub(crate) fn is_of(&self, monitor: &Monitor<T>) -> bool {
        core::ptr::eq(self.lock, &monitor.0)
    }

    /// Releases the lock, sleeps until woken, takes it again. Wakes for no reason, too: call in a loop.
    ///
    /// **May block.**
    pub fn wait(&mut self) {
        // SAFETY: this thread owns the lock, and `&mut self` proves that no reference to the value is alive while
        // others change it.
        unsafe { sys::cv_wait(self.lock.cv_ptr(), self.lock.lock_ptr()) };
    }

    /// As [`MonitorGuard::wait`], until `deadline` at the latest. `false` if the deadline passed without a wake-up.
    ///
    /// The clock tick (10 ms) is the resolution; the wait never ends before the deadline. **May block.**
    pub fn wait_until(&mut self, deadline: Instant) -> bool {
        let ticks = deadline.saturating_since(Instant::now()).ticks_rounded_up();
        if ticks == 0 {
            return false;
        }
        // SAFETY: reads a clock.
        let now = unsafe { sys::ddi_get_lbolt() };
        // The tick that is running now is not a whole one.
        let until = now.saturating_add(ticks).saturating_add(1);
        // SAFETY: as in `wait`.
        unsafe { sys::cv_timedwait(self.lock.cv_ptr(), self.lock.lock_ptr(), until) != -1 }
    }
}

impl<T> Deref for MonitorGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value_ptr() }
    }
}

impl<T> DerefMut for MonitorGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and `&mut self` makes this the only reference.
        unsafe { &mut *self.lock.value_ptr() }
    }
}

impl<T> Drop for MonitorGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: guards are made by the thread that took the lock, are not `Send`, and this one ends here.
        unsafe { self.lock.exit() };
    }
}
