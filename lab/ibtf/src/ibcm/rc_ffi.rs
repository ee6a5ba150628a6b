//! Connections. The fabric has no connected channels, so there is nothing to open or close: both calls check what they are
//! given as ibcm does and refuse a channel that is not a connected one.

use std::ffi::c_void;

use fakekernel::{Cx, Export, cx, export};
use illumos_sys_hdrs::{
    IBT_CHAN_HDL_INVALID, IBT_CHAN_SRV_TYPE_INVALID, IBT_INVALID_PARAM, IBT_NONBLOCKING,
    ibt_chan_open_args_t, ibt_chan_open_flags_t, ibt_channel_hdl_t, ibt_execution_mode_t,
    ibt_priv_data_len_t, ibt_rc_returns_t, ibt_status_t,
};

use crate::ibtl::{Ibtl, hdl};
use crate::ptr::load;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_open_rc_channel, ibt_close_rc_channel;
    }
}

unsafe extern "C" fn ibt_open_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    _flags: ibt_chan_open_flags_t,
    mode: ibt_execution_mode_t,
    args: *mut ibt_chan_open_args_t,
    returns: *mut ibt_rc_returns_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    // SAFETY: the caller's arguments, or NULL; they stay as they are during the call.
    let Some(args) = (unsafe { load(args) }) else { return IBT_INVALID_PARAM };
    let nonblocking = mode == IBT_NONBLOCKING;
    if args.oc_cm_handler.is_none() || mode.0 > IBT_NONBLOCKING.0 || returns.is_null() != nonblocking {
        return IBT_INVALID_PARAM;
    }
    refuse(&cx, rc_chan)
}

unsafe extern "C" fn ibt_close_rc_channel(
    rc_chan: ibt_channel_hdl_t,
    _mode: ibt_execution_mode_t,
    _priv_data: *mut c_void,
    _priv_data_len: ibt_priv_data_len_t,
    _ret_status: *mut u8,
    _ret_priv_data: *mut c_void,
    _ret_priv_data_len_p: *mut ibt_priv_data_len_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    refuse(&cx, rc_chan)
}

/// Whatever the handle stands for, it is no connected channel.
fn refuse(cx: &Cx, chan: ibt_channel_hdl_t) -> ibt_status_t {
    let ibtl = Ibtl::of(cx.kernel());
    let _channel = hdl!(cx, ibtl.channels, chan, IBT_CHAN_HDL_INVALID);
    IBT_CHAN_SRV_TYPE_INVALID
}
