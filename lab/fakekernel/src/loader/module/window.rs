//! Address ranges below 2 GiB for module text and data.
//!
//! Compiled modules address themselves with 32-bit immediates, so they must lie low. The ranges come from one allocator of the process;
//! a range is given back only when its machine is gone, so that a late call into an unloaded module finds nothing there.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Above the lowest mappings a program may have (a fixed-address executable and its heap).
const FIRST: usize = 0x1000_0000;
/// Compilers fold any constant offset into a displacement, so the end keeps well away from 2 GiB.
const END: usize = 0x7000_0000;
const PAGE: usize = 4096;

/// Mappings that outlive their windows, and how much of windows that nobody can reach keeps its memory: so that the next machine has no page
/// of them to fetch.
const KEPT_BYTES: usize = 64 << 20;

static RANGES: Mutex<Ranges> = Mutex::new(Ranges { taken: BTreeMap::new(), kept: BTreeMap::new() });

/// Address ranges of the process, start -> end.
struct Ranges {
    /// In use.
    taken: BTreeMap<usize, usize>,
    /// Mapped, and nobody's; the last page of each cannot be accessed.
    kept: BTreeMap<usize, usize>,
}

impl Ranges {
    fn bytes(ranges: &BTreeMap<usize, usize>) -> usize {
        ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// True if this very range was kept; what else there is of kept ranges in it goes.
    fn reclaim(&mut self, start: usize, end: usize) -> bool {
        if self.kept.get(&start) == Some(&end) {
            self.kept.remove(&start);
            return true;
        }
        while let Some((from, to)) = self.kept.range(..end).next_back().map(|(from, to)| (*from, *to)) {
            if to <= start {
                break;
            }
            self.kept.remove(&from);
            unmap(from, to);
        }
        false
    }
}

/// Could `addr` be module memory?
pub(crate) fn in_window_range(addr: usize) -> bool {
    (FIRST..END).contains(&addr)
}

/// What a window's pages may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    None,
    ReadWrite,
    ReadExecute,
}

/// A mapped range, followed by a page that is never accessible.
#[derive(Debug)]
pub(crate) struct Window {
    start: usize,
    len: usize,
    mapped: AtomicBool,
}

impl Window {
    /// Maps at least `len` bytes, readable and writable, zeroed.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(PAGE);
        let mut ranges = ranges();
        loop {
            let start = first_gap(&ranges.taken, len + PAGE)
                .ok_or_else(|| io::Error::other("no room below 2 GiB for another module"))?;
            let end = start + len + PAGE;
            ranges.taken.insert(start, end);
            if ranges.reclaim(start, end) {
                break Self { start, len, mapped: AtomicBool::new(true) }.emptied();
            }
            match map(start, len + PAGE) {
                Ok(()) => break Self { start, len, mapped: AtomicBool::new(true) }.guarded(),
                // Something else of this process lies there: leave the range marked.
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => {
                    ranges.taken.remove(&start);
                    return Err(error);
                }
            }
        }
    }

    fn guarded(self) -> io::Result<Self> {
        // SAFETY: the last page of the range just mapped.
        let failed = unsafe { libc::mprotect(pointer(self.start + self.len), PAGE, libc::PROT_NONE) };
        if failed == 0 { Ok(self) } else { Err(io::Error::last_os_error()) }
    }

    /// As new, whatever it was before.
    fn emptied(self) -> io::Result<Self> {
        self.protect(Access::ReadWrite)?;
        // SAFETY: the window's own pages, which the line above made writable; no Rust object lies in them.
        unsafe { pointer(self.start).cast::<u8>().write_bytes(0, self.len) };
        Ok(self)
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Bytes, without the guard page.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, addr: usize) -> bool {
        (self.start..self.start + self.len).contains(&addr)
    }

    /// Copies bytes in.
    ///
    /// # Panics
    ///
    /// Beyond the end.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.write_at(self.start, bytes);
    }

    /// Copies bytes to an address in it.
    ///
    /// # Panics
    ///
    /// Outside of it.
    pub(crate) fn write_at(&self, addr: usize, bytes: &[u8]) {
        assert!(addr >= self.start && addr + bytes.len() <= self.start + self.len);
        // SAFETY: the window is mapped for writing, and the bytes lie inside it; no Rust object lies there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(addr).cast(), bytes.len()) };
    }

    /// Copies out what lies at `addr`, as far as it lies in the window and is still mapped.
    pub(crate) fn read(&self, addr: usize, len: usize) -> Vec<u8> {
        let within =
            addr >= self.start && addr.checked_add(len).is_some_and(|end| end <= self.start + self.len);
        if !within || !self.mapped.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut bytes = vec![0; len];
        // SAFETY: mapped and readable (data, until it is buried), inside the window; the bytes are the module's, not Rust's.
        unsafe { std::ptr::copy_nonoverlapping(pointer(addr).cast(), bytes.as_mut_ptr(), len) };
        bytes
    }

    pub(crate) fn protect(&self, access: Access) -> io::Result<()> {
        let prot = match access {
            Access::None => libc::PROT_NONE,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
            Access::ReadExecute => libc::PROT_READ | libc::PROT_EXEC,
        };
        // SAFETY: the window's own pages; no Rust object lies in them.
        let failed = unsafe { libc::mprotect(pointer(self.start), self.len, prot) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Gives the range back, for other machines to use. For the end of a machine, when all its threads have ended: frames that were
    /// abandoned may keep the value itself alive.
    pub(crate) fn release(&self) {
        if self.mapped.swap(false, Ordering::AcqRel) {
            let end = self.start + self.len + PAGE;
            let mut ranges = ranges();
            ranges.taken.remove(&self.start);
            if Ranges::bytes(&ranges.kept) < KEPT_BYTES {
                ranges.kept.insert(self.start, end);
            } else {
                unmap(self.start, end);
            }
        }
    }

    /// Makes the pages inaccessible; the range stays taken.
    pub(crate) fn bury(&self) {
        // Both fail only for ranges that are not mapped.
        let _ = self.protect(Access::None);
        if Ranges::bytes(&ranges().taken) > KEPT_BYTES {
            // SAFETY: the window's own pages; no Rust object lies in them.
            unsafe { libc::madvise(pointer(self.start), self.len, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.release();
    }
}

fn pointer(addr: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr)
}

fn ranges() -> MutexGuard<'static, Ranges> {
    RANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For mappings of windows whose machines are over: nobody runs or reads there.
fn unmap(start: usize, end: usize) {
    // SAFETY: mapped by `Window::new`, and by the caller's word nobody's any more.
    unsafe { libc::munmap(pointer(start), end - start) };
}

fn first_gap(taken: &BTreeMap<usize, usize>, len: usize) -> Option<usize> {
    let mut start = FIRST;
    for (from, to) in taken {
        if from - start >= len {
            break;
        }
        start = *to;
    }
    (start + len <= END).then_some(start)
}

fn map(start: usize, len: usize) -> io::Result<()> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a fresh anonymous mapping that replaces nothing.
    let got = unsafe { libc::mmap(pointer(start), len, prot, flags, -1, 0) };
    if got == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{Access, Window, in_window_range};

    #[test]
    fn a_window_where_another_one_was_has_nothing_of_it() {
        for len in [9_000, 9_000, 5_000, 20_000] {
            let window = Window::new(len).unwrap();
            assert_eq!(window.read(window.start(), len), vec![0; len]);
            window.write(&vec![7; len]);
            window.protect(Access::ReadExecute).unwrap();
            if len == 9_000 {
                window.bury();
            }
        }
    }

    #[test]
    fn windows_do_not_overlap_and_lie_low() {
        let (a, b) = (Window::new(5000).unwrap(), Window::new(1).unwrap());
        assert!(in_window_range(a.start()) && in_window_range(b.start()));
        assert!(!a.contains(b.start()) && !b.contains(a.start()));
        a.write(&[1; 5000]);
        a.protect(Access::ReadExecute).unwrap();
        a.bury();
    }
}
