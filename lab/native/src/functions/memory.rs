//! Bytes and messages.

use std::ffi::{c_int, c_void};

use fakekernel::{Contexts, Export, export};
use illumos_sys_hdrs::{frtn_t, mblk_t, uint_t};

use crate::messages::free;
use crate::processor::with;

pub(super) fn exports() -> Vec<Export> {
    let mut exports = export! {
        ANY: allocb, desballoc, freemsg, bcopy, ovbcopy, bzero, bcmp, memcmp, htonl, htons, ntohl, ntohs;
    };
    // The headers have none: compilers call them.
    exports.push(Export::raw("memcpy", copy as *const () as usize, Contexts::ANY));
    exports.push(Export::raw("memset", fill as *const () as usize, Contexts::ANY));
    exports
}

unsafe extern "C" fn allocb(size: usize, _priority: uint_t) -> *mut mblk_t {
    with(|processor| processor.messages.allocate(size))
}

unsafe extern "C" fn desballoc(
    base: *mut u8,
    size: usize,
    _priority: uint_t,
    routine: *mut frtn_t,
) -> *mut mblk_t {
    with(|processor| processor.messages.lend(base, size, routine))
}

unsafe extern "C" fn freemsg(message: *mut mblk_t) {
    // SAFETY: the driver gives it up; it calls from a thread of ours, outside `with`.
    unsafe { free(message) };
}

unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    // SAFETY: the driver's own copy, of places that do not overlap.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.cast(), len) };
    to
}

unsafe extern "C" fn fill(to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
    // SAFETY: the driver's own filling.
    unsafe { to.cast::<u8>().write_bytes(byte as u8, len) };
    to
}

unsafe extern "C" fn bcopy(from: *const c_void, to: *mut c_void, len: usize) {
    // SAFETY: as above.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.cast(), len) };
}

unsafe extern "C" fn ovbcopy(from: *const c_void, to: *mut c_void, len: usize) {
    // SAFETY: the driver's own copy.
    unsafe { to.cast::<u8>().copy_from(from.cast(), len) };
}

unsafe extern "C" fn bzero(to: *mut c_void, len: usize) {
    // SAFETY: the driver's own filling.
    unsafe { to.cast::<u8>().write_bytes(0, len) };
}

unsafe extern "C" fn bcmp(one: *const c_void, other: *const c_void, len: usize) -> c_int {
    // SAFETY: memcmp's contract is this function's.
    unsafe { memcmp(one, other, len) }
}

unsafe extern "C" fn memcmp(one: *const c_void, other: *const c_void, len: usize) -> c_int {
    // SAFETY: the driver's own bytes, so many.
    let one = unsafe { std::slice::from_raw_parts(one.cast::<u8>(), len) };
    // SAFETY: as above.
    let other = unsafe { std::slice::from_raw_parts(other.cast::<u8>(), len) };
    one.cmp(other) as c_int
}

unsafe extern "C" fn htonl(value: u32) -> u32 {
    value.to_be()
}

unsafe extern "C" fn htons(value: u16) -> u16 {
    value.to_be()
}

unsafe extern "C" fn ntohl(value: u32) -> u32 {
    u32::from_be(value)
}

unsafe extern "C" fn ntohs(value: u16) -> u16 {
    u16::from_be(value)
}
