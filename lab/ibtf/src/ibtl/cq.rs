//! Completion queues.

use super::objects::{CqObject, Dispatch, Kind, Opaque, Private, SelfHandle, drop_hold, hold};
use super::posted::Way;
use super::{Ibtl, arg, hdl, out, take};
use crate::adapter::{Adapter, Cq};
use crate::status::*;
use fabric::{Completion, CompletionKind, CompletionStatus, Moderation, Notify};
use fakekernel::{Export, FaultKind, HostMutex, WaitQueue, cx, export, race};
use illumos_sys_hdrs::{
    IBT_CQ_HANDLER_IN_THREAD, IBT_CQ_HID, IBT_NEXT_COMPLETION, IBT_NEXT_SOLICITED, IBT_WC_CKSUM_OK,
    IBT_WC_GRH_PRESENT, IBT_WC_IMMED_DATA_PRESENT, ibt_cq_attr_t, ibt_cq_handler_id_t, ibt_cq_handler_t,
    ibt_cq_hdl_t, ibt_cq_notify_flags_t, ibt_cq_sched_attr_t, ibt_hca_hdl_t, ibt_sched_hdl_t, ibt_status_t,
    ibt_wc_t, uint_t,
};
use std::ffi::c_void;
use std::sync::Arc;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_alloc_cq, ibt_free_cq, ibt_resize_cq, ibt_modify_cq, ibt_query_cq, ibt_alloc_cq_sched,
            ibt_free_cq_sched;
        UKS: ibt_set_cq_handler, ibt_set_cq_private, ibt_get_cq_private, ibt_enable_cq_notify, ibt_poll_cq;
    }
}

unsafe extern "C" fn ibt_alloc_cq(
    hca_hdl: ibt_hca_hdl_t,
    cq_attr: *mut ibt_cq_attr_t,
    ibt_cq_p: *mut ibt_cq_hdl_t,
    real_size: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let attr = arg!(cx, cq_attr, "the ibt_cq_attr_t of ibt_alloc_cq");
    if cx.fault(FaultKind("ibt_alloc_cq")) {
        return IBT_INSUFF_RESOURCE;
    }
    let hid = if attr.cq_flags.0 & IBT_CQ_HID.0 != 0 { attr.cq_hid } else { 0 };
    let cq = match open.adapter().alloc_cq(&attr, hid) {
        Ok(cq) => cq,
        Err(e) => return e,
    };
    let size = cq.size();
    let in_thread = attr.cq_flags.0 & IBT_CQ_HANDLER_IN_THREAD.0 != 0;
    open.gained(Kind::Cq);
    let object = Arc::new(CqObject {
        cq,
        open: open.clone(),
        in_thread,
        handler: HostMutex::new((None, Opaque::default())),
        private: Private::default(),
        handle: SelfHandle::default(),
        dispatch: HostMutex::new(Dispatch::default()),
        idle: WaitQueue::new("a CQ handler to return"),
    });
    let handle = ibtl.cqs.insert_arc(object.clone());
    object.handle.set(handle);
    open.device.know_cq(&object);
    if let Cq::Driver(cq) = &object.cq {
        let (kernel, object) = (cx.kernel().clone(), Arc::downgrade(&object));
        cq.set_owner(move || {
            if let Some(object) = object.upgrade() {
                super::events::fired(&kernel, &object);
            }
        });
    }
    if in_thread {
        ibtl.cq_threads.gained(cx.kernel());
    }
    hold(cx.kernel(), "ibt_cq_hdl_t", handle, format!("completion queue of {size}"));
    out!(ibt_cq_p, handle.cast());
    out!(real_size, size);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_free_cq(ibt_cq: ibt_cq_hdl_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.cqs, ibt_cq, IBT_CQ_HDL_INVALID);
    race::acquire(object.key());
    // The handler goes first and stays away even if the CQ then turns out to be busy.
    object.handler.lock().0 = None;
    if object.in_thread {
        cx.no_locks();
        ibtl.cq_threads.lost();
        // Also for a call that is still in the list, behind those of others. One in an adapter's interrupt is not waited for.
        let mut d = object.dispatch.lock();
        while d.running || d.queued {
            d = object.idle.wait(d);
        }
        drop(d);
        race::acquire(object.key());
    }
    if let Err(e) = object.open.adapter().free_cq(&object.cq) {
        return e;
    }
    let _ = take(&cx, &ibtl.cqs, ibt_cq);
    object.open.device.forget_cq(object.cq.num());
    object.open.lost(Kind::Cq);
    drop_hold(cx.kernel(), "ibt_cq_hdl_t", ibt_cq);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_resize_cq(
    ibt_cq: ibt_cq_hdl_t,
    new_sz: uint_t,
    real_sz: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.cqs, ibt_cq, IBT_CQ_HDL_INVALID);
    match object.open.adapter().resize_cq(&object.cq, new_sz) {
        Ok(size) => {
            out!(real_sz, size);
            IBT_SUCCESS
        }
        Err(e) => e,
    }
}

unsafe extern "C" fn ibt_modify_cq(
    ibt_cq: ibt_cq_hdl_t,
    count: uint_t,
    usec: uint_t,
    hid: ibt_cq_handler_id_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.cqs, ibt_cq, IBT_CQ_HDL_INVALID);
    if cx.fault(FaultKind("ibt_modify_cq")) {
        return IBT_INSUFF_RESOURCE;
    }
    of(object.open.adapter().modify_cq(&object.cq, Moderation { count, usec, handler: hid }))
}

unsafe extern "C" fn ibt_query_cq(
    ibt_cq: ibt_cq_hdl_t,
    entries: *mut uint_t,
    count_p: *mut uint_t,
    usec_p: *mut uint_t,
    hid_p: *mut ibt_cq_handler_id_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.cqs, ibt_cq, IBT_CQ_HDL_INVALID);
    let moderation = object.cq.moderation();
    out!(entries, object.cq.size());
    out!(count_p, moderation.count);
    out!(usec_p, moderation.usec);
    out!(hid_p, moderation.handler);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_set_cq_handler(ibt_cq: ibt_cq_hdl_t, handler: ibt_cq_handler_t, arg: *mut c_void) {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.cqs, ibt_cq);
    race::release(object.key());
    *object.handler.lock() = (handler, Opaque::of(arg));
}

unsafe extern "C" fn ibt_set_cq_private(ibt_cq: ibt_cq_hdl_t, clnt_private: *mut c_void) {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.cqs, ibt_cq).private.set(clnt_private);
}

unsafe extern "C" fn ibt_get_cq_private(ibt_cq: ibt_cq_hdl_t) -> *mut c_void {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.cqs, ibt_cq, std::ptr::null_mut()).private.get()
}

unsafe extern "C" fn ibt_enable_cq_notify(
    ibt_cq: ibt_cq_hdl_t,
    notify_type: ibt_cq_notify_flags_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.cqs, ibt_cq, IBT_CQ_HDL_INVALID);
    if cx.fault(FaultKind("ibt_enable_cq_notify")) {
        return IBT_INSUFF_RESOURCE;
    }
    let notify = match notify_type {
        IBT_NEXT_COMPLETION => Notify::Next,
        IBT_NEXT_SOLICITED => Notify::NextSolicited,
        _ => return IBT_CQ_NOTIFY_TYPE_INVALID,
    };
    race::release(object.key());
    of(object.open.adapter().notify_cq(&object.cq, notify))
}

unsafe extern "C" fn ibt_poll_cq(
    ibt_cq: ibt_cq_hdl_t,
    work_completions: *mut ibt_wc_t,
    num_wc: uint_t,
    num_polled: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.cqs, ibt_cq, IBT_CQ_HDL_INVALID);
    if num_wc == 0 {
        return IBT_INVALID_PARAM;
    }
    let (hca, cq) = match (object.open.adapter(), &object.cq) {
        (Adapter::Model(hca), Cq::Model(cq)) => (hca, cq),
        (Adapter::Driver(driver), Cq::Driver(cq)) => {
            // SAFETY: the caller has room for `num_wc` completions.
            let (count, result) = unsafe { driver.poll_cq(cq, work_completions, num_wc) };
            for n in 0..count as usize {
                // SAFETY: the driver has just written it.
                let completion = unsafe { crate::ptr::element(work_completions, n) };
                ibtl.posted.polled(&cx, ibt_cq.addr(), completion.wc_id, None);
            }
            out!(num_polled, count);
            return of(result);
        }
        _ => return IBT_CQ_HDL_INVALID,
    };
    let mut polled = Vec::new();
    let result = hca.poll_cq(cq, num_wc as usize, &mut polled);
    for (n, completion) in polled.iter().enumerate() {
        ibtl.posted.polled(
            &cx,
            ibt_cq.addr(),
            completion.wr_id,
            Some((completion.qpn, way(completion.kind))),
        );
        // SAFETY: the caller has room for `num_wc` completions, and no more were polled.
        unsafe { crate::ptr::set_element(work_completions, n, to_wc(completion)) };
    }
    out!(num_polled, polled.len() as uint_t);
    match result {
        Ok(_) => IBT_SUCCESS,
        Err(e) => error(e),
    }
}

fn way(kind: CompletionKind) -> Way {
    match kind {
        CompletionKind::Send | CompletionKind::SendLso => Way::Send,
        CompletionKind::Recv => Way::Receive,
    }
}

/// The completion as C sees it. On an error only the identifier and the status mean anything, and the rest is filled with a
/// pattern that shows who reads it.
fn to_wc(completion: &Completion) -> ibt_wc_t {
    const NOT_DEFINED: u32 = 0xbadd_cafe;
    let mut wc =
        ibt_wc_t { wc_id: completion.wr_id, wc_status: completion.status as u8, ..Default::default() };
    if completion.status != CompletionStatus::Success {
        wc.wc_bytes_xfer = NOT_DEFINED;
        wc.wc_type = NOT_DEFINED as u8;
        wc.wc_qpn = NOT_DEFINED;
        return wc;
    }
    wc.wc_type = completion.kind as u8;
    if completion.kind != CompletionKind::Recv {
        return wc;
    }
    wc.wc_bytes_xfer = completion.bytes;
    if let Some(info) = &completion.recv {
        fill_receive(&mut wc, info);
    }
    wc
}

fn fill_receive(wc: &mut ibt_wc_t, info: &fabric::RecvInfo) {
    if info.grh {
        wc.wc_flags |= IBT_WC_GRH_PRESENT;
    }
    if let Some(immediate) = info.immediate {
        wc.wc_flags |= IBT_WC_IMMED_DATA_PRESENT;
        wc.wc_immed_data = immediate;
    }
    if info.cksum_ok {
        wc.wc_flags |= IBT_WC_CKSUM_OK;
        wc.wc_cksum = 0xffff;
        wc.wc_detail = info.detail;
    }
    wc.wc_qpn = info.src_qpn.get();
    wc.set_wc_sl(info.sl.get());
    wc.wc_opaque1 = info.slid.0;
    wc.wc_opaque2 = info.pkey_ix;
    wc.wc_opaque4 = info.path_bits;
}

// Scheduling groups of completion handlers: the HCA has none to offer.

unsafe extern "C" fn ibt_alloc_cq_sched(
    _hca_hdl: ibt_hca_hdl_t,
    _attr: *mut ibt_cq_sched_attr_t,
    _sched_hdl_p: *mut ibt_sched_hdl_t,
) -> ibt_status_t {
    cx().may_block();
    illumos_sys_hdrs::IBT_CQ_NO_SCHED_GROUP
}

unsafe extern "C" fn ibt_free_cq_sched(_hca_hdl: ibt_hca_hdl_t, _sched_hdl: ibt_sched_hdl_t) -> ibt_status_t {
    cx().may_block();
    illumos_sys_hdrs::IBT_CQ_SCHED_INVALID
}
