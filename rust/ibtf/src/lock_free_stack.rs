//! [`LockFreeStack`]: any thread adds to it in any context, and one takes all of it.

use core::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, Ordering};
use kernel::KBox;

/// Values, the one added last on top. They are pushed one by one and taken as a whole, so that no thread ever looks behind the top
/// while another one may take it away.
pub(crate) struct LockFreeStack<T> {
    top: AtomicPtr<Entry<T>>,
}

/// A value, and the memory that adding it takes, set aside before: adding cannot fail.
pub(crate) struct Entry<T> {
    value: T,
    below: *mut Self,
}

// SAFETY: `below` is used by whoever owns the entry alone.
unsafe impl<T: Send> Send for Entry<T> {}
// SAFETY: a shared entry gives nothing out.
unsafe impl<T: Send> Sync for Entry<T> {}

impl<T> Entry<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, below: ptr::null_mut() }
    }
}

impl<T> LockFreeStack<T> {
    pub(crate) fn new() -> Self {
        Self { top: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds a value. **Any** context.
    pub(crate) fn push(&self, entry: KBox<Entry<T>>) {
        let entry = entry.into_raw().as_ptr();
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: not published yet.
            unsafe { (*entry).below = top };
            match self.top.compare_exchange_weak(top, entry, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes all of them, the one added last first.
    pub(crate) fn take(&self) -> Taken<T> {
        Taken(self.top.swap(ptr::null_mut(), Ordering::Acquire))
    }
}

impl<T> Drop for LockFreeStack<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// What was taken from a [`LockFreeStack`].
pub(crate) struct Taken<T>(*mut Entry<T>);

impl<T> Iterator for Taken<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let entry = NonNull::new(self.0)?;
        // SAFETY: pushed by `LockFreeStack::push`, taken by this thread alone.
        let Entry { value, below } = unsafe { KBox::from_raw(entry) }.into_inner();
        self.0 = below;
        Some(value)
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
