//! `mac_init_ops` and `mac_fini_ops` (rule 43): what makes a driver a GLDv3 driver.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use fakekernel::mem::c_string;
use fakekernel::{Cx, Export, Rule, cx, export};
use illumos_sys_hdrs::{cb_ops, dev_info_t, dev_ops, streamtab};

use crate::mac::Macs;

pub(crate) fn exports() -> Vec<Export> {
    export! { UK: mac_init_ops, mac_fini_ops; }
}

const TABLE: &str = "mac_init_ops";
/// In the ledger under rule 43: what `mac_fini_ops` has to undo.
const CALL: &str = "call of mac_init_ops";

/// `dld_getinfo` as `devo_getinfo` would call it. The lab has no device numbers that could be asked about.
unsafe extern "C" fn dld_getinfo(
    _dip: *mut dev_info_t,
    _command: illumos_sys_hdrs::ddi_info_cmd_t,
    _argument: *mut c_void,
    _result: *mut *mut c_void,
) -> c_int {
    -1
}

unsafe extern "C" fn mac_init_ops(ops: *mut dev_ops, name: *const c_char) {
    let cx = cx();
    cx.may_block();
    // SAFETY: mac_init_ops(9F): a string.
    let name = String::from_utf8_lossy(&unsafe { c_string(name, None) }).into_owned();
    let installed = cx.module().is_some_and(|module| module.dev_ops().is_some());
    cx.check(!installed, Rule::LinkageOrder, || "mac_init_ops after mod_install".to_owned());
    if cx.kernel().major(&name).is_none() {
        return;
    }
    Macs::of(cx.kernel()).drivers.lock().insert(name);
    let Some(place) = stream_table_place(&cx, ops) else { return };
    // The stream is opened by the lab's own dld, not through this table; it is there because drivers see the pointer.
    let table = cx.kernel().genunix().lend_structure(&cx, size_of::<streamtab>(), TABLE);
    cx.kernel().resources().add_under(Rule::LinkageOrder, &cx, CALL, ops.addr() as u64, "");
    // SAFETY: the place of `cb_str` in the driver's cb_ops, which is writable data.
    unsafe { place.write(table.cast()) };
    let getinfo = ops.wrapping_byte_add(offset_of!(dev_ops, devo_getinfo));
    // SAFETY: the driver's dev_ops is writable data; a function pointer or null.
    let known = unsafe { ops.read() }.devo_getinfo;
    if known.is_none() {
        let ours: unsafe extern "C" fn(_, _, _, _) -> _ = dld_getinfo;
        // SAFETY: as above.
        unsafe { getinfo.cast::<Option<Getinfo>>().write(Some(ours)) };
    }
}

type Getinfo = unsafe extern "C" fn(
    *mut dev_info_t,
    illumos_sys_hdrs::ddi_info_cmd_t,
    *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// Where a driver's `cb_str` is; `None` for a null `ops`, or one without `cb_ops`.
fn stream_table_place(cx: &Cx, ops: *mut dev_ops) -> Option<*mut *mut streamtab> {
    if ops.is_null() {
        return None;
    }
    // SAFETY: mac_init_ops(9F), mac_fini_ops(9F): the driver's dev_ops.
    let callbacks: *mut cb_ops = unsafe { ops.read() }.devo_cb_ops;
    if callbacks.is_null() {
        cx.panic(format!("BAD TRAP in {}: devo_cb_ops is null", cx.call()));
    }
    Some(callbacks.wrapping_byte_add(offset_of!(cb_ops, cb_str)).cast())
}

unsafe extern "C" fn mac_fini_ops(ops: *mut dev_ops) {
    let cx = cx();
    cx.may_block();
    let installed = cx.module().is_some_and(|module| module.dev_ops().is_some());
    cx.check(!installed, Rule::LinkageOrder, || "mac_fini_ops before mod_remove".to_owned());
    let Some(place) = stream_table_place(&cx, ops) else { return };
    // SAFETY: the place of `cb_str` in the driver's cb_ops.
    let table = unsafe { place.read() };
    if table.is_null() {
        cx.violate(Rule::LinkageOrder, "mac_fini_ops without mac_init_ops");
        return;
    }
    cx.kernel().genunix().return_structure(&cx, table.cast(), TABLE);
    cx.kernel().resources().remove(CALL, ops.addr() as u64);
    // SAFETY: as above.
    unsafe { place.write(ptr::null_mut()) };
}
