//! Shared receive queues.

use super::objects::{Kind, Opaque, Private, SrqObject, drop_hold, hold};
use super::{Ibtl, arg, events, hdl, out, take};
use crate::adapter::{Adapter, Srq};
use crate::status::*;
use fabric::SrqSizes;
use fakekernel::{Export, FaultKind, cx, export};
use illumos_sys_hdrs::{
    IBT_SRQ_SET_LIMIT, IBT_SRQ_SET_SIZE, ibt_hca_hdl_t, ibt_pd_hdl_t, ibt_srq_flags_t, ibt_srq_hdl_t,
    ibt_srq_modify_flags_t, ibt_srq_sizes_t, ibt_status_t, uint_t,
};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_alloc_srq, ibt_free_srq, ibt_query_srq, ibt_modify_srq;
        UKS: ibt_set_srq_private, ibt_get_srq_private;
    }
}

unsafe extern "C" fn ibt_alloc_srq(
    hca_hdl: ibt_hca_hdl_t,
    _flags: ibt_srq_flags_t,
    pd: ibt_pd_hdl_t,
    sizes: *mut ibt_srq_sizes_t,
    ibt_srq_p: *mut ibt_srq_hdl_t,
    real_size_p: *mut ibt_srq_sizes_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let domain = hdl!(cx, ibtl.pds, pd, IBT_PD_HDL_INVALID);
    let asked = arg!(cx, sizes, "the ibt_srq_sizes_t of ibt_alloc_srq");
    if cx.fault(FaultKind("ibt_alloc_srq")) {
        return IBT_INSUFF_RESOURCE;
    }
    let asked = SrqSizes { wrs: asked.srq_wr_sz, sgl: asked.srq_sgl_sz };
    let srq = match open.adapter().alloc_srq(&domain.pd, asked) {
        Ok(srq) => srq,
        Err(e) => return e,
    };
    open.gained(Kind::Srq);
    let real = srq.sizes();
    let object =
        SrqObject { srq: srq.clone(), open: open.clone(), pd: Opaque::of(pd), private: Private::default() };
    let handle = ibtl.srqs.insert(object);
    match srq {
        Srq::Driver(srq) => {
            let (kernel, handle) = (cx.kernel().clone(), Opaque::of(handle));
            srq.set_owner(move || events::runs_out(&kernel, handle));
        }
        Srq::Model(srq) => open.device.know_srq(srq.num(), Opaque::of(handle)),
    }
    hold(cx.kernel(), "ibt_srq_hdl_t", handle, "shared receive queue");
    out!(ibt_srq_p, handle.cast());
    out!(real_size_p, ibt_srq_sizes_t { srq_wr_sz: real.wrs, srq_sgl_sz: real.sgl });
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_free_srq(ibt_srq: ibt_srq_hdl_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.srqs, ibt_srq, IBT_SRQ_HDL_INVALID);
    if let Err(e) = object.open.adapter().free_srq(&object.srq) {
        if matches!(&object.srq, Srq::Model(srq) if srq.is_kept()) {
            // It never will be freed, nor what it is made from: nothing that a module could do.
            object.open.client.kept.store(true, Ordering::Release);
            drop_hold(cx.kernel(), "ibt_srq_hdl_t", ibt_srq);
            drop_hold(cx.kernel(), "ibt_pd_hdl_t", object.pd.get());
            drop_hold(cx.kernel(), "ibt open HCA", object.open.handle.get::<c_void>());
        }
        return e;
    }
    let _ = take(&cx, &ibtl.srqs, ibt_srq);
    if let Srq::Model(srq) = &object.srq {
        object.open.device.forget_srq(srq.num());
    }
    object.open.lost(Kind::Srq);
    drop_hold(cx.kernel(), "ibt_srq_hdl_t", ibt_srq);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_query_srq(
    ibt_srq: ibt_srq_hdl_t,
    pd_p: *mut ibt_pd_hdl_t,
    sizes_p: *mut ibt_srq_sizes_t,
    limit_p: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.srqs, ibt_srq, IBT_SRQ_HDL_INVALID);
    let real = object.srq.sizes();
    let limit = match (object.open.adapter(), &object.srq) {
        (Adapter::Driver(driver), Srq::Driver(srq)) => match driver.query_srq(srq) {
            Ok((_, _, limit)) => limit,
            Err(status) => return status,
        },
        _ => 0,
    };
    out!(pd_p, object.pd.get().cast());
    out!(sizes_p, ibt_srq_sizes_t { srq_wr_sz: real.wrs, srq_sgl_sz: real.sgl });
    out!(limit_p, limit);
    IBT_SUCCESS
}

/// The lab's own HCA does not claim `IBT_HCA_RESIZE_SRQ`. Limit events it has if it was made so; as the reference HCA it answers that it
/// has none.
unsafe extern "C" fn ibt_modify_srq(
    ibt_srq: ibt_srq_hdl_t,
    flags: ibt_srq_modify_flags_t,
    size: uint_t,
    limit: uint_t,
    real_size_p: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.srqs, ibt_srq, IBT_SRQ_HDL_INVALID);
    match (object.open.adapter(), &object.srq) {
        (Adapter::Driver(driver), Srq::Driver(srq)) => match driver.modify_srq(srq, flags, size, limit) {
            Ok(real) => out!(real_size_p, real),
            Err(status) => return status,
        },
        _ if flags.0 & IBT_SRQ_SET_SIZE.0 != 0 => return illumos_sys_hdrs::IBT_HCA_RESIZE_SRQ_NOT_SUPPORTED,
        (adapter, srq) if flags.0 & IBT_SRQ_SET_LIMIT.0 != 0 => return of(adapter.set_srq_limit(srq, limit)),
        _ => {}
    }
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_set_srq_private(ibt_srq: ibt_srq_hdl_t, clnt_private: *mut c_void) {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.srqs, ibt_srq).private.set(clnt_private);
}

unsafe extern "C" fn ibt_get_srq_private(ibt_srq: ibt_srq_hdl_t) -> *mut c_void {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.srqs, ibt_srq, std::ptr::null_mut()).private.get()
}
