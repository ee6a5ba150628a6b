//! Shared receive queues.

use super::objects::{Kind, Opaque, Private, SrqObject, drop_hold, hold};
use super::{Ibtl, arg, hdl, out, take};
use crate::status::*;
use fabric::SrqSizes;
use fakekernel::{Export, FaultKind, cx, export};
use illumos_sys_hdrs::{
    ibt_hca_hdl_t, ibt_pd_hdl_t, ibt_srq_flags_t, ibt_srq_hdl_t, ibt_srq_modify_flags_t, ibt_srq_sizes_t,
    ibt_status_t, uint_t,
};
use std::ffi::c_void;

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
    let handle = ibtl.srqs.insert(SrqObject { srq, open, pd: Opaque::of(pd), private: Private::default() });
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
        return e;
    }
    let _ = take(&cx, &ibtl.srqs, ibt_srq);
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
    out!(pd_p, object.pd.get().cast());
    out!(sizes_p, ibt_srq_sizes_t { srq_wr_sz: real.wrs, srq_sgl_sz: real.sgl });
    out!(limit_p, 0);
    IBT_SUCCESS
}

/// The HCA claims neither `IBT_HCA_RESIZE_SRQ` nor limit events.
unsafe extern "C" fn ibt_modify_srq(
    _ibt_srq: ibt_srq_hdl_t,
    _flags: ibt_srq_modify_flags_t,
    _size: uint_t,
    _limit: uint_t,
    _real_size_p: *mut uint_t,
) -> ibt_status_t {
    cx().may_block();
    illumos_sys_hdrs::IBT_HCA_RESIZE_SRQ_NOT_SUPPORTED
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
