//! Where a host's kernel heap lives: one reserved stretch of addresses, handed out in a way that only the sequence of
//! requests decides.
//!
//! A machine that makes the same requests in the same order gets the same addresses, relative to the arena's start; and
//! the start itself is the lowest free one of a fixed list, so two runs of one process agree too. Pages are reserved
//! without swap and cost memory only once touched.
//!
//! The arena is not the allocator: it knows neither callers nor rules. `genunix::kmem` keeps the table of what is
//! allocated and decides when a block may be used again.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;

use crate::loader::mem::Mem;

/// Where the first arena may begin: above the modules' windows, below the libraries.
const FIRST: usize = 0x1000_0000_0000;
/// One arena's share of the address space.
const SPAN: usize = 16 << 30;
/// The upper half is for whole pages ([`Arena::take_pages`]).
const BLOCKS: usize = SPAN / 2;
/// Size of a page of the machine below.
pub const PAGE: usize = 4096;
/// How many arenas one process can have at a time.
const SLOTS: usize = 1024;

/// Slots whose mappings outlive an arena, with what was in them, if that was no more than so many bytes: the next arena there has no
/// page to fetch.
const KEPT_SLOTS: usize = 16;
const KEPT_BYTES: usize = 64 << 20;

static SLOTS_NOW: Mutex<[Slot; SLOTS]> = Mutex::new([Slot::Unmapped; SLOTS]);

/// A share of the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Unmapped,
    Taken,
    /// Mapped, and nobody's.
    Kept,
}

/// Why an arena or a block could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// Every slot is in use by another host of this process, or mapped by something else.
    #[error("no free address range for a kernel heap ({SLOTS} slots of {} GiB from {FIRST:#x})", SPAN >> 30)]
    NoSlot,
    /// This host's range is used up.
    #[error("the kernel heap of {} GiB at {base:#x} is used up", SPAN >> 30)]
    Exhausted {
        /// Start of the range.
        base: usize,
    },
}

/// Could `addr` be in a host's kernel heap?
pub(crate) fn in_arena_range(addr: usize) -> bool {
    (FIRST..FIRST + SLOTS * SPAN).contains(&addr)
}

/// A reserved stretch of addresses and its free blocks.
#[derive(Debug)]
pub struct Arena {
    slot: usize,
    base: usize,
    /// Bytes handed out so far for the first time.
    used: usize,
    /// Bytes of whole pages handed out so far, behind [`BLOCKS`].
    paged: usize,
    /// Free blocks by (size, alignment), last freed first used.
    free: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Arena {
    /// Reserves the lowest free range.
    ///
    /// # Errors
    ///
    /// [`ArenaError::NoSlot`] when none is left.
    pub fn new() -> Result<Self, ArenaError> {
        let mut slots = SLOTS_NOW.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (slot, state) in slots.iter_mut().enumerate().filter(|(_, state)| **state != Slot::Taken) {
            let base = FIRST + slot * SPAN;
            if *state == Slot::Kept || reserve(base) {
                *state = Slot::Taken;
                return Ok(Self { slot, base, used: 0, paged: 0, free: BTreeMap::new() });
            }
        }
        Err(ArenaError::NoSlot)
    }

    /// Its first address.
    pub fn start(&self) -> usize {
        self.base
    }

    /// Where its whole pages begin.
    pub fn pages(&self) -> usize {
        self.base + BLOCKS
    }

    /// A block of `size` bytes at a multiple of `align` (a power of two, at least 8). Its content is whatever was there.
    ///
    /// # Errors
    ///
    /// [`ArenaError::Exhausted`].
    pub fn take(&mut self, size: usize, align: usize) -> Result<Mem, ArenaError> {
        let size = size.next_multiple_of(8);
        if let Some(addr) = self.free.get_mut(&(size, align)).and_then(Vec::pop) {
            return Ok(self.mem(addr, size));
        }
        let start = (self.base + self.used).next_multiple_of(align);
        let end = start.checked_add(size).filter(|end| *end <= self.base + BLOCKS);
        let end = end.ok_or(ArenaError::Exhausted { base: self.base })?;
        self.used = end - self.base;
        Ok(self.mem(start, size))
    }

    /// Gives a block back; `size` and `align` are those of [`Arena::take`].
    pub fn give(&mut self, addr: usize, size: usize, align: usize) {
        self.free.entry((size.next_multiple_of(8), align)).or_default().push(addr);
    }

    /// Whole pages, never handed out before; `None` when there are no more.
    pub fn take_pages(&mut self, pages: usize) -> Option<usize> {
        let start = self.base + BLOCKS + self.paged;
        let end = start.checked_add(pages.checked_mul(PAGE)?).filter(|end| *end <= self.base + SPAN)?;
        self.paged = end - self.base - BLOCKS;
        Some(start)
    }

    /// Has nothing in the pages of [`Arena::take_pages`] any more. False if the system did not do it.
    fn renew_pages(&self) -> bool {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let pages: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(self.base + BLOCKS);
        // SAFETY: the range lies in this arena's own mapping, and whoever drops the arena promises that nobody uses it any more.
        let got =
            unsafe { libc::mmap(pages, SPAN - BLOCKS, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        got == pages
    }

    /// Has every access to this page of [`Arena::take_pages`] fault, for good.
    pub fn wall(&self, addr: usize) {
        self.close(addr, PAGE);
        let page: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(addr);
        // With a property that its neighbours do not have it stays a mapping of its own when they are closed and opened: the system
        // takes longer to join and to divide mappings than to change what may be done in one.
        // SAFETY: advice about a page of this arena that nobody can read.
        unsafe { libc::madvise(page, PAGE, libc::MADV_DONTDUMP) };
    }

    /// Has every access to these bytes of [`Arena::take_pages`] fault.
    pub fn close(&self, addr: usize, len: usize) {
        self.protect(addr, len, libc::PROT_NONE);
    }

    /// The same, and there is nothing in them any more: once open again they hold zeros.
    pub fn discard(&self, addr: usize, len: usize) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let start = self.own_pages(addr, len);
        // SAFETY: the range lies in this arena's mapping, where no Rust object lies; whoever closes pages does not use a `Mem` of them.
        let got = unsafe { libc::mmap(start, len, libc::PROT_NONE, flags, -1, 0) };
        assert_eq!(got, start, "mmap of {len} bytes: {}", std::io::Error::last_os_error());
    }

    /// Makes them memory again; what was in them is there.
    pub fn open(&self, addr: usize, len: usize) {
        self.protect(addr, len, libc::PROT_READ | libc::PROT_WRITE);
    }

    fn protect(&self, addr: usize, len: usize, access: libc::c_int) {
        let start = self.own_pages(addr, len);
        // SAFETY: the range lies in this arena's mapping, where no Rust object lies; whoever closes pages does not use a `Mem` of them.
        let done = unsafe { libc::mprotect(start, len, access) };
        assert_eq!(done, 0, "mprotect of {len} bytes: {}", std::io::Error::last_os_error());
    }

    fn own_pages(&self, addr: usize, len: usize) -> *mut libc::c_void {
        let pages = self.base + BLOCKS..=self.base + BLOCKS + self.paged;
        assert!(pages.contains(&addr) && pages.contains(&(addr + len)), "pages of this arena");
        std::ptr::with_exposed_provenance_mut(addr)
    }

    /// `len` bytes of this arena; cut to what was handed out.
    pub fn mem(&self, addr: usize, len: usize) -> Mem {
        let pages = self.base + BLOCKS;
        let (start, end) =
            if addr < pages { (self.base, self.base + self.used) } else { (pages, pages + self.paged) };
        let addr = addr.clamp(start, end);
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(addr)).unwrap_or(NonNull::dangling());
        // SAFETY: the range lies in this arena's mapping, which is readable and writable until the arena is dropped and in
        // which no Rust object lives.
        unsafe { Mem::new(start, len.min(end - addr)) }
    }

    /// Whether `addr` lies in this arena, allocated or not.
    pub fn contains(&self, addr: usize) -> bool {
        (self.base..self.base + SPAN).contains(&addr)
    }
}

fn reserve(base: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let wanted: *mut libc::c_void = std::ptr::without_provenance_mut(base);
    // SAFETY: MAP_FIXED_NOREPLACE maps only where nothing is mapped, so no memory of this process changes meaning.
    let got = unsafe { libc::mmap(wanted, SPAN, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return false;
    }
    if got.expose_provenance() != base {
        // SAFETY: the mapping was made two lines above (an old kernel took the address as a hint) and nobody else knows it.
        unsafe { libc::munmap(got, SPAN) };
        return false;
    }
    // Two megabytes at a time, where the system allows it: a driver's buffers take thousands of page faults otherwise.
    // SAFETY: advice about this function's own mapping; what is in it stays as it is.
    unsafe { libc::madvise(got, BLOCKS, libc::MADV_HUGEPAGE) };
    true
}

impl Drop for Arena {
    fn drop(&mut self) {
        let keep = self.slot < KEPT_SLOTS && self.used <= KEPT_BYTES && self.renew_pages();
        if !keep {
            let base: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(self.base);
            // SAFETY: the range is this arena's own mapping. Whoever drops the arena promises that no module of the host runs any
            // more; the kernel's tables, which hold its addresses, are dropped with it.
            unsafe { libc::munmap(base, SPAN) };
        }
        let mut slots = SLOTS_NOW.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slots[self.slot] = if keep { Slot::Kept } else { Slot::Unmapped };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_requests_get_the_same_offsets() {
        let requests = [(24, 8), (4096, 4096), (64, 64), (24, 8), (100, 8)];
        let offsets = |arena: &mut Arena| -> Vec<usize> {
            requests
                .iter()
                .map(|&(size, align)| arena.take(size, align).unwrap().addr() - arena.base)
                .collect()
        };
        let (mut first, mut second) = (Arena::new().unwrap(), Arena::new().unwrap());
        assert_eq!(offsets(&mut first), offsets(&mut second));
    }

    #[test]
    fn a_block_given_back_is_the_next_of_its_size() {
        let mut arena = Arena::new().unwrap();
        let block = arena.take(48, 8).unwrap();
        let other = arena.take(48, 8).unwrap();
        assert_ne!(block, other);
        arena.give(block.addr(), 48, 8);
        assert_eq!(arena.take(48, 64).unwrap().addr() % 64, 0);
        assert_eq!(arena.take(48, 8).unwrap(), block);
    }

    #[test]
    fn an_arena_that_is_full_says_so() {
        let mut arena = Arena::new().unwrap();
        arena.take(BLOCKS - 4096, 8).unwrap();
        assert!(matches!(arena.take(8192, 8), Err(ArenaError::Exhausted { .. })));
        assert!(arena.take(4096, 8).is_ok());
        assert!(arena.take_pages(BLOCKS / PAGE).is_some());
        assert!(arena.take_pages(1).is_none());
    }
}
