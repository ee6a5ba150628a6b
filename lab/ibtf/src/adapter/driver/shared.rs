//! Shared receive queues.

use std::ptr;
use std::sync::{Arc, OnceLock};

use fabric::SrqSizes;
use fakekernel::{HostMutex, Rule};
use illumos_sys_hdrs::{
    IBT_SRQ_NO_FLAGS, IBT_SRQ_SET_LIMIT, ibc_pd_hdl_t, ibt_recv_wr_t, ibt_srq_modify_flags_t, ibt_srq_sizes_t,
};

use super::{Answer, Driver, Srq, answer, down};
use crate::ibtl::{Opaque, SelfHandle};

impl Driver {
    pub(crate) fn alloc_srq(&self, pd: Opaque, sizes: SrqSizes) -> Answer<Arc<Srq>> {
        let srq = Arc::new(Srq {
            handle: OnceLock::new(),
            token: SelfHandle::default(),
            sizes: OnceLock::new(),
            receives: HostMutex::default(),
            armed: HostMutex::new(false),
            owner: OnceLock::new(),
        });
        let token = self.srqs.insert_arc(srq.clone());
        srq.token.set(token);
        let mut wanted = ibt_srq_sizes_t { srq_wr_sz: sizes.wrs, srq_sgl_sz: sizes.sgl };
        let (mut handle, mut real) = (ptr::null_mut(), ibt_srq_sizes_t::default());
        let made = answer(down!(
            self,
            ibc_alloc_srq(
                IBT_SRQ_NO_FLAGS,
                token.cast(),
                pd.get().cast(),
                &raw mut wanted,
                &raw mut handle,
                &raw mut real
            )
        ));
        if let Err(status) = made {
            let _ = self.srqs.remove(token);
            return Err(status);
        }
        let real = SrqSizes { wrs: real.srq_wr_sz, sgl: real.srq_sgl_sz };
        if real.wrs < sizes.wrs || real.sgl < sizes.sgl {
            self.blame(Rule::AbsurdArgument, format!("ibc_alloc_srq made {real:?} of {sizes:?}"));
        }
        let (_, _) = (srq.handle.set(Opaque::of(handle)), srq.sizes.set(real));
        self.gave("ibc_srq_hdl_t", srq.handle());
        let (kept, said, limit) = self.query_srq(&srq)?;
        if (kept, said, limit) != (pd, real, 0) {
            self.blame(Rule::AbsurdArgument, format!("a new shared receive queue says {said:?}, {limit}"));
        }
        Ok(srq)
    }

    pub(crate) fn free_srq(&self, srq: &Srq) -> Answer<()> {
        let handle = srq.handle();
        self.give_back("ibc_srq_hdl_t", handle, || answer(down!(self, ibc_free_srq(handle.get().cast()))))?;
        let _ = self.srqs.remove(srq.token.get::<()>());
        Ok(())
    }

    /// Its protection domain, its sizes, and the limit that it is armed with.
    pub(crate) fn query_srq(&self, srq: &Srq) -> Answer<(Opaque, SrqSizes, u32)> {
        let mut pd: ibc_pd_hdl_t = ptr::null_mut();
        let (mut sizes, mut limit) = (ibt_srq_sizes_t::default(), 0);
        let handle = srq.handle().get().cast();
        answer(down!(self, ibc_query_srq(handle, &raw mut pd, &raw mut sizes, &raw mut limit)))?;
        Ok((Opaque::of(pd), SrqSizes { wrs: sizes.srq_wr_sz, sgl: sizes.srq_sgl_sz }, limit))
    }

    /// How many receives it has then.
    pub(crate) fn modify_srq(
        &self,
        srq: &Srq,
        flags: ibt_srq_modify_flags_t,
        size: u32,
        limit: u32,
    ) -> Answer<u32> {
        let arms = flags.0 & IBT_SRQ_SET_LIMIT.0 != 0 && limit > 0;
        let before = std::mem::replace(&mut *srq.armed.lock(), arms);
        let mut real = 0;
        let handle = srq.handle().get().cast();
        answer(down!(self, ibc_modify_srq(handle, flags, size, limit, &raw mut real)))
            .inspect_err(|_| *srq.armed.lock() = before)?;
        Ok(real)
    }

    /// Posts receives, and how many the driver took. Any context.
    ///
    /// # Safety
    ///
    /// The requests' lists are there.
    pub(crate) unsafe fn post_srq(&self, srq: &Srq, mut requests: Vec<ibt_recv_wr_t>) -> (u32, Answer<()>) {
        let noted: Vec<(u64, bool)> = requests.iter().map(|wr| (wr.wr_id, true)).collect();
        super::post::note(&srq.receives, &noted);
        let (count, mut taken) = (requests.len() as u32, 0);
        let handle = srq.handle().get().cast();
        let status = down!(self, ibc_post_srq(handle, requests.as_mut_ptr(), count, &raw mut taken));
        self.taken(&srq.receives, &noted, taken);
        (taken.min(count), answer(status))
    }
}

impl Srq {
    /// Whom it tells that receives run out. Once, before it is armed.
    pub(crate) fn set_owner(&self, owner: impl Fn() + Send + Sync + 'static) {
        let _ = self.owner.set(Box::new(owner));
    }

    /// The driver says that they do; false if nobody has asked.
    pub(super) fn runs_out(&self) -> bool {
        if !std::mem::take(&mut *self.armed.lock()) {
            return false;
        }
        if let Some(owner) = self.owner.get() {
            owner();
        }
        true
    }
}
