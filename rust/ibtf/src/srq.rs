//! [`Srq`]: a receive queue that many connections share.

use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::{AllocError, KArc, KBox};

use crate::adapter_owned::{AdapterOwned, Keep};
use crate::cq::Cq;
use crate::event::SrqId;
use crate::pd::Pd;
use crate::receive::Target;
use crate::status::Status;

/// A shared receive queue, and the CQ on which every channel that takes from it completes its receives. Cheap to clone; the last clone
/// frees it (**may block**): a channel that takes from it keeps one.
#[derive(Clone)]
pub struct Srq(KArc<Inner>);

struct Inner {
    handle: sys::ibt_srq_hdl_t,
    /// Receives that it holds, and its CQ.
    size: u32,
    /// What the adapter may still be writing to; in front of `pd`, which keeps the adapter that this is given back to.
    adapter_owned: AdapterOwned,
    receive_cq: Cq,
    pd: Pd,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Srq {
    /// Makes one for at least so many receives of one piece each (`ibt_alloc_srq`). `NOT_SUPPORTED` or `HCA_SRQ_NOT_SUPPORTED` if the
    /// adapter has none, `INVALID_PARAM` for objects of two adapters. **May block.**
    pub fn new(pd: &Pd, receive_cq: &Cq, receives: u32) -> Result<Self, Status> {
        pd.hca().check(receive_cq.hca())?;
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
        let size = receives.min(real.srq_wr_sz).min(receive_cq.size());
        let inner = Inner { handle, size, adapter_owned, receive_cq: receive_cq.clone(), pd: pd.clone() };
        // If this fails the value is dropped, which frees again.
        Ok(Self(KArc::new(inner)?))
    }

    /// Which one it is.
    pub fn id(&self) -> SrqId {
        SrqId(self.0.handle.addr())
    }

    /// The CQ its receives complete on.
    pub fn receive_cq(&self) -> &Cq {
        &self.0.receive_cq
    }

    /// Receives that it holds, and its CQ.
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// Its protection domain.
    pub fn pd(&self) -> &Pd {
        &self.0.pd
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
        // SAFETY: the requests are copied by the call; their buffers are the adapter's until they complete or the queue is freed.
        unsafe { sys::ibt_post_srq(self.handle(), requests.as_mut_ptr(), requests.len() as u32, posted) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: allocated; every channel that takes from it kept a clone, so none is left, and nobody posts any more.
        if Status::check(unsafe { sys::ibt_free_srq(self.handle) }).is_err() {
            self.adapter_owned.forget_all();
        }
    }
}
