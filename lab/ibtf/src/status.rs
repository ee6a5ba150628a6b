//! IBTF's statuses.

use illumos_sys_hdrs::ibt_status_t;
pub(crate) use illumos_sys_hdrs::{
    IBT_CHAN_HDL_INVALID, IBT_CHAN_OP_TYPE_INVALID, IBT_CHAN_SRV_TYPE_INVALID, IBT_CHAN_STATE_INVALID,
    IBT_CQ_HDL_INVALID, IBT_CQ_NOTIFY_TYPE_INVALID, IBT_HCA_BUSY_CLOSING, IBT_HCA_BUSY_DETACHING,
    IBT_HCA_HDL_INVALID, IBT_HCA_IN_USE, IBT_HCA_INVALID, IBT_HCA_PORT_INVALID, IBT_HCA_RESOURCES_NOT_FREED,
    IBT_INSUFF_RESOURCE, IBT_INVALID_PARAM, IBT_MI_HDL_INVALID, IBT_MR_HDL_INVALID, IBT_NO_SUCH_OBJECT,
    IBT_NOT_SUPPORTED, IBT_PD_HDL_INVALID, IBT_SGL_TOO_SMALL, IBT_SRQ_HDL_INVALID, IBT_SUCCESS,
    IBT_UD_DEST_HDL_INVALID,
};

/// The status of an adapter's answer.
pub(crate) fn of(result: Result<(), ibt_status_t>) -> ibt_status_t {
    match result {
        Ok(()) => IBT_SUCCESS,
        Err(status) => status,
    }
}

/// The status of a fabric error: the numbers are the same.
pub(crate) fn error(e: fabric::Error) -> ibt_status_t {
    illumos_sys_hdrs::ibt_status_e(e.status())
}
