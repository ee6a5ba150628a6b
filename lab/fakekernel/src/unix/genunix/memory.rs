//! `bcopy` and its family (rules 32 and 41): no page of the process is out of their reach, so what a kernel would refuse is
//! checked first.

use std::ffi::{c_int, c_void};

use sim::Rule;

use crate::export;
use crate::loader::cx::cx;
use crate::loader::export::Export;
use crate::loader::mem::Mem;

pub(super) fn unix() -> Vec<Export> {
    leaves(export! { ANY: bcopy, ovbcopy, bzero, bcmp, kcopy; })
}

pub(super) fn genunix() -> Vec<Export> {
    leaves(export! { ANY: memcpy, memmove, memset, memcmp, memchr; })
}

fn leaves(exports: Vec<Export>) -> Vec<Export> {
    exports.into_iter().map(Export::leaf).collect()
}

/// The most bytes one copy can sensibly have.
const ABSURD: usize = 1 << 40;

/// The two ranges of a copy, after the checks.
///
/// # Safety
///
/// `n` bytes are readable at `src` and writable at `dst`.
unsafe fn ranges(src: *const c_void, dst: *mut c_void, n: usize, may_overlap: bool) -> (Mem, Mem) {
    // SAFETY: by contract.
    let src = unsafe { Mem::of(src, n) };
    // SAFETY: by contract.
    let dst = unsafe { Mem::of(dst, n) };
    if n > ABSURD || !may_overlap && src.overlaps(dst) && src != dst {
        let cx = cx();
        cx.check(n <= ABSURD, Rule::AbsurdArgument, || format!("{n} bytes to copy"));
        cx.violate(
            Rule::AbsurdArgument,
            format!("{n} bytes copied from {:#x} to {:#x} overlap", src.addr(), dst.addr()),
        );
    }
    (src, dst)
}

unsafe extern "C" fn bcopy(src: *const c_void, dst: *mut c_void, n: usize) {
    // SAFETY: bcopy(9F): both hold `n` bytes.
    let (src, dst) = unsafe { ranges(src, dst, n, false) };
    dst.copy_from(src);
}

unsafe extern "C" fn ovbcopy(src: *const c_void, dst: *mut c_void, n: usize) {
    // SAFETY: ovbcopy: both hold `n` bytes.
    let (src, dst) = unsafe { ranges(src, dst, n, true) };
    dst.copy_from(src);
}

unsafe extern "C" fn kcopy(src: *const c_void, dst: *mut c_void, n: usize) -> c_int {
    // SAFETY: the caller's contract is bcopy's; a fault is reported as the module's.
    unsafe { bcopy(src, dst, n) };
    0
}

unsafe extern "C" fn bzero(dst: *mut c_void, n: usize) {
    // SAFETY: bzero(9F): `n` bytes at `dst`.
    unsafe { memset(dst, 0, n) };
}

unsafe extern "C" fn bcmp(a: *const c_void, b: *const c_void, n: usize) -> c_int {
    // SAFETY: the caller's contract is memcmp's.
    c_int::from(unsafe { memcmp(a, b, n) } != 0)
}

unsafe extern "C" fn memcpy(dst: *mut c_void, src: *const c_void, n: usize) -> *mut c_void {
    // SAFETY: the caller's contract is bcopy's.
    unsafe { bcopy(src, dst, n) };
    dst
}

unsafe extern "C" fn memmove(dst: *mut c_void, src: *const c_void, n: usize) -> *mut c_void {
    // SAFETY: the caller's contract is ovbcopy's.
    unsafe { ovbcopy(src, dst, n) };
    dst
}

unsafe extern "C" fn memset(dst: *mut c_void, value: c_int, n: usize) -> *mut c_void {
    if n > ABSURD {
        cx().violate(Rule::AbsurdArgument, format!("{n} bytes to set"));
    }
    // SAFETY: memset(9F): `n` bytes at `dst`.
    unsafe { Mem::of(dst, n) }.set(value as u8);
    dst
}

unsafe extern "C" fn memcmp(a: *const c_void, b: *const c_void, n: usize) -> c_int {
    // SAFETY: memcmp(9F): `n` bytes at `a`.
    let a = unsafe { Mem::of(a, n) };
    // SAFETY: and at `b`.
    let b = unsafe { Mem::of(b, n) };
    a.first_difference(b).map_or(0, |(x, y)| c_int::from(x) - c_int::from(y))
}

unsafe extern "C" fn memchr(start: *const c_void, byte: c_int, n: usize) -> *mut c_void {
    // SAFETY: memchr(9F): readable up to the byte, or `n` bytes.
    let found = (0..n).find(|at| unsafe { Mem::of(start.wrapping_byte_add(*at), 1) }.get() == [byte as u8]);
    found.map_or(std::ptr::null_mut(), |at| start.wrapping_byte_add(at).cast_mut())
}
