//! A stretch of memory that modules write behind Rust's back.
//!
//! No reference is ever made to such memory: everything goes through [`Mem`], which copies in and out.

use std::ptr::NonNull;

/// `len` mapped bytes from an address.
///
/// # Invariants
///
/// The bytes are readable and writable for as long as the value is used, and no Rust object lies in them whose value
/// matters to the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mem {
    start: NonNull<u8>,
    len: usize,
}

impl Mem {
    /// Takes the caller's word for a range.
    ///
    /// # Safety
    ///
    /// The invariants of the type hold for `len` bytes from `start`, as long as the value or a part of it is used.
    #[inline]
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// As [`Mem::new`], for a pointer out of a module's hands. Null stays an address in page 0, so that using it faults there
    /// and is reported as what it is.
    ///
    /// # Safety
    ///
    /// As for [`Mem::new`], unless `start` is null or `len` is 0.
    pub unsafe fn of<T>(start: *const T, len: usize) -> Self {
        Self { start: NonNull::new(start.cast_mut().cast::<u8>()).unwrap_or(NonNull::dangling()), len }
    }

    /// First byte.
    #[inline]
    pub fn start(self) -> NonNull<u8> {
        self.start
    }

    /// Address of the first byte.
    #[inline]
    pub fn addr(self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// `len` bytes from `at`; both are cut to what is there.
    #[inline]
    pub fn part(self, at: usize, len: usize) -> Self {
        let at = at.min(self.len);
        // SAFETY: `at` is at most `len`, so the result lies in the range or one past its end.
        let start = unsafe { self.start.add(at) };
        Self { start, len: len.min(self.len - at) }
    }

    /// Sets every byte to `value`.
    #[inline]
    pub fn set(self, value: u8) {
        // SAFETY: the range is mapped and holds no Rust object, by the type's invariants.
        unsafe { self.start.as_ptr().write_bytes(value, self.len) }
    }

    /// Repeats a 32-bit pattern, lowest byte first; the last copy may be cut short.
    #[inline]
    pub fn fill(self, pattern: u32) {
        let (bytes, words) = (pattern.to_le_bytes(), self.len / 4);
        for word in 0..words {
            // SAFETY: `word * 4 + 4 <= len`.
            let to = unsafe { self.start.as_ptr().add(word * 4) };
            // SAFETY: four bytes of the range, by the line above; byte arrays need no alignment.
            unsafe { to.cast::<[u8; 4]>().write(bytes) };
        }
        self.part(words * 4, 4).put(&bytes[..self.len % 4]);
    }

    /// Offset of the first byte that is not what [`Mem::fill`] leaves.
    #[inline]
    pub fn first_not(self, pattern: u32) -> Option<usize> {
        let word = u64::from(pattern) << 32 | u64::from(pattern);
        let words = self.len / 8;
        // Words, since nearly always nothing has changed; the byte is looked for only then.
        let same = (0..words).fold(0, |changed, at| changed | (self.word(at) ^ word)) == 0;
        let from = if same { words * 8 } else { 0 };
        let want = pattern.to_le_bytes();
        let mut rest = [0; Self::STEP];
        (from..self.len).step_by(Self::STEP).find_map(|at| {
            let size = Self::STEP.min(self.len - at);
            self.part(at, size).copy_to(&mut rest);
            let changed = rest[..size].iter().zip(want.iter().cycle()).position(|(have, want)| have != want);
            changed.map(|byte| at + byte)
        })
    }

    /// Eight bytes, the first at `at * 8`, which the caller knows to be there.
    #[inline]
    fn word(self, at: usize) -> u64 {
        // SAFETY: the eight bytes lie in the range, by the caller's word.
        let from = unsafe { self.start.as_ptr().add(at * 8) };
        // SAFETY: they are mapped, by the type's invariants; byte arrays need no alignment.
        u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read() })
    }

    /// The bytes, copied out.
    pub fn get(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        // SAFETY: the source is mapped by the type's invariants; the destination is new and has room for as much.
        unsafe { self.start.as_ptr().copy_to_nonoverlapping(out.as_mut_ptr(), self.len) };
        // SAFETY: the line above has written every byte.
        unsafe { out.set_len(self.len) };
        out
    }

    /// Copies out as many bytes as both have.
    #[inline]
    pub fn copy_to(self, out: &mut [u8]) {
        let len = out.len().min(self.len);
        // SAFETY: the source is mapped by the type's invariants; the destination is a Rust slice, disjoint by those too.
        unsafe { self.start.as_ptr().copy_to_nonoverlapping(out.as_mut_ptr(), len) };
    }

    /// Copies `data` in, as far as it fits.
    #[inline]
    pub fn put(self, data: &[u8]) {
        let len = data.len().min(self.len);
        // SAFETY: the destination is mapped by the type's invariants; the source is a Rust slice, disjoint by those too.
        unsafe { self.start.as_ptr().copy_from_nonoverlapping(data.as_ptr(), len) };
    }

    /// Copies as many bytes as both have; the ranges may overlap.
    #[inline]
    pub fn copy_from(self, from: Self) {
        // SAFETY: both ranges are mapped by the type's invariants.
        unsafe { self.start.as_ptr().copy_from(from.start.as_ptr(), self.len.min(from.len)) };
    }

    /// The first pair of bytes that differ.
    pub fn first_difference(self, other: Self) -> Option<(u8, u8)> {
        let len = self.len.min(other.len);
        (0..len.div_ceil(Self::STEP)).find_map(|step| {
            let (mut a, mut b) = ([0; Self::STEP], [0; Self::STEP]);
            let size = Self::STEP.min(len - step * Self::STEP);
            self.part(step * Self::STEP, size).copy_to(&mut a);
            other.part(step * Self::STEP, size).copy_to(&mut b);
            a.into_iter().zip(b).find(|(x, y)| x != y)
        })
    }

    /// Bytes compared at a time.
    const STEP: usize = 64;

    /// Whether the two ranges share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        self.addr() < other.addr() + other.len && other.addr() < self.addr() + self.len
    }
}

/// The bytes before the NUL at `start`, or the first `limit` when none of them is NUL; nothing at null.
///
/// # Safety
///
/// `start` is null or a string that ends with a NUL or has `limit` readable bytes.
pub unsafe fn c_string(start: *const core::ffi::c_char, limit: Option<usize>) -> Vec<u8> {
    let mut out = Vec::new();
    if start.is_null() {
        return out;
    }
    while limit.is_none_or(|limit| out.len() < limit) {
        // SAFETY: no byte so far was the NUL and the limit is not reached, so this one is part of the string.
        let at = unsafe { start.cast::<u8>().add(out.len()) };
        // SAFETY: as above.
        match unsafe { at.read() } {
            0 => break,
            byte => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_changed_at_the_byte_that_changed() {
        let mut buffer = [0u8; 11];
        // SAFETY: the buffer is used through `mem` alone until it goes out of scope.
        let mem = unsafe { Mem::of(buffer.as_mut_ptr(), buffer.len()) };
        mem.fill(0xdead_beef);
        assert_eq!(mem.first_not(0xdead_beef), None);
        for at in [0, 3, 4, 9, 10] {
            let byte = mem.part(at, 1).get();
            mem.part(at, 1).put(&[!byte[0]]);
            assert_eq!(mem.first_not(0xdead_beef), Some(at));
            mem.part(at, 1).put(&byte);
        }
    }

    #[test]
    fn a_part_never_leaves_the_whole() {
        let mut buffer = [0u8; 8];
        // SAFETY: as above.
        let mem = unsafe { Mem::of(buffer.as_mut_ptr(), buffer.len()) };
        assert_eq!(mem.part(6, 10).len(), 2);
        assert_eq!(mem.part(20, 1).len(), 0);
        assert!(mem.part(0, 4).overlaps(mem.part(3, 1)));
        assert!(!mem.part(0, 4).overlaps(mem.part(4, 4)));
    }
}
