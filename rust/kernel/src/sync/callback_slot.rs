//! [`CallbackSlot`]: calls from outside, and a moment after which there are none.

use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};
use core::ptr::{self, NonNull};

use crate::time::{Duration, sleep};

/// A place through which C calls into a `T` that may go away.
///
/// For callbacks that can come late: the place itself stays (a static, a slot that is never freed), and the `T` behind
/// it goes once [`CallbackSlot::quiesce`] has returned.
pub struct CallbackSlot<T> {
    target: AtomicPtr<T>,
    inside: AtomicUsize,
}

impl<T> CallbackSlot<T> {
    /// A shut one.
    pub const fn new() -> Self {
        Self { target: AtomicPtr::new(ptr::null_mut()), inside: AtomicUsize::new(0) }
    }

    /// Lets calls through to `target`; `false` if it is open already. **Any** context.
    ///
    /// # Safety
    ///
    /// `target` is alive until [`CallbackSlot::quiesce`] has returned, and every thread may use a `&T`.
    pub unsafe fn open(&self, target: NonNull<T>) -> bool {
        let (shut, target) = (ptr::null_mut(), target.as_ptr());
        self.target.compare_exchange(shut, target, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Runs `call` on the target; `None` if shut. **Any** context.
    pub fn call<R>(&self, call: impl FnOnce(&T) -> R) -> Option<R> {
        // Counted first, then looked: `shut` stores first, then counts, so one of the two sees the other.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let target = self.target.load(Ordering::SeqCst);
        // SAFETY: open's caller keeps the target until `shut` has seen nobody inside.
        let result = unsafe { target.as_ref() }.map(call);
        self.inside.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Lets no more calls through, and waits until none is inside. **May block**; never from such a call.
    pub fn quiesce(&self) {
        self.target.store(ptr::null_mut(), Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) != 0 {
            sleep(Duration::from_millis(10));
        }
    }
}

impl<T> Default for CallbackSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}
