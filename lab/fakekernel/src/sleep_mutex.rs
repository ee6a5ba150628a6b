//! A lock of lab code that may be held across waits and calls into modules.

use std::ops::{Deref, DerefMut};

/// A sleeping lock (the MAC perimeter, an IBTF handle lock ...). It takes part in the lock-order graph (rule 34) under its name,
/// is shown in hang reports, and does not count as a driver mutex for rules 3, 4 and 36. Not recursive: locking it twice is a hang.
#[derive(Debug)]
pub struct SleepMutex<T> {
    name: &'static str,
    value: std::cell::UnsafeCell<T>,
}

/// A held [`SleepMutex`]; stays on its thread.
#[derive(Debug)]
pub struct SleepGuard<'a, T> {
    lock: &'a SleepMutex<T>,
    _not_send: std::marker::PhantomData<*const ()>,
}

// SAFETY: the value is reached through a guard alone, and one thread at a time has one.
unsafe impl<T: Send> Sync for SleepMutex<T> {}

impl<T> SleepMutex<T> {
    /// `name` is the lock's class: every lock of one name is one node of the lock-order graph.
    pub const fn new(name: &'static str, value: T) -> Self {
        Self { name, value: std::cell::UnsafeCell::new(value) }
    }

    /// Waits for the lock. U and K context only.
    pub fn lock(&self) -> SleepGuard<'_, T> {
        unimplemented!("{}", self.name)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<SleepGuard<'_, T>> {
        unimplemented!()
    }

    /// Does the calling thread hold it?
    pub fn is_mine(&self) -> bool {
        unimplemented!()
    }
}

impl<T> Deref for SleepGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SleepGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists and is borrowed uniquely, so nobody else reaches the value.
        unsafe { &mut *self.lock.value.get() }
    }
}
