//! `kmutex_t`: one word, 0 when free, else the owner's `kthread_t *` with flags in the low bits.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use illumos_sys_hdrs::{MUTEX_SPIN, kmutex_t, kmutex_type_t};
use sim::race::{self, Key};
use sim::{ClassKey, Contexts, Ctx, Held, HeldKind, Nanos, Rule, WaitQueue, current};

use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::unix::locks::{MutexObject, Object};
use crate::unix::sync::{check_order, origin};

/// Somebody waits.
const WAITERS: usize = 1;
/// A spin mutex; set while it is free too, so that the fast path for adaptive ones does not fit.
const SPIN: usize = 2;
/// Both bits after `mutex_destroy`.
const DEAD: usize = 6;
const OWNER: usize = !7;

/// What the checks found out about a lock that is about to be taken.
struct Known {
    class: u32,
    pil: u8,
}

pub(super) fn exports() -> Vec<Export> {
    let mut exports = export! { ANY: mutex_init, mutex_tryenter, mutex_destroy, mutex_owned; };
    exports.extend(export! { ANY: mutex_enter, mutex_exit; }.into_iter().map(Export::leaf));
    exports
}

/// The lock word. Modules give its address, so it is as good as they are: a wild pointer faults and is reported as theirs.
fn word<'a>(lock: *mut c_void) -> &'a AtomicUsize {
    // SAFETY: a `kmutex_t` is 8 bytes, 8-aligned, and lives at least until the call returns; all access is atomic.
    unsafe { AtomicUsize::from_ptr(lock.cast()) }
}

fn me_addr(cx: &Cx) -> usize {
    cx.thread().0.kthread.addr()
}

unsafe extern "C" fn mutex_init(
    lock: *mut kmutex_t,
    _name: *mut c_char,
    kind: kmutex_type_t,
    ibc: *mut c_void,
) {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let cookie = ibc.addr();
    let pil = if cookie > usize::from(Ctx::LOCK_LEVEL) && cookie <= 15 { cookie as u8 } else { 0 };
    let pil = if kind == MUTEX_SPIN && pil == 0 { Ctx::LOCK_LEVEL + 1 } else { pil };
    word(lock).store(if pil > 0 { SPIN } else { 0 }, Ordering::Release);
    let kernel = cx.kernel();
    let (class, origin) = origin(&cx, kernel);
    let queue = Arc::new(WaitQueue::new("mutex"));
    let object = Object::Mutex(MutexObject { class, origin, pil, queue });
    kernel.locks().lock().objects.insert(lock.addr(), object);
    kernel.machine().0.order.lock().forget(lock.addr());
    kernel.resources().add("mutex", lock.addr() as u64, "");
}

unsafe extern "C" fn mutex_enter(lock: *mut kmutex_t) {
    if !swap_unchecked(lock, |me| (0, me)) {
        enter(&cx(), lock.cast());
    }
}

/// With checks off, a lock nobody else wants is one compare-and-swap on the word; false if it takes more.
fn swap_unchecked(lock: *mut kmutex_t, values: impl FnOnce(usize) -> (usize, usize)) -> bool {
    current::with(|me| {
        let Some(me) = me.filter(|me| !me.machine.0.config.checks) else { return false };
        let (from, to) = values(me.kthread.addr());
        word(lock.cast()).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })
}

/// As `mutex_enter` in the name of `cx`.
pub(super) fn enter(cx: &Cx, lock: *mut c_void) {
    if cx.thread().machine().config().checks { enter_checked(cx, lock) } else { acquire(cx, lock) }
}

fn enter_checked(cx: &Cx, lock: *mut c_void) {
    let known = known(cx, lock, "mutex_enter");
    if known.pil == 0 && cx.thread().0.context_bit() == Contexts::H {
        cx.violate(Rule::HighLevelCall, "mutex_enter: adaptive at high PIL");
    }
    if known.pil != 0 && cx.pil() > known.pil {
        let (own, now) = (known.pil, cx.pil());
        cx.violate(Rule::HighLevelCall, format!("mutex_enter: spin mutex of PIL {own} entered at PIL {now}"));
    }
    if word(lock).load(Ordering::Relaxed) & OWNER == me_addr(cx) {
        let lock = cx.kernel().locks().describe(lock.addr());
        cx.violate(Rule::RecursiveMutex, format!("recursive mutex_enter: {lock}"));
    }
    check_order(cx, known.class, lock.addr(), "mutex");
    acquire(cx, lock);
    hold(cx, lock, &known);
}

/// Rule 7, and what the table says. A zeroed word that was never initialised is tolerated and entered now.
fn known(cx: &Cx, lock: *mut c_void, call: &str) -> Known {
    let kernel = cx.kernel();
    let found = kernel.locks().lock().objects.get_mut(lock.addr()).and_then(Object::mutex).map(as_known);
    let value = word(lock).load(Ordering::Relaxed);
    if value & DEAD == DEAD {
        cx.violate(Rule::BadMutex, format!("{call}: bad mutex, lp={:#x}: destroyed", lock.addr()));
    }
    if let Some(known) = found {
        return known;
    }
    if value == 0 {
        cx.note(Rule::BadMutex, format!("{call}: lp={:#x} was never initialised (zeroed)", lock.addr()));
    } else {
        cx.violate(
            Rule::BadMutex,
            format!("{call}: bad mutex, lp={:#x}: never initialised, holds {value:#x}", lock.addr()),
        );
    }
    let class = kernel.machine().0.order.lock().class(ClassKey::Zeroed(kernel.index(), lock.addr()));
    let queue = Arc::new(WaitQueue::new("mutex"));
    let origin = "never initialised".to_owned();
    let object = Object::Mutex(MutexObject { class, origin, pil: 0, queue });
    kernel.locks().lock().objects.insert(lock.addr(), object);
    Known { class, pil: 0 }
}

fn as_known(object: &mut MutexObject) -> Known {
    Known { class: object.class, pil: object.pil }
}

/// Takes the lock, waiting for it if need be. No checks, no books.
fn acquire(cx: &Cx, lock: *mut c_void) {
    let fast = word(lock).compare_exchange(0, me_addr(cx), Ordering::Acquire, Ordering::Relaxed);
    if fast.is_err() {
        acquire_slow(cx, lock);
    }
    race::acquire(Key("lock", lock.addr() as u64));
}

#[cold]
fn acquire_slow(cx: &Cx, lock: *mut c_void) {
    let me = me_addr(cx);
    loop {
        let mut tables = cx.kernel().locks().lock();
        let value = word(lock).load(Ordering::Relaxed);
        let (owner, flags) = (value & OWNER, value & !OWNER);
        let wanted = if owner == 0 { me | flags } else { value | WAITERS };
        if word(lock).compare_exchange(value, wanted, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        if owner == 0 {
            return;
        }
        let object = tables.objects.get_or_insert_with(lock.addr(), || {
            let queue = Arc::new(WaitQueue::new("mutex"));
            let origin = "never initialised".to_owned();
            Object::Mutex(MutexObject { class: 0, origin, pil: 0, queue })
        });
        let Some(queue) = object.mutex().map(|m| m.queue.clone()) else { return };
        queue.enter(lock.addr());
        drop(tables);
        queue.sleep(Nanos::NEVER);
    }
}

fn hold(cx: &Cx, lock: *mut c_void, known: &Known) {
    let thread = &cx.thread().0;
    let kind = match known.pil {
        0 => HeldKind::Adaptive,
        pil => {
            let before = thread.local().raised;
            if pil > before {
                thread.set_raised(pil);
            }
            HeldKind::Spin { before }
        }
    };
    let held = Held { addr: lock.addr(), kind, class: known.class, pc: cx.caller_pc() };
    let mut local = thread.local();
    if let Some(seen) = &local.handler_locks {
        seen.lock().insert(held.addr);
    }
    local.held.push(held);
}

unsafe extern "C" fn mutex_tryenter(lock: *mut kmutex_t) -> c_int {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let checks = cx.thread().machine().config().checks;
    let known = checks.then(|| known(&cx, lock, "mutex_tryenter"));
    let value = word(lock).load(Ordering::Relaxed);
    let wanted = me_addr(&cx) | (value & !OWNER);
    if value & OWNER != 0
        || word(lock).compare_exchange(value, wanted, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return 0;
    }
    race::acquire(Key("lock", lock.addr() as u64));
    if let Some(known) = known {
        hold(&cx, lock, &known);
    }
    1
}

unsafe extern "C" fn mutex_exit(lock: *mut kmutex_t) {
    if !swap_unchecked(lock, |me| (me, 0)) {
        exit(&cx(), lock.cast());
    }
}

/// As `mutex_exit` in the name of `cx`.
pub(super) fn exit(cx: &Cx, lock: *mut c_void) {
    if cx.thread().machine().config().checks {
        let value = word(lock).load(Ordering::Relaxed);
        if value & DEAD == DEAD {
            cx.violate(Rule::BadMutex, format!("mutex_exit: bad mutex, lp={:#x}: destroyed", lock.addr()));
            return;
        }
        if value & OWNER != me_addr(cx) {
            let words = cx.kernel().locks().describe(lock.addr());
            cx.violate(Rule::MutexNotOwner, format!("mutex_exit: not owner: {words}"));
            return;
        }
        let_go(cx, lock.addr());
    }
    release(cx, lock);
}

/// Takes the lock off the thread's list and lowers the PIL again.
fn let_go(cx: &Cx, addr: usize) {
    if let Some(Held { kind: HeldKind::Spin { before }, .. }) = take_off(cx, addr) {
        cx.thread().0.set_raised(before);
    }
}

fn take_off(cx: &Cx, addr: usize) -> Option<Held> {
    let mut local = cx.thread().0.local();
    let position = local.held.iter().rposition(|h| h.addr == addr);
    position.map(|index| local.held.remove(index))
}

fn release(cx: &Cx, lock: *mut c_void) {
    race::release(Key("lock", lock.addr() as u64));
    let me = me_addr(cx);
    if word(lock).compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
        return;
    }
    let mut tables = cx.kernel().locks().lock();
    let queue = tables.objects.get_mut(lock.addr()).and_then(Object::mutex).map(|m| m.queue.clone());
    let spin = word(lock).load(Ordering::Relaxed) & SPIN;
    let more = queue.as_ref().is_some_and(|q| q.len() > 1);
    word(lock).store(spin | if more { WAITERS } else { 0 }, Ordering::Release);
    if let Some(queue) = queue {
        queue.wake_one();
    }
}

unsafe extern "C" fn mutex_destroy(lock: *mut kmutex_t) {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let value = word(lock).load(Ordering::Relaxed);
    let (owner, me) = (value & OWNER, me_addr(&cx));
    let fault = if value & DEAD == DEAD {
        Some("bad mutex: destroyed twice")
    } else if owner != 0 && owner != me {
        Some("not owner")
    } else if value & WAITERS != 0 {
        Some("has waiters")
    } else {
        None
    };
    if let Some(fault) = fault {
        let words = cx.kernel().locks().describe(lock.addr());
        cx.violate(Rule::BadMutexDestroy, format!("mutex_destroy: {fault}: {words}"));
        return;
    }
    if owner == me {
        // As in the kernel, only mutex_exit lowers the level again.
        take_off(&cx, lock.addr());
    }
    word(lock).store(me | DEAD, Ordering::Release);
    let kernel = cx.kernel();
    kernel.locks().lock().objects.remove(lock.addr());
    kernel.machine().0.order.lock().forget(lock.addr());
    kernel.resources().remove("mutex", lock.addr() as u64);
}

unsafe extern "C" fn mutex_owned(lock: *const kmutex_t) -> c_int {
    c_int::from(owned(&cx(), lock.cast_mut().cast()))
}

pub(super) fn owned(cx: &Cx, lock: *mut c_void) -> bool {
    word(lock).load(Ordering::Relaxed) & OWNER == me_addr(cx)
}

/// The `kthread_t *` of whoever holds a mutex that was initialised; `None` while it is free or destroyed.
pub(super) fn owner(addr: usize) -> Option<usize> {
    let value = word(std::ptr::with_exposed_provenance_mut(addr)).load(Ordering::Relaxed);
    (value & DEAD != DEAD && value & OWNER != 0).then_some(value & OWNER)
}

/// Is it a spin mutex?
pub(super) fn is_spin(lock: *mut c_void) -> bool {
    word(lock).load(Ordering::Relaxed) & DEAD == SPIN
}
