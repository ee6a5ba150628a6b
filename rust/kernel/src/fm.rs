//! What fault management (`fmd(8)`) is told: reports of errors, and what is left of a node's service.
//!
//! A report (*ereport*) is posted about a node with the capability of the nexus above it, `ndi_fm_ereport_post(9F)`. That is what is left to a
//! child of illumos's IB nexus: `ddi_fm_init(9F)` asks the nexus, which has no `bus_fm_init`, so it grants nothing, leaves a handle behind
//! that cannot be told from none, and every `ddi_fm_ereport_post(9F)` of the child's would be dropped. The nodes of the IB nexus are children
//! of the adapter's, and the adapter's driver is capable or it is not: then what is posted is dropped.

use core::ffi::{CStr, c_char, c_int};

use illumos_sys_hdrs as sys;

use crate::ddi::DevInfo;

/// How well a node does what it is there for (`ddi_fm_service_impact(9F)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impact {
    /// Not at all: its state is *down* for `prtconf(8)`.
    Lost,
    /// Less well than it should: its state is *degraded*.
    Degraded,
    /// As it should, again.
    Restored,
}

/// A class of reports, in full `ereport.io.device.NAME` (`sys/fm/io/ddi.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The device is in a state that it cannot be used in.
    InvalidState,
    /// It takes requests and does not end them.
    Stall,
}

impl Class {
    fn name(self) -> &'static CStr {
        match self {
            Self::InvalidState => c"device.inval_state",
            Self::Stall => c"device.stall",
        }
    }
}

/// Enumerators of `data_type_t` (`sys/nvpair.h`).
const DATA_TYPE_UINT32: c_int = 6;
const DATA_TYPE_UINT8: c_int = 23;
/// `FM_VERSION` (`sys/fm/protocol.h`): the first of all that is in a report.
const VERSION: &CStr = c"version";
/// `FM_EREPORT_VERS0`.
const VERSION_0: c_int = 0;
/// Has the framework make the number that reports of one error have in common.
const NEW_ENA: u64 = 0;

impl DevInfo {
    /// Posts a report about the node, with two numbers of the driver's own, each under a name. **May block.**
    pub fn post_ereport(self, class: Class, details: [(&CStr, u32); 2]) {
        let [(first, one), (second, two)] = details;
        let end: *const c_char = core::ptr::null();
        // SAFETY: the node is attached, so it has a parent; all strings are read during the call alone; names, types and values take
        // turns as the types say, and NULL ends them.
        unsafe {
            sys::ndi_fm_ereport_post(
                self.as_raw(),
                class.name().as_ptr(),
                NEW_ENA,
                sys::DDI_SLEEP,
                VERSION.as_ptr(),
                DATA_TYPE_UINT8,
                VERSION_0,
                first.as_ptr(),
                DATA_TYPE_UINT32,
                one,
                second.as_ptr(),
                DATA_TYPE_UINT32,
                two,
                end,
            );
        };
    }

    /// Says what is left of the node's service. **Any** context.
    pub fn service_impact(self, impact: Impact) {
        let sys::ddi_fault_impact_t(impact) = match impact {
            Impact::Lost => sys::DDI_SERVICE_LOST,
            Impact::Degraded => sys::DDI_SERVICE_DEGRADED,
            Impact::Restored => sys::DDI_SERVICE_RESTORED,
        };
        // SAFETY: the node is attached.
        unsafe { sys::ddi_fm_service_impact(self.as_raw(), impact as c_int) };
    }
}
