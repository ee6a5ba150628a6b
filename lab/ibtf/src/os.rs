//! What IBTF takes from the rest of the kernel: memory that changes hands, console lines, what lies at an address.

use fakekernel::genunix::Level;
use fakekernel::{Cx, Kernel};

/// A zeroed block of `len` bytes that the calling module gives back, through IBTF or with `kmem_free`.
pub(crate) fn alloc(cx: &Cx, len: usize) -> *mut u8 {
    cx.kernel().genunix().kmem_zalloc_for_module(len).cast()
}

/// A block with this content.
pub(crate) fn give(cx: &Cx, bytes: &[u8]) -> *mut u8 {
    let p = alloc(cx, bytes.len());
    for (n, byte) in bytes.iter().enumerate() {
        // SAFETY: the block was made with room for all of `bytes`.
        unsafe { crate::ptr::set_element(p, n, *byte) };
    }
    p
}

/// Takes a block back; NULL is tolerated. Another address or length breaks rule 15.
pub(crate) fn take_back(cx: &Cx, p: *mut u8, len: usize) {
    if !p.is_null() {
        cx.kernel().genunix().kmem_free_for_module(p.addr(), len);
    }
}

/// A line on the host's console.
pub(crate) fn console(cx: &Cx, line: &str) {
    cx.kernel().genunix().cmn_err(cx, Level::Notice, line);
}

/// What lies at an address, in words.
pub(crate) fn explain(kernel: &Kernel, addr: u64) -> String {
    kernel.genunix().explain_address(kernel, addr as usize)
}

/// Is all of it inside one allocation that the kernel has given out and not taken back? A machine without checks takes the
/// module's word for it.
pub(crate) fn is_live(kernel: &Kernel, addr: u64, len: u64) -> bool {
    if !kernel.machine().config().checks {
        return true;
    }
    let Some(end) = addr.checked_add(len) else { return false };
    let block = kernel.genunix().allocation_at(addr as usize);
    block.is_some_and(|(start, size)| end <= (start + size) as u64)
}
