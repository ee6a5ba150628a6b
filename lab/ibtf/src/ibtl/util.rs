//! What is left: classifying failures.

use super::out;
use fakekernel::{Export, export};
use illumos_sys_hdrs::{IBT_FAILURE_STANDARD, ibt_failure_type_t, ibt_status_e, ibt_status_t};

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: ibt_check_failure, ibt_get_module_failure; }
}

/// Meant to name the module a failure comes from; the existing implementation answers "standard" for everything, and clients
/// have only ever seen that.
unsafe extern "C" fn ibt_check_failure(_status: ibt_status_t, reserved_p: *mut u64) -> ibt_failure_type_t {
    out!(reserved_p, 0);
    IBT_FAILURE_STANDARD
}

/// Bit 31 and the module in the bits from 27 on.
unsafe extern "C" fn ibt_get_module_failure(module: ibt_failure_type_t, _ena: u64) -> ibt_status_t {
    const FAILURE: u32 = 0x8000_0000;
    ibt_status_e(FAILURE | module.0 << 27)
}
