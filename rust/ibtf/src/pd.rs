//! [`Pd`]: a protection domain, and the address handles to be freed.

use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::{KArc, KBox, MayBlock};

use crate::hca::Hca;
use crate::lock_free_stack::{Entry, LockFreeStack};
use crate::refused::told;
use crate::status::Status;

/// A protection domain. Cheap to clone; the last clone frees it (**may block**).
///
/// Keep one until every [`UdDest`](crate::UdDest) and [`Buffer`](crate::Buffer) made in it is gone, so that the last
/// clone is not dropped where one of those is.
#[derive(Clone)]
pub struct Pd(KArc<Inner>);

struct Inner {
    handle: sys::ibt_pd_hdl_t,
    /// Address handles nobody uses any more.
    to_free: LockFreeStack<ToFree>,
    hca: Hca,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// An address handle that nobody uses any more; the memory to record that is set aside when it is made.
pub(crate) struct ToFree(pub(crate) sys::ibt_ud_dest_hdl_t);

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for ToFree {}

impl Pd {
    /// Allocates one (`ibt_alloc_pd`). **May block.**
    pub fn new(hca: &Hca, may_block: &MayBlock) -> Result<Self, Status> {
        let mut handle = ptr::null_mut();
        // SAFETY: open.
        Status::check(unsafe { sys::ibt_alloc_pd(hca.handle(), sys::IBT_PD_NO_FLAGS, &mut handle) })?;
        let inner = Inner { handle, to_free: LockFreeStack::new(), hca: hca.clone() };
        Ok(Self(KArc::new_waiting(inner, may_block)))
    }

    /// Frees the address handles that were dropped since the last time; how many. From time to time, from a thread that
    /// **may block**.
    pub fn free_unused(&self) -> usize {
        self.0.free_unused()
    }

    /// The adapter.
    pub fn hca(&self) -> &Hca {
        &self.0.hca
    }

    /// How many clones there are at this moment, this one included; what was made of it has one each.
    pub fn clones(&self) -> usize {
        KArc::count(&self.0)
    }

    /// Whether that is a clone of this one.
    #[inline(always)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        KArc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn handle(&self) -> sys::ibt_pd_hdl_t {
        self.0.handle
    }

    /// Remembers an address handle to be freed. **Any** context.
    pub(crate) fn free_later(&self, to_free: KBox<Entry<ToFree>>) {
        self.0.to_free.push(to_free);
    }
}

impl Inner {
    fn free_unused(&self) -> usize {
        let free = |ToFree(dest)| {
            // SAFETY: nobody has the handle any more. That includes the adapter, which may read what is behind it until a send is
            // complete: a send queue keeps the `UdDest` of each send until then.
            let freed = Status::check(unsafe { sys::ibt_free_ud_dest(dest) });
            let _ = told("address handle", freed);
        };
        self.to_free.take().map(free).count()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.free_unused();
        // SAFETY: everything made in it keeps a clone, so it is empty.
        let freed = Status::check(unsafe { sys::ibt_free_pd(self.hca.handle(), self.handle) });
        // Something that was made in it could not be freed. The adapter's close fails for it, and keeps what has to stay.
        let _ = told("protection domain", freed);
    }
}
