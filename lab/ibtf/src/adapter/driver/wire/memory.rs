//! Memory that an adapter reads and writes, in places for a MAD each.

use super::{GRH, MAD, PLACE, RECEIVES, SENDS};

/// Memory that the adapter reads and writes.
pub(super) struct Memory(Box<[std::cell::UnsafeCell<u8>]>);

// SAFETY: each place of it is the adapter's, or of the one who took it from it or from the list of free ones.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new() -> Self {
        const PLACES: usize = 2 * RECEIVES + SENDS;
        Self((0..PLACES * PLACE).map(|_| std::cell::UnsafeCell::new(0)).collect())
    }

    /// Bytes of all of it.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn base(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    pub(super) fn at(&self, place: usize) -> u64 {
        self.base() + (place * PLACE) as u64
    }

    pub(super) fn read(&self, place: usize) -> [u8; MAD] {
        let from = self.0[place * PLACE + GRH..].as_ptr().cast::<[u8; MAD]>();
        // SAFETY: the adapter has given the place back, and nobody else has it.
        unsafe { from.read() }
    }

    pub(super) fn write(&self, place: usize, bytes: &[u8; MAD]) {
        let to = self.0[place * PLACE..].as_ptr().cast_mut().cast::<[u8; MAD]>();
        // SAFETY: the place was in the list of free ones and is the caller's.
        unsafe { to.write(*bytes) };
    }
}
