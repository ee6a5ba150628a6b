//! The string functions the kernel shares with libc.

use std::ffi::{c_char, c_int};

use crate::export;
use crate::loader::export::Export;
use crate::loader::mem::{Mem, c_string};

pub(super) fn unix() -> Vec<Export> {
    export! {
        ANY: strcmp, strncmp, strcasecmp, strncasecmp, strlen, strnlen, strcpy, strncpy, strlcpy, strlcat, strchr, strrchr,
            strstr;
    }
}

pub(super) fn genunix() -> Vec<Export> {
    Vec::new()
}

/// # Safety
///
/// Two strings, of which at most `limit` bytes are read.
unsafe fn compare(a: *const c_char, b: *const c_char, limit: Option<usize>, fold: bool) -> c_int {
    // SAFETY: by contract.
    let (mut a, mut b) = (unsafe { c_string(a, limit) }, unsafe { c_string(b, limit) });
    if fold {
        a.make_ascii_lowercase();
        b.make_ascii_lowercase();
    }
    let end = |s: &[u8], at: usize| c_int::from(s.get(at).copied().unwrap_or(0));
    let at = a.iter().zip(&b).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len()));
    end(&a, at) - end(&b, at)
}

unsafe extern "C" fn strcmp(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: strcmp(9F): two strings.
    unsafe { compare(a, b, None, false) }
}

unsafe extern "C" fn strncmp(a: *const c_char, b: *const c_char, n: usize) -> c_int {
    // SAFETY: strncmp(9F): two strings, or `n` bytes each.
    unsafe { compare(a, b, Some(n), false) }
}

unsafe extern "C" fn strcasecmp(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: strcasecmp(9F): two strings.
    unsafe { compare(a, b, None, true) }
}

unsafe extern "C" fn strncasecmp(a: *const c_char, b: *const c_char, n: usize) -> c_int {
    // SAFETY: strncasecmp(9F): two strings, or `n` bytes each.
    unsafe { compare(a, b, Some(n), true) }
}

unsafe extern "C" fn strlen(s: *const c_char) -> usize {
    // SAFETY: strlen(9F): a string.
    unsafe { c_string(s, None) }.len()
}

unsafe extern "C" fn strnlen(s: *const c_char, n: usize) -> usize {
    // SAFETY: strnlen(9F): a string, or `n` bytes.
    unsafe { c_string(s, Some(n)) }.len()
}

/// # Safety
///
/// `room` bytes are writable at `dst`.
unsafe fn put(dst: *mut c_char, room: usize, bytes: &[u8]) {
    // SAFETY: by contract.
    unsafe { Mem::of(dst, room) }.put(bytes);
}

unsafe extern "C" fn strcpy(dst: *mut c_char, src: *const c_char) -> *mut c_char {
    // SAFETY: strcpy(9F): a string.
    let mut bytes = unsafe { c_string(src, None) };
    bytes.push(0);
    // SAFETY: strcpy(9F): room for it, however long.
    unsafe { put(dst, bytes.len(), &bytes) };
    dst
}

unsafe extern "C" fn strncpy(dst: *mut c_char, src: *const c_char, n: usize) -> *mut c_char {
    // SAFETY: strncpy(9F): a string, or `n` bytes.
    let mut bytes = unsafe { c_string(src, Some(n)) };
    bytes.resize(n, 0);
    // SAFETY: strncpy(9F): room for `n` bytes.
    unsafe { put(dst, n, &bytes) };
    dst
}

unsafe extern "C" fn strlcpy(dst: *mut c_char, src: *const c_char, size: usize) -> usize {
    // SAFETY: strlcpy(9F): a string.
    let mut bytes = unsafe { c_string(src, None) };
    let length = bytes.len();
    bytes.truncate(size.saturating_sub(1));
    bytes.push(0);
    // SAFETY: strlcpy(9F): room for `size` bytes; with none nothing is written.
    unsafe { put(dst, size, &bytes) };
    length
}

unsafe extern "C" fn strlcat(dst: *mut c_char, src: *const c_char, size: usize) -> usize {
    // SAFETY: strlcat(9F): a string, or `size` bytes of none.
    let held = unsafe { c_string(dst, Some(size)) }.len();
    // SAFETY: strlcat(9F): `size` bytes at `dst`, of which `held` come before the end; `src` is a string.
    held + unsafe { strlcpy(dst.wrapping_add(held), src, size - held) }
}

unsafe extern "C" fn strchr(s: *const c_char, c: c_int) -> *mut c_char {
    // SAFETY: strchr(9F): a string.
    let mut bytes = unsafe { c_string(s, None) };
    bytes.push(0);
    found(s, bytes.iter().position(|b| *b == c as u8))
}

unsafe extern "C" fn strrchr(s: *const c_char, c: c_int) -> *mut c_char {
    // SAFETY: strrchr(9F): a string.
    let mut bytes = unsafe { c_string(s, None) };
    bytes.push(0);
    found(s, bytes.iter().rposition(|b| *b == c as u8))
}

unsafe extern "C" fn strstr(s: *const c_char, what: *const c_char) -> *mut c_char {
    // SAFETY: strstr(9F): two strings.
    let (bytes, what) = (unsafe { c_string(s, None) }, unsafe { c_string(what, None) });
    if what.is_empty() {
        return s.cast_mut();
    }
    found(s, bytes.windows(what.len()).position(|window| window == what))
}

fn found(s: *const c_char, at: Option<usize>) -> *mut c_char {
    at.map_or(std::ptr::null_mut(), |at| s.wrapping_add(at).cast_mut())
}
