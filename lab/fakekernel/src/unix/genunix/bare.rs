//! The heap of a machine without checks: blocks in classes of size, last freed first used; no red zones, no quarantine, no
//! books. Of a large block of zeros the computer has only the pages that were written to, so that a thousand hosts can have pools that they hardly
//! use.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::heap::Fill;
use crate::loader::mem::Mem;

/// Blocks up to [`STEP`] times [`STEPS`] bytes have a class each step; larger ones come and go one by one.
const STEP: usize = 64;
const STEPS: usize = 160;
/// In front of a block: its size, and what there is to its left. A cache line, which is the alignment of the blocks.
const HEAD: usize = 64;
/// Blocks of zeros from this size on are pages of their own.
const LARGE: usize = 256 << 10;
/// Alignment of pages.
const PAGE: usize = 4096;

/// One host's heap.
#[derive(Debug)]
pub(super) struct Bare {
    classes: Vec<Mutex<Class>>,
}

#[derive(Debug, Default)]
struct Class {
    idle: Vec<usize>,
    /// Every block there is of this class.
    made: Vec<usize>,
    /// Bytes asked for in blocks that are out, and how many those are.
    bytes: usize,
    blocks: usize,
}

impl Bare {
    pub(super) fn new() -> Self {
        Self { classes: (0..=STEPS).map(|_| Mutex::default()).collect() }
    }

    /// A block that starts at a multiple of `align`, and of 64.
    pub(super) fn alloc(&self, size: usize, align: usize, fill: Fill) -> Mem {
        let number = class(size, align);
        let mut class = locked(&self.classes[number]);
        class.bytes += size;
        class.blocks += 1;
        let addr = class.idle.pop().unwrap_or_else(|| {
            let layout = layout(number, size, align);
            let addr = if is_paged(&layout, fill) { pages(layout) } else { fresh(layout) };
            if number < STEPS {
                class.made.push(addr);
            }
            addr
        });
        drop(class);
        let mem = bytes(addr, size);
        let paged = number == STEPS && is_paged(&layout(number, size, align), fill);
        put_head(addr, size, align, paged);
        if fill == Fill::Zero && !paged {
            mem.set(0);
        }
        mem
    }

    /// Takes a block back.
    pub(super) fn free(&self, addr: usize) {
        let (size, align, paged) = read_head(addr);
        let number = class(size, align);
        let mut class = locked(&self.classes[number]);
        class.bytes -= size;
        class.blocks -= 1;
        if number < STEPS {
            class.idle.push(addr);
        } else if paged {
            drop(class);
            unmap(addr, layout(number, size, align));
        } else {
            drop(class);
            release(addr, layout(number, size, align));
        }
    }

    /// Bytes asked for in blocks that are out, and how many those are.
    pub(super) fn usage(&self) -> (usize, usize) {
        let one = |class: &Mutex<Class>| {
            let class = locked(class);
            (class.bytes, class.blocks)
        };
        self.classes.iter().map(one).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// The bytes of a block.
    pub(super) fn block(&self, addr: usize) -> Mem {
        bytes(addr, read_head(addr).0)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        for (number, class) in self.classes.iter().enumerate() {
            // What is still out goes too: the host is over.
            for addr in std::mem::take(&mut locked(class).made) {
                release(addr, layout(number, 0, HEAD));
            }
        }
    }
}

/// Held for a few instructions, and never across anything that waits.
fn locked(class: &Mutex<Class>) -> MutexGuard<'_, Class> {
    class.lock().unwrap_or_else(PoisonError::into_inner)
}

fn class(size: usize, align: usize) -> usize {
    if align > HEAD { STEPS } else { size.max(1).div_ceil(STEP).min(STEPS) }
}

/// Of a block with its head in front.
fn layout(class: usize, size: usize, align: usize) -> Layout {
    let front = align.max(HEAD);
    let room = if class < STEPS { class * STEP } else { size };
    Layout::from_size_align(front + room, front)
        .expect("alignments are powers of two, sizes below the address space")
}

fn fresh(layout: Layout) -> usize {
    // SAFETY: the layout has at least the head's bytes.
    let raw = unsafe { alloc(layout) };
    let Some(raw) = NonNull::new(raw) else { handle_alloc_error(layout) };
    raw.as_ptr().expose_provenance() + layout.align()
}

fn release(addr: usize, layout: Layout) {
    let raw: *mut u8 = with_exposed_provenance_mut(addr - layout.align());
    // SAFETY: `fresh` made it with this layout, which follows from the block's class, size and alignment.
    unsafe { dealloc(raw, layout) };
}

fn bytes(addr: usize, size: usize) -> Mem {
    let start = NonNull::new(with_exposed_provenance_mut(addr)).unwrap_or(NonNull::dangling());
    // SAFETY: a block that is out has `size` bytes at `addr`, in which no Rust object lies.
    unsafe { Mem::new(start, size) }
}

/// Whether a block is made of pages of its own, which are zero when they come.
fn is_paged(layout: &Layout, fill: Fill) -> bool {
    fill == Fill::Zero && layout.size() >= LARGE && layout.align() <= PAGE
}

fn pages(layout: Layout) -> usize {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which replaces none.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), prot, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        handle_alloc_error(layout);
    }
    got.expose_provenance() + layout.align()
}

fn unmap(addr: usize, layout: Layout) {
    let base: *mut libc::c_void = with_exposed_provenance_mut(addr - layout.align());
    // SAFETY: `pages` made it, of this length, which follows from the block's size and alignment.
    let result = unsafe { libc::munmap(base, layout.size()) };
    debug_assert_eq!(result, 0);
}

/// The three words in front of a block: size, alignment, and whether it has pages of its own.
fn head(addr: usize) -> *mut [usize; 3] {
    with_exposed_provenance_mut(addr - 24)
}

fn put_head(addr: usize, size: usize, align: usize, paged: bool) {
    // SAFETY: the head is the allocator's own, in front of a block that it has just made or taken from its list.
    unsafe { head(addr).write([size, align, usize::from(paged)]) };
}

fn read_head(addr: usize) -> (usize, usize, bool) {
    // SAFETY: who passes an address here says that a block starts there; a machine without checks takes the module's word.
    let [size, align, paged] = unsafe { head(addr).read() };
    (size, align, paged != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_last_is_used_first_and_is_of_the_size_asked_for() {
        let heap = Bare::new();
        let (one, other) = (heap.alloc(60, 8, Fill::Zero), heap.alloc(64, 64, Fill::Zero));
        assert_eq!((one.len(), other.addr() % 64, heap.usage()), (60, 0, (124, 2)));
        heap.free(one.addr());
        heap.free(other.addr());
        assert_eq!(heap.alloc(1, 8, Fill::Zero).addr(), other.addr());
        assert_eq!(heap.usage(), (1, 1));
    }

    #[test]
    fn a_page_starts_at_a_page_and_a_large_block_goes_back() {
        let heap = Bare::new();
        let page = heap.alloc(4096, 4096, Fill::Zero);
        let large = heap.alloc(1 << 20, 8, Fill::Zero);
        assert_eq!((page.addr() % 4096, heap.block(large.addr()).len()), (0, 1 << 20));
        heap.free(page.addr());
        heap.free(large.addr());
        assert_eq!(heap.usage(), (0, 0));
    }

    #[test]
    fn large_block_of_zeros_is_zero_each_time_and_one_of_anything_goes_back_as_it_came() {
        let heap = Bare::new();
        for fill in [Fill::Zero, Fill::Uninitialised, Fill::Zero] {
            let block = heap.alloc(3 << 20, 4096, fill);
            assert_eq!(block.addr() % 4096, 0);
            let bytes = block.get();
            assert!(fill != Fill::Zero || bytes.iter().all(|byte| *byte == 0));
            block.set(7);
            heap.free(block.addr());
        }
        assert_eq!(heap.usage(), (0, 0));
    }

    #[test]
    fn large_block_of_zeros_takes_only_what_was_written_to() {
        let pages = || -> usize {
            let said = std::fs::read_to_string("/proc/self/statm").expect("Linux says");
            said.split(' ').nth(1).expect("the resident pages").parse().expect("a number")
        };
        let heap = Bare::new();
        let before = pages();
        let block = heap.alloc(1 << 30, 4096, Fill::Zero);
        let after = pages();
        assert!(after < before + (1 << 30) / 4096 / 2, "{before} and {after} pages");
        heap.free(block.addr());
    }
}
