//! Soft interrupts (`ddi_add_softintr(9F)`): work that an interrupt puts off.

use core::ffi::{c_char, c_int};

use illumos_sys_hdrs as sys;

use crate::KArc;
use crate::ddi::DevInfo;
use crate::errno::Errno;
use crate::module::Pin;

/// What a [`SoftInterrupt`] runs.
pub trait SoftHandler: Send + Sync + 'static {
    /// Runs at PIL 4, on the processor that triggered it. Must not block on anything but short locks. Triggers on one
    /// processor coalesce into one run; triggers on two run this concurrently, so it must drain until nothing is left
    /// and serialise itself.
    fn run(&self);
}

/// A soft interrupt of medium priority.
pub struct SoftInterrupt<H: SoftHandler> {
    id: sys::ddi_softintr_t,
    handler: KArc<H>,
    _pin: Pin,
}

// SAFETY: the handle may be triggered from any thread, and H is Send + Sync.
unsafe impl<H: SoftHandler> Send for SoftInterrupt<H> {}
// SAFETY: as above.
unsafe impl<H: SoftHandler> Sync for SoftInterrupt<H> {}

impl<H: SoftHandler> SoftInterrupt<H> {
    /// Registers `handler`. **May block**; from attach.
    pub fn new(dip: DevInfo, handler: KArc<H>) -> Result<Self, Errno> {
        let mut id = core::ptr::null_mut();
        // SAFETY: `handler` is kept until the interrupt is removed; the cookies are not wanted.
        let result = unsafe {
            sys::ddi_add_softintr(
                dip.as_raw(),
                sys::DDI_SOFTINT_MED as c_int,
                &mut id,
                core::ptr::null_mut(),
                core::ptr::null_mut(),
                Some(run::<H>),
                KArc::as_ptr(&handler).as_ptr().cast(),
            )
        };
        if result == sys::DDI_SUCCESS as c_int {
            Ok(Self { id, handler, _pin: Pin::of_registration() })
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// Makes the handler run soon. **Any** context, high-level interrupts included.
    pub fn trigger(&self) {
        // SAFETY: the interrupt is registered as long as `self` lives.
        unsafe { sys::ddi_trigger_softintr(self.id) };
    }

    /// What runs.
    pub fn handler(&self) -> &KArc<H> {
        &self.handler
    }
}

impl<H: SoftHandler> Drop for SoftInterrupt<H> {
    /// Waits for a running handler: without any lock it takes, and never in it. **May block.**
    fn drop(&mut self) {
        // SAFETY: removed once; nobody can trigger it any more, `self` is going.
        unsafe { sys::ddi_remove_softintr(self.id) };
    }
}

/// # Safety
///
/// `handler` is the address of an `H` that lives until the interrupt is removed.
unsafe extern "C" fn run<H: SoftHandler>(handler: *mut c_char) -> sys::uint_t {
    // SAFETY: by this function's contract.
    unsafe { &*handler.cast::<H>() }.run();
    sys::DDI_INTR_CLAIMED as sys::uint_t
}
