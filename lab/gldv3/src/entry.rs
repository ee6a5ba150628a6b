//! How a driver is called to send, for threads that belong to no machine.

use std::ffi::c_void;

use fakekernel::Module;
use illumos_sys_hdrs::mblk_t;

/// `mri_tx` of a ring, or `mc_tx`, with the driver's argument.
#[derive(Clone, Debug)]
pub struct SendEntry {
    /// Whose function it is.
    pub module: Module,
    pub(crate) function: unsafe extern "C" fn(*mut c_void, *mut mblk_t) -> *mut mblk_t,
    pub(crate) argument: usize,
}

impl SendEntry {
    /// Whether a call of either comes to the same ring, or link.
    pub fn is_same(&self, other: &Self) -> bool {
        self.module == other.module && self.argument == other.argument
    }

    /// The driver's argument.
    pub fn argument(&self) -> usize {
        self.argument
    }

    /// Calls it as it is: nothing is checked or counted. What the driver hands back.
    ///
    /// # Safety
    ///
    /// The link is started and stays so. The message is the caller's own, one packet. What the driver calls meanwhile may be called on
    /// this thread.
    pub unsafe fn call(&self, message: *mut mblk_t) -> *mut mblk_t {
        // SAFETY: the driver's function with the argument that it gave for it, by this function's contract.
        unsafe { (self.function)(std::ptr::with_exposed_provenance_mut(self.argument), message) }
    }
}
