//! Small services of `sunddi`.

use std::ffi::{c_int, c_void};

use illumos_sys_hdrs::{DDI_INFO_DEVT2INSTANCE, ddi_info_cmd_t, dev_info_t, dev_t, minor_t, model_t};

use crate::export;
use crate::loader::errno::Errno;
use crate::loader::export::Export;

pub(super) fn exports() -> Vec<Export> {
    export! {
        ANY: getminor, ddi_getinfo_1to1;
        ANY: nodev, nulldev, unchecked nochpoll, ddi_quiesce_not_needed, ddi_quiesce_not_supported, ddi_model_convert_from;
    }
}

unsafe extern "C" fn getminor(dev: dev_t) -> minor_t {
    dev as minor_t
}

/// For drivers whose minor numbers are their instances' (`devo_getinfo`); nothing of the lab asks.
unsafe extern "C" fn ddi_getinfo_1to1(
    _dip: *mut dev_info_t,
    what: ddi_info_cmd_t,
    arg: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    if what != DDI_INFO_DEVT2INSTANCE {
        return -1;
    }
    let instance = arg.addr() as minor_t as usize;
    // SAFETY: getinfo(9E): room for the answer.
    unsafe { result.write(std::ptr::without_provenance_mut(instance)) };
    0
}

unsafe extern "C" fn nodev() -> c_int {
    Errno::ENXIO.0
}

unsafe extern "C" fn nulldev() -> c_int {
    0
}

unsafe extern "C" fn nochpoll() -> c_int {
    Errno::ENXIO.0
}

unsafe extern "C" fn ddi_quiesce_not_needed(_dip: *mut dev_info_t) -> c_int {
    0
}

unsafe extern "C" fn ddi_quiesce_not_supported(_dip: *mut dev_info_t) -> c_int {
    -1
}

unsafe extern "C" fn ddi_model_convert_from(mode: model_t) -> model_t {
    const MODEL_MASK: model_t = 0x0ff0_0000;
    const ILP32: model_t = 0x0010_0000;
    if mode & MODEL_MASK == ILP32 { ILP32 } else { 0 }
}
