//! `krwlock_t`: 8 bytes in module memory that show the state; the books beside it decide. Writers go before readers.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use illumos_sys_hdrs::{RW_WRITER, krw_t, krw_type_t, krwlock_t};
use sim::race::{self, Key};
use sim::{ClassKey, Held, HeldKind, Nanos, Rule, WaitQueue};

use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::unix::locks::{Object, RwObject};
use crate::unix::sync::{check_order, origin};

const WRITE_LOCKED: usize = 4;
const READER: usize = 8;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UKS: rw_enter, rw_tryenter, rw_exit, rw_downgrade;
        UKS: rw_tryupgrade, rw_init, rw_destroy;
        ANY: rw_read_held, rw_write_held, rw_lock_held;
    }
}

fn show(lock: *mut c_void, object: &RwObject) {
    let value = if object.writer != 0 { object.writer | WRITE_LOCKED } else { object.readers.len() * READER };
    // SAFETY: a `krwlock_t` is 8 bytes, 8-aligned, and lives at least until the call returns; all access is atomic.
    unsafe { AtomicUsize::from_ptr(lock.cast()) }.store(value, Ordering::Release);
}

fn new_object(class: u32, origin: String) -> Object {
    let queue = Arc::new(WaitQueue::new("rwlock"));
    Object::Rw(RwObject { class, origin, writer: 0, readers: Vec::new(), waiting_writers: 0, queue })
}

/// Runs `f` on the lock's books, making them for a zeroed lock that was never initialised.
fn with<R>(cx: &Cx, lock: *mut c_void, f: impl FnOnce(&mut RwObject) -> R) -> R {
    let kernel = cx.kernel();
    let class = || kernel.machine().0.order.lock().class(ClassKey::Zeroed(kernel.index(), lock.addr()));
    let mut tables = kernel.locks().lock();
    let new = || new_object(class(), "never initialised".to_owned());
    let object = tables.objects.get_or_insert_with(lock.addr(), new);
    if object.rw().is_none() {
        *object = new_object(class(), "in memory of another lock".to_owned());
    }
    let object = object.rw().expect("made one of its kind just above");
    let value = f(object);
    show(lock, object);
    value
}

unsafe extern "C" fn rw_init(lock: *mut krwlock_t, _name: *mut c_char, _kind: krw_type_t, _arg: *mut c_void) {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let kernel = cx.kernel();
    let (class, origin) = origin(&cx, kernel);
    kernel.locks().lock().objects.insert(lock.addr(), new_object(class, origin));
    kernel.machine().0.order.lock().forget(lock.addr());
    with(&cx, lock, |_| ());
    kernel.resources().add("rwlock", lock.addr() as u64, "");
}

unsafe extern "C" fn rw_destroy(lock: *mut krwlock_t) {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let active = with(&cx, lock, |o| o.writer != 0 || !o.readers.is_empty());
    cx.check(!active, Rule::BadRwlock, || {
        format!("rw_destroy: lock still active: {}", cx.kernel().locks().describe(lock.addr()))
    });
    let kernel = cx.kernel();
    kernel.locks().lock().objects.remove(lock.addr());
    kernel.machine().0.order.lock().forget(lock.addr());
    kernel.resources().remove("rwlock", lock.addr() as u64);
}

fn try_take(cx: &Cx, lock: *mut c_void, writer: bool) -> Option<Arc<WaitQueue>> {
    let me = cx.thread().0.kthread.addr();
    with(cx, lock, |o| {
        let free = o.writer == 0 && if writer { o.readers.is_empty() } else { o.waiting_writers == 0 };
        if !free {
            return Some(o.queue.clone());
        }
        if writer {
            o.writer = me;
        } else {
            o.readers.push(me);
        }
        None
    })
}

/// What writers leave for everybody.
fn writers(lock: *mut c_void) -> Key {
    Key("lock", lock.addr() as u64)
}

/// What readers leave for writers.
fn readers(lock: *mut c_void) -> Key {
    Key("readers of a lock", lock.addr() as u64)
}

fn hold(cx: &Cx, lock: *mut c_void, writer: bool) {
    race::acquire(writers(lock));
    if writer {
        race::acquire(readers(lock));
    }
    let class = with(cx, lock, |o| o.class);
    let kind = if writer { HeldKind::Writer } else { HeldKind::Reader };
    cx.thread().0.local().held.push(Held { addr: lock.addr(), kind, class, pc: cx.caller_pc() });
}

unsafe extern "C" fn rw_enter(lock: *mut krwlock_t, how: krw_t) {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let me = cx.thread().0.kthread.addr();
    let writer = how == RW_WRITER;
    let (recursive, class) =
        with(&cx, lock, |o| (o.writer == me || (writer && o.readers.contains(&me)), o.class));
    cx.check(!recursive, Rule::BadRwlock, || {
        format!("recursive rw_enter: {}", cx.kernel().locks().describe(lock.addr()))
    });
    if cx.thread().machine().config().checks {
        check_order(&cx, class, lock.addr(), "rwlock");
    }
    while let Some(queue) = try_take(&cx, lock, writer) {
        let queued = with(&cx, lock, |o| {
            let busy = o.writer != 0 || !o.readers.is_empty() || (!writer && o.waiting_writers > 0);
            if busy {
                o.waiting_writers += u32::from(writer);
                queue.enter(lock.addr());
            }
            busy
        });
        if queued {
            queue.sleep(Nanos::NEVER);
            with(&cx, lock, |o| o.waiting_writers -= u32::from(writer));
        }
    }
    hold(&cx, lock, writer);
}

unsafe extern "C" fn rw_tryenter(lock: *mut krwlock_t, how: krw_t) -> c_int {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let writer = how == RW_WRITER;
    if try_take(&cx, lock, writer).is_some() {
        return 0;
    }
    hold(&cx, lock, writer);
    1
}

unsafe extern "C" fn rw_exit(lock: *mut krwlock_t) {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let me = cx.thread().0.kthread.addr();
    let writes = with(&cx, lock, |o| o.writer == me);
    race::release(if writes { writers(lock) } else { readers(lock) });
    let fault = with(&cx, lock, |o| {
        if o.writer == me {
            o.writer = 0;
        } else if let Some(index) = o.readers.iter().position(|r| *r == me) {
            o.readers.remove(index);
        } else if o.writer != 0 || !o.readers.is_empty() {
            return Some("not owner");
        } else {
            return Some("lock not held");
        }
        o.queue.wake_all();
        None
    });
    if let Some(fault) = fault {
        let words = cx.kernel().locks().describe(lock.addr());
        cx.violate(Rule::BadRwlock, format!("rw_exit: {fault}: {words}"));
    }
    let mut local = cx.thread().0.local();
    if let Some(index) = local.held.iter().rposition(|h| h.addr == lock.addr()) {
        local.held.remove(index);
    }
}

fn rename_held(cx: &Cx, lock: *mut c_void, kind: HeldKind) {
    let mut local = cx.thread().0.local();
    if let Some(held) = local.held.iter_mut().rfind(|h| h.addr == lock.addr()) {
        held.kind = kind;
    }
}

unsafe extern "C" fn rw_downgrade(lock: *mut krwlock_t) {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let me = cx.thread().0.kthread.addr();
    race::release(writers(lock));
    let ok = with(&cx, lock, |o| {
        if o.writer == me {
            o.writer = 0;
            o.readers.push(me);
            o.queue.wake_all();
            return true;
        }
        false
    });
    cx.check(ok, Rule::BadRwlock, || "rw_downgrade: not owner".to_owned());
    rename_held(&cx, lock, HeldKind::Reader);
}

unsafe extern "C" fn rw_tryupgrade(lock: *mut krwlock_t) -> c_int {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let me = cx.thread().0.kthread.addr();
    let done = with(&cx, lock, |o| {
        let alone = o.readers == [me] && o.waiting_writers == 0;
        if alone {
            o.readers.clear();
            o.writer = me;
        }
        alone
    });
    if done {
        race::acquire(readers(lock));
        rename_held(&cx, lock, HeldKind::Writer);
    }
    c_int::from(done)
}

unsafe extern "C" fn rw_read_held(lock: *mut krwlock_t) -> c_int {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let me = cx.thread().0.kthread.addr();
    c_int::from(with(&cx, lock, |o| o.readers.contains(&me)))
}

unsafe extern "C" fn rw_write_held(lock: *mut krwlock_t) -> c_int {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    let me = cx.thread().0.kthread.addr();
    c_int::from(with(&cx, lock, |o| o.writer == me))
}

unsafe extern "C" fn rw_lock_held(lock: *mut krwlock_t) -> c_int {
    let (cx, lock) = (cx(), lock.cast::<c_void>());
    c_int::from(with(&cx, lock, |o| o.writer != 0 || !o.readers.is_empty()))
}
