//! What compilers and DEBUG builds call when something is wrong.

use std::ffi::{CStr, c_char, c_int};

use illumos_sys_hdrs::uintmax_t;

use crate::export;
use crate::loader::cx::cx;
use crate::loader::export::Export;

/// Any value a module does not write by chance; the kernel draws it at boot.
static STACK_GUARD: [u8; 8] = 0x00d1_5ea5_ed0f_f1ceu64.to_le_bytes();

pub(crate) fn exports() -> Vec<Export> {
    let mut exports = export! {
        ANY: assfail, assfail3, unchecked __stack_chk_fail;
    };
    exports.push(Export::data("__stack_chk_guard", &STACK_GUARD));
    exports
}

fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: a C string constant of the module.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn assfail(what: *const c_char, file: *const c_char, line: c_int) -> c_int {
    cx().panic(format!("assertion failed: {}, file: {}, line: {line}", text(what), text(file)))
}

unsafe extern "C" fn assfail3(
    what: *const c_char,
    left: uintmax_t,
    op: *const c_char,
    right: uintmax_t,
    file: *const c_char,
    line: c_int,
) {
    let (what, op, file) = (text(what), text(op), text(file));
    cx().panic(format!("assertion failed: {what} ({left:#x} {op} {right:#x}), file: {file}, line: {line}"))
}

unsafe extern "C" fn __stack_chk_fail() {
    cx().panic("stack buffer overflow: the guard of a frame was overwritten")
}
