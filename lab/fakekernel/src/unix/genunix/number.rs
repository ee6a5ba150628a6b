//! Byte order and `ddi_strtol(9F)`.

use std::ffi::{c_char, c_int, c_long, c_ulong};

use illumos_sys_hdrs::{longlong_t, u_longlong_t};

use crate::export;
use crate::loader::errno::Errno;
use crate::loader::export::Export;
use crate::loader::mem::c_string;

pub(super) fn unix() -> Vec<Export> {
    export! { ANY: htonl, htonll, htons, ntohl, ntohll, ntohs, ddi_strtol, ddi_strtoul; }
}

pub(super) fn genunix() -> Vec<Export> {
    export! { ANY: ddi_strtoll, ddi_strtoull; }
}

unsafe extern "C" fn htonl(n: u32) -> u32 {
    n.to_be()
}

unsafe extern "C" fn htonll(n: u64) -> u64 {
    n.to_be()
}

unsafe extern "C" fn htons(n: u16) -> u16 {
    n.to_be()
}

unsafe extern "C" fn ntohl(n: u32) -> u32 {
    u32::from_be(n)
}

unsafe extern "C" fn ntohll(n: u64) -> u64 {
    u64::from_be(n)
}

unsafe extern "C" fn ntohs(n: u16) -> u16 {
    u16::from_be(n)
}

/// A number as `strtol` reads it: sign and magnitude, and how many bytes it took.
#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    negative: bool,
    /// `None` when it does not fit 64 bits.
    magnitude: Option<u64>,
    length: usize,
}

/// `None` when there are no digits or the base is none.
fn parse(text: &[u8], base: c_int) -> Option<Parsed> {
    if base != 0 && !(2..=36).contains(&base) {
        return None;
    }
    let mut at = text.iter().take_while(|c| c.is_ascii_whitespace() || **c == 0x0b).count();
    let negative = text.get(at) == Some(&b'-');
    if matches!(text.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    let hex = matches!(text.get(at..), Some([b'0', b'x' | b'X', d, ..]) if d.is_ascii_hexdigit());
    let base = match base {
        0 if hex => 16,
        0 if text.get(at) == Some(&b'0') => 8,
        0 => 10,
        base => base as u32,
    };
    if hex && base == 16 {
        at += 2;
    }
    let digits = text[at..].iter().map_while(|c| char::from(*c).to_digit(base));
    let mut magnitude = Some(0u64);
    let mut count = 0;
    for digit in digits {
        magnitude = magnitude.and_then(|m| m.checked_mul(base.into())?.checked_add(digit.into()));
        count += 1;
    }
    (count > 0).then_some(Parsed { negative, magnitude, length: at + count })
}

fn signed(parsed: &Parsed) -> Option<i64> {
    let magnitude = parsed.magnitude?;
    if parsed.negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

fn unsigned(parsed: &Parsed) -> Option<u64> {
    let magnitude = parsed.magnitude?;
    Some(if parsed.negative { magnitude.wrapping_neg() } else { magnitude })
}

/// ERANGE of `sys/errno.h`.
const ERANGE: c_int = 34;

/// # Safety
///
/// `text` is a string; `end` is null or writable; `result` is writable.
unsafe fn convert<T>(
    text: *const c_char,
    end: *mut *mut c_char,
    base: c_int,
    result: *mut T,
    value: impl FnOnce(&Parsed) -> Option<T>,
) -> c_int {
    // SAFETY: by contract.
    let parsed = parse(&unsafe { c_string(text, None) }, base);
    let length = parsed.as_ref().map_or(0, |parsed| parsed.length);
    if !end.is_null() {
        // SAFETY: by contract, and not null.
        unsafe { end.write(text.wrapping_add(length).cast_mut()) };
    }
    let Some(parsed) = parsed else { return Errno::EINVAL.0 };
    let Some(value) = value(&parsed) else { return ERANGE };
    // SAFETY: by contract.
    unsafe { result.write(value) };
    0
}

unsafe extern "C" fn ddi_strtol(
    s: *const c_char,
    end: *mut *mut c_char,
    base: c_int,
    out: *mut c_long,
) -> c_int {
    // SAFETY: ddi_strtol(9F): a string, a place for its end or none, a place for the result.
    unsafe { convert(s, end, base, out, signed) }
}

unsafe extern "C" fn ddi_strtoll(
    s: *const c_char,
    end: *mut *mut c_char,
    base: c_int,
    out: *mut longlong_t,
) -> c_int {
    // SAFETY: as ddi_strtol.
    unsafe { convert(s, end, base, out, signed) }
}

unsafe extern "C" fn ddi_strtoul(
    s: *const c_char,
    end: *mut *mut c_char,
    base: c_int,
    out: *mut c_ulong,
) -> c_int {
    // SAFETY: as ddi_strtol.
    unsafe { convert(s, end, base, out, unsigned) }
}

unsafe extern "C" fn ddi_strtoull(
    s: *const c_char,
    end: *mut *mut c_char,
    base: c_int,
    out: *mut u_longlong_t,
) -> c_int {
    // SAFETY: as ddi_strtol.
    unsafe { convert(s, end, base, out, unsigned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, base: c_int) -> Option<(Option<i64>, usize)> {
        parse(text.as_bytes(), base).map(|parsed| (signed(&parsed), parsed.length))
    }

    #[test]
    fn numbers_are_read_as_their_prefix_says() {
        assert_eq!(read("  -42x", 0), Some((Some(-42), 5)));
        assert_eq!(read("0x1F", 0), Some((Some(31), 4)));
        assert_eq!(read("017", 0), Some((Some(15), 3)));
        assert_eq!(read("0x", 0), Some((Some(0), 1)));
        assert_eq!(read("0x1f", 16), Some((Some(31), 4)));
        assert_eq!(read("zz", 36), Some((Some(35 * 36 + 35), 2)));
    }

    #[test]
    fn nothing_to_read_and_too_much_to_hold_differ() {
        for (text, base) in [("", 0), ("x", 0), ("-", 10), ("9", 8), ("1", 1), ("1", 37)] {
            assert_eq!(read(text, base), None, "{text} in base {base}");
        }
        assert_eq!(read("9223372036854775808", 10), Some((None, 19)));
        assert_eq!(read("-9223372036854775808", 10), Some((Some(i64::MIN), 20)));
    }
}
