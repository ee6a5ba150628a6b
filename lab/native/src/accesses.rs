//! What a module calls for each load and store, where it was built so (`kmod build --races`): which cache lines a thread touches.
//!
//! The names are those that LLVM's pass for ThreadSanitizer gives; nothing of ThreadSanitizer runs here.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};

use fakekernel::export;

use crate::processor::with;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Below the frame of a function that a driver calls nothing is the driver's; this far above it is its stack.
const STACK: usize = 64 << 10;

/// How often a line was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Loads.
    pub read: u64,
    /// Stores, and atomic operations that store.
    pub written: u64,
}

/// Lines by their first address.
pub type Lines = BTreeMap<usize, Touched>;

fn note(at: usize, len: usize, writes: bool) {
    let here = 0u8;
    let frame = (&raw const here).addr();
    if len == 0 || (frame..frame + STACK).contains(&at) {
        return;
    }
    with(|processor| {
        for line in (at & !(LINE - 1)..at + len).step_by(LINE) {
            let touched = processor.lines.entry(line).or_default();
            touched.read += u64::from(!writes);
            touched.written += u64::from(writes);
        }
    });
}

macro_rules! plain {
    ($($name:ident $len:literal $writes:literal;)*) => {
        $(unsafe extern "C" fn $name(at: *mut c_void) {
            note(at.addr(), $len, $writes);
        })*
        fn plain() -> Vec<fakekernel::Export> {
            export! { ANY: $(unchecked $name),*; }
        }
    };
}

plain! {
    __tsan_read1 1 false; __tsan_read2 2 false; __tsan_read4 4 false; __tsan_read8 8 false; __tsan_read16 16 false;
    __tsan_write1 1 true; __tsan_write2 2 true; __tsan_write4 4 true; __tsan_write8 8 true; __tsan_write16 16 true;
    __tsan_unaligned_read2 2 false; __tsan_unaligned_read4 4 false; __tsan_unaligned_read8 8 false;
    __tsan_unaligned_read16 16 false; __tsan_unaligned_write2 2 true; __tsan_unaligned_write4 4 true;
    __tsan_unaligned_write8 8 true; __tsan_unaligned_write16 16 true;
}

macro_rules! atomics {
    ($($atomic:ident $uint:ty; $load:ident $store:ident $exchange:ident $compare:ident; $($fetch:ident $method:ident),*;)*) => {
        $(
            unsafe extern "C" fn $load(target: *mut $uint, _order: c_int) -> $uint {
                note(target.addr(), size_of::<$uint>(), false);
                // SAFETY: the module's own atomic operation, on an operand that it uses so.
                unsafe { $atomic::from_ptr(target) }.load(SeqCst)
            }
            unsafe extern "C" fn $store(target: *mut $uint, value: $uint, _order: c_int) {
                note(target.addr(), size_of::<$uint>(), true);
                // SAFETY: as above.
                unsafe { $atomic::from_ptr(target) }.store(value, SeqCst);
            }
            unsafe extern "C" fn $exchange(target: *mut $uint, value: $uint, _order: c_int) -> $uint {
                note(target.addr(), size_of::<$uint>(), true);
                // SAFETY: as above.
                unsafe { $atomic::from_ptr(target) }.swap(value, SeqCst)
            }
            unsafe extern "C" fn $compare(target: *mut $uint, old: $uint, new: $uint, _: c_int, _: c_int) -> $uint {
                note(target.addr(), size_of::<$uint>(), true);
                // SAFETY: as above.
                let result = unsafe { $atomic::from_ptr(target) }.compare_exchange(old, new, SeqCst, SeqCst);
                result.unwrap_or_else(|seen| seen)
            }
            $(unsafe extern "C" fn $fetch(target: *mut $uint, value: $uint, _order: c_int) -> $uint {
                note(target.addr(), size_of::<$uint>(), true);
                // SAFETY: as above.
                unsafe { $atomic::from_ptr(target) }.$method(value, SeqCst)
            })*
        )*
        fn atomics() -> Vec<fakekernel::Export> {
            export! { ANY: $(unchecked $load, unchecked $store, unchecked $exchange, unchecked $compare $(, unchecked $fetch)*),*; }
        }
    };
}

atomics! {
    AtomicU8 u8; __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_compare_exchange_val;
        __tsan_atomic8_fetch_and fetch_and, __tsan_atomic8_fetch_or fetch_or;
    AtomicU32 u32; __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_compare_exchange_val;
        __tsan_atomic32_fetch_add fetch_add, __tsan_atomic32_fetch_sub fetch_sub;
    AtomicU64 u64; __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_compare_exchange_val;
        __tsan_atomic64_fetch_add fetch_add, __tsan_atomic64_fetch_sub fetch_sub, __tsan_atomic64_fetch_and fetch_and,
        __tsan_atomic64_fetch_or fetch_or;
}

unsafe extern "C" fn __tsan_atomic_thread_fence(_order: c_int) {
    std::sync::atomic::fence(SeqCst);
}

unsafe extern "C" fn __tsan_memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    note(from.addr(), len, false);
    note(to.addr(), len, true);
    // SAFETY: the module's own copy, of places that do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    to
}

unsafe extern "C" fn __tsan_memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    note(from.addr(), len, false);
    note(to.addr(), len, true);
    // SAFETY: the module's own copy.
    unsafe { std::ptr::copy(from, to, len) };
    to
}

unsafe extern "C" fn __tsan_memset(to: *mut u8, byte: c_int, len: usize) -> *mut u8 {
    note(to.addr(), len, true);
    // SAFETY: the module's own filling.
    unsafe { std::ptr::write_bytes(to, byte as u8, len) };
    to
}

/// By name. The signatures are those of the pass.
pub(crate) fn all() -> Vec<(&'static str, usize)> {
    let others = export! {
        ANY: unchecked __tsan_atomic_thread_fence, unchecked __tsan_memcpy, unchecked __tsan_memmove, unchecked __tsan_memset;
    };
    let all = plain().into_iter().chain(atomics()).chain(others);
    all.map(|export| (export.name, export.addr)).collect()
}
