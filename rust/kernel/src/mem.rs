//! The allocator: `kmem_alloc(9F)` behind Rust's `GlobalAlloc`.
//!
//! An allocation is `KM_NOSLEEP`, and the caller gets the refusal, unless the caller shows a [`MayBlock`]: then it is `KM_SLEEP`,
//! waits until there is memory, and cannot fail. `kmem` promises 8-byte alignment only, and `kmem_free` must be given the exact size that was asked
//! for: a mismatch is a panic, not a leak.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::may_block::MayBlock;

/// The kernel had no memory to give without sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of kernel memory")
    }
}

/// The lowest address that is the kernel's; below are users' and those that there are not. **Any** context.
#[cfg(target_os = "none")]
pub fn kernel_base() -> usize {
    let at = &raw const illumos_sys_hdrs::_kernelbase;
    // SAFETY: set when the system booted, and never written again.
    unsafe { at.read() }
}

/// As amd64's kernel has it about there.
#[cfg(not(target_os = "none"))]
pub fn kernel_base() -> usize {
    0xffff_8000_0000_0000
}

/// Memory for one `T`, uninitialised; dangling for a zero-sized `T`.
pub(crate) fn alloc_for<T>() -> Result<NonNull<T>, AllocError> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(NonNull::dangling());
    }
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc::alloc::alloc(layout) };
    NonNull::new(memory.cast()).ok_or(AllocError)
}

/// The same, which waits for memory. **May block.**
pub(crate) fn alloc_for_waiting<T>(_: &MayBlock) -> NonNull<T> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 { NonNull::dangling() } else { wait_for(layout).cast() }
}

/// Memory for `capacity` times a `T`, uninitialised; dangling if that is nothing. Waits for it. **May block.**
///
/// # Panics
///
/// If the array is larger than the address space, which is a mistake of the caller's.
pub(crate) fn alloc_array_waiting<T>(capacity: usize, _: &MayBlock) -> NonNull<T> {
    let Ok(layout) = Layout::array::<T>(capacity) else { too_large(capacity) };
    if layout.size() == 0 { NonNull::dangling() } else { wait_for(layout).cast() }
}

/// Out of line, so that the places which cannot get here have no call of it.
#[cold]
#[inline(never)]
fn too_large(capacity: usize) -> ! {
    panic!("an array of {capacity} elements")
}

/// Memory of this layout, which is not empty: from the global allocator, which frees it.
#[cfg(target_os = "none")]
fn wait_for(layout: Layout) -> NonNull<u8> {
    kmem::wait_for(layout)
}

/// A host's allocator does not wait, and no test goes on without memory.
#[cfg(not(target_os = "none"))]
fn wait_for(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc::alloc::alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| alloc::alloc::handle_alloc_error(layout))
}

/// Gives back what [`alloc_for`] or [`alloc_for_waiting`] gave.
///
/// # Safety
///
/// `memory` came from one of these for a `T` (or from a `Box<T>`), and the `T` in it has been dropped or moved out.
pub(crate) unsafe fn free_for<T>(memory: NonNull<T>) {
    let layout = Layout::new::<T>();
    if layout.size() != 0 {
        // SAFETY: by this function's contract the block was allocated with this very layout.
        unsafe { alloc::alloc::dealloc(memory.as_ptr().cast(), layout) };
    }
}

#[cfg(target_os = "none")]
mod kmem {
    use core::alloc::{GlobalAlloc, Layout};
    use core::ffi::c_int;
    use core::ptr::{self, NonNull};

    use illumos_sys_hdrs as sys;

    /// What `kmem_alloc` aligns to (a larger size class may happen to be aligned better; nothing promises it).
    const KMEM_ALIGN: usize = 8;

    #[global_allocator]
    static KMEM: Kmem = Kmem;

    struct Kmem;

    // SAFETY: blocks come from kmem, do not overlap, have the size and alignment asked for, and live until freed.
    unsafe impl GlobalAlloc for Kmem {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: KM_NOSLEEP is legal in every context up to LOCK_LEVEL.
            unsafe { allocate(layout, sys::KM_NOSLEEP as c_int) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            if layout.align() <= KMEM_ALIGN {
                // SAFETY: by GlobalAlloc's contract `block` is from `alloc` with this layout, hence this very size.
                return unsafe { sys::kmem_free(block.cast(), layout.size()) };
            }
            // `alloc` succeeded with this layout, so the sum does not overflow now.
            let total = padded(layout).unwrap_or(0);
            // SAFETY: `alloc` stored the base in the word in front of an over-aligned block.
            let record = unsafe { block.sub(size_of::<*mut u8>()) };
            // SAFETY: as above; the word is 8-aligned and initialised.
            let base = unsafe { record.cast::<*mut u8>().read() };
            // SAFETY: `base` came from kmem_alloc(total).
            unsafe { sys::kmem_free(base.cast(), total) };
        }
    }

    /// Waits for memory: the caller has a token for it. [`Kmem`] frees it as it frees its own: both came about in the same way.
    #[inline(never)]
    pub(super) fn wait_for(layout: Layout) -> NonNull<u8> {
        loop {
            // SAFETY: the caller may sleep.
            let memory = unsafe { allocate(layout, sys::KM_SLEEP as c_int) };
            // KM_SLEEP does not answer NULL: there is no second turn.
            if let Some(memory) = NonNull::new(memory) {
                return memory;
            }
        }
    }

    /// # Safety
    ///
    /// `flags` are `KM_NOSLEEP`, or those of a caller that may sleep; the layout's size is not zero.
    unsafe fn allocate(layout: Layout, flags: c_int) -> *mut u8 {
        if layout.align() <= KMEM_ALIGN {
            // SAFETY: any size may be asked for; the context is the caller's business.
            return unsafe { sys::kmem_alloc(layout.size(), flags) }.cast();
        }
        let Some(total) = padded(layout) else { return ptr::null_mut() };
        // SAFETY: as above.
        let base: *mut u8 = unsafe { sys::kmem_alloc(total, flags) }.cast();
        if base.is_null() {
            return base;
        }
        let start = align_up(base, layout.align());
        // SAFETY: `start` is at least one pointer behind `base` and inside the block, see `align_up`.
        let record = unsafe { start.sub(size_of::<*mut u8>()) };
        // SAFETY: `record` lies between `base` and `start`, 8-aligned, and nobody else has the block yet.
        unsafe { record.cast::<*mut u8>().write(base) };
        start
    }

    /// The size to ask kmem for, so that an aligned block and the base pointer in front of it fit.
    fn padded(layout: Layout) -> Option<usize> {
        layout.size().checked_add(layout.align())?.checked_add(size_of::<*mut u8>())
    }

    /// The first multiple of `align` that leaves room for a pointer behind `base`.
    fn align_up(base: *mut u8, align: usize) -> *mut u8 {
        let first = base.wrapping_add(size_of::<*mut u8>());
        // A power of two, which `align_offset` would ask about.
        first.wrapping_add(first.addr().wrapping_neg() & align.wrapping_sub(1))
    }
}
