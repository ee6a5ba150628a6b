//! Attaching channels to multicast groups, in the HCA only: frames come once a join has made the subnet manager route them.

use super::address::group_of;
use super::{Ibtl, arg, hdl};
use crate::status::*;
use fakekernel::{Export, FaultKind, cx, export};
use illumos_sys_hdrs::{ibt_channel_hdl_t, ibt_mcg_info_t, ibt_status_t};

pub(super) fn exports() -> Vec<Export> {
    export! { UK: ibt_attach_mcg, ibt_detach_mcg; }
}

unsafe extern "C" fn ibt_attach_mcg(
    ud_chan: ibt_channel_hdl_t,
    mcg_info: *mut ibt_mcg_info_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    let info = arg!(cx, mcg_info, "the ibt_mcg_info_t of ibt_attach_mcg");
    if cx.fault(FaultKind("ibt_attach_mcg")) {
        return IBT_INSUFF_RESOURCE;
    }
    let (gid, lid) = group_of(&info.mc_adds_vect);
    of(channel.open.adapter().attach_mcg(&channel.qp, gid, lid))
}

unsafe extern "C" fn ibt_detach_mcg(
    ud_chan: ibt_channel_hdl_t,
    mcg_info: *mut ibt_mcg_info_t,
) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let channel = hdl!(cx, ibtl.channels, ud_chan, IBT_CHAN_HDL_INVALID);
    let info = arg!(cx, mcg_info, "the ibt_mcg_info_t of ibt_detach_mcg");
    let (gid, lid) = group_of(&info.mc_adds_vect);
    of(channel.open.adapter().detach_mcg(&channel.qp, gid, lid))
}
