//! [`UdDest`]: an address handle with queue pair number and Q_Key (`ibt_ud_dest_hdl_t`).

use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::{KBox, Vacant};

use crate::address::AddressVector;
use crate::lock_free_stack::Entry;
use crate::pd::{Pd, ToFree};
use crate::status::Status;

/// Where a datagram goes, and whatever its owner knows `about` that. Share it as a `KArc<UdDest<A>>`: a send queue keeps one until the
/// last send by it has completed.
///
/// Dropping it is legal in **any** context; [`Pd::free_unused`] frees the handle.
pub struct UdDest<A = ()> {
    handle: sys::ibt_ud_dest_hdl_t,
    about: A,
    /// `None` only while dropping.
    to_free: Option<KBox<Entry<ToFree>>>,
    pd: Pd,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl<A: Send> Send for UdDest<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for UdDest<A> {}

impl<A> UdDest<A> {
    /// Allocates a handle, which leads nowhere until it is [set](UdDest::modify). **May block.**
    pub fn new(pd: &Pd, about: A) -> Result<Self, Status> {
        let room = Vacant::new()?;
        let mut handle = ptr::null_mut();
        // SAFETY: adapter and protection domain belong together.
        Status::check(unsafe {
            sys::ibt_alloc_ud_dest(pd.hca().handle(), sys::IBT_UD_DEST_NO_FLAGS, pd.handle(), &mut handle)
        })?;
        Ok(Self { handle, about, to_free: Some(room.fill(Entry::new(ToFree(handle)))), pd: pd.clone() })
    }

    /// Sets where it leads, for what is posted from now on (`ibt_modify_ud_dest`). `qpn` has 24 bits; a `qkey` with bit 31 means
    /// the sender's own. `STATIC_RATE_INVALID` if the adapter does not know the rate's code. On an error nothing changes.
    /// **Any** context.
    pub fn modify(&mut self, qpn: u32, qkey: u32, to: &AddressVector) -> Result<(), Status> {
        let mut vector = to.raw();
        // SAFETY: allocated; `&mut self` keeps posts of it away.
        Status::check(unsafe { sys::ibt_modify_ud_dest(self.handle(), qkey, qpn, &mut vector) })
    }

    /// What its owner knows.
    pub fn about(&self) -> &A {
        &self.about
    }

    /// Whether it was made in this protection domain.
    #[inline(always)]
    pub(crate) fn is_in(&self, pd: &Pd) -> bool {
        self.pd.is(pd)
    }

    pub(crate) fn handle(&self) -> sys::ibt_ud_dest_hdl_t {
        self.handle
    }
}

impl<A> Drop for UdDest<A> {
    fn drop(&mut self) {
        if let Some(to_free) = self.to_free.take() {
            self.pd.free_later(to_free);
        }
    }
}
