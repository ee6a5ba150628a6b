//! The atomic operations of modules that were built to call for them (`kmod build --atomics`): each is a scheduling point, so another
//! thread may run between any two, which it may on a machine of several processors.
//!
//! The names are those that LLVM's pass for ThreadSanitizer gives (`compiler-rt/include/sanitizer/tsan_interface_atomic.h`); nothing
//! of ThreadSanitizer runs here. As one thread runs at a time, what one has stored all others see: orders of the C++ memory model
//! weaker than sequential consistency are not explored. Where races are looked for, an operation orders what its own order says.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

use sim::current;
use sim::race::{self, Access, AtomicAct, AtomicOrder};

use crate::export;
use crate::loader::export::Export;
use crate::unix::races;

/// An atomic operation of the module that calls, with an order as LLVM numbers them.
fn note(addr: usize, len: usize, act: AtomicAct, order: c_int) {
    let access = Access { addr, len, pc: current::call().pc() };
    if let Some(race) = race::atomic(access, act, order_of(order)) {
        races::report(access, "an atomic operation", &race);
    }
}

fn order_of(order: c_int) -> AtomicOrder {
    match order {
        0 => AtomicOrder::Relaxed,
        1 | 2 => AtomicOrder::Acquire,
        3 => AtomicOrder::Release,
        _ => AtomicOrder::Both,
    }
}

macro_rules! operations {
    ($atomic:ident $uint:ty; $load:ident $store:ident $exchange:ident $compare:ident; $($fetch:ident $method:ident)*) => {
        unsafe extern "C" fn $load(target: *mut $uint, order: c_int) -> $uint {
            note(target.addr(), size_of::<$uint>(), AtomicAct::Load, order);
            // SAFETY: the module's own atomic operation, on an operand that it uses so.
            unsafe { $atomic::from_ptr(target) }.load(SeqCst)
        }
        unsafe extern "C" fn $store(target: *mut $uint, value: $uint, order: c_int) {
            note(target.addr(), size_of::<$uint>(), AtomicAct::Store, order);
            // SAFETY: as above.
            unsafe { $atomic::from_ptr(target) }.store(value, SeqCst);
        }
        unsafe extern "C" fn $exchange(target: *mut $uint, value: $uint, order: c_int) -> $uint {
            note(target.addr(), size_of::<$uint>(), AtomicAct::Update, order);
            // SAFETY: as above.
            unsafe { $atomic::from_ptr(target) }.swap(value, SeqCst)
        }
        unsafe extern "C" fn $compare(
            target: *mut $uint,
            old: $uint,
            new: $uint,
            order: c_int,
            failed: c_int,
        ) -> $uint {
            // SAFETY: as above.
            let operand = unsafe { $atomic::from_ptr(target) };
            let result = operand.compare_exchange(old, new, SeqCst, SeqCst);
            let (act, order) = if result.is_ok() { (AtomicAct::Update, order) } else { (AtomicAct::Load, failed) };
            note(target.addr(), size_of::<$uint>(), act, order);
            result.unwrap_or_else(|seen| seen)
        }
        $(unsafe extern "C" fn $fetch(target: *mut $uint, value: $uint, order: c_int) -> $uint {
            note(target.addr(), size_of::<$uint>(), AtomicAct::Update, order);
            // SAFETY: as above.
            unsafe { $atomic::from_ptr(target) }.$method(value, SeqCst)
        })*
    };
}

macro_rules! all_operations {
    ($($atomic:ident $uint:ty; $load:ident $store:ident $exchange:ident $compare:ident $add:ident $sub:ident $and:ident $or:ident
       $xor:ident $nand:ident;)*) => {
        $(operations! {
            $atomic $uint; $load $store $exchange $compare;
            $add fetch_add $sub fetch_sub $and fetch_and $or fetch_or $xor fetch_xor $nand fetch_nand
        })*

        /// What objects built so call beside what the kernel has.
        pub(crate) fn exports() -> Vec<Export> {
            export! {
                ANY: unchecked __tsan_init, unchecked __tsan_atomic_thread_fence, unchecked __tsan_atomic_signal_fence
                $(, unchecked $load, unchecked $store, unchecked $exchange, unchecked $compare, unchecked $add, unchecked $sub,
                  unchecked $and, unchecked $or, unchecked $xor, unchecked $nand)*;
            }
        }
    };
}

all_operations! {
    AtomicU8 u8; __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_compare_exchange_val
        __tsan_atomic8_fetch_add __tsan_atomic8_fetch_sub __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or
        __tsan_atomic8_fetch_xor __tsan_atomic8_fetch_nand;
    AtomicU16 u16; __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_compare_exchange_val
        __tsan_atomic16_fetch_add __tsan_atomic16_fetch_sub __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or
        __tsan_atomic16_fetch_xor __tsan_atomic16_fetch_nand;
    AtomicU32 u32; __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_compare_exchange_val
        __tsan_atomic32_fetch_add __tsan_atomic32_fetch_sub __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or
        __tsan_atomic32_fetch_xor __tsan_atomic32_fetch_nand;
    AtomicU64 u64; __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_compare_exchange_val
        __tsan_atomic64_fetch_add __tsan_atomic64_fetch_sub __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or
        __tsan_atomic64_fetch_xor __tsan_atomic64_fetch_nand;
}

unsafe extern "C" fn __tsan_init() {}

unsafe extern "C" fn __tsan_atomic_thread_fence(order: c_int) {
    race::fence(order_of(order));
    std::sync::atomic::fence(SeqCst);
}

unsafe extern "C" fn __tsan_atomic_signal_fence(_order: c_int) {}
