//! [`Mutex`]: mutual exclusion and nothing else.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::raw::RawLock;
use crate::boxed::Vacant;
use crate::may_block::MayBlock;
use crate::mem::AllocError;

/// An adaptive mutex around a `T`. **Any** context.
pub struct Mutex<T>(RawLock<T>);

impl<T> Mutex<T> {
    /// A free lock around `value`. Never sleeps.
    pub fn new(value: T) -> Result<Self, AllocError> {
        RawLock::new(value).map(Self)
    }

    /// The same; waits for memory. **May block.**
    pub fn new_waiting(value: T, may_block: &MayBlock) -> Self {
        Self(RawLock::fill(Vacant::new_waiting(may_block), value))
    }

    /// Waits for the lock. Taking it twice on one thread is a kernel panic.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.enter();
        MutexGuard { lock: &self.0, not_send: PhantomData }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_enter().then(|| MutexGuard { lock: &self.0, not_send: PhantomData })
    }

    /// The value without locking: `&mut self` proves that nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Where the value is, for whoever reads a dump: nobody else may follow it.
    pub(crate) fn address(&self) -> *const T {
        self.0.value_ptr()
    }

    /// Destroys the lock and keeps the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

/// The right to touch the value, until dropped.
#[must_use]
pub struct MutexGuard<'a, T> {
    lock: &'a RawLock<T>,
    /// The owner is the thread that took the lock.
    not_send: PhantomData<*mut ()>,
}

// SAFETY: sharing the guard shares `&T` only.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value_ptr() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and `&mut self` makes this the only reference.
        unsafe { &mut *self.lock.value_ptr() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: guards are made by the thread that took the lock, are not `Send`, and this one ends here.
        unsafe { self.lock.exit() };
    }
}
