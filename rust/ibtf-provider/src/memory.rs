//! [`Region`]: kernel memory that a client has registered, and the one way to touch it.

use core::ffi::c_void;
use core::marker::PhantomData;

use illumos_sys_hdrs as sys;

/// What a region may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Receives may be written there.
    pub local_write: bool,
    /// RDMA or atomics may write there.
    pub remote_write: bool,
    /// RDMA may read it.
    pub remote_read: bool,
}

/// Registered memory: kernel addresses that the client keeps mapped until it has deregistered them.
///
/// Only `register_mr` makes one. Whoever copies holds a reference to it: deregistration waits until there is no other.
pub struct Region {
    start: u64,
    len: u64,
    access: Access,
}

impl Region {
    /// # Safety
    ///
    /// So many bytes of kernel memory are mapped there, and stay so as long as the value lives.
    pub(crate) unsafe fn new(start: u64, len: u64, access: Access) -> Self {
        Self { start, len, access }
    }

    /// All of the kernel's memory, for addresses under the reserved key: clients have them from `ibc_map_mem_iov` and keep what is there
    /// mapped until they have unmapped it.
    pub fn everything() -> Self {
        let start = kernel::kernel_base() as u64;
        let access = Access { local_write: true, remote_write: false, remote_read: false };
        Self { start, len: u64::MAX - start, access }
    }

    /// What it may be used for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The bytes from the address `start`; `None` unless all are inside.
    pub fn window(&self, start: u64, len: u32) -> Option<Window<'_>> {
        let offset = start.checked_sub(self.start)?;
        let end = offset.checked_add(u64::from(len))?;
        (end <= self.len).then_some(Window { start, len, region: PhantomData })
    }
}

/// A piece of registered memory.
///
/// The client may write there at any moment, as it may while an adapter reads by DMA: what is copied then is anybody's guess, and
/// nobody here has a reference to the bytes.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    start: u64,
    len: u32,
    region: PhantomData<&'a Region>,
}

impl Window<'_> {
    /// Bytes in it.
    #[allow(clippy::len_without_is_empty, reason = "an empty one is nothing to ask for")]
    pub fn len(self) -> u32 {
        self.len
    }

    /// The same from byte `skip` on; empty if there are no more.
    pub fn skip(self, skip: u32) -> Self {
        let skip = skip.min(self.len);
        Self { start: self.start + u64::from(skip), len: self.len - skip, ..self }
    }

    /// Copies as many bytes as both have, and says how many. **Any** context.
    pub fn copy_to(self, to: Window<'_>) -> u32 {
        let len = self.len.min(to.len);
        // SAFETY: so many bytes are in both windows.
        unsafe { copy(self.start as *const c_void, to.start as *mut c_void, len) };
        len
    }

    /// Copies as many bytes as both have out of it. **Any** context.
    pub fn read(self, to: &mut [u8]) -> u32 {
        let len = self.len.min(u32::try_from(to.len()).unwrap_or(u32::MAX));
        // SAFETY: so many bytes are in the window and in the slice.
        unsafe { copy(self.start as *const c_void, to.as_mut_ptr().cast(), len) };
        len
    }

    /// Copies as many bytes as both have into it. **Any** context.
    pub fn write(self, from: &[u8]) -> u32 {
        let len = self.len.min(u32::try_from(from.len()).unwrap_or(u32::MAX));
        // SAFETY: so many bytes are in the slice and in the window.
        unsafe { copy(from.as_ptr().cast(), self.start as *mut c_void, len) };
        len
    }
}

/// Copies as an adapter would: a client that changes the bytes meanwhile changes what arrives, and nothing else.
///
/// # Safety
///
/// So many bytes are in a window, or in a slice, at both ends. (A window lives no longer than the region its bytes are of.)
unsafe fn copy(from: *const c_void, to: *mut c_void, len: u32) {
    // SAFETY: by this function's contract.
    unsafe { sys::bcopy(from, to, len as usize) };
}
