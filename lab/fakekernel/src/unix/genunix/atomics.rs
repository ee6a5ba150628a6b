//! `atomic_*(9F)` and the memory barriers: the processor's own, legal everywhere.
//!
//! A misaligned operand is legal for the processor but not for the manual; it counts as an absurd argument.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst, fence};

use sim::current;
use sim::race::{self, Access, AtomicAct, AtomicOrder};

use crate::unix::races;
use crate::{Contexts, Export, Rule, cx, export};

/// Whether the operand at `addr` may be used atomically with `size` bytes. On this processor each of these operations is a barrier.
fn operand(addr: usize, size: usize) {
    let access = Access { addr, len: size, pc: current::call().pc() };
    if let Some(race) = race::atomic(access, AtomicAct::Update, AtomicOrder::Both) {
        races::report(access, "an atomic operation", &race);
    }
    if !addr.is_multiple_of(size) {
        let cx = cx();
        cx.check(false, Rule::AbsurdArgument, || {
            format!("{addr:#x} is no multiple of {size}, the operand's size")
        });
    }
}

macro_rules! operations {
    ($atomic:ident, $uint:ty, $int:ty;
     $add:ident $add_nv:ident $inc:ident $inc_nv:ident $dec:ident $dec_nv:ident
     $and:ident $and_nv:ident $or:ident $or_nv:ident $swap:ident $cas:ident) => {
        operations!(@unary $atomic $uint; $inc $inc_nv fetch_add wrapping_add; $dec $dec_nv fetch_sub wrapping_sub);
        operations!(@binary $atomic $uint, $uint; $and $and_nv fetch_and; |a: $uint, b: $uint| a & b);
        operations!(@binary $atomic $uint, $uint; $or $or_nv fetch_or; |a: $uint, b: $uint| a | b);
        operations!(@binary $atomic $uint, $int; $add $add_nv fetch_add; |a: $uint, b: $uint| a.wrapping_add(b));
        unsafe extern "C" fn $swap(target: *mut $uint, value: $uint) -> $uint {
            operand(target.addr(), size_of::<$uint>());
            // SAFETY: atomic_ops(9F): the caller gives a valid operand, which others access atomically only.
            unsafe { $atomic::from_ptr(target) }.swap(value, SeqCst)
        }
        unsafe extern "C" fn $cas(target: *mut $uint, old: $uint, new: $uint) -> $uint {
            operand(target.addr(), size_of::<$uint>());
            // SAFETY: as above.
            let operand = unsafe { $atomic::from_ptr(target) };
            operand.compare_exchange(old, new, SeqCst, SeqCst).unwrap_or_else(|seen| seen)
        }
    };
    (@unary $atomic:ident $uint:ty; $($plain:ident $nv:ident $fetch:ident $apply:ident);*) => {$(
        unsafe extern "C" fn $plain(target: *mut $uint) {
            // SAFETY: the caller's contract is the callee's.
            unsafe { $nv(target) };
        }
        unsafe extern "C" fn $nv(target: *mut $uint) -> $uint {
            operand(target.addr(), size_of::<$uint>());
            // SAFETY: atomic_ops(9F): the caller gives a valid operand, which others access atomically only.
            unsafe { $atomic::from_ptr(target) }.$fetch(1, SeqCst).$apply(1)
        }
    )*};
    (@binary $atomic:ident $uint:ty, $arg:ty; $plain:ident $nv:ident $fetch:ident; $apply:expr) => {
        unsafe extern "C" fn $plain(target: *mut $uint, value: $arg) {
            // SAFETY: the caller's contract is the callee's.
            unsafe { $nv(target, value) };
        }
        unsafe extern "C" fn $nv(target: *mut $uint, value: $arg) -> $uint {
            operand(target.addr(), size_of::<$uint>());
            // SAFETY: atomic_ops(9F): the caller gives a valid operand, which others access atomically only.
            let seen = unsafe { $atomic::from_ptr(target) }.$fetch(value as $uint, SeqCst);
            ($apply)(seen, value as $uint)
        }
    };
}

operations!(AtomicU8, u8, i8; atomic_add_8 atomic_add_8_nv atomic_inc_8 atomic_inc_8_nv atomic_dec_8 atomic_dec_8_nv
    atomic_and_8 atomic_and_8_nv atomic_or_8 atomic_or_8_nv atomic_swap_8 atomic_cas_8);
operations!(AtomicU16, u16, i16; atomic_add_16 atomic_add_16_nv atomic_inc_16 atomic_inc_16_nv atomic_dec_16 atomic_dec_16_nv
    atomic_and_16 atomic_and_16_nv atomic_or_16 atomic_or_16_nv atomic_swap_16 atomic_cas_16);
operations!(AtomicU32, u32, i32; atomic_add_32 atomic_add_32_nv atomic_inc_32 atomic_inc_32_nv atomic_dec_32 atomic_dec_32_nv
    atomic_and_32 atomic_and_32_nv atomic_or_32 atomic_or_32_nv atomic_swap_32 atomic_cas_32);
operations!(AtomicU64, u64, i64; atomic_add_64 atomic_add_64_nv atomic_inc_64 atomic_inc_64_nv atomic_dec_64 atomic_dec_64_nv
    atomic_and_64 atomic_and_64_nv atomic_or_64 atomic_or_64_nv atomic_swap_64 atomic_cas_64);

macro_rules! aliases {
    ($($as:ident: $($name:ident)*;)*) => { vec![$($(
        Export::raw(stringify!($name), $as as *const () as usize, Contexts::ANY),
    )*)*] };
}

/// The names for C's own integer types, which are those of the sized ones on amd64.
fn by_c_type() -> Vec<Export> {
    aliases! {
        atomic_add_8: atomic_add_char; atomic_add_8_nv: atomic_add_char_nv;
        atomic_add_16: atomic_add_short; atomic_add_16_nv: atomic_add_short_nv;
        atomic_add_32: atomic_add_int; atomic_add_32_nv: atomic_add_int_nv;
        atomic_add_64: atomic_add_long atomic_add_ptr; atomic_add_64_nv: atomic_add_long_nv atomic_add_ptr_nv;
        atomic_inc_8: atomic_inc_uchar; atomic_inc_8_nv: atomic_inc_uchar_nv;
        atomic_inc_16: atomic_inc_ushort; atomic_inc_16_nv: atomic_inc_ushort_nv;
        atomic_inc_32: atomic_inc_uint; atomic_inc_32_nv: atomic_inc_uint_nv;
        atomic_inc_64: atomic_inc_ulong; atomic_inc_64_nv: atomic_inc_ulong_nv;
        atomic_dec_8: atomic_dec_uchar; atomic_dec_8_nv: atomic_dec_uchar_nv;
        atomic_dec_16: atomic_dec_ushort; atomic_dec_16_nv: atomic_dec_ushort_nv;
        atomic_dec_32: atomic_dec_uint; atomic_dec_32_nv: atomic_dec_uint_nv;
        atomic_dec_64: atomic_dec_ulong; atomic_dec_64_nv: atomic_dec_ulong_nv;
        atomic_and_8: atomic_and_uchar; atomic_and_8_nv: atomic_and_uchar_nv;
        atomic_and_16: atomic_and_ushort; atomic_and_16_nv: atomic_and_ushort_nv;
        atomic_and_32: atomic_and_uint; atomic_and_32_nv: atomic_and_uint_nv;
        atomic_and_64: atomic_and_ulong; atomic_and_64_nv: atomic_and_ulong_nv;
        atomic_or_8: atomic_or_uchar; atomic_or_8_nv: atomic_or_uchar_nv;
        atomic_or_16: atomic_or_ushort; atomic_or_16_nv: atomic_or_ushort_nv;
        atomic_or_32: atomic_or_uint; atomic_or_32_nv: atomic_or_uint_nv;
        atomic_or_64: atomic_or_ulong; atomic_or_64_nv: atomic_or_ulong_nv;
        atomic_swap_8: atomic_swap_uchar; atomic_swap_16: atomic_swap_ushort; atomic_swap_32: atomic_swap_uint;
        atomic_swap_64: atomic_swap_ulong atomic_swap_ptr;
        atomic_cas_8: atomic_cas_uchar; atomic_cas_16: atomic_cas_ushort; atomic_cas_32: atomic_cas_uint;
        atomic_cas_64: atomic_cas_ulong atomic_cas_ptr;
    }
}

fn barrier() {
    race::fence(AtomicOrder::Both);
    fence(SeqCst);
}

unsafe extern "C" fn membar_enter() {
    barrier();
}

unsafe extern "C" fn membar_exit() {
    barrier();
}

unsafe extern "C" fn membar_producer() {
    barrier();
}

unsafe extern "C" fn membar_consumer() {
    barrier();
}

pub(super) fn exports() -> Vec<Export> {
    let mut exports = export! {
        ANY: atomic_add_8, atomic_add_8_nv, atomic_inc_8, atomic_inc_8_nv, atomic_dec_8, atomic_dec_8_nv,
            atomic_and_8, atomic_and_8_nv, atomic_or_8, atomic_or_8_nv, atomic_swap_8, atomic_cas_8,
            atomic_add_16, atomic_add_16_nv, atomic_inc_16, atomic_inc_16_nv, atomic_dec_16, atomic_dec_16_nv,
            atomic_and_16, atomic_and_16_nv, atomic_or_16, atomic_or_16_nv, atomic_swap_16, atomic_cas_16,
            atomic_add_32, atomic_add_32_nv, atomic_inc_32, atomic_inc_32_nv, atomic_dec_32, atomic_dec_32_nv,
            atomic_and_32, atomic_and_32_nv, atomic_or_32, atomic_or_32_nv, atomic_swap_32, atomic_cas_32,
            atomic_add_64, atomic_add_64_nv, atomic_inc_64, atomic_inc_64_nv, atomic_dec_64, atomic_dec_64_nv,
            atomic_and_64, atomic_and_64_nv, atomic_or_64, atomic_or_64_nv, atomic_swap_64, atomic_cas_64,
            membar_enter, membar_exit, membar_producer, membar_consumer;
    };
    exports.extend(by_c_type());
    exports.into_iter().map(Export::leaf).collect()
}
