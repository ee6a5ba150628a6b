//! One run.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::ops::DerefMut;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::config::{Config, FaultKind, FaultPlan, Mode};
use crate::context::Ctx;
use crate::current;
use crate::fiber::Carriage;
use crate::halt::{Halt, Hang};
use crate::host_mutex::{HostGuard, HostMutex};
use crate::hosts::Hosts;
use crate::inject::Injector;
use crate::interrupt;
use crate::moment::{Moment, Moments};
use crate::nanos::Nanos;
use crate::notes::{Note, Notes};
use crate::order::Order;
use crate::race::Races;
use crate::sched::Sched;
use crate::stall::{Places, Stalls};
use crate::strategy::Decision;
use crate::suppress::Suppression;
use crate::thread::{Spawn, Thread, ThreadInner, spawn};

/// One run: hosts, threads, one clock, one seed. Cheap clone.
#[derive(Clone)]
pub struct Machine(
    /// What its threads share.
    pub Arc<Shared>,
);

/// What the threads of a machine share.
pub struct Shared {
    /// Its settings.
    pub config: Config,
    pub(crate) boot: Instant,
    /// Virtual mode's clock, or with `real_work` the waiting it has skipped; moved by the holder of the baton.
    pub now: AtomicU64,
    pub(crate) sched: lab_lock::Mutex<Sched>,
    /// The earliest deadline of a waiting thread, of a virtual machine.
    pub(crate) next_due: AtomicU64,
    /// Scheduling points until the seed is asked again; touched by the holder of the baton.
    pub(crate) countdown: AtomicU32,
    pub(crate) next_did: AtomicU64,
    /// Do threads stall?
    pub(crate) stalling: AtomicBool,
    pub(crate) places: lab_lock::Mutex<Option<Places>>,
    /// Are moments expected?
    pub(crate) expecting: AtomicBool,
    pub(crate) moments: Moments,
    /// Are races looked for?
    pub(crate) racing: AtomicBool,
    pub(crate) races: lab_lock::Mutex<Option<Box<Races>>>,
    /// A hash over the kernel calls so far ([`Machine::trace_hash`]).
    pub trace: AtomicU64,
    /// Kernel calls so far.
    pub crossings: AtomicU64,
    /// What the run tolerated.
    pub notes: Notes,
    order_count: AtomicU64,
    /// The lock-order graph of all hosts and of the lab.
    pub order: HostMutex<Order>,
    /// Which fault points fail.
    pub injector: HostMutex<Injector>,
    rng: HostMutex<ChaCha8Rng>,
    /// Its hosts.
    pub hosts: Box<dyn Hosts>,
    stopping: AtomicBool,
    /// The thread that stopped the run.
    stopper: AtomicU64,
    outcome: Mutex<Option<Outcome>>,
    changed: Condvar,
}

/// How a run ended.
pub(crate) enum Outcome {
    /// The first thread returned.
    Returned,
    Halted(Halt),
    /// A lab thread panicked.
    Panicked(Box<dyn Any + Send>),
}

/// While it lives, something outside the machine may wake its threads, so that everybody waiting is no hang (live mode: a
/// descriptor watched by a thread of its own).
#[derive(Debug)]
pub struct OutsideWaker(Machine);

/// How long the end of a live run waits for threads that are inside module text or a system call.
const LIVE_PATIENCE: Duration = Duration::from_secs(3);

impl Machine {
    /// A machine on which these hosts run.
    #[expect(clippy::disallowed_methods, reason = "live runs are on the wall clock")]
    pub fn of(config: Config, hosts: Box<dyn Hosts>) -> Self {
        let seed = match config.mode {
            Mode::Virtual { seed } => seed,
            // Live runs do not repeat anyway.
            Mode::Live => 0,
        };
        let injector = HostMutex::new(Injector::new(config.faults.clone(), seed));
        Self(Arc::new(Shared {
            boot: Instant::now(),
            now: AtomicU64::new(0),
            sched: lab_lock::Mutex::new(Sched::new(&config, seed)),
            next_due: AtomicU64::new(u64::MAX),
            countdown: AtomicU32::new(1),
            next_did: AtomicU64::new(1),
            stalling: AtomicBool::new(false),
            places: lab_lock::Mutex::new(None),
            expecting: AtomicBool::new(false),
            moments: Moments::new(),
            racing: AtomicBool::new(false),
            races: lab_lock::Mutex::new(None),
            trace: AtomicU64::new(0xcbf2_9ce4_8422_2325),
            crossings: AtomicU64::new(0),
            notes: Notes::default(),
            order_count: AtomicU64::new(0),
            order: HostMutex::default(),
            injector,
            rng: HostMutex::new(ChaCha8Rng::seed_from_u64(seed)),
            hosts,
            stopping: AtomicBool::new(false),
            stopper: AtomicU64::new(0),
            outcome: Mutex::new(None),
            changed: Condvar::new(),
            config,
        }))
    }

    /// Its settings.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Runs `main` as the first thread (user context, no host) until it returns or the machine halts. Then every other thread is ended
    /// and the hosts are taken apart. A panic of `main` or of another lab thread is continued here. Once per machine.
    pub fn run<R: Send + 'static>(&self, main: impl FnOnce() -> R + Send + 'static) -> Result<R, Halt> {
        let result = Arc::new(Mutex::new(None));
        let (slot, shared) = (result.clone(), self.0.clone());
        let what = Spawn {
            name: "main".into(),
            ctx: Ctx::User,
            work: self.0.hosts.no_work(),
            cpu: Some(0),
            pri: 60,
        };
        let body = move || {
            let value = main();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            shared.stop(Outcome::Returned);
        };
        spawn(self, what, Box::new(body));
        self.0.start();
        if self.0.carries() {
            self.0.carry_all();
        }
        let outcome = self.0.wait_for_outcome();
        if !self.0.carries() {
            self.0.end_threads();
        }
        let left_behind = !self.0.sched().threads.is_empty();
        self.0.hosts.take_apart(left_behind);
        match outcome {
            Outcome::Returned => {
                let value = result.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(value.expect("the first thread left its result before it said so"))
            }
            Outcome::Halted(halt) => Err(halt),
            Outcome::Panicked(payload) => resume_unwind(payload),
        }
    }

    /// The thread with this number, while it lives.
    pub fn thread(&self, did: u64) -> Option<Thread> {
        self.0.sched().threads.iter().find(|t| t.did == did).cloned().map(Thread)
    }

    /// Since boot.
    pub fn now(&self) -> Nanos {
        self.0.now()
    }

    /// Waiting that the clock has skipped so far, in a machine whose work takes real time.
    pub fn skipped(&self) -> Nanos {
        Nanos(if self.0.config.real_work { self.0.now.load(Ordering::Relaxed) } else { 0 })
    }

    /// Do threads run in parallel on the wall clock?
    pub fn is_live(&self) -> bool {
        self.0.is_live()
    }

    /// The machine's random numbers, by the seed. A leaf lock: drop it before any scheduling point.
    pub fn rng(&self) -> impl DerefMut<Target = ChaCha8Rng> {
        let guard: HostGuard<'_, ChaCha8Rng> = self.0.rng.lock();
        guard
    }

    /// A hash over (thread, import) of every kernel call so far: equal for two virtual runs of one seed.
    pub fn trace_hash(&self) -> u64 {
        self.0.trace.load(Ordering::Relaxed)
    }

    /// What was decided so far in virtual mode, in the order decided: [`Strategy::Replay`](crate::Strategy::Replay) does the same again.
    pub fn decisions(&self) -> Vec<Decision> {
        self.0.sched().chooser.log().to_vec()
    }

    /// Kernel calls so far.
    pub fn crossings(&self) -> u64 {
        self.0.crossings.load(Ordering::Relaxed)
    }

    /// Tolerated and suppressed cases, sorted.
    pub fn notes(&self) -> Vec<Note> {
        self.0.notes.all()
    }

    /// Suppressions that nothing has come up for: they are no longer true, or the run was not about them.
    pub fn unused_suppressions(&self) -> Vec<Suppression> {
        let used: BTreeSet<usize> = self.notes().iter().filter_map(|note| note.suppressed).collect();
        let all = self.config().suppress.0.iter().enumerate();
        all.filter(|(number, _)| !used.contains(number)).map(|(_, entry)| entry.clone()).collect()
    }

    /// Changes one fault plan while running; its count starts anew.
    pub fn set_fault(&self, kind: FaultKind, plan: FaultPlan) {
        self.0.injector.lock().set(kind, plan);
    }

    /// How often a fault point of this kind was reached since its plan was set.
    pub fn fault_points(&self, kind: FaultKind) -> u64 {
        self.0.injector.lock().reached(kind)
    }

    /// Virtual mode: from now on threads stall, or do not. What was passed before does not count.
    pub fn set_stalls(&self, stalls: Option<Stalls>) {
        let Mode::Virtual { seed } = self.0.config.mode else { return };
        let mut places = self.0.places.lock();
        *places = stalls.map(|stalls| Places::new(stalls, seed ^ self.now().0));
        self.0.stalling.store(places.is_some(), Ordering::Relaxed);
    }

    /// From now on this moment is waited for; [`Self::next_moment`] says its number when it comes.
    pub fn expect(&self, number: usize, moment: Moment) {
        self.0.moments.expect(number, moment);
        self.0.expecting.store(true, Ordering::Relaxed);
    }

    /// The number of the next moment that has come; waits until `deadline` for one.
    pub fn next_moment(&self, deadline: Nanos) -> Option<usize> {
        self.0.moments.next(deadline)
    }

    /// No moment is waited for any more; the numbers of those that have not come.
    pub fn forget_moments(&self) -> Vec<usize> {
        self.0.expecting.store(false, Ordering::Relaxed);
        self.0.moments.forget()
    }

    /// What every thread is doing.
    pub fn dump(&self) -> Hang {
        self.0.dump()
    }

    /// Says that something outside the machine may wake its threads.
    pub fn outside_waker(&self) -> OutsideWaker {
        self.0.sched().outside += 1;
        OutsideWaker(self.clone())
    }

    /// Does the machine still run (or has not begun)?
    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }
}

impl Drop for OutsideWaker {
    fn drop(&mut self) {
        self.0.0.sched().outside -= 1;
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Machine({:?}, {})", self.0.config.mode, self.now())
    }
}

// A panic ends the machine; what is looked at afterwards is for a report.
impl std::panic::RefUnwindSafe for Shared {}

impl Shared {
    /// Virtual mode: the clock moves by `span` while the calling thread keeps the baton.
    pub fn spend(&self, span: Nanos) {
        self.now.fetch_add(span.0, Ordering::Relaxed);
    }

    /// A number larger than all before.
    pub fn next_order(&self) -> u64 {
        self.order_count.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// It stops, or was asked to.
    #[inline]
    pub(crate) fn is_to_stop(&self) -> bool {
        self.is_stopping() || interrupt::is_asked()
    }

    /// The calling thread ends, because [`Self::is_to_stop`]; the first that finds it so says where it is.
    #[cold]
    pub(crate) fn end(&self, me: &ThreadInner) -> ! {
        if !self.is_stopping() {
            me.note_parked();
            self.halt(Halt::Interrupted(Box::new(self.hosts.describe(me))));
        }
        me.end_here()
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run is over; the first reason counts. The caller still has to end itself.
    pub(crate) fn stop(&self, outcome: Outcome) {
        let mut slot = self.outcome();
        if !self.stopping.swap(true, Ordering::AcqRel) {
            let me = current::with(|me| me.map_or(0, |me| me.did));
            self.stopper.store(me, Ordering::Relaxed);
            *slot = Some(outcome);
        }
        drop(slot);
        self.changed.notify_all();
    }

    /// Stops with `halt`.
    pub fn halt(&self, halt: Halt) {
        self.stop(Outcome::Halted(halt));
    }

    pub(crate) fn thread_ended(&self, thread: &ThreadInner) {
        let slot = self.outcome();
        thread.ended.store(true, Ordering::Release);
        drop(slot);
        self.changed.notify_all();
    }

    fn wait_for_outcome(&self) -> Outcome {
        let mut slot = self.outcome();
        loop {
            if let Some(outcome) = slot.take() {
                return outcome;
            }
            slot = self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Carries the threads from the first one's beginning to the end of the last.
    fn carry_all(&self) {
        let carry = || {
            let mut carriage = Carriage::new(self);
            carriage.carry();
            self.left_in_order().iter().for_each(|thread| carriage.end(thread));
        };
        if lab_lock::is_alone() {
            return carry();
        }
        let ended = std::thread::scope(|scope| {
            let name = std::thread::current().name().unwrap_or("machine").to_owned();
            let carrier = std::thread::Builder::new().name(name).spawn_scoped(scope, carry);
            carrier.unwrap_or_else(|error| panic!("cannot start an operating-system thread: {error}")).join()
        });
        ended.unwrap_or_else(|payload| resume_unwind(payload));
    }

    /// Ends the threads one after the other: first the one that stopped the run, which is going already, then the others in the
    /// order they were made. Each wakes, sees that the machine stops, and goes.
    fn end_threads(&self) {
        for thread in self.left_in_order() {
            thread.parker.give();
            self.await_end(&thread);
        }
    }

    fn left_in_order(&self) -> Vec<Arc<ThreadInner>> {
        let mut threads = self.sched().threads.clone();
        let stopper = self.stopper.load(Ordering::Relaxed);
        threads.sort_by_key(|t| (t.did != stopper, t.did));
        threads
    }

    #[expect(clippy::disallowed_methods, reason = "threads outside virtual time end")]
    fn await_end(&self, thread: &ThreadInner) {
        let begun = Instant::now();
        let mut slot = self.outcome();
        while !thread.has_ended() {
            if begun.elapsed() > LIVE_PATIENCE {
                let why = "does not end with its machine; left behind";
                // Nobody may be there to read it.
                let _ = writeln!(std::io::stderr(), "fakekernel: thread {} {why}", thread.name);
                return;
            }
            let waited = self.changed.wait_timeout(slot, Duration::from_millis(50));
            slot = waited.unwrap_or_else(PoisonError::into_inner).0;
            // A thread that was about to park when the first token came takes another.
            thread.parker.give();
        }
    }

    /// The name of the thread whose `kthread_t` lies there; `None` once it has ended.
    pub fn name_of(&self, kthread: usize) -> Option<Arc<str>> {
        self.sched().threads.iter().find(|t| t.kthread.addr() == kthread).map(|t| t.name.clone())
    }

    /// What every thread is doing.
    pub(crate) fn dump(&self) -> Hang {
        let threads = self.sched().threads.clone();
        Hang { now: self.now(), threads: threads.iter().map(|t| self.hosts.describe(t)).collect() }
    }
}
