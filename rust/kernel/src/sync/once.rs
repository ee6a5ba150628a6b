//! [`Once`]: a static that is set once, before anybody can look.

use crate::atomic::{AtomicU8, Ordering};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

const EMPTY: u8 = 0;
const BUSY: u8 = 1;
const READY: u8 = 2;

/// A value for a `static`: empty when the module is loaded, set at most once, read without a lock.
///
/// A module's data is fresh at every load, so a `Once` is empty in every `_init`. It is never dropped: keep in it
/// what may be forgotten (numbers, names), and leave what owns something to the module's own state
/// ([`crate::module::Module`]), which is dropped at unload.
///
/// **Any** context.
pub struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by one thread (state BUSY) and only read after READY was seen; `T` must allow both.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets the value; hands it back if there is one already (or one is just being set).
    pub fn set(&self, value: T) -> Result<&T, T> {
        if self.state.compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(value);
        }
        // SAFETY: the exchange above lets one thread through, once, and readers wait for READY.
        let slot = unsafe { &mut *self.value.get() };
        let value = slot.write(value);
        self.state.store(READY, Ordering::Release);
        Ok(value)
    }

    /// The value, once set.
    pub fn get(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != READY {
            return None;
        }
        // SAFETY: nobody writes after READY.
        let slot = unsafe { &*self.value.get() };
        // SAFETY: READY is stored after the value.
        Some(unsafe { slot.assume_init_ref() })
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Once;

    #[test]
    fn first_value_stays() {
        let once = Once::new();
        assert_eq!(once.get(), None);
        assert_eq!(once.set(1), Ok(&1));
        assert_eq!(once.set(2), Err(2));
        assert_eq!(once.get(), Some(&1));
    }
}
