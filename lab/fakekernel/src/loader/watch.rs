//! Modules that loop: nothing else would end such a run, for a thread that makes no call cannot be stopped.
//!
//! Each operating-system thread that carries threads of a machine has a timer on its own processor time. Each tick looks whether the
//! thread is in module text, and whether a module has called or been entered since the last one. Thirty ticks in a row that find it
//! in module text without a change are a loop. What the lab takes for itself, however long, breaks the row.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;

use sim::current;
use sim::interrupt;
use sim::{Halt, Hosts as _, Nanos};

use crate::loader::fault::{install, take, taken_at};
use crate::loader::kernels::kernels;
use crate::loader::module;

/// Ticks of the limit.
const TICKS: u32 = 30;

/// A debugger passes it on without a word, and nothing else here uses it.
const SIGNAL: i32 = libc::SIGVTALRM;

thread_local! {
    /// [`current::changes`] at the last tick, and how many found it so.
    static SEEN: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// The calling operating-system thread is watched until this is dropped there.
pub(crate) struct Watch(Option<libc::timer_t>);

impl Watch {
    /// With no limit, or where the system gives no timer, nothing is watched.
    pub(crate) fn begin(limit: Nanos) -> Self {
        if limit == Nanos(0) {
            return Self(None);
        }
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            install(SIGNAL, tick, libc::SA_RESTART);
        });
        SEEN.set((0, 0));
        Self(timer(Nanos(limit.0.div_ceil(u64::from(TICKS)))))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(timer) = self.0 {
            // SAFETY: made by `begin`, and deleted once.
            unsafe { libc::timer_delete(timer) };
        }
    }
}

/// A timer on the calling thread's processor time that sends it [`SIGNAL`] each time `every` has gone by.
fn timer(every: Nanos) -> Option<libc::timer_t> {
    // SAFETY: all-zero is a valid `sigevent`.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = SIGNAL;
    // SAFETY: it only asks who is calling.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer = ptr::null_mut();
    // SAFETY: both are valid for the call.
    let made = unsafe { libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer) };
    if made != 0 {
        return None;
    }
    let span = libc::timespec {
        tv_sec: (every.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (every.0 % 1_000_000_000) as libc::c_long,
    };
    let spans = libc::itimerspec { it_interval: span, it_value: span };
    // SAFETY: the timer just made, and a valid span.
    unsafe { libc::timer_settime(timer, 0, &raw const spans, ptr::null_mut()) };
    Some(timer)
}

unsafe extern "C" fn tick(_signal: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid context to a SA_SIGINFO handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let pc = registers[libc::REG_RIP as usize] as usize;
    let (changes, (seen, ticks)) = (current::changes(), SEEN.get());
    let ticks = if changes == seen { ticks + 1 } else { 1 };
    let inside = current::is_thread() && module::in_window_range(pc);
    if inside && (ticks >= TICKS || interrupt::is_asked()) && take(registers, landing) {
        SEEN.set((0, 0));
    } else {
        SEEN.set((changes, if inside { ticks } else { 0 }));
    }
}

/// Where a thread that loops goes on: makes the report, halts the machine, ends the thread.
extern "C" fn landing() -> ! {
    let me = current::thread();
    me.local().parked = taken_at();
    let kernels = kernels(&me.machine);
    let dump = Box::new(kernels.describe(&me));
    let halt = match interrupt::is_asked() {
        true => Halt::Interrupted(dump),
        false => Halt::Loop(me.machine.0.config.processor_limit, dump),
    };
    me.machine.0.halt(halt);
    sim::thread::abandon_here()
}

/// How long an interrupted machine has to say where it is, in seconds: one that waits for something outside does not.
const PATIENCE: u32 = 3;
/// What a shell says of a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// From here on SIGINT halts the machines of this process, so that a report says where they were. A second one, or three seconds
/// without an end, end the process.
pub fn report_interrupts() {
    install(libc::SIGINT, asked_to_stop, libc::SA_RESTART);
    install(libc::SIGALRM, end, 0);
}

unsafe extern "C" fn asked_to_stop(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    if interrupt::ask() {
        // SAFETY: async-signal-safe, and nothing runs after it.
        unsafe { libc::_exit(INTERRUPTED) };
    }
    // SAFETY: async-signal-safe.
    unsafe { libc::alarm(PATIENCE) };
}

unsafe extern "C" fn end(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: as above.
    unsafe { libc::_exit(INTERRUPTED) };
}
