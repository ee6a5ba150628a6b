//! Small services of `sunddi`.

use std::ffi::c_int;

use illumos_sys_hdrs::{dev_info_t, model_t};

use crate::export;
use crate::loader::errno::Errno;
use crate::loader::export::Export;

pub(super) fn exports() -> Vec<Export> {
    export! {
        ANY: nodev, nulldev, unchecked nochpoll, ddi_quiesce_not_needed, ddi_quiesce_not_supported, ddi_model_convert_from;
    }
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
