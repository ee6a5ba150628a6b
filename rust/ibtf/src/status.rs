//! [`Status`]: what IBTF answers (`ibt_status_t`).

use core::fmt;

use illumos_sys_hdrs as sys;
use kernel::{AllocError, Errno};

/// A failure: never `IBT_SUCCESS`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u32);

macro_rules! statuses {
    ($($name:ident = $raw:ident,)*) => {
        #[allow(missing_docs, reason = "the names are those of sys/ib/ibtl/ibtl_status.h")]
        impl Status {
            $(pub const $name: Self = Self(sys::$raw.0);)*

            /// The name in `sys/ib/ibtl/ibtl_status.h`, without `IBT_`.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    FAILURE = IBT_FAILURE,
    NOT_SUPPORTED = IBT_NOT_SUPPORTED,
    ILLEGAL_OP = IBT_ILLEGAL_OP,
    INVALID_PARAM = IBT_INVALID_PARAM,
    INSUFF_KERNEL_RESOURCE = IBT_INSUFF_KERNEL_RESOURCE,
    CM_FAILURE = IBT_CM_FAILURE,
    CM_SERVICE_EXISTS = IBT_CM_SERVICE_EXISTS,
    APM_NOT_SUPPORTED = IBT_APM_NOT_SUPPORTED,
    IBMF_TIMEOUT = IBT_IBMF_TIMEOUT,
    INSUFF_DATA = IBT_INSUFF_DATA,
    NO_HCAS_AVAILABLE = IBT_NO_HCAS_AVAILABLE,
    PATH_RECORDS_NOT_FOUND = IBT_PATH_RECORDS_NOT_FOUND,
    SERVICE_RECORDS_NOT_FOUND = IBT_SERVICE_RECORDS_NOT_FOUND,
    MCG_RECORDS_NOT_FOUND = IBT_MCG_RECORDS_NOT_FOUND,
    PATH_PKT_LT_TOO_HIGH = IBT_PATH_PKT_LT_TOO_HIGH,
    CM_SERVICE_BUSY = IBT_CM_SERVICE_BUSY,
    STATIC_RATE_INVALID = IBT_STATIC_RATE_INVALID,
    SGID_INVALID = IBT_SGID_INVALID,
    NODE_RECORDS_NOT_FOUND = IBT_NODE_RECORDS_NOT_FOUND,
    GIDS_NOT_FOUND = IBT_GIDS_NOT_FOUND,
    NO_SUCH_OBJECT = IBT_NO_SUCH_OBJECT,
    INSUFF_RESOURCE = IBT_INSUFF_RESOURCE,
    HCA_CQ_EXCEEDED = IBT_HCA_CQ_EXCEEDED,
    HCA_WR_EXCEEDED = IBT_HCA_WR_EXCEEDED,
    HCA_SGL_EXCEEDED = IBT_HCA_SGL_EXCEEDED,
    HCA_MCG_CHAN_EXCEEDED = IBT_HCA_MCG_CHAN_EXCEEDED,
    HCA_IN_USE = IBT_HCA_IN_USE,
    HCA_RESOURCES_NOT_FREED = IBT_HCA_RESOURCES_NOT_FREED,
    HCA_BUSY_DETACHING = IBT_HCA_BUSY_DETACHING,
    HCA_BUSY_CLOSING = IBT_HCA_BUSY_CLOSING,
    HCA_INVALID = IBT_HCA_INVALID,
    HCA_HDL_INVALID = IBT_HCA_HDL_INVALID,
    HCA_PORT_MTU_EXCEEDED = IBT_HCA_PORT_MTU_EXCEEDED,
    HCA_PORT_INVALID = IBT_HCA_PORT_INVALID,
    HCA_PORT_NOT_ACTIVE = IBT_HCA_PORT_NOT_ACTIVE,
    HCA_SRQ_NOT_SUPPORTED = IBT_HCA_SRQ_NOT_SUPPORTED,
    UD_DEST_HDL_INVALID = IBT_UD_DEST_HDL_INVALID,
    CHAN_HDL_INVALID = IBT_CHAN_HDL_INVALID,
    CHAN_ATTR_RO = IBT_CHAN_ATTR_RO,
    CHAN_STATE_INVALID = IBT_CHAN_STATE_INVALID,
    CHAN_SRV_TYPE_INVALID = IBT_CHAN_SRV_TYPE_INVALID,
    CHAN_IN_USE = IBT_CHAN_IN_USE,
    CHAN_OP_TYPE_INVALID = IBT_CHAN_OP_TYPE_INVALID,
    CHAN_SGL_FORMAT_INVALID = IBT_CHAN_SGL_FORMAT_INVALID,
    CHAN_SGL_LEN_INVALID = IBT_CHAN_SGL_LEN_INVALID,
    CHAN_SZ_INSUFFICIENT = IBT_CHAN_SZ_INSUFFICIENT,
    CHAN_FULL = IBT_CHAN_FULL,
    CHAN_SRQ = IBT_CHAN_SRQ,
    CHAN_WQE_SZ_INSUFF = IBT_CHAN_WQE_SZ_INSUFF,
    CQ_HDL_INVALID = IBT_CQ_HDL_INVALID,
    CQ_SZ_INSUFFICIENT = IBT_CQ_SZ_INSUFFICIENT,
    CQ_BUSY = IBT_CQ_BUSY,
    CQ_EMPTY = IBT_CQ_EMPTY,
    CQ_NOTIFY_TYPE_INVALID = IBT_CQ_NOTIFY_TYPE_INVALID,
    CQ_SCHED_INVALID = IBT_CQ_SCHED_INVALID,
    CQ_HID_INVALID = IBT_CQ_HID_INVALID,
    MR_VA_INVALID = IBT_MR_VA_INVALID,
    MR_LEN_INVALID = IBT_MR_LEN_INVALID,
    MR_LKEY_INVALID = IBT_MR_LKEY_INVALID,
    MR_RKEY_INVALID = IBT_MR_RKEY_INVALID,
    MR_HDL_INVALID = IBT_MR_HDL_INVALID,
    MR_ACCESS_REQ_INVALID = IBT_MR_ACCESS_REQ_INVALID,
    MR_IN_USE = IBT_MR_IN_USE,
    SGL_TOO_SMALL = IBT_SGL_TOO_SMALL,
    MI_HDL_INVALID = IBT_MI_HDL_INVALID,
    MC_MLID_INVALID = IBT_MC_OPAQUE,
    MC_MGID_INVALID = IBT_MC_MGID_INVALID,
    MC_GROUP_INVALID = IBT_MC_GROUP_INVALID,
    PKEY_IX_ILLEGAL = IBT_PKEY_IX_ILLEGAL,
    PKEY_IX_INVALID = IBT_PKEY_IX_INVALID,
    PD_HDL_INVALID = IBT_PD_HDL_INVALID,
    PD_IN_USE = IBT_PD_IN_USE,
    SRQ_IN_USE = IBT_SRQ_IN_USE,
}

/// Set in a status that a module made up of its own troubles; bits 27 to 30 say which module.
const MODULE_FAILURE: u32 = 1 << 31;

impl Status {
    /// Trouble of the adapter's driver (hardware, DMA).
    pub const CI_FAILURE: Self = Self(0x8800_0000);
    /// Trouble of the management framework: the SA refused in a way that has no status of its own.
    pub const IBMF_FAILURE: Self = Self(0x9000_0000);

    /// A result of C.
    pub fn check(raw: sys::ibt_status_t) -> Result<(), Self> {
        if raw == sys::IBT_SUCCESS { Ok(()) } else { Err(Self(raw.0)) }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether trying again later can help: resources, time-outs, states that change.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::IBMF_TIMEOUT
                | Self::INSUFF_KERNEL_RESOURCE
                | Self::INSUFF_RESOURCE
                | Self::HCA_PORT_NOT_ACTIVE
                | Self::MCG_RECORDS_NOT_FOUND
                | Self::PATH_RECORDS_NOT_FOUND
        ) || self.0 & MODULE_FAILURE != 0
    }

    /// Whether `ibt_post_send` says with it that this one request makes no sense to the adapter. Others may follow it: the queue pair is
    /// well.
    pub const fn is_of_one_request(self) -> bool {
        matches!(
            self,
            Self::CHAN_SGL_LEN_INVALID
                | Self::CHAN_SGL_FORMAT_INVALID
                | Self::CHAN_OP_TYPE_INVALID
                | Self::CHAN_SRV_TYPE_INVALID
                | Self::CHAN_WQE_SZ_INSUFF
                | Self::UD_DEST_HDL_INVALID
                | Self::INVALID_PARAM
        )
    }

    pub(crate) fn raw(self) -> sys::ibt_status_t {
        sys::ibt_status_e(self.0)
    }
}

impl From<AllocError> for Status {
    fn from(AllocError: AllocError) -> Self {
        Self::INSUFF_KERNEL_RESOURCE
    }
}

/// The nearest errno, where C asks for one.
impl From<Status> for Errno {
    fn from(status: Status) -> Self {
        match status {
            Status::INSUFF_KERNEL_RESOURCE | Status::INSUFF_RESOURCE => Self::ENOMEM,
            Status::INVALID_PARAM | Status::HCA_PORT_INVALID | Status::PKEY_IX_INVALID => Self::EINVAL,
            Status::HCA_INVALID => Self::ENODEV,
            Status::HCA_IN_USE | Status::HCA_BUSY_CLOSING | Status::HCA_BUSY_DETACHING => Self::EBUSY,
            Status::HCA_PORT_NOT_ACTIVE => Self::ENETDOWN,
            Status::IBMF_TIMEOUT => Self::ETIMEDOUT,
            Status::NOT_SUPPORTED => Self::ENOTSUP,
            _ => Self::EIO,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.0 & 0xf800_0000) {
            (Some(name), _) => f.write_str(name),
            (None, 0x8800_0000) => write!(f, "HCA driver failure {:#x}", self.0),
            (None, 0x9000_0000) => write!(f, "ibmf failure {:#x}", self.0),
            (None, 0x9800_0000) => write!(f, "ibtl failure {:#x}", self.0),
            (None, 0xa000_0000) => write!(f, "ibcm failure {:#x}", self.0),
            (None, _) => write!(f, "IBT status {}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::Status;
    use std::string::ToString;

    #[test]
    fn statuses_are_named_as_in_the_header() {
        assert_eq!(Status::MCG_RECORDS_NOT_FOUND.to_string(), "MCG_RECORDS_NOT_FOUND");
        assert_eq!(Status::MCG_RECORDS_NOT_FOUND.get(), 15);
        assert_eq!(Status::IBMF_FAILURE.to_string(), "ibmf failure 0x90000000");
        assert!(Status::IBMF_FAILURE.is_transient() && !Status::INVALID_PARAM.is_transient());
    }
}
