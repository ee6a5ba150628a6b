//! Interrupts, delivered between two calls of the driver on the same processor: a completion queue's handler, and then the soft interrupts
//! that it has triggered.

use std::ffi::c_void;

use fakekernel::SoftInterrupt;
use illumos_sys_hdrs::ibt_cq_hdl_t;

use crate::Fault;
use crate::processor::with;

/// What the adapter's interrupt calls.
#[derive(Clone, Copy)]
pub(crate) struct CqHandler {
    pub(crate) function: unsafe extern "C" fn(ibt_cq_hdl_t, *mut c_void),
    pub(crate) cq: usize,
    pub(crate) argument: usize,
}

/// The driver's soft interrupts, and which are pending: a bit each.
pub(crate) struct Interrupts {
    all: Vec<SoftInterrupt>,
    pending: u64,
}

impl Interrupts {
    pub(crate) fn new(all: Vec<SoftInterrupt>) -> Self {
        Self { all, pending: 0 }
    }

    /// One is triggered.
    pub(crate) fn trigger(&mut self, id: usize) -> Result<(), Fault> {
        let place = self.all.iter().position(|soft| soft.id == id).ok_or(Fault::Interrupt)?;
        self.pending |= 1 << place;
        Ok(())
    }

    /// The first that is pending, which it is no more.
    fn take(&mut self) -> Option<SoftInterrupt> {
        let soft = self.all.get(self.pending.trailing_zeros() as usize).copied()?;
        self.pending &= self.pending - 1;
        Some(soft)
    }
}

/// The adapter interrupts this processor.
///
/// # Safety
///
/// On a thread that has a [`Processor`](crate::processor::Processor), outside the driver. Handlers and arguments are those of a driver whose
/// link is started and stays so, and nobody else calls them.
pub(crate) unsafe fn interrupt(handler: CqHandler) {
    let [cq, argument] = [handler.cq, handler.argument].map(std::ptr::with_exposed_provenance_mut::<c_void>);
    // SAFETY: by this function's contract.
    unsafe { (handler.function)(cq.cast(), argument) };
    while let Some(soft) = with(|processor| processor.interrupts.take()) {
        // SAFETY: as above.
        unsafe { (soft.handler)(std::ptr::with_exposed_provenance_mut(soft.argument)) };
    }
}
