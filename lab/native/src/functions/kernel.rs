//! Locks, atomic operations, the clock and soft interrupts.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use fakekernel::{Export, export};
use illumos_sys_hdrs::{ddi_softintr_t, hrtime_t, kmutex_t};

use crate::processor::with;

pub(super) fn exports() -> Vec<Export> {
    export! {
        ANY: mutex_enter, mutex_tryenter, mutex_exit, gethrtime, ddi_trigger_softintr, atomic_add_32, atomic_add_32_nv,
            atomic_inc_32, atomic_inc_32_nv, atomic_dec_32, atomic_dec_32_nv, atomic_add_64, atomic_inc_64;
    }
}

/// The lock: 0 when it is free, as in the lab, where a lock that is free may be taken by either.
fn word<'a>(lock: *mut kmutex_t) -> &'a AtomicUsize {
    // SAFETY: the driver's lock, a word, aligned, which is there as long as it calls.
    unsafe { AtomicUsize::from_ptr(lock.cast()) }
}

unsafe extern "C" fn mutex_enter(lock: *mut kmutex_t) {
    take(lock);
}

/// Takes a driver's lock, or waits for another processor that has it.
pub(super) fn take(lock: *mut kmutex_t) {
    while word(lock).compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::hint::spin_loop();
    }
}

unsafe extern "C" fn mutex_tryenter(lock: *mut kmutex_t) -> c_int {
    word(lock).compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok().into()
}

unsafe extern "C" fn mutex_exit(lock: *mut kmutex_t) {
    give_up(lock);
}

/// Lets it go.
pub(super) fn give_up(lock: *mut kmutex_t) {
    word(lock).store(0, Ordering::Release);
}

/// The machine's clock, as if it went on while it stands.
unsafe extern "C" fn gethrtime() -> hrtime_t {
    with(|processor| processor.time())
}

unsafe extern "C" fn ddi_trigger_softintr(id: ddi_softintr_t) {
    with(|processor| {
        if let Err(fault) = processor.interrupts.trigger(id.addr()) {
            processor.fail(fault);
        }
    });
}

fn of_32<'a>(target: *mut u32) -> &'a AtomicU32 {
    // SAFETY: the driver's counter, aligned, which is there as long as it calls, and which only such operations change.
    unsafe { AtomicU32::from_ptr(target) }
}

fn of_64<'a>(target: *mut u64) -> &'a AtomicU64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(target) }
}

unsafe extern "C" fn atomic_add_32(target: *mut u32, more: i32) {
    of_32(target).fetch_add(more as u32, Ordering::SeqCst);
}

unsafe extern "C" fn atomic_add_32_nv(target: *mut u32, more: i32) -> u32 {
    of_32(target).fetch_add(more as u32, Ordering::SeqCst).wrapping_add(more as u32)
}

unsafe extern "C" fn atomic_inc_32(target: *mut u32) {
    of_32(target).fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn atomic_inc_32_nv(target: *mut u32) -> u32 {
    of_32(target).fetch_add(1, Ordering::SeqCst).wrapping_add(1)
}

unsafe extern "C" fn atomic_dec_32(target: *mut u32) {
    of_32(target).fetch_sub(1, Ordering::SeqCst);
}

unsafe extern "C" fn atomic_dec_32_nv(target: *mut u32) -> u32 {
    of_32(target).fetch_sub(1, Ordering::SeqCst).wrapping_sub(1)
}

unsafe extern "C" fn atomic_add_64(target: *mut u64, more: i64) {
    of_64(target).fetch_add(more as u64, Ordering::SeqCst);
}

unsafe extern "C" fn atomic_inc_64(target: *mut u64) {
    of_64(target).fetch_add(1, Ordering::SeqCst);
}
