//! Threads and time for modules: `thread_create` and the like, `delay`, the clocks.

use std::ffi::{c_int, c_void};

use illumos_sys_hdrs::{caddr_t, clock_t, hrtime_t, kt_did_t, kthread_t, pri_t, proc_t, time_t};
use sim::thread::{self, Spawn, spawn};
use sim::{Ctx, HZ, Nanos, Rule, Thread, current, race};

use crate::export;
use crate::loader::backtrace::frame;
use crate::loader::cx::cx;
use crate::loader::entry::{self, EntryKind};
use crate::loader::export::Export;
use crate::loader::kernels::Work;

/// What a start routine is really called with, though its prototype says nothing.
type Proc = unsafe extern "C" fn(*mut c_void);

/// Wall-clock time of a virtual machine's boot, seconds since 1970: the same in every run.
const BOOT_TIME: i64 = 1_199_145_600;
const MICROS_PER_TICK: i64 = 1_000_000 / HZ as i64;

pub(crate) fn exports() -> Vec<Export> {
    export! {
        UK: thread_create, thread_join, thread_exit, delay;
        ANY: unchecked threadp, ddi_get_kt_did, ddi_get_lbolt, ddi_get_lbolt64;
        ANY: gethrtime, gethrestime_sec, ddi_get_time, drv_usectohz;
        ANY: drv_hztousec, drv_usecwait;
    }
}

unsafe extern "C" fn thread_create(
    _stack: caddr_t,
    _stack_size: usize,
    start: Option<unsafe extern "C" fn()>,
    arg: *mut c_void,
    len: usize,
    _proc: *mut proc_t,
    _state: c_int,
    pri: pri_t,
) -> *mut kthread_t {
    let cx = cx();
    cx.may_block();
    let Some(start) = start else { cx.panic("thread_create: no start routine") };
    // SAFETY: start routines take the argument given to `thread_create`.
    let start: Proc = unsafe { std::mem::transmute(start) };
    let kernel = cx.kernel().clone();
    let mut copy = vec![0u8; len];
    // SAFETY: the caller says that `len` bytes are at `arg`.
    unsafe { std::ptr::copy_nonoverlapping(arg.cast(), copy.as_mut_ptr(), len) };
    let arg = arg.expose_provenance();
    let module = kernel.module_at(start as *const () as usize);
    let name = format!("{}", frame(kernel.machine(), start as *const () as usize));
    let what = Spawn { name: name.clone(), ctx: Ctx::Kernel, work: Work::of(&kernel), cpu: None, pri };
    let host = kernel.clone();
    let body = move || {
        let arg = if len > 0 { copy.as_mut_ptr().cast() } else { std::ptr::with_exposed_provenance_mut(arg) };
        let kind = EntryKind::thread_start();
        drop(module);
        // SAFETY: the module gave start routine and argument for each other; a copy lives until the routine returns.
        unsafe { host.enter(start, (arg,), kind) };
    };
    let thread = spawn(kernel.machine(), what, Box::new(body));
    let did = thread.did;
    kernel.resources().add_for(&cx, "thread", did, name);
    let ledger = kernel.clone();
    thread.local().on_exit = Some(Box::new(move || {
        ledger.resources().remove("thread", did);
    }));
    thread.kthread.as_ptr().cast()
}

unsafe extern "C" fn thread_join(did: kt_did_t) {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    if did == cx.thread().did() {
        cx.violate(Rule::BadThreadExit, "thread_join of the calling thread");
        return;
    }
    if let Some(thread) = cx.thread().machine().thread(did) {
        thread.join();
    }
    race::joined(did);
}

unsafe extern "C" fn thread_exit() -> ! {
    let cx = cx();
    let held: Vec<String> = {
        let local = cx.thread().0.local();
        local.held.iter().filter(|h| h.is_driver()).map(|h| format!("{:#x}", h.addr)).collect()
    };
    cx.check(held.is_empty(), Rule::BadThreadExit, || {
        format!("thread_exit while holding {}", held.join(", "))
    });
    drop(cx);
    drop(held);
    let me = current::thread();
    entry::leave_all(&me);
    drop(me);
    thread::abandon_here()
}

unsafe extern "C" fn threadp() -> *mut c_void {
    Thread::current().kthread()
}

unsafe extern "C" fn ddi_get_kt_did() -> kt_did_t {
    Thread::current().did()
}

unsafe extern "C" fn delay(ticks: clock_t) {
    let cx = cx();
    cx.may_block();
    if ticks <= 0 {
        cx.note(Rule::BadDelay, format!("delay({ticks})"));
        return;
    }
    thread::sleep(Nanos::from_ticks(ticks));
}

unsafe extern "C" fn ddi_get_lbolt() -> clock_t {
    thread::now().ticks()
}

unsafe extern "C" fn ddi_get_lbolt64() -> i64 {
    thread::now().ticks()
}

unsafe extern "C" fn gethrtime() -> hrtime_t {
    thread::now().0 as i64
}

fn wall_seconds() -> i64 {
    BOOT_TIME + (thread::now().0 / 1_000_000_000) as i64
}

unsafe extern "C" fn gethrestime_sec() -> time_t {
    wall_seconds()
}

unsafe extern "C" fn ddi_get_time() -> time_t {
    wall_seconds()
}

unsafe extern "C" fn drv_usectohz(micros: clock_t) -> clock_t {
    if micros <= 0 { 0 } else { micros.saturating_add(MICROS_PER_TICK - 1) / MICROS_PER_TICK }
}

unsafe extern "C" fn drv_hztousec(ticks: clock_t) -> clock_t {
    ticks.max(0).saturating_mul(MICROS_PER_TICK)
}

/// Spins: the clock moves, nobody else need run.
unsafe extern "C" fn drv_usecwait(micros: clock_t) {
    let machine = Thread::current().machine().clone();
    let span = Nanos::from_micros(u64::try_from(micros).unwrap_or(0));
    let until = machine.now() + span;
    if !machine.is_live() {
        machine.0.spend(span);
    }
    while machine.now() < until {
        std::hint::spin_loop();
    }
}
