//! Completion queues.

use std::ptr;
use std::sync::{Arc, OnceLock};

use fabric::{CqNum, Moderation};
use fakekernel::{HostMutex, Rule};
use illumos_sys_hdrs::{IBT_CQ_HDL_INVALID, ibt_cq_attr_t, ibt_cq_notify_flags_t, ibt_wc_t};

use super::judge::CqCalls;
use super::{Answer, Cq, Driver, answer, down};
use crate::ibtl::{Opaque, SelfHandle};

/// `IBT_WC_SUCCESS`.
const SUCCESS: u8 = 0;

impl Driver {
    pub(crate) fn alloc_cq(&self, mut attr: ibt_cq_attr_t) -> Answer<Arc<Cq>> {
        let cq = Arc::new(Cq {
            num: CqNum(self.number()),
            handle: OnceLock::new(),
            size: OnceLock::new(),
            token: SelfHandle::default(),
            moderation: HostMutex::new(Moderation::default()),
            owner: OnceLock::new(),
            calls: HostMutex::new(CqCalls::default()),
            users: HostMutex::default(),
        });
        let token = self.cqs.insert_arc(cq.clone());
        cq.token.set(token);
        let wanted = attr.cq_size;
        let (mut handle, mut size) = (ptr::null_mut(), 0);
        let made =
            answer(down!(self, ibc_alloc_cq(token.cast(), &raw mut attr, &raw mut handle, &raw mut size)));
        if let Err(status) = made {
            let _ = self.cqs.remove(token);
            return Err(status);
        }
        if size < wanted {
            self.blame(Rule::AbsurdArgument, format!("ibc_alloc_cq made {size} entries of {wanted}"));
        }
        let (_, _) = (cq.handle.set(Opaque::of(handle)), cq.size.set(size));
        self.gave("ibc_cq_hdl_t", cq.handle());
        Ok(cq)
    }

    pub(crate) fn free_cq(&self, cq: &Cq) -> Answer<()> {
        let handle = cq.handle();
        self.give_back("ibc_cq_hdl_t", handle, || answer(down!(self, ibc_free_cq(handle.get().cast()))))?;
        cq.calls.lock().freed = true;
        let _ = self.cqs.remove(cq.token.get::<()>());
        Ok(())
    }

    pub(crate) fn resize_cq(&self, cq: &Cq, size: u32) -> Answer<u32> {
        let mut real = 0;
        answer(down!(self, ibc_resize_cq(cq.handle().get().cast(), size, &raw mut real)))?;
        Ok(real)
    }

    pub(crate) fn modify_cq(&self, cq: &Cq, moderation: Moderation) -> Answer<()> {
        let Moderation { count, usec, handler } = moderation;
        answer(down!(self, ibc_modify_cq(cq.handle().get().cast(), count, usec, handler)))?;
        *cq.moderation.lock() = moderation;
        Ok(())
    }

    /// Any context.
    pub(crate) fn notify_cq(&self, cq: &Cq, kind: ibt_cq_notify_flags_t) -> Answer<()> {
        cq.arming();
        let armed = answer(down!(self, ibc_notify_cq(cq.handle().get().cast(), kind)));
        armed.inspect_err(|_| cq.not_armed())
    }

    /// Completions into the caller's `room`, and how many. Any context.
    ///
    /// # Safety
    ///
    /// There is room for `most` at `room`.
    pub(crate) unsafe fn poll_cq(&self, cq: &Cq, room: *mut ibt_wc_t, most: u32) -> (u32, Answer<()>) {
        let mut polled = 0;
        let status = down!(self, ibc_poll_cq(cq.handle().get().cast(), room, most, &raw mut polled));
        if polled > most || (status == illumos_sys_hdrs::IBT_SUCCESS) != (polled > 0) {
            let what = format!("ibc_poll_cq says {polled} of {most}, with status {}", status.0);
            self.blame(Rule::AbsurdArgument, what);
        }
        for n in 0..polled.min(most) as usize {
            // SAFETY: the driver has just written it, and there is room by this function's contract.
            let completion = unsafe { crate::ptr::element(room, n) };
            self.check_completion(cq, completion.wc_id, completion.wc_status != SUCCESS);
        }
        (polled.min(most), answer(status))
    }

    /// The CQ that a driver means.
    pub(super) fn cq_of(&self, token: *const illumos_sys_hdrs::ibtl_cq_s) -> Answer<Arc<Cq>> {
        self.cqs.get(token).map_err(|error| {
            self.blame(Rule::HeapCorruption, error.to_string());
            IBT_CQ_HDL_INVALID
        })
    }
}
