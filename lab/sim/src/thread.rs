//! Kernel threads: each is an operating-system thread with a big stack, a fake `kthread_t` and a fake `cpu_t`.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::abandon::{ReturnPoint, abandon_to, call_abandonable};
use crate::context::{Contexts, Ctx};
use crate::current::{self, Call};
use crate::fiber;
use crate::held::{Held, SeenLocks};
use crate::host_mutex::{self, HostGuard, HostMutex};
use crate::hosts::Work;
use crate::kthread::KThread;
use crate::machine::{Machine, Outcome};
use crate::nanos::Nanos;
use crate::parker::Parker;
use crate::race;
use crate::sched::Wake;
use crate::strategy::At;
use crate::wait::WaitQueue;

/// Host stack of a kernel thread. Module frames may use part of it (rule 38); the rest is for the lab's own frames.
pub const STACK_SIZE: usize = 512 << 10;

/// A thread of the machine; cheap clone.
#[derive(Clone)]
pub struct Thread(
    /// What it is made of.
    pub Arc<ThreadInner>,
);

/// What a thread is made of.
pub struct ThreadInner {
    /// Whose thread it is.
    pub machine: Machine,
    /// Itself, for handing out.
    me: Weak<ThreadInner>,
    /// `t_did`; never reused in a machine.
    pub did: u64,
    /// For reports.
    pub name: Arc<str>,
    /// The processor it believes to run on.
    pub cpu: AtomicU32,
    /// The context as one of [`Contexts`]' bits, a raised PIL taken into account.
    context: AtomicU8,
    pub(crate) parker: Parker,
    /// Virtual mode: scheduling points passed and waits begun, by the thread itself.
    steps: AtomicU64,
    pub(crate) wait: lab_lock::Mutex<Wait>,
    /// The thread's own; others look at it only for a dump.
    local: HostMutex<Local>,
    /// Its place in the clocks that races are looked for with, once it has one.
    pub(crate) race_slot: AtomicU32,
    /// What compiled module code sees of it.
    pub kthread: KThread,
    /// Top of the host stack, once running.
    pub stack_top: OnceLock<usize>,
    return_point: Mutex<usize>,
    finished: HostMutex<bool>,
    exit: WaitQueue,
    pub(crate) ended: AtomicBool,
    /// What it is to do, until it begins.
    body: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// The wait a thread is in. A wait has a number, so that a late wake-up of an earlier one does nothing.
pub(crate) struct Wait {
    pub seq: u64,
    pub phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// On a queue, not yet asleep.
    Prepared,
    Waiting {
        timer: Option<(Nanos, u64)>,
    },
    Woken(Wake),
}

/// What a thread waits for, for a hang report.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitsFor {
    /// In words.
    pub what: &'static str,
    /// The address of it in module memory; 0 for what is the lab's.
    pub addr: usize,
}

/// What belongs to a thread itself.
pub struct Local {
    /// The context it runs in.
    pub ctx: Ctx,
    /// PIL a spin mutex or `splx` raised the thread to; 0 if none.
    pub raised: u8,
    /// What it works on.
    pub work: Work,
    /// The locks it holds, in the order taken.
    pub held: Vec<Held>,
    /// The instance that is being attached or detached on it.
    pub instance: Option<u32>,
    /// The last call of a module that an injected fault made fail.
    pub injected: Option<String>,
    /// The call in progress when the thread last gave the baton away.
    pub parked: Call,
    /// What it waits for; `None` while it does not.
    pub waits_for: Option<WaitsFor>,
    /// Where to note the locks that a handler running on this thread takes.
    pub handler_locks: Option<SeenLocks>,
    /// What to do when the thread ends by itself.
    pub on_exit: Option<Box<dyn FnOnce() + Send>>,
}

/// Payload of the unwinding that ends a lab thread when its machine stops.
struct MachineStopped;

/// What to start.
pub struct Spawn {
    /// Its name.
    pub name: String,
    /// The context it begins in.
    pub ctx: Ctx,
    /// What it works on.
    pub work: Work,
    /// Its processor; `None` leaves that to its number.
    pub cpu: Option<u32>,
    /// `t_pri`.
    pub pri: i16,
}

impl ThreadInner {
    pub(crate) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a thread is alive while it runs")
    }

    #[inline]
    pub(crate) fn wait(&self) -> lab_lock::MutexGuard<'_, Wait> {
        self.wait.lock()
    }

    /// What belongs to it. A leaf lock.
    #[inline]
    pub fn local(&self) -> HostGuard<'_, Local> {
        self.local.lock()
    }

    /// The context it runs in.
    #[inline]
    pub fn ctx(&self) -> Ctx {
        self.local().ctx
    }

    /// The context that counts for what may be called.
    #[inline]
    pub fn context_bit(&self) -> Contexts {
        Contexts::from_bits(self.context.load(Ordering::Relaxed))
    }

    /// Sets the context, keeping a raised PIL; returns the old one.
    pub fn set_ctx(&self, ctx: Ctx) -> Ctx {
        let mut local = self.local();
        let old = std::mem::replace(&mut local.ctx, ctx);
        self.store_context(&local);
        old
    }

    /// Raises the PIL (0: back to the context's own); returns the old value.
    pub fn set_raised(&self, pil: u8) -> u8 {
        let mut local = self.local();
        let old = std::mem::replace(&mut local.raised, pil);
        self.store_context(&local);
        old
    }

    /// The processor interrupt level.
    #[inline]
    pub fn pil(&self) -> u8 {
        let local = self.local();
        local.raised.max(local.ctx.pil())
    }

    fn store_context(&self, local: &Local) {
        let high = local.raised > Ctx::LOCK_LEVEL;
        let bit = if high { Contexts::H } else { local.ctx.bit() };
        self.context.store(bit.bits(), Ordering::Relaxed);
    }

    /// Begins a wait: from here on [`Shared::wake`](crate::Shared) with the returned number ends it.
    pub(crate) fn prepare(&self, what: &'static str, addr: usize) -> u64 {
        self.local().waits_for = Some(WaitsFor { what, addr });
        let mut wait = self.wait();
        wait.seq += 1;
        wait.phase = Phase::Prepared;
        wait.seq
    }

    /// Waits as prepared.
    pub(crate) fn block(&self, deadline: Nanos) -> Wake {
        let wake = self.machine.0.block(self, deadline);
        self.local().waits_for = None;
        wake
    }

    /// Counts one more step of the calling thread, which this is.
    pub(crate) fn step(&self) -> At {
        let step = self.steps.load(Ordering::Relaxed) + 1;
        self.steps.store(step, Ordering::Relaxed);
        At { thread: self.did, step }
    }

    /// Where the calling thread, which this is, will be with its next step.
    pub(crate) fn coming_step(&self) -> At {
        At { thread: self.did, step: self.steps.load(Ordering::Relaxed) + 1 }
    }

    pub(crate) fn note_parked(&self) {
        self.local().parked = current::call();
    }

    pub(crate) fn wait_for_baton(&self) {
        if self.machine.0.carries() {
            fiber::suspend()
        } else {
            self.parker.wait()
        }
        self.end_if_stopped();
    }

    fn end_if_stopped(&self) {
        if self.machine.0.is_stopping() {
            self.end_here();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The machine has stopped: the calling thread (this one) ends now.
    pub fn end_here(&self) -> ! {
        if current::stack().depth == 0 && !std::thread::panicking() {
            resume_unwind(Box::new(MachineStopped));
        }
        self.abandon()
    }

    fn abandon(&self) -> ! {
        host_mutex::forget_held();
        let point = *self.return_point.lock().unwrap_or_else(PoisonError::into_inner) as *const ReturnPoint;
        // SAFETY: `end_here` runs on this thread only, whose first frame is inside `call_abandonable`. Leaf locks are not
        // held at scheduling points, and everything else its frames own is leaked.
        unsafe { abandon_to(point) }
    }

    fn finish(&self) {
        *self.finished.lock() = true;
        self.exit.wake_all();
    }

    /// Waits until it has ended.
    pub fn join(&self) {
        let mut finished = self.finished.lock();
        while !*finished {
            finished = self.exit.wait(finished);
        }
        drop(finished);
        race::joined(self.did);
    }

    /// The lowest address its stack can reach; 0 before it runs.
    pub fn stack_bottom(&self) -> usize {
        self.stack_top.get().map_or(0, |top| top.saturating_sub(STACK_SIZE))
    }

    pub(crate) fn is_finished(&self) -> bool {
        *self.finished.lock()
    }
}

/// Starts a thread of the machine.
pub fn spawn(machine: &Machine, what: Spawn, f: Box<dyn FnOnce() + Send>) -> Arc<ThreadInner> {
    if machine.0.is_stopping() {
        current::thread().end_here();
    }
    let did = machine.0.next_did.fetch_add(1, Ordering::Relaxed);
    let cpu = what.cpu.unwrap_or(did as u32) % machine.0.config.cpus.max(1);
    let thread = Arc::new_cyclic(|me| ThreadInner {
        machine: machine.clone(),
        me: me.clone(),
        did,
        name: what.name.into(),
        cpu: AtomicU32::new(cpu),
        context: AtomicU8::new(what.ctx.bit().bits()),
        parker: Parker::default(),
        steps: AtomicU64::new(0),
        wait: lab_lock::Mutex::new(Wait { seq: 0, phase: Phase::Idle }),
        local: HostMutex::new(Local {
            ctx: what.ctx,
            raised: 0,
            work: what.work,
            held: Vec::new(),
            instance: None,
            injected: None,
            parked: Call::NONE,
            waits_for: None,
            handler_locks: None,
            on_exit: None,
        }),
        race_slot: AtomicU32::new(race::NO_SLOT),
        kthread: KThread::new(did, cpu, what.pri, what.ctx == Ctx::User),
        stack_top: OnceLock::new(),
        return_point: Mutex::new(0),
        finished: HostMutex::new(false),
        exit: WaitQueue::new("a thread to end"),
        ended: AtomicBool::new(false),
        body: Mutex::new(Some(f)),
    });
    race::begin(&thread);
    machine.0.admit(&thread);
    if !machine.0.carries() {
        start_os_thread(thread.clone());
    }
    thread
}

fn start_os_thread(thread: Arc<ThreadInner>) {
    let begin = move |thread: Arc<ThreadInner>| {
        let _while_it_carries = thread.machine.0.hosts.carrier_begins();
        thread.kthread.become_cpu();
        first_frame(thread);
    };
    std::thread::Builder::new()
        .name(thread.name.to_string())
        .stack_size(STACK_SIZE)
        .spawn(move || begin(thread))
        .unwrap_or_else(|error| panic!("cannot start an operating-system thread: {error}"));
}

struct Body {
    f: Option<Box<dyn FnOnce() + Send>>,
    result: Option<std::thread::Result<()>>,
}

/// A thread's life, on its own stack.
pub(crate) fn first_frame(thread: Arc<ThreadInner>) {
    let top = 0u8;
    let _ = thread.stack_top.set((&raw const top).addr());
    current::set(&thread);
    let f = thread.body.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut body = Body { f, result: None };
    let mut point = ReturnPoint::default();
    *thread.return_point.lock().unwrap_or_else(PoisonError::into_inner) = (&raw mut point).addr();
    // SAFETY: `point` lives in this frame, and `run_body` takes a `Body`, which `body` is.
    unsafe { call_abandonable(&raw mut point, run_body, (&raw mut body).cast()) };
    match body.result.take() {
        Some(Err(payload)) if !payload.is::<MachineStopped>() => {
            thread.machine.0.stop(Outcome::Panicked(payload));
        }
        _ => {}
    }
    let on_exit = thread.local().on_exit.take();
    if let Some(on_exit) = on_exit.filter(|_| !thread.machine.0.is_stopping()) {
        on_exit();
    }
    race::end();
    thread.finish();
    current::clear();
    thread.machine.0.retire(&thread);
    thread.machine.0.thread_ended(&thread);
}

unsafe extern "C" fn run_body(body: *mut c_void) {
    // SAFETY: `first_frame` passes its own `Body` and does not touch it meanwhile.
    let body = unsafe { &mut *body.cast::<Body>() };
    let me = current::thread();
    let result = catch_unwind(AssertUnwindSafe(|| {
        if me.machine.0.carries() {
            me.end_if_stopped();
        } else if !me.machine.0.is_live() {
            me.wait_for_baton();
        }
        if let Some(f) = body.f.take() {
            f();
        }
    }));
    body.result = Some(result);
}

impl Thread {
    /// The calling thread.
    ///
    /// # Panics
    ///
    /// Outside a machine.
    #[inline]
    pub fn current() -> Self {
        Self(current::thread())
    }

    /// The calling thread; `None` outside a machine.
    #[inline]
    pub fn try_current() -> Option<Self> {
        current::try_thread().map(Self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The same, to be kept.
    pub fn shared_name(&self) -> Arc<str> {
        self.0.name.clone()
    }

    /// `t_did`: what `thread_join` takes; never reused in a machine.
    pub fn did(&self) -> u64 {
        self.0.did
    }

    /// The address modules know it by (`kthread_t *`).
    pub fn kthread(&self) -> *mut c_void {
        self.0.kthread.as_ptr()
    }

    /// Where it runs now.
    #[inline]
    pub fn ctx(&self) -> Ctx {
        self.0.ctx()
    }

    /// The processor it believes to run on, from 0.
    pub fn cpu(&self) -> u32 {
        self.0.cpu.load(Ordering::Relaxed)
    }

    /// The machine it belongs to.
    #[inline]
    pub fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// Waits until it has ended.
    pub fn join(&self) {
        self.0.join();
    }

    /// Has it ended?
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thread({} {:?})", self.0.did, self.0.name)
    }
}

/// Sleeps for `span` on the machine's clock.
pub fn sleep(span: Nanos) {
    current::with(|me| {
        let me = me.expect("sleep outside a machine");
        me.prepare("the clock", 0);
        me.block(me.machine.0.now() + span);
    });
}

/// Lets every other thread run until all of them wait, without the clock's help. Only in virtual time, by one thread at a time.
pub fn idle() {
    current::with(|me| {
        let me = me.expect("idling outside a machine");
        me.machine.0.idle(me);
    });
}

/// A scheduling point: the seed may let another thread run.
pub fn reschedule() {
    current::with(|me| {
        if let Some(me) = me {
            me.machine.0.point(me);
        }
    });
}

/// Now, on the calling thread's machine.
///
/// # Panics
///
/// Outside a machine.
pub fn now() -> Nanos {
    current::with(|me| me.expect("now outside a machine").machine.0.now())
}

pub(crate) fn machine_stopped() -> bool {
    current::with(|me| me.is_some_and(|me| me.machine.0.is_stopping()))
}

/// The calling thread, which is in module code, ends now; what its frames own leaks.
///
/// # Panics
///
/// Outside a machine.
pub fn abandon_here() -> ! {
    current::with(|me| me.expect("only a thread of a machine is abandoned").abandon())
}
