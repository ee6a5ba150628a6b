//! Tells a debugger where modules are, by the interface that GDB has for code that appears at run time (GDB manual, "JIT Compilation
//! Interface"): a list of object files in memory, and a function that the debugger stops at when the list changes.
//!
//! The file of an entry is the module's own with the address of each loaded section in its header, so symbols are found at their
//! load addresses, and lines where the object has line tables. Nothing is kept unless [`tell_of`] asked for it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use sim::HostMutex;

/// `JIT_REGISTER_FN` and `JIT_UNREGISTER_FN`.
const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;
/// Of an ELF-64 header: where section headers begin, their size, their number; of a section header: its address.
const SECTIONS: usize = 0x28;
const SECTION_SIZE: usize = 0x3a;
const SECTION_COUNT: usize = 0x3c;
const SECTION_ADDRESS: usize = 0x10;

/// `struct jit_code_entry`, and the file it refers to.
#[repr(C)]
struct Entry {
    next: AtomicPtr<Entry>,
    previous: AtomicPtr<Entry>,
    file: *const u8,
    size: u64,
    /// What `file` points to; the debugger does not look further than `size`.
    _bytes: Box<[u8]>,
}

// SAFETY: `file` points into `_bytes`, which nobody writes.
unsafe impl Send for Entry {}
// SAFETY: as above; the links are atomic.
unsafe impl Sync for Entry {}

/// `struct jit_descriptor`.
#[repr(C)]
struct Descriptor {
    version: u32,
    action: AtomicU32,
    relevant: AtomicPtr<Entry>,
    first: AtomicPtr<Entry>,
}

// SAFETY: nothing else in the process has this name: no other code of it is made at run time.
#[unsafe(no_mangle)]
static __jit_debug_descriptor: Descriptor = Descriptor {
    version: 1,
    action: AtomicU32::new(0),
    relevant: AtomicPtr::new(ptr::null_mut()),
    first: AtomicPtr::new(ptr::null_mut()),
};

/// The debugger has a breakpoint here.
// SAFETY: as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn __jit_debug_register_code() {
    std::hint::black_box(__jit_debug_descriptor.version);
}

/// Newest first, as the debugger reads them.
static ENTRIES: HostMutex<Vec<Arc<Entry>>> = HostMutex::new(Vec::new());
static WANTED: OnceLock<Option<String>> = OnceLock::new();

/// From now on, tells the debugger of every module that is loaded, or of those of one host. The first call decides.
pub fn tell_of(host: Option<String>) {
    WANTED.get_or_init(|| host);
}

/// Is there a debugger?
pub(crate) fn is_told() -> bool {
    WANTED.get().is_some()
}

/// A module the debugger knows of, until it is dropped: before its text goes.
pub(crate) struct Told(Arc<Entry>);

/// Tells of the module in `file`, loaded on `host` with each section at its address (0 for one that is not loaded).
pub(crate) fn tell(host: &str, file: &[u8], addresses: &[usize]) -> Option<Told> {
    let wanted = WANTED.get()?;
    if wanted.as_ref().is_some_and(|wanted| wanted != host) {
        return None;
    }
    let bytes = located(file, addresses)?.into_boxed_slice();
    let entry = Arc::new(Entry {
        next: AtomicPtr::default(),
        previous: AtomicPtr::default(),
        file: bytes.as_ptr(),
        size: bytes.len() as u64,
        _bytes: bytes,
    });
    let mut entries = ENTRIES.lock();
    entries.insert(0, entry.clone());
    announce(REGISTER, &entry, &entries);
    Some(Told(entry))
}

impl Drop for Told {
    fn drop(&mut self) {
        let mut entries = ENTRIES.lock();
        entries.retain(|entry| !Arc::ptr_eq(entry, &self.0));
        announce(UNREGISTER, &self.0, &entries);
    }
}

/// Links the entries and calls the debugger's function. The entry that goes is no longer linked and still there.
fn announce(action: u32, entry: &Arc<Entry>, entries: &[Arc<Entry>]) {
    let pointer = |entry: Option<&Arc<Entry>>| entry.map_or(ptr::null_mut(), |e| Arc::as_ptr(e).cast_mut());
    for (at, linked) in entries.iter().enumerate() {
        linked.next.store(pointer(entries.get(at + 1)), Ordering::Relaxed);
        linked.previous.store(pointer(at.checked_sub(1).and_then(|at| entries.get(at))), Ordering::Relaxed);
    }
    __jit_debug_descriptor.first.store(pointer(entries.first()), Ordering::Relaxed);
    __jit_debug_descriptor.relevant.store(pointer(Some(entry)), Ordering::Relaxed);
    __jit_debug_descriptor.action.store(action, Ordering::SeqCst);
    __jit_debug_register_code();
    __jit_debug_descriptor.action.store(0, Ordering::SeqCst);
}

/// The file with the addresses in its section headers; `None` if they are not where its header says.
fn located(file: &[u8], addresses: &[usize]) -> Option<Vec<u8>> {
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)));
    let start =
        usize::try_from(u64::from_le_bytes(file.get(SECTIONS..SECTIONS + 8)?.try_into().ok()?)).ok()?;
    let (size, count) = (short(SECTION_SIZE)?, short(SECTION_COUNT)?);
    let mut located = file.to_vec();
    for (number, address) in addresses.iter().take(count).enumerate() {
        let at = start.checked_add(number * size + SECTION_ADDRESS)?;
        located.get_mut(at..at.checked_add(8)?)?.copy_from_slice(&(*address as u64).to_le_bytes());
    }
    Some(located)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_section_headers_lie_outside_is_not_told_of() {
        let mut file = vec![0; 64];
        file[SECTIONS] = 60;
        file[SECTION_SIZE] = 64;
        file[SECTION_COUNT] = 1;
        assert!(located(&file, &[4096]).is_none());
        assert!(located(&file[..10], &[]).is_none());
        file[SECTIONS..SECTIONS + 8].fill(0xff);
        assert!(located(&file, &[4096]).is_none());
        file[SECTIONS..SECTIONS + 8].copy_from_slice(&64_u64.to_le_bytes());
        file.resize(128, 0);
        let located = located(&file, &[4096]).unwrap();
        assert_eq!(located[64 + SECTION_ADDRESS..][..8], 4096_u64.to_le_bytes());
    }
}
