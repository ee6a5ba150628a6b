//! [`Srq`]: a receive queue that many connections share.

use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use illumos_sys_hdrs as sys;
use kernel::{AllocError, KArc, KBox};

use crate::adapter_owned::{AdapterOwned, Keep};
use crate::event::SrqId;
use crate::pd::Pd;
use crate::receive::{ReceiveQueue, Target};
use crate::refused::told;
use crate::status::Status;

/// A shared receive queue. Cheap to clone; the last clone frees it (**may block**): a channel that takes from it keeps one, and so does a
/// [`ReceiveQueue`] that posts to it. Free it with [`Srq::free`]: what an adapter refuses to free can be used again then.
#[derive(Clone)]
pub struct Srq(KArc<Inner>);

struct Inner {
    handle: sys::ibt_srq_hdl_t,
    /// Receives that it holds.
    size: u32,
    /// There is no queue any more, or nothing in it that the adapter can use.
    freed: AtomicBool,
    /// What the adapter may still be writing to; in front of `pd`, which keeps the adapter that this is given back to.
    adapter_owned: AdapterOwned,
    pd: Pd,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Srq {
    /// Makes one for at least so many receives of one piece each (`ibt_alloc_srq`). `NOT_SUPPORTED` or `HCA_SRQ_NOT_SUPPORTED` if the
    /// adapter has none. **May block.**
    pub fn new(pd: &Pd, receives: u32) -> Result<Self, Status> {
        let adapter_owned = AdapterOwned::new()?;
        let mut sizes = sys::ibt_srq_sizes_t { srq_wr_sz: receives, srq_sgl_sz: 1 };
        let (mut handle, mut real) = (ptr::null_mut(), sys::ibt_srq_sizes_t::default());
        // SAFETY: all objects belong to one adapter, as was checked, and are kept by the queue.
        Status::check(unsafe {
            sys::ibt_alloc_srq(
                pd.hca().handle(),
                sys::IBT_SRQ_NO_FLAGS,
                pd.handle(),
                &mut sizes,
                &mut handle,
                &mut real,
            )
        })?;
        let size = receives.min(real.srq_wr_sz);
        let inner = Inner { handle, size, freed: AtomicBool::new(false), adapter_owned, pd: pd.clone() };
        // If this fails the value is dropped, which frees again.
        Ok(Self(KArc::new(inner)?))
    }

    /// Which one it is.
    pub fn id(&self) -> SrqId {
        SrqId(self.0.handle.addr())
    }

    /// Receives that it holds.
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// Its protection domain.
    pub fn pd(&self) -> &Pd {
        &self.0.pd
    }

    /// Frees it. `queues` are all that post to it: there is no other clone, or it comes back (`SRQ_IN_USE`). Their buffers come home when
    /// they are dropped. It also comes back if the adapter refuses, with that status: then it can be used as before, and so can `queues`.
    /// `hermon` and `tavor` refuse for each one that a channel has ever taken from: `hermon_qp_free` compares the wrong flag, and never counts
    /// the channel off. **May block.**
    pub fn free<'a>(
        self,
        queues: impl Iterator<Item = &'a mut ReceiveQueue<Self>>,
    ) -> Result<(), (Self, Status)> {
        let posts = queues.filter(|queue| queue.posts_to(&self)).count();
        if KArc::count(&self.0) != 1 + posts {
            return Err((self, Status::SRQ_IN_USE));
        }
        // SAFETY: allocated; only this value and the queues borrowed here have it, so nothing is posted.
        match Status::check(unsafe { sys::ibt_free_srq(self.handle()) }) {
            Ok(()) => {
                self.0.freed.store(true, Ordering::Release);
                Ok(())
            }
            Err(status) => Err((self, status)),
        }
    }

    /// Leaves it, with its protection domain and the client that opened the adapter, to an adapter that refuses to free it. The memory that was posted to it
    /// must have been [taken away](crate::BufferPool::take_away), and its queues dropped: otherwise the memory stays, and the module with it. **May block.**
    pub fn leave(self) {
        if self.0.adapter_owned.is_out_of_reach() {
            self.0.freed.store(true, Ordering::Release);
            self.0.pd.hca().client().leave();
        }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        KArc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn handle(&self) -> sys::ibt_srq_hdl_t {
        self.0.handle
    }
}

/// In front of each message there is room for what a datagram has there, a GRH.
impl Target for Srq {
    const HEADROOM: u32 = 40;

    fn pd(&self) -> &Pd {
        &self.0.pd
    }

    fn capacity(&self) -> u32 {
        self.0.size
    }

    fn promise(&self) -> Result<(), AllocError> {
        self.0.adapter_owned.promise()
    }

    fn keep_nothing(&self) {
        self.0.adapter_owned.keep_nothing();
    }

    fn keep_until_freed(&self, what: KBox<dyn Keep>) {
        self.0.adapter_owned.keep(what);
    }

    fn post(&self, requests: &mut [sys::ibt_recv_wr_t], posted: &mut u32) -> sys::ibt_status_t {
        if self.0.freed.load(Ordering::Acquire) {
            return sys::IBT_SRQ_HDL_INVALID;
        }
        // SAFETY: the requests are copied by the call; their buffers are the adapter's until they complete or the queue is freed.
        unsafe { sys::ibt_post_srq(self.handle(), requests.as_mut_ptr(), requests.len() as u32, posted) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.freed.get_mut() {
            return;
        }
        // SAFETY: allocated; every channel that takes from it kept a clone, so none is left, and nobody posts any more.
        let freed = Status::check(unsafe { sys::ibt_free_srq(self.handle) });
        if told("shared receive queue", freed).is_err() {
            self.adapter_owned.forget_all();
        }
    }
}
