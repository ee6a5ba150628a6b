//! Paths that are asked for: the administrator answers at once, and an address handle is changed at once. And what a driver's thread calls
//! that waits for such questions.

use std::ffi::{c_char, c_int, c_void};

use fakekernel::{Export, export};
use illumos_sys_hdrs::{
    IBT_SUCCESS, callb_id_t, ib_qkey_t, ib_qpn_t, ibt_adds_vect_t, ibt_clnt_hdl_t, ibt_path_attr_t,
    ibt_path_flags_t, ibt_path_info_t, ibt_status_t, ibt_ud_dest_hdl_t, kcondvar_t, kcv_type_t, kmutex_t,
};

use crate::threads;

pub(super) fn exports() -> Vec<Export> {
    export! {
        ANY: ibt_get_paths, ibt_modify_ud_dest, cv_init, cv_signal, cv_wait, unchecked callb_add;
    }
}

unsafe extern "C" fn ibt_get_paths(
    _client: ibt_clnt_hdl_t,
    _flags: ibt_path_flags_t,
    _wanted: *mut ibt_path_attr_t,
    most: u8,
    found: *mut ibt_path_info_t,
    count: *mut u8,
) -> ibt_status_t {
    if most > 0 {
        // SAFETY: the caller has room for as many.
        unsafe { found.write(ibt_path_info_t::default()) };
    }
    if !count.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { count.write(most.min(1)) };
    }
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_modify_ud_dest(
    _dest: ibt_ud_dest_hdl_t,
    _key: ib_qkey_t,
    _number: ib_qpn_t,
    _vector: *mut ibt_adds_vect_t,
) -> ibt_status_t {
    IBT_SUCCESS
}

unsafe extern "C" fn cv_init(_cv: *mut kcondvar_t, _name: *mut c_char, _kind: kcv_type_t, _arg: *mut c_void) {
}

unsafe extern "C" fn cv_signal(_cv: *mut kcondvar_t) {
    threads::wake();
}

unsafe extern "C" fn cv_wait(_cv: *mut kcondvar_t, lock: *mut kmutex_t) {
    super::kernel::give_up(lock);
    // SAFETY: only the driver's thread waits; another one ends the process.
    unsafe { threads::wait() };
    super::kernel::take(lock);
}

unsafe extern "C" fn callb_add(
    _function: *mut c_void,
    _argument: *mut c_void,
    _class: c_int,
    _name: *mut c_char,
) -> callb_id_t {
    std::ptr::null_mut()
}
