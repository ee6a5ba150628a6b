//! One-shot timers (`timeout(9F)`).

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

use crate::KArc;
use crate::mem::AllocError;
use crate::sync::Mutex;
use crate::time::Duration;

/// What happens when a [`Timeout`] fires.
pub trait Expire: Send + Sync + 'static {
    /// Runs on a callout thread under the rules of a soft interrupt: short, and blocking on short locks only.
    fn expire(&self);
}

/// A timer that fires once each time it is armed.
///
/// Arming is legal in **any** context. Cancelling, arming again and dropping wait for a handler that is running, so
/// never with a lock held that the handler takes.
pub struct Timeout<E: Expire> {
    pending: Mutex<Callout>,
    target: KArc<E>,
}

/// An id of `timeout(9F)`: a number in a pointer's clothes. Null is none.
struct Callout(sys::timeout_id_t);

// SAFETY: the id is never dereferenced, and any thread may cancel it.
unsafe impl Send for Callout {}

impl<E: Expire> Timeout<E> {
    /// A timer at rest.
    pub fn new(target: KArc<E>) -> Result<Self, AllocError> {
        Ok(Self { pending: Mutex::new(Callout(core::ptr::null_mut()))?, target })
    }

    /// Fires after at least `delay`, instead of whenever it was armed for before.
    pub fn arm(&self, delay: Duration) {
        self.cancel();
        let ticks = delay.ticks_rounded_up().max(1);
        let target = KArc::as_ptr(&self.target).as_ptr().cast();
        let mut pending = self.pending.lock();
        if pending.0.is_null() {
            // SAFETY: `self.target` keeps the argument alive; drop cancels before it lets go of it.
            pending.0 = unsafe { sys::timeout(Some(expire::<E>), target, ticks) };
        }
    }

    /// Makes sure that the timer will not fire. On return no handler is running.
    pub fn cancel(&self) {
        let id = core::mem::replace(&mut self.pending.lock().0, core::ptr::null_mut());
        if !id.is_null() {
            // SAFETY: the id is from `timeout`, taken once; the lock is not held.
            unsafe { sys::untimeout(id) };
        }
    }
}

impl<E: Expire> Drop for Timeout<E> {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// # Safety
///
/// `target` is the address in a `KArc<E>` of a timer that is alive when the handler begins.
unsafe extern "C" fn expire<E: Expire>(target: *mut c_void) {
    let Some(target) = NonNull::new(target.cast::<E>()) else { return };
    // The handler may drop the timer, and with it the last other reference.
    // SAFETY: by this function's contract the timer has a reference now; it is not taken away from it.
    let held = KArc::clone(&*ManuallyDrop::new(unsafe { KArc::from_raw(target) }));
    held.expire();
}
