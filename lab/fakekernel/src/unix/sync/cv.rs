//! `kcondvar_t`: a 16-bit count of waiters in module memory, the queue beside it.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use illumos_sys_hdrs::{kcondvar_t, kcv_type_t, kmutex_t, time_res_t};
use sim::{Nanos, Rule, WaitQueue, thread};

use crate::export;
use crate::loader::backtrace::frame;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::Role;
use crate::loader::export::Export;
use crate::loader::kernels::Working;
use crate::unix::locks::{CvObject, Object};
use crate::unix::sync::mutex;

pub(super) fn exports() -> Vec<Export> {
    export! {
        // The waiting calls check their context themselves: in a timeout handler another rule is broken than elsewhere.
        ANY: cv_wait, cv_wait_sig, cv_timedwait, cv_timedwait_sig;
        ANY: cv_reltimedwait, cv_reltimedwait_sig;
        UKS: cv_init, cv_destroy, cv_signal, cv_broadcast;
    }
}

fn word<'a>(cv: *mut c_void) -> &'a AtomicU16 {
    // SAFETY: a `kcondvar_t` is 2 bytes, 2-aligned, and lives at least until the call returns; all access is atomic.
    unsafe { AtomicU16::from_ptr(cv.cast()) }
}

fn new_object(origin: String) -> CvObject {
    CvObject { origin, waiters: 0, mutex: 0, queue: Arc::new(WaitQueue::new("condition variable")) }
}

unsafe extern "C" fn cv_init(cv: *mut kcondvar_t, _name: *mut c_char, _kind: kcv_type_t, _arg: *mut c_void) {
    let (cx, cv) = (cx(), cv.cast::<c_void>());
    let kernel = cx.kernel();
    word(cv).store(0, Ordering::Relaxed);
    let origin = format!("initialised at {}", frame(kernel.machine(), cx.caller_pc()));
    {
        let mut tables = kernel.locks().lock();
        tables.dead_cvs.remove(&cv.addr());
        tables.objects.insert(cv.addr(), Object::Cv(new_object(origin)));
    }
    kernel.resources().add("cv", cv.addr() as u64, "");
}

unsafe extern "C" fn cv_destroy(cv: *mut kcondvar_t) {
    let (cx, cv) = (cx(), cv.cast::<c_void>());
    let kernel = cx.kernel();
    check_alive(&cx, cv);
    let waiters = word(cv).load(Ordering::Relaxed);
    if waiters > 0 {
        let words = kernel.locks().describe(cv.addr());
        cx.violate(Rule::BadCv, format!("cv_destroy with {waiters} waiters: {words}"));
        return;
    }
    let mut tables = kernel.locks().lock();
    tables.objects.remove(cv.addr());
    tables.dead_cvs.insert(cv.addr());
    drop(tables);
    kernel.resources().remove("cv", cv.addr() as u64);
}

/// Rule 12: destroyed, or memory that is no condition variable. A zeroed one that nobody initialised is what CALLB_CPR_INIT makes
/// and the kernel accepts.
fn check_alive(cx: &Cx, cv: *mut c_void) {
    let (known, dead) = {
        let tables = cx.kernel().locks().lock();
        let known = matches!(tables.objects.get(cv.addr()), Some(Object::Cv(_)));
        (known, tables.dead_cvs.contains(&cv.addr()))
    };
    cx.check(!dead, Rule::BadCv, || format!("condition variable {:#x} has been destroyed", cv.addr()));
    let value = word(cv).load(Ordering::Relaxed);
    cx.check(known || value == 0, Rule::BadCv, || {
        format!("condition variable {:#x} was never initialised, holds {value:#x}", cv.addr())
    });
}

/// Releases the mutex, waits, takes it again; false if the deadline passed.
fn wait(cx: &Cx, cv: *mut c_void, lock: *mut c_void, deadline: Nanos) -> bool {
    check_wait(cx, cv, lock);
    let kernel = cx.kernel();
    let (deadline, spurious) = match kernel.machine().0.spurious_wakeup(&cx.thread().0) {
        Some(at) if at < deadline => (at, true),
        _ => (deadline, false),
    };
    let queue = {
        let mut tables = kernel.locks().lock();
        let new = || Object::Cv(new_object("never initialised".to_owned()));
        let object = tables.objects.get_or_insert_with(cv.addr(), new);
        let Some(object) = object.cv() else { return true };
        object.waiters += 1;
        object.mutex = lock.addr();
        word(cv).store(object.waiters, Ordering::Relaxed);
        object.queue.enter(cv.addr());
        object.queue.clone()
    };
    mutex::exit(cx, lock);
    let wake = queue.sleep(deadline);
    {
        let mut tables = kernel.locks().lock();
        if let Some(object) = tables.objects.get_mut(cv.addr()).and_then(Object::cv) {
            // A signal has counted its waiter off already.
            if wake == sim::Wake::Deadline {
                object.waiters = object.waiters.saturating_sub(1);
                word(cv).store(object.waiters, Ordering::Relaxed);
            }
        }
    }
    mutex::enter(cx, lock);
    wake == sim::Wake::Signal || spurious
}

fn check_wait(cx: &Cx, cv: *mut c_void, lock: *mut c_void) {
    let role = cx.thread().0.local().work().entries.last().map(|e| e.kind.role);
    if role == Some(Role::TimeoutHandler) {
        cx.check(false, Rule::TimeoutHandlerBlocks, || format!("{} in a timeout handler", cx.call()));
    }
    if mutex::is_spin(lock) {
        cx.check(false, Rule::BadCvMutex, || format!("with spin mutex {:#x}", lock.addr()));
    }
    cx.may_block_with(lock.addr());
    cx.check(mutex::owned(cx, lock), Rule::BadCvMutex, || {
        format!("mutex {} is not held by the caller", cx.kernel().locks().describe(lock.addr()))
    });
    check_alive(cx, cv);
    let other = {
        let mut tables = cx.kernel().locks().lock();
        let object = tables.objects.get_mut(cv.addr()).and_then(Object::cv);
        object.and_then(|o| (o.waiters > 0 && o.mutex != lock.addr()).then_some(o.mutex))
    };
    if let Some(other) = other {
        cx.check(false, Rule::CvTwoMutexes, || {
            format!("condition variable {:#x}: waiters with {other:#x} and {:#x}", cv.addr(), lock.addr())
        });
    }
}

unsafe extern "C" fn cv_wait(cv: *mut kcondvar_t, lock: *mut kmutex_t) {
    wait(&cx(), cv.cast(), lock.cast(), Nanos::NEVER);
}

unsafe extern "C" fn cv_wait_sig(cv: *mut kcondvar_t, lock: *mut kmutex_t) -> c_int {
    wait(&cx(), cv.cast(), lock.cast(), Nanos::NEVER);
    1
}

/// -1 if the time has passed, else the ticks left, at least 1.
fn timed(cx: &Cx, cv: *mut c_void, lock: *mut c_void, deadline: Nanos) -> c_long {
    if deadline <= thread::now() {
        check_wait(cx, cv, lock);
        return -1;
    }
    if !wait(cx, cv, lock, deadline) {
        return -1;
    }
    deadline.since(thread::now()).ticks().max(1)
}

fn at_tick(tick: c_long) -> Nanos {
    Nanos(u64::try_from(tick).unwrap_or(0).saturating_mul(Nanos::TICK.0))
}

unsafe extern "C" fn cv_timedwait(cv: *mut kcondvar_t, lock: *mut kmutex_t, tick: c_long) -> c_long {
    timed(&cx(), cv.cast(), lock.cast(), at_tick(tick))
}

unsafe extern "C" fn cv_timedwait_sig(cv: *mut kcondvar_t, lock: *mut kmutex_t, tick: c_long) -> c_long {
    timed(&cx(), cv.cast(), lock.cast(), at_tick(tick))
}

unsafe extern "C" fn cv_reltimedwait(
    cv: *mut kcondvar_t,
    lock: *mut kmutex_t,
    ticks: c_long,
    _res: time_res_t,
) -> c_long {
    timed(
        &cx(),
        cv.cast(),
        lock.cast(),
        thread::now() + Nanos(u64::try_from(ticks).unwrap_or(0) * Nanos::TICK.0),
    )
}

unsafe extern "C" fn cv_reltimedwait_sig(
    cv: *mut kcondvar_t,
    lock: *mut kmutex_t,
    ticks: c_long,
    _res: time_res_t,
) -> c_long {
    timed(
        &cx(),
        cv.cast(),
        lock.cast(),
        thread::now() + Nanos(u64::try_from(ticks).unwrap_or(0) * Nanos::TICK.0),
    )
}

unsafe extern "C" fn cv_signal(cv: *mut kcondvar_t) {
    wake(&cx(), cv.cast(), 1);
}

unsafe extern "C" fn cv_broadcast(cv: *mut kcondvar_t) {
    wake(&cx(), cv.cast(), u16::MAX);
}

/// Wakes waiters in the order they came.
pub(super) fn wake(cx: &Cx, cv: *mut c_void, most: u16) {
    check_alive(cx, cv);
    let mut tables = cx.kernel().locks().lock();
    let Some(object) = tables.objects.get_mut(cv.addr()).and_then(Object::cv) else { return };
    for _ in 0..most {
        if !object.queue.wake_one() {
            break;
        }
        object.waiters = object.waiters.saturating_sub(1);
    }
    word(cv).store(object.waiters, Ordering::Relaxed);
}
