//! [`Pages`]: memory for an adapter.

use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

/// The size class above which kmem hands out whole pages.
const PAGE: usize = 4096;

/// Zeroed memory in whole pages, for buffers that an adapter reads or writes.
///
/// Deliberately not a slice: who may look at which part of it, and when, is known only to whoever hands the parts out.
pub struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory.
unsafe impl Send for Pages {}
// SAFETY: shared, it only gives its address away.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `len` bytes, page-aligned; waits for memory. `None` for a length of zero or beyond the address space.
    /// **May block.**
    pub fn new(len: usize) -> Option<Self> {
        let len = len.checked_next_multiple_of(PAGE).filter(|&len| len != 0)?;
        // SAFETY: any size may be asked for; the caller may block.
        let base = unsafe { sys::kmem_zalloc(len, sys::KM_SLEEP) };
        NonNull::new(base.cast()).map(|base| Self { base, len })
    }

    /// Where it begins.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How long it is, in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this length, freed once.
        unsafe { sys::kmem_free(self.base.as_ptr().cast(), self.len) };
    }
}
