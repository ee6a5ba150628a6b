//! [`Status`]: what an operation answers (`ibt_status_t`).

use core::fmt;

use illumos_sys_hdrs as sys;
use kernel::AllocError;

/// A refusal: never `IBT_SUCCESS`. The names are those of `sys/ib/ibtl/ibtl_status.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u32);

macro_rules! statuses {
    ($($name:ident = $raw:ident,)*) => {
        #[allow(missing_docs, reason = "the names are those of sys/ib/ibtl/ibtl_status.h")]
        impl Status {
            $(pub const $name: Self = Self(sys::$raw.0);)*
        }
    };
}

statuses! {
    NOT_SUPPORTED = IBT_NOT_SUPPORTED,
    INVALID_PARAM = IBT_INVALID_PARAM,
    INSUFF_KERNEL_RESOURCE = IBT_INSUFF_KERNEL_RESOURCE,
    INSUFF_RESOURCE = IBT_INSUFF_RESOURCE,
    HCA_CQ_EXCEEDED = IBT_HCA_CQ_EXCEEDED,
    HCA_WR_EXCEEDED = IBT_HCA_WR_EXCEEDED,
    HCA_SGL_EXCEEDED = IBT_HCA_SGL_EXCEEDED,
    HCA_MCG_CHAN_EXCEEDED = IBT_HCA_MCG_CHAN_EXCEEDED,
    HCA_SRQ_NOT_SUPPORTED = IBT_HCA_SRQ_NOT_SUPPORTED,
    HCA_RESIZE_SRQ_NOT_SUPPORTED = IBT_HCA_RESIZE_SRQ_NOT_SUPPORTED,
    HCA_PORT_INVALID = IBT_HCA_PORT_INVALID,
    UD_DEST_HDL_INVALID = IBT_UD_DEST_HDL_INVALID,
    CHAN_HDL_INVALID = IBT_CHAN_HDL_INVALID,
    CHAN_ATTR_RO = IBT_CHAN_ATTR_RO,
    CHAN_STATE_INVALID = IBT_CHAN_STATE_INVALID,
    CHAN_SRV_TYPE_INVALID = IBT_CHAN_SRV_TYPE_INVALID,
    CHAN_IN_USE = IBT_CHAN_IN_USE,
    CHAN_OP_TYPE_INVALID = IBT_CHAN_OP_TYPE_INVALID,
    CHAN_SGL_LEN_INVALID = IBT_CHAN_SGL_LEN_INVALID,
    CHAN_FULL = IBT_CHAN_FULL,
    CQ_HDL_INVALID = IBT_CQ_HDL_INVALID,
    CQ_BUSY = IBT_CQ_BUSY,
    CQ_EMPTY = IBT_CQ_EMPTY,
    CQ_NOTIFY_TYPE_INVALID = IBT_CQ_NOTIFY_TYPE_INVALID,
    CQ_HID_INVALID = IBT_CQ_HID_INVALID,
    MR_VA_INVALID = IBT_MR_VA_INVALID,
    MR_LEN_INVALID = IBT_MR_LEN_INVALID,
    MR_HDL_INVALID = IBT_MR_HDL_INVALID,
    MR_ACCESS_REQ_INVALID = IBT_MR_ACCESS_REQ_INVALID,
    SGL_TOO_SMALL = IBT_SGL_TOO_SMALL,
    MC_MLID_INVALID = IBT_MC_OPAQUE,
    MC_MGID_INVALID = IBT_MC_MGID_INVALID,
    PKEY_IX_INVALID = IBT_PKEY_IX_INVALID,
    PD_HDL_INVALID = IBT_PD_HDL_INVALID,
    PD_IN_USE = IBT_PD_IN_USE,
    SRQ_HDL_INVALID = IBT_SRQ_HDL_INVALID,
    SRQ_LIMIT_EXCEEDED = IBT_SRQ_LIMIT_EXCEEDED,
    SRQ_IN_USE = IBT_SRQ_IN_USE,
}

impl Status {
    pub(crate) fn raw(self) -> sys::ibt_status_t {
        sys::ibt_status_e(self.0)
    }
}

/// What C gets for a result.
pub(crate) fn answer(result: Result<(), Status>) -> sys::ibt_status_t {
    match result {
        Ok(()) => sys::IBT_SUCCESS,
        Err(status) => status.raw(),
    }
}

impl From<AllocError> for Status {
    fn from(AllocError: AllocError) -> Self {
        Self::INSUFF_KERNEL_RESOURCE
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IBT status {}", self.0)
    }
}
