//! Protection domains.

use super::objects::{Kind, PdObject, drop_hold, hold};
use super::{Ibtl, hdl, out, take};
use crate::status::*;
use fakekernel::{Export, FaultKind, cx, export};
use illumos_sys_hdrs::{ibt_hca_hdl_t, ibt_pd_flags_t, ibt_pd_hdl_t, ibt_status_t};

pub(super) fn exports() -> Vec<Export> {
    export! { UK: ibt_alloc_pd, ibt_free_pd; }
}

unsafe extern "C" fn ibt_alloc_pd(
    hca_hdl: ibt_hca_hdl_t,
    _flags: ibt_pd_flags_t,
    pd: *mut ibt_pd_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    if cx.fault(FaultKind("ibt_alloc_pd")) {
        return IBT_INSUFF_RESOURCE;
    }
    let made = match open.adapter().alloc_pd() {
        Ok(made) => made,
        Err(e) => return e,
    };
    open.gained(Kind::Pd);
    let handle = ibtl.pds.insert(PdObject { pd: made, open });
    hold(cx.kernel(), "ibt_pd_hdl_t", handle, "protection domain");
    out!(pd, handle.cast());
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_free_pd(_hca_hdl: ibt_hca_hdl_t, pd: ibt_pd_hdl_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let object = hdl!(cx, ibtl.pds, pd, IBT_PD_HDL_INVALID);
    if let Err(e) = object.open.adapter().free_pd(&object.pd) {
        return e;
    }
    let _ = take(&cx, &ibtl.pds, pd);
    object.open.lost(Kind::Pd);
    drop_hold(cx.kernel(), "ibt_pd_hdl_t", pd);
    IBT_SUCCESS
}
