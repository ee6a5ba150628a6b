//! `ksema_t`: 16 bytes in module memory, of which the second word shows the count; the books beside it decide. Who waits gets a unit
//! in the order of coming.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use illumos_sys_hdrs::{ksema_t, ksema_type_t};
use sim::race::{self, Key};
use sim::{Nanos, Rule, WaitQueue};

use crate::export;
use crate::loader::backtrace::frame;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::Role;
use crate::loader::export::Export;
use crate::loader::kernels::Working;
use crate::unix::locks::{Object, SemaObject};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UKS: sema_init, sema_destroy, sema_v, sema_tryp;
        // The waiting calls check their context themselves: in a timeout handler another rule is broken than elsewhere.
        ANY: sema_p, sema_p_sig, sema_held;
    }
}

/// Where the count is.
const COUNT: usize = 8;

fn show(sema: *mut c_void, object: &SemaObject) {
    // SAFETY: a `ksema_t` is 16 bytes, 8-aligned, and lives at least until the call returns; all access is atomic.
    unsafe { AtomicU32::from_ptr(sema.wrapping_byte_add(COUNT).cast()) }
        .store(object.count, Ordering::Release);
}

/// Runs `f` on the semaphore's books; breaks rule 12 if there is no semaphore.
fn with<R>(cx: &Cx, sema: *mut c_void, f: impl FnOnce(&mut SemaObject) -> R) -> Option<R> {
    let mut tables = cx.kernel().locks().lock();
    if let Some(object) = tables.objects.get_mut(sema.addr()).and_then(Object::sema) {
        let value = f(object);
        show(sema, object);
        return Some(value);
    }
    drop(tables);
    cx.violate(Rule::BadCv, format!("semaphore {:#x} was never initialised, or was destroyed", sema.addr()));
    None
}

unsafe extern "C" fn sema_init(
    sema: *mut ksema_t,
    count: u32,
    _name: *mut c_char,
    _kind: ksema_type_t,
    _arg: *mut c_void,
) {
    let (cx, sema) = (cx(), sema.cast::<c_void>());
    let kernel = cx.kernel();
    let origin = format!("initialised at {}", frame(kernel.machine(), cx.caller_pc()));
    let queue = Arc::new(WaitQueue::new("semaphore"));
    let object = Object::Sema(SemaObject { origin, count, queue });
    kernel.locks().lock().objects.insert(sema.addr(), object);
    with(&cx, sema, |_| ());
    kernel.resources().add("semaphore", sema.addr() as u64, "");
}

unsafe extern "C" fn sema_destroy(sema: *mut ksema_t) {
    let (cx, sema) = (cx(), sema.cast::<c_void>());
    let kernel = cx.kernel();
    let waiters = with(&cx, sema, |s| s.queue.len()).unwrap_or(0);
    cx.check(waiters == 0, Rule::BadCv, || {
        format!("sema_destroy with {waiters} waiters: {}", kernel.locks().describe(sema.addr()))
    });
    kernel.locks().lock().objects.remove(sema.addr());
    kernel.resources().remove("semaphore", sema.addr() as u64);
}

/// Takes a unit, or a place in the queue.
fn take(cx: &Cx, sema: *mut c_void) -> Option<Arc<WaitQueue>> {
    let waits = |s: &mut SemaObject| {
        if s.count > 0 {
            s.count -= 1;
            return None;
        }
        s.queue.enter(sema.addr());
        Some(s.queue.clone())
    };
    with(cx, sema, waits).flatten()
}

fn wait(cx: &Cx, sema: *mut c_void) {
    let role = cx.thread().0.local().work().entries.last().map(|e| e.kind.role);
    cx.check(role != Some(Role::TimeoutHandler), Rule::TimeoutHandlerBlocks, || {
        format!("{} in a timeout handler", cx.call())
    });
    cx.may_block();
    if let Some(queue) = take(cx, sema) {
        // Whoever wakes this thread has left it its unit.
        queue.sleep(Nanos::NEVER);
    }
    race::acquire(units(sema));
}

/// What whoever gives a unit leaves for whoever takes one.
fn units(sema: *mut c_void) -> Key {
    Key("semaphore", sema.addr() as u64)
}

unsafe extern "C" fn sema_p(sema: *mut ksema_t) {
    wait(&cx(), sema.cast());
}

/// Nobody sends signals here: always 0.
unsafe extern "C" fn sema_p_sig(sema: *mut ksema_t) -> c_int {
    wait(&cx(), sema.cast());
    0
}

unsafe extern "C" fn sema_tryp(sema: *mut ksema_t) -> c_int {
    let taken = with(&cx(), sema.cast(), |s| {
        let free = s.count > 0;
        s.count -= u32::from(free);
        free
    });
    if taken == Some(true) {
        race::acquire(units(sema.cast()));
    }
    taken.unwrap_or(false).into()
}

unsafe extern "C" fn sema_v(sema: *mut ksema_t) {
    race::release(units(sema.cast()));
    with(&cx(), sema.cast(), |s| {
        if !s.queue.wake_one() {
            s.count += 1;
        }
    });
}

/// Has somebody taken the last unit?
unsafe extern "C" fn sema_held(sema: *mut ksema_t) -> c_int {
    with(&cx(), sema.cast(), |s| s.count == 0).unwrap_or(false).into()
}
