//! The baton and the clock.
//!
//! Virtual mode: one thread holds the baton. It gives it away when it waits, and now and then at a scheduling point; the seed
//! chooses the next holder among those that can run. When nobody can run the clock jumps to the next timer. Live mode: there is no
//! baton, threads sleep until woken or until their deadline on the wall clock. Waiting and waking are the same calls in both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lab_lock::MutexGuard;

use crate::config::{Carrier, Config, Mode};
use crate::halt::Halt;
use crate::host_mutex;
use crate::machine::Shared;
use crate::nanos::Nanos;
use crate::strategy::{At, Chooser};
use crate::thread::{Phase, ThreadInner};

/// In place of a number of scheduling points: the strategy is not asked at any.
const NEVER: u32 = u32::MAX;

/// Who can run, who waits until when.
pub(crate) struct Sched {
    /// Alive, in order of creation.
    pub threads: Vec<Arc<ThreadInner>>,
    /// Virtual: can run but have not the baton.
    runnable: Runnable,
    pub chooser: Chooser,
    timers: BTreeMap<(Nanos, u64), (Arc<ThreadInner>, u64)>,
    next_timer: u64,
    /// Virtual: runs when nobody else can, before the clock moves.
    idler: Option<Arc<ThreadInner>>,
    /// Coroutines: who runs next.
    next_up: Option<Arc<ThreadInner>>,
    /// Live: threads that do not wait.
    running: usize,
    /// Live: waits with a deadline.
    timed_waits: usize,
    /// Whoever may wake threads from outside the machine.
    pub outside: usize,
}

/// Threads in the order in which they could run.
#[derive(Default)]
struct Runnable {
    threads: Vec<Arc<ThreadInner>>,
    /// `t_did` of each.
    dids: Vec<u64>,
}

impl Runnable {
    fn push(&mut self, thread: Arc<ThreadInner>) {
        self.dids.push(thread.did);
        self.threads.push(thread);
    }

    fn remove(&mut self, index: usize) -> Arc<ThreadInner> {
        self.dids.remove(index);
        self.threads.remove(index)
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Somebody woke the thread.
    Signal,
    /// Its deadline passed.
    Deadline,
}

impl Sched {
    pub(crate) fn new(config: &Config, seed: u64) -> Self {
        Self {
            threads: Vec::new(),
            runnable: Runnable::default(),
            chooser: Chooser::new(config, seed),
            timers: BTreeMap::new(),
            next_timer: 0,
            idler: None,
            next_up: None,
            running: 0,
            timed_waits: 0,
            outside: 0,
        }
    }

    fn add_timer(&mut self, at: Nanos, thread: &Arc<ThreadInner>, seq: u64) -> (Nanos, u64) {
        let key = (at, self.next_timer);
        self.next_timer += 1;
        self.timers.insert(key, (thread.clone(), seq));
        key
    }

    /// The earliest deadline.
    fn next_due(&self) -> Nanos {
        self.timers.first_key_value().map_or(Nanos::NEVER, |(key, _)| key.0)
    }

    /// Makes runnable whoever's deadline has come.
    fn fire_due(&mut self, now: Nanos) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (thread, seq) = entry.remove();
            let mut wait = thread.wait();
            if wait.seq == seq && matches!(wait.phase, Phase::Waiting { .. }) {
                wait.phase = Phase::Woken(Wake::Deadline);
                drop(wait);
                self.runnable.push(thread);
            }
        }
    }
}

impl Shared {
    pub(crate) fn sched(&self) -> MutexGuard<'_, Sched> {
        self.sched.lock()
    }

    /// Do threads run in parallel on the wall clock?
    #[inline]
    pub fn is_live(&self) -> bool {
        self.config.mode == Mode::Live
    }

    /// Are the threads coroutines of one operating-system thread?
    pub(crate) fn carries(&self) -> bool {
        self.config.carrier == Carrier::Coroutine && !self.is_live()
    }

    /// Virtual: `next` is to run once the calling thread has suspended, parked or ended.
    fn hand_baton(&self, next: &Arc<ThreadInner>) {
        if self.carries() {
            self.sched().next_up = Some(next.clone());
        } else {
            next.parker.give();
        }
    }

    pub(crate) fn take_next_up(&self) -> Option<Arc<ThreadInner>> {
        self.sched().next_up.take()
    }

    /// Since boot.
    pub(crate) fn now(&self) -> Nanos {
        match self.config.mode {
            Mode::Virtual { .. } if self.config.real_work => {
                self.since_boot() + Nanos(self.now.load(Ordering::Relaxed))
            }
            Mode::Virtual { .. } => Nanos(self.now.load(Ordering::Relaxed)),
            Mode::Live => self.since_boot(),
        }
    }

    fn since_boot(&self) -> Nanos {
        Nanos(u64::try_from(self.boot.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Takes a new thread in. It runs when it gets the baton (virtual), or is about to (live).
    pub(crate) fn admit(&self, thread: &Arc<ThreadInner>) {
        let mut sched = self.sched();
        sched.threads.push(thread.clone());
        if self.is_live() {
            sched.running += 1;
        } else {
            sched.runnable.push(thread.clone());
            self.ask_soon(&mut sched);
        }
    }

    /// The first thread gets the baton.
    pub(crate) fn start(&self) {
        if self.is_live() {
            return;
        }
        let next = self.next_holder(&mut self.sched(), At { thread: 0, step: 0 });
        if let Some(thread) = next {
            self.hand_baton(&thread);
        }
    }

    /// Virtual: the next holder of the baton after the thread at `at`, moving the clock if need be. `None` when there can be none.
    fn next_holder(&self, sched: &mut Sched, at: At) -> Option<Arc<ThreadInner>> {
        loop {
            self.fire_due(sched);
            if !sched.runnable.dids.is_empty() {
                let Sched { chooser, runnable, .. } = sched;
                return Some(runnable.remove(chooser.next(at, &runnable.dids)));
            }
            if let Some(idler) = sched.idler.take() {
                return Some(idler);
            }
            let (due, _) = *sched.timers.first_key_value()?.0;
            if due > self.config.time_limit {
                return None;
            }
            self.spend(due.since(self.now()));
        }
    }

    /// A scheduling point of the calling thread.
    #[inline]
    pub fn point(&self, me: &ThreadInner) {
        if let Some(at) = self.step(me) {
            self.ask(me, at);
        }
    }

    /// The same of a thread that makes a call in a module of a host: the call's return address, and whose name it has.
    #[inline]
    pub fn point_at(&self, me: &ThreadInner, pc: usize, host: &str, call: &str) {
        if let Some(at) = self.step(me) {
            if self.expecting.load(Ordering::Relaxed) && self.comes(me, at, host, call) {
                return;
            }
            if self.stalling.load(Ordering::Relaxed) && self.stall(me, at, pc) {
                return;
            }
            self.ask(me, at);
        } else if self.expecting.load(Ordering::Relaxed) {
            // On the wall clock nobody is held.
            self.moments.pass(host, call);
        }
    }

    /// The step that a scheduling point is; `None` on the wall clock.
    #[inline]
    fn step(&self, me: &ThreadInner) -> Option<At> {
        if self.is_to_stop() {
            self.end(me);
        }
        if self.is_live() {
            return None;
        }
        let at = me.step();
        if self.now.load(Ordering::Relaxed) >= self.next_due.load(Ordering::Relaxed) {
            self.fire_due(&mut self.sched());
        }
        Some(at)
    }

    /// The strategy, if it is its time.
    #[inline]
    fn ask(&self, me: &ThreadInner, at: At) {
        let left = self.countdown.load(Ordering::Relaxed);
        if left == NEVER {
            // Whoever runs goes on until it waits.
        } else if left > 1 {
            self.countdown.store(left - 1, Ordering::Relaxed);
        } else {
            self.maybe_switch(me, at);
        }
    }

    /// Whatever the strategy, a deadline that has passed counts from the next scheduling point on: so that a run can be repeated by
    /// another one.
    fn fire_due(&self, sched: &mut Sched) {
        sched.fire_due(self.now());
        self.next_due.store(sched.next_due().0, Ordering::Relaxed);
        self.ask_soon(sched);
    }

    /// Virtual: another thread runs or is able to, so the strategy is asked at the next scheduling point if it wants to be.
    fn ask_soon(&self, sched: &mut Sched) {
        if sched.chooser.hurry(self.countdown.load(Ordering::Relaxed)) {
            self.countdown.store(1, Ordering::Relaxed);
        }
    }

    /// False if the thread goes on at once.
    fn stall(&self, me: &ThreadInner, at: At, pc: usize) -> bool {
        let span = self.places.lock().as_mut().and_then(|places| places.pass(pc));
        span.is_some_and(|span| self.hold(me, at, span))
    }

    /// Says so if somebody waits for this call; false if the thread goes on at once.
    #[cold]
    fn comes(&self, me: &ThreadInner, at: At, host: &str, call: &str) -> bool {
        let span = self.moments.pass(host, call);
        span.is_some_and(|span| span > Nanos(0) && self.hold(me, at, span))
    }

    /// False if the thread goes on at once: it is about to wait, or the strategy has it so.
    fn hold(&self, me: &ThreadInner, at: At, span: Nanos) -> bool {
        let idle = me.wait().phase == Phase::Idle;
        if !idle || !self.sched().chooser.stalls(at, span) {
            return false;
        }
        self.take_off(me, span);
        true
    }

    /// The thread has no processor for so long.
    fn take_off(&self, me: &ThreadInner, span: Nanos) {
        host_mutex::assert_none_held("this call");
        me.prepare("its processor", 0);
        me.block(self.now() + span);
    }

    #[cold]
    fn maybe_switch(&self, me: &ThreadInner, at: At) {
        host_mutex::assert_none_held("this call");
        let mut sched = self.sched();
        self.countdown.store(sched.chooser.until_asked().unwrap_or(NEVER), Ordering::Relaxed);
        let now = self.now();
        if now > self.config.time_limit {
            drop(sched);
            self.halt(Halt::TimeLimit(self.config.time_limit, Box::new(self.dump())));
            me.end_here();
        }
        let idle = me.wait().phase == Phase::Idle;
        if let Some(off) = sched.chooser.off(at, idle) {
            drop(sched);
            self.take_off(me, off);
            return;
        }
        let Sched { chooser, runnable, .. } = &mut *sched;
        let Some(chosen) = chooser.at_point(at, &runnable.dids) else {
            if let Some(points) = chooser.calm() {
                self.countdown.store(points, Ordering::Relaxed);
            }
            return;
        };
        let next = runnable.remove(chosen);
        sched.runnable.push(me.arc());
        drop(sched);
        me.note_parked();
        self.hand_baton(&next);
        me.wait_for_baton();
    }

    /// Virtual mode: lets everybody else run until all of them wait. One thread at a time may do that.
    pub(crate) fn idle(&self, me: &ThreadInner) {
        host_mutex::assert_none_held("idling");
        assert!(!self.is_live(), "a live machine does not know who is idle");
        let mut sched = self.sched();
        assert!(sched.idler.is_none(), "one thread at a time waits for the others to be idle");
        sched.idler = Some(me.arc());
        let next = self.next_holder(&mut sched, me.step());
        drop(sched);
        if let Some(next) = next.filter(|next| !std::ptr::eq(&**next, me)) {
            me.note_parked();
            self.hand_baton(&next);
            me.wait_for_baton();
        }
    }

    /// Virtual mode: when the wait about to begin shall end without a signal, if the seed says so (rule 11).
    pub fn spurious_wakeup(&self, me: &ThreadInner) -> Option<Nanos> {
        if self.is_live() {
            return None;
        }
        let span = self.sched().chooser.spurious(me.coming_step())?;
        Some(self.now() + span)
    }

    /// Waits as prepared by [`ThreadInner::prepare`], until `deadline`.
    pub(crate) fn block(&self, me: &ThreadInner, deadline: Nanos) -> Wake {
        if self.is_to_stop() {
            self.end(me);
        }
        host_mutex::assert_none_held("a wait");
        me.note_parked();
        if self.is_live() { self.block_live(me, deadline) } else { self.block_virtual(me, deadline) }
    }

    fn block_virtual(&self, me: &ThreadInner, deadline: Nanos) -> Wake {
        let mut sched = self.sched();
        {
            let mut wait = me.wait();
            if let Phase::Woken(wake) = wait.phase {
                wait.phase = Phase::Idle;
                return wake;
            }
            let timer = (deadline < Nanos::NEVER).then(|| sched.add_timer(deadline, &me.arc(), wait.seq));
            wait.phase = Phase::Waiting { timer };
        }
        match self.next_holder(&mut sched, me.step()) {
            Some(next) if std::ptr::eq(&*next, me) => drop(sched),
            Some(next) => {
                drop(sched);
                self.hand_baton(&next);
                me.wait_for_baton();
            }
            None => {
                let late = !sched.timers.is_empty();
                drop(sched);
                let dump = Box::new(self.dump());
                self.halt(if late {
                    Halt::TimeLimit(self.config.time_limit, dump)
                } else {
                    Halt::Hang(dump)
                });
                me.end_here();
            }
        }
        let mut wait = me.wait();
        let Phase::Woken(wake) = wait.phase else { unreachable!("the baton came to a waiting thread") };
        wait.phase = Phase::Idle;
        wake
    }

    fn block_live(&self, me: &ThreadInner, deadline: Nanos) -> Wake {
        let timed = deadline < Nanos::NEVER;
        {
            let mut sched = self.sched();
            let mut wait = me.wait();
            if let Phase::Woken(wake) = wait.phase {
                wait.phase = Phase::Idle;
                return wake;
            }
            wait.phase = Phase::Waiting { timer: timed.then_some((deadline, 0)) };
            sched.running -= 1;
            sched.timed_waits += usize::from(timed);
            if sched.running == 0 && sched.timed_waits == 0 && sched.outside == 0 {
                drop(wait);
                drop(sched);
                self.halt(Halt::Hang(Box::new(self.dump())));
                me.end_here();
            }
        }
        loop {
            if timed {
                me.parker.wait_for(Duration::from_nanos(deadline.since(self.now()).0));
            } else {
                me.parker.wait();
            }
            if self.is_stopping() {
                me.end_here();
            }
            let mut sched = self.sched();
            let mut wait = me.wait();
            match wait.phase {
                Phase::Woken(wake) => {
                    wait.phase = Phase::Idle;
                    return wake;
                }
                _ if timed && self.now() >= deadline => {
                    wait.phase = Phase::Idle;
                    sched.running += 1;
                    sched.timed_waits -= 1;
                    return Wake::Deadline;
                }
                _ => {}
            }
        }
    }

    /// Ends wait number `seq` of `thread`; false if it is over already. From any thread.
    pub(crate) fn wake(&self, thread: &Arc<ThreadInner>, seq: u64) -> bool {
        let mut sched = self.sched();
        let mut wait = thread.wait();
        if wait.seq != seq {
            return false;
        }
        match wait.phase {
            Phase::Prepared => wait.phase = Phase::Woken(Wake::Signal),
            Phase::Waiting { timer } => {
                wait.phase = Phase::Woken(Wake::Signal);
                drop(wait);
                self.make_runnable(&mut sched, thread, timer);
            }
            Phase::Idle | Phase::Woken(_) => return false,
        }
        true
    }

    fn make_runnable(&self, sched: &mut Sched, thread: &Arc<ThreadInner>, timer: Option<(Nanos, u64)>) {
        if self.is_live() {
            sched.running += 1;
            sched.timed_waits -= usize::from(timer.is_some());
            thread.parker.give();
        } else {
            if let Some(key) = timer {
                sched.timers.remove(&key);
            }
            sched.runnable.push(thread.clone());
            self.ask_soon(sched);
        }
    }

    /// The calling thread has ended: takes it out and gives the baton away.
    pub(crate) fn retire(&self, me: &Arc<ThreadInner>) {
        let mut sched = self.sched();
        sched.threads.retain(|t| !Arc::ptr_eq(t, me));
        if self.is_stopping() {
            // It may have been waiting: nobody counts any more.
            return;
        }
        if self.is_live() {
            sched.running -= 1;
            let stuck = sched.running == 0 && sched.timed_waits == 0 && sched.outside == 0;
            drop(sched);
            if stuck {
                self.halt(Halt::Hang(Box::new(self.dump())));
            }
            return;
        }
        match self.next_holder(&mut sched, me.step()) {
            Some(next) => {
                drop(sched);
                self.hand_baton(&next);
            }
            None => {
                let late = !sched.timers.is_empty();
                drop(sched);
                let dump = Box::new(self.dump());
                self.halt(if late {
                    Halt::TimeLimit(self.config.time_limit, dump)
                } else {
                    Halt::Hang(dump)
                });
            }
        }
    }
}
