//! [`Pd`]: a protection domain, and the address handles to be freed.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;
use kernel::{KArc, KBox};

use crate::hca::Hca;
use crate::status::Status;

/// A protection domain. Cheap to clone; the last clone frees it (**may block**).
///
/// Keep one until every [`UdDest`](crate::UdDest) and [`Buffer`](crate::Buffer) made in it is gone, so that the last
/// clone is not dropped where one of those is.
#[derive(Clone)]
pub struct Pd(KArc<Inner>);

struct Inner {
    handle: sys::ibt_pd_hdl_t,
    /// Address handles nobody uses any more: a stack that is pushed one by one and taken as a whole.
    graves: AtomicPtr<Grave>,
    hca: Hca,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// An address handle and the memory that will record its end, set aside when it was made.
pub(crate) struct Grave {
    pub(crate) dest: sys::ibt_ud_dest_hdl_t,
    next: *mut Grave,
}

impl Grave {
    pub(crate) fn new(dest: sys::ibt_ud_dest_hdl_t) -> Self {
        Self { dest, next: ptr::null_mut() }
    }
}

impl Pd {
    /// Allocates one (`ibt_alloc_pd`). **May block.**
    pub fn new(hca: &Hca) -> Result<Self, Status> {
        let mut handle = ptr::null_mut();
        // SAFETY: open.
        Status::check(unsafe { sys::ibt_alloc_pd(hca.handle(), sys::IBT_PD_NO_FLAGS, &mut handle) })?;
        let inner = Inner { handle, graves: AtomicPtr::new(ptr::null_mut()), hca: hca.clone() };
        // If this fails the value is dropped, which frees again.
        Ok(Self(KArc::new(inner)?))
    }

    /// Frees the address handles that were dropped since the last time; how many. From time to time, from a thread that
    /// **may block**.
    pub fn reap(&self) -> usize {
        self.0.reap()
    }

    /// The adapter.
    pub fn hca(&self) -> &Hca {
        &self.0.hca
    }

    /// How many clones there are at this moment, this one included; what was made of it has one each.
    pub fn clones(&self) -> usize {
        KArc::count(&self.0)
    }

    pub(crate) fn handle(&self) -> sys::ibt_pd_hdl_t {
        self.0.handle
    }

    /// Remembers an address handle to be freed. **Any** context.
    pub(crate) fn bury(&self, grave: KBox<Grave>) {
        let grave = grave.into_raw().as_ptr();
        let mut top = self.0.graves.load(Ordering::Relaxed);
        loop {
            // SAFETY: not published yet.
            unsafe { (*grave).next = top };
            match self.0.graves.compare_exchange_weak(top, grave, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

impl Inner {
    fn reap(&self) -> usize {
        let mut next = self.graves.swap(ptr::null_mut(), Ordering::Acquire);
        let mut freed = 0;
        while let Some(grave) = ptr::NonNull::new(next) {
            // SAFETY: pushed by `bury`, taken by this thread alone.
            let Grave { dest, next: following } = unsafe { KBox::from_raw(grave) }.into_inner();
            // SAFETY: nobody has the handle any more. That includes the adapter, which may read what is behind it until a send is
            // complete: a send queue keeps the `UdDest` of each send until then.
            let _ = unsafe { sys::ibt_free_ud_dest(dest) };
            next = following;
            freed += 1;
        }
        freed
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.reap();
        // SAFETY: everything made in it keeps a clone, so it is empty. A failure leaves it to the adapter's close.
        let _ = unsafe { sys::ibt_free_pd(self.hca.handle(), self.handle) };
    }
}
