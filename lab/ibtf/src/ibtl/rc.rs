//! What only connected mode needs. The fabric has no reliable connections yet: an allocation answers that the HCA is out of
//! channels, after the checks that come before it, and what needs such a channel cannot be reached.

use super::{Ibtl, arg, hdl};
use crate::status::*;
use fakekernel::{Export, cx, export};
use illumos_sys_hdrs::{
    ibt_cep_flags_t, ibt_cep_modify_flags_t, ibt_chan_alloc_flags_t, ibt_chan_sizes_t, ibt_channel_hdl_t,
    ibt_hca_hdl_t, ibt_queue_sizes_t, ibt_rc_chan_alloc_args_t, ibt_rc_chan_modify_attr_t,
    ibt_rc_chan_query_attr_t, ibt_status_t,
};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_alloc_rc_channel, ibt_query_rc_channel, ibt_modify_rc_channel, ibt_modify_rdma, ibt_set_rdma_resource,
            ibt_change_port, ibt_pause_sendq, ibt_unpause_sendq, ibt_migrate_path;
    }
}

unsafe extern "C" fn ibt_alloc_rc_channel(
    hca_hdl: ibt_hca_hdl_t,
    _flags: ibt_chan_alloc_flags_t,
    args: *mut ibt_rc_chan_alloc_args_t,
    _rc_chan_p: *mut ibt_channel_hdl_t,
    _sizes: *mut ibt_chan_sizes_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let args = arg!(cx, args, "the ibt_rc_chan_alloc_args_t of ibt_alloc_rc_channel");
    if args.rc_hca_port_num == 0 || args.rc_hca_port_num > open.device.nports() {
        return IBT_HCA_PORT_INVALID;
    }
    IBT_INSUFF_RESOURCE
}

/// The answer of every call on a connected channel: the handle is a UD channel's, or none at all.
fn refuse(chan: ibt_channel_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let _ = hdl!(cx, ibtl.channels, chan, IBT_CHAN_HDL_INVALID);
    IBT_CHAN_SRV_TYPE_INVALID
}

unsafe extern "C" fn ibt_query_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    _chan_attrs: *mut ibt_rc_chan_query_attr_t,
) -> ibt_status_t {
    refuse(rc_chan)
}

unsafe extern "C" fn ibt_modify_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    _flags: ibt_cep_modify_flags_t,
    _attrs: *mut ibt_rc_chan_modify_attr_t,
    _actual_sz: *mut ibt_queue_sizes_t,
) -> ibt_status_t {
    refuse(rc_chan)
}

unsafe extern "C" fn ibt_modify_rdma(
    rc_chan: ibt_channel_hdl_t,
    _modify_flags: ibt_cep_modify_flags_t,
    _flags: ibt_cep_flags_t,
) -> ibt_status_t {
    refuse(rc_chan)
}

unsafe extern "C" fn ibt_set_rdma_resource(
    rc_chan: ibt_channel_hdl_t,
    _modify_flags: ibt_cep_modify_flags_t,
    _rdma_ra_out: u8,
    _rdma_ra_in: u8,
) -> ibt_status_t {
    refuse(rc_chan)
}

unsafe extern "C" fn ibt_change_port(rc_chan: ibt_channel_hdl_t, _port_num: u8) -> ibt_status_t {
    refuse(rc_chan)
}

unsafe extern "C" fn ibt_pause_sendq(
    chan: ibt_channel_hdl_t,
    _modify_flags: ibt_cep_modify_flags_t,
) -> ibt_status_t {
    refuse(chan)
}

unsafe extern "C" fn ibt_unpause_sendq(chan: ibt_channel_hdl_t) -> ibt_status_t {
    refuse(chan)
}

unsafe extern "C" fn ibt_migrate_path(rc_chan: ibt_channel_hdl_t) -> ibt_status_t {
    refuse(rc_chan)
}
