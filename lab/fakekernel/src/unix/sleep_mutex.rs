//! A lock of lab code that may be held across waits and calls into modules.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use sim::race::{self, Key};
use sim::{ClassKey, Held, HeldKind, HostMutex, WaitQueue, current};

use crate::loader::cx::cx;
use crate::unix::sync;

/// A sleeping lock (the MAC perimeter, an IBTF handle lock ...). It takes part in the lock-order graph (rule 34) under its name,
/// is shown in hang reports, and does not count as a driver mutex for rules 3, 4 and 36. Not recursive: locking it twice is a hang.
pub struct SleepMutex<T: ?Sized> {
    name: &'static str,
    /// `t_did` of the owner, 0 if free.
    owner: HostMutex<u64>,
    queue: WaitQueue,
    value: UnsafeCell<T>,
}

/// A held [`SleepMutex`]; stays on its thread.
pub struct SleepGuard<'a, T: ?Sized> {
    lock: &'a SleepMutex<T>,
    _not_send: PhantomData<*const ()>,
}

// SAFETY: the value is reached through a guard alone, and one thread at a time has one.
unsafe impl<T: ?Sized + Send> Sync for SleepMutex<T> {}

impl<T> SleepMutex<T> {
    /// `name` is the lock's class: every lock of one name is one node of the lock-order graph.
    pub const fn new(name: &'static str, value: T) -> Self {
        let queue = WaitQueue::new(name);
        Self { name, owner: HostMutex::new(0), queue, value: UnsafeCell::new(value) }
    }
}

impl<T: ?Sized> SleepMutex<T> {
    /// Waits for the lock. U and K context only.
    pub fn lock(&self) -> SleepGuard<'_, T> {
        let cx = cx();
        let me = cx.thread().0.did;
        let class = cx.thread().machine().0.order.lock().class(ClassKey::Lab(self.name));
        if cx.thread().machine().config().checks {
            sync::check_order(&cx, class, self.addr(), self.name);
        }
        let mut owner = self.owner.lock();
        while *owner != 0 {
            owner = self.queue.wait(owner);
        }
        *owner = me;
        drop(owner);
        self.hold(class)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<SleepGuard<'_, T>> {
        let me = current::thread();
        let class = me.machine.0.order.lock().class(ClassKey::Lab(self.name));
        let mut owner = self.owner.lock();
        if *owner != 0 {
            return None;
        }
        *owner = me.did;
        drop(owner);
        Some(self.hold(class))
    }

    /// Does the calling thread hold it?
    pub fn is_mine(&self) -> bool {
        current::try_thread().is_some_and(|me| *self.owner.lock() == me.did)
    }

    fn hold(&self, class: u32) -> SleepGuard<'_, T> {
        race::acquire(Key("lab lock", self.addr() as u64));
        let held = Held { addr: self.addr(), kind: HeldKind::Lab(self.name), class, pc: 0 };
        current::thread().local().held.push(held);
        SleepGuard { lock: self, _not_send: PhantomData }
    }

    fn addr(&self) -> usize {
        (&raw const self.owner).addr()
    }
}

impl<T: ?Sized> Drop for SleepGuard<'_, T> {
    fn drop(&mut self) {
        let addr = self.lock.addr();
        race::release(Key("lab lock", addr as u64));
        if let Some(me) = current::try_thread() {
            let mut local = me.local();
            if let Some(index) = local.held.iter().rposition(|h| h.addr == addr) {
                local.held.remove(index);
            }
        }
        *self.lock.owner.lock() = 0;
        self.lock.queue.wake_one();
    }
}

impl<T: ?Sized> Deref for SleepGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for SleepGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists and is borrowed uniquely, so nobody else reaches the value.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> fmt::Debug for SleepMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SleepMutex({})", self.name)
    }
}

impl<T: ?Sized> fmt::Debug for SleepGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SleepGuard({})", self.lock.name)
    }
}
