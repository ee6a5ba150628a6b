//! Posting: the client's requests with the driver's own handles of their destinations in them, in one array, as IBTL passes them.

use std::sync::Arc;

use fakekernel::{Cx, HostMutex, Rule};
use illumos_sys_hdrs::{
    IBT_UD_SRV, IBT_WR_SEND_SIGNAL, IBT_WR_SIGNALED, IBT_WRC_SEND, IBT_WRC_SEND_LSO, ibt_recv_wr_t,
    ibt_send_wr_t, ibt_ud_dest_hdl_t, ibt_ud_dest_t, ibt_wr_ds_t,
};

use super::judge::Posted;
use super::{Answer, Driver, Qp, answer, down};
use crate::os;

/// More entries than any adapter takes: a count like this is garbage, and reading the list would be a wild read.
const ABSURD_SGL: u32 = 1024;

impl Driver {
    /// Posts sends, each to one of `found`, and how many the driver took. Any context.
    ///
    /// # Safety
    ///
    /// The requests' lists and headers are there.
    pub(crate) unsafe fn post_send(
        &self,
        qp: &Arc<Qp>,
        mut requests: Vec<ibt_send_wr_t>,
        mut found: Vec<ibt_ud_dest_t>,
    ) -> (u32, Answer<()>) {
        for (request, dest) in requests.iter_mut().zip(&mut found) {
            set_destination(request, dest);
        }
        let every = qp.flags.0 & IBT_WR_SIGNALED.0 == 0;
        let noted: Vec<(u64, bool)> =
            requests.iter().map(|wr| (wr.wr_id, every || wr.wr_flags & IBT_WR_SEND_SIGNAL != 0)).collect();
        note(&qp.sends, &noted);
        let (count, mut taken) = (requests.len() as u32, 0);
        let handle = qp.handle().get().cast();
        let status = down!(self, ibc_post_send(handle, requests.as_mut_ptr(), count, &raw mut taken));
        self.taken(&qp.sends, &noted, taken);
        (taken.min(count), answer(status))
    }

    /// Posts receives, and how many the driver took. Any context.
    ///
    /// # Safety
    ///
    /// The requests' lists are there.
    pub(crate) unsafe fn post_recv(
        &self,
        qp: &Arc<Qp>,
        mut requests: Vec<ibt_recv_wr_t>,
    ) -> (u32, Answer<()>) {
        let noted: Vec<(u64, bool)> = requests.iter().map(|wr| (wr.wr_id, true)).collect();
        note(&qp.receives, &noted);
        let (count, mut taken) = (requests.len() as u32, 0);
        let handle = qp.handle().get().cast();
        let status = down!(self, ibc_post_recv(handle, requests.as_mut_ptr(), count, &raw mut taken));
        self.taken(&qp.receives, &noted, taken);
        (taken.min(count), answer(status))
    }

    /// What the driver did not take does not complete.
    pub(super) fn taken(&self, posted: &HostMutex<Posted>, noted: &[(u64, bool)], taken: u32) {
        if taken as usize > noted.len() {
            let what = format!("{taken} of {} requests were taken", noted.len());
            self.blame(Rule::AbsurdArgument, what);
        }
        let mut posted = posted.lock();
        for (id, surely) in noted.iter().skip(taken as usize) {
            posted.withdraw(*id, *surely);
        }
    }

    /// The adapter reaches memory by itself, so whoever posts what is no memory breaks a rule.
    ///
    /// # Safety
    ///
    /// There are `count` entries at `list`.
    pub(crate) unsafe fn check_memory(&self, cx: &Cx, list: *const ibt_wr_ds_t, count: u32, does: &str) {
        if !cx.checks() || count > ABSURD_SGL {
            return;
        }
        // SAFETY: by this function's contract.
        for piece in unsafe { crate::ptr::elements(list, count as usize) } {
            let live = piece.ds_len == 0 || os::is_live(&self.kernel, piece.ds_va, piece.ds_len.into());
            cx.check(live, Rule::HeapCorruption, || {
                let what = os::explain(&self.kernel, piece.ds_va);
                format!("the adapter {does} {} bytes that are not live memory: {what}", piece.ds_len)
            });
        }
    }
}

pub(super) fn note(posted: &HostMutex<Posted>, requests: &[(u64, bool)]) {
    let mut posted = posted.lock();
    for (id, surely) in requests {
        posted.add(*id, *surely);
    }
}

/// The destination in a request of a datagram, as the client gave it; NULL in any other.
pub(crate) fn destination(request: &ibt_send_wr_t) -> ibt_ud_dest_hdl_t {
    if request.wr_trans != IBT_UD_SRV {
        return std::ptr::null_mut();
    }
    match request.wr_opcode {
        // SAFETY: every member of the union is integers and pointers.
        IBT_WRC_SEND => unsafe { request.wr.ud.udwr_dest },
        // SAFETY: as above.
        IBT_WRC_SEND_LSO => unsafe { request.wr.ud_lso.lso_ud_dest },
        _ => std::ptr::null_mut(),
    }
}

fn set_destination(request: &mut ibt_send_wr_t, dest: &mut ibt_ud_dest_t) {
    if request.wr_trans != IBT_UD_SRV {
        return;
    }
    match request.wr_opcode {
        IBT_WRC_SEND => request.wr.ud.udwr_dest = dest,
        IBT_WRC_SEND_LSO => request.wr.ud_lso.lso_ud_dest = dest,
        _ => {}
    }
}
