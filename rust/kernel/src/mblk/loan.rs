//! Lending a driver's buffer to STREAMS (`desballoc(9F)`).
//!
//! The free routine runs inside whoever drops the last reference: on any thread, in any context up to `LOCK_LEVEL`,
//! with locks held that nobody here knows, perhaps long after the link was stopped. So a loan holds a reference to
//! the pool the buffer belongs to, which has a [`Pin`] on the module for as long as it lives ([`Home`]), and what it calls may do
//! nothing but put the buffer back.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ops::Deref;
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

use super::Mblk;
use crate::KArc;
use crate::module::Pin;

/// What buffers are lent from, and what keeps the module loaded until the last of them is back.
pub struct Home<H> {
    value: H,
    pin: Pin,
}

impl<H> Home<H> {
    /// With a pin on the module.
    pub fn new(value: H) -> Self {
        Self { value, pin: Pin::new() }
    }

    /// One loan is over. If it was the last that anybody had of this, the pin goes behind everything else.
    fn leave(home: KArc<Self>) {
        if let Some(Self { value, pin }) = KArc::into_inner(home) {
            drop(value);
            drop(pin);
        }
    }
}

impl<H> Deref for Home<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.value
    }
}

/// Where lent buffers come home to.
pub trait LoanHome: Send + Sync + 'static {
    /// Buffer `index` is the pool's again. **Any** context: must not block on anything but short locks, must not call
    /// up, and must not look at the message it was part of.
    fn returned(&self, index: u32);
}

/// The record STREAMS calls back through: one per buffer, at a fixed address for as long as the buffer is lent.
///
/// # Invariants
///
/// While lent, `loan` is `Some` and the record is touched by the free routine only.
pub struct LoanSlot<H> {
    routine: UnsafeCell<sys::frtn_t>,
    loan: UnsafeCell<Option<Loan<H>>>,
}

struct Loan<H> {
    home: KArc<Home<H>>,
    index: u32,
}

// SAFETY: a slot is used by the buffer's owner, then by the one free routine; ownership of the buffer passes between.
unsafe impl<H: Send + Sync> Send for LoanSlot<H> {}
// SAFETY: as above.
unsafe impl<H: Send + Sync> Sync for LoanSlot<H> {}

impl<H: LoanHome> LoanSlot<H> {
    /// A slot whose buffer is at home.
    pub const fn new() -> Self {
        let routine = sys::frtn_t { free_func: None, free_arg: core::ptr::null_mut() };
        Self { routine: UnsafeCell::new(routine), loan: UnsafeCell::new(None) }
    }

    /// Makes a message of the `len` bytes at `start`. When it is freed, `home.returned(index)` is called.
    ///
    /// On failure nothing is lent, `returned` is not called, and `home` comes back. `b_rptr` is at `start`, `b_wptr` `len` behind it, and
    /// the message has no headroom or tailroom.
    ///
    /// # Safety
    ///
    /// * The bytes are initialised, and nobody (the adapter included) writes or reads them until `returned`.
    /// * They and this slot stay where they are as long as `home` lives.
    /// * The slot belongs to this buffer, which is not lent now.
    pub unsafe fn lend(
        &self,
        home: KArc<Home<H>>,
        index: u32,
        start: NonNull<u8>,
        len: usize,
    ) -> Result<Mblk, KArc<Home<H>>> {
        let routine = self.routine.get();
        // SAFETY: the prototype leaves the argument list open; STREAMS passes `free_arg` as the only argument.
        let free =
            unsafe { core::mem::transmute::<unsafe extern "C" fn(*mut c_void), FreeFunc>(come_home::<H>) };
        // SAFETY: not lent, so the slot is the caller's.
        unsafe {
            routine.write(sys::frtn_t { free_func: free, free_arg: (&raw const *self).cast_mut().cast() })
        };
        // SAFETY: the buffer is the caller's to lend, the routine stays until it is called, by this contract.
        let raw = unsafe { sys::desballoc(start.as_ptr(), len, sys::BPRI_HI as sys::uint_t, routine) };
        let Some(mp) = NonNull::new(raw) else { return Err(home) };
        // SAFETY: a fresh message whose buffer is `len` bytes long, all of them initialised.
        unsafe { super::block::move_write(mp, len) };
        // SAFETY: a fresh message of one block.
        let Some(message) = (unsafe { Mblk::from_raw(raw) }) else { return Err(home) };
        // SAFETY: the slot is still the caller's: nobody has the message yet who could free it.
        unsafe { *self.loan.get() = Some(Loan { home, index }) };
        Ok(message)
    }
}

impl<H: LoanHome> Default for LoanSlot<H> {
    fn default() -> Self {
        Self::new()
    }
}

type FreeFunc = Option<unsafe extern "C" fn()>;

/// # Safety
///
/// Called by STREAMS, once per loan, with the slot that was lent.
unsafe extern "C" fn come_home<H: LoanHome>(slot: *mut c_void) {
    // SAFETY: the home, which `loan` keeps alive, keeps the slot in place.
    let slot = unsafe { &*slot.cast::<LoanSlot<H>>() };
    // SAFETY: while lent the slot is this routine's alone.
    let loan = unsafe { &mut *slot.loan.get() }.take();
    if let Some(Loan { home, index }) = loan {
        home.returned(index);
        // `home` may be what keeps `slot` alive: neither is used after this.
        Home::leave(home);
    }
}
