//! The baton and the clock.
//!
//! Virtual mode: one thread holds the baton. It gives it away when it waits, and now and then at a scheduling point; the seed
//! chooses the next holder among those that can run. When nobody can run the clock jumps to the next timer. Live mode: there is no
//! baton, threads sleep until woken or until their deadline on the wall clock. Waiting and waking are the same calls in both.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::Mode;
use crate::halt::Halt;
use crate::host_mutex;
use crate::machine::Shared;
use crate::nanos::Nanos;
use crate::thread::{Phase, ThreadInner};

/// Who can run, who waits until when.
pub(crate) struct Sched {
    /// Alive, in order of creation.
    pub threads: Vec<Arc<ThreadInner>>,
    /// Virtual: can run but have not the baton, in the order they became so.
    runnable: Vec<Arc<ThreadInner>>,
    timers: BTreeMap<(Nanos, u64), (Arc<ThreadInner>, u64)>,
    next_timer: u64,
    /// Virtual: runs when nobody else can, before the clock moves.
    idler: Option<Arc<ThreadInner>>,
    rng: ChaCha8Rng,
    /// Live: threads that do not wait.
    running: usize,
    /// Live: waits with a deadline.
    timed_waits: usize,
    /// Whoever may wake threads from outside the machine.
    pub outside: usize,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Somebody woke the thread.
    Signal,
    /// Its deadline passed.
    Deadline,
}

impl Sched {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            threads: Vec::new(),
            runnable: Vec::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            idler: None,
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x6261_746f_6e00_0000),
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

    /// Makes runnable whoever's deadline has come.
    fn fire_due(&mut self, now: Nanos) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (thread, seq) = entry.remove();
            let mut wait = thread.wait.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.sched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.config.mode == Mode::Live
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
        }
    }

    /// The first thread gets the baton.
    pub(crate) fn start(&self) {
        if self.is_live() {
            return;
        }
        let next = self.next_holder(&mut self.sched());
        if let Some(thread) = next {
            thread.parker.give();
        }
    }

    /// Virtual: the next holder of the baton, moving the clock if need be. `None` when there can be none.
    fn next_holder(&self, sched: &mut Sched) -> Option<Arc<ThreadInner>> {
        loop {
            sched.fire_due(self.now());
            if !sched.runnable.is_empty() {
                let index = sched.rng.random_range(0..sched.runnable.len());
                return Some(sched.runnable.remove(index));
            }
            if let Some(idler) = sched.idler.take() {
                return Some(idler);
            }
            let (at, _) = *sched.timers.first_key_value()?.0;
            if at > self.config.time_limit {
                return None;
            }
            self.spend(at.since(self.now()));
        }
    }

    /// A scheduling point of the calling thread.
    #[inline]
    pub(crate) fn point(&self, me: &ThreadInner) {
        if self.is_stopping() {
            me.end_here();
        }
        if self.is_live() {
            return;
        }
        let left = self.countdown.load(Ordering::Relaxed);
        if self.config.switch_one_in == 0 {
            // Whoever runs goes on until it waits.
        } else if left > 1 {
            self.countdown.store(left - 1, Ordering::Relaxed);
        } else {
            self.maybe_switch(me);
        }
    }

    #[cold]
    fn maybe_switch(&self, me: &ThreadInner) {
        host_mutex::assert_none_held("this call");
        let mut sched = self.sched();
        let mean = self.config.switch_one_in.max(1);
        self.countdown.store(sched.rng.random_range(1..=mean.saturating_mul(2) - 1), Ordering::Relaxed);
        let now = self.now();
        if now > self.config.time_limit {
            drop(sched);
            self.halt(Halt::TimeLimit(self.config.time_limit, Box::new(self.dump())));
            me.end_here();
        }
        sched.fire_due(now);
        if let Some(until) = self.preemption(&mut sched, me, now) {
            drop(sched);
            me.prepare("its processor", 0);
            me.block(until);
            return;
        }
        let choices = sched.runnable.len();
        if choices == 0 {
            return;
        }
        let chosen = sched.rng.random_range(0..=choices);
        if chosen == choices {
            return;
        }
        let next = sched.runnable.remove(chosen);
        sched.runnable.push(me.arc());
        drop(sched);
        me.note_parked();
        next.parker.give();
        me.wait_for_baton();
    }

    /// Until when the thread that runs is off its processor, if the seed takes it off now.
    fn preemption(&self, sched: &mut Sched, me: &ThreadInner, now: Nanos) -> Option<Nanos> {
        let one_in = self.config.preempt_one_in;
        if one_in == 0 || sched.rng.random_range(0..one_in) != 0 || me.wait().phase != Phase::Idle {
            return None;
        }
        Some(now + Nanos(sched.rng.random_range(0..=self.config.preempt_at_most.0)))
    }

    /// Virtual mode: lets everybody else run until all of them wait. One thread at a time may do that.
    pub(crate) fn idle(&self, me: &ThreadInner) {
        host_mutex::assert_none_held("idling");
        assert!(!self.is_live(), "a live machine does not know who is idle");
        let mut sched = self.sched();
        assert!(sched.idler.is_none(), "one thread at a time waits for the others to be idle");
        sched.idler = Some(me.arc());
        let next = self.next_holder(&mut sched);
        drop(sched);
        if let Some(next) = next.filter(|next| !std::ptr::eq(&**next, me)) {
            me.note_parked();
            next.parker.give();
            me.wait_for_baton();
        }
    }

    /// Virtual mode: when the wait about to begin shall end without a signal, if the seed says so (rule 11).
    pub(crate) fn spurious_wakeup(&self) -> Option<Nanos> {
        let one_in = self.config.spurious_one_in;
        if self.is_live() || one_in == 0 || !self.config.checks {
            return None;
        }
        let mut sched = self.sched();
        let chosen = sched.rng.random_range(0..one_in) == 0;
        chosen.then(|| self.now() + Nanos(sched.rng.random_range(0..2_000_000)))
    }

    /// Waits as prepared by [`ThreadInner::prepare`], until `deadline`.
    pub(crate) fn block(&self, me: &ThreadInner, deadline: Nanos) -> Wake {
        if self.is_stopping() {
            me.end_here();
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
        match self.next_holder(&mut sched) {
            Some(next) if std::ptr::eq(&*next, me) => drop(sched),
            Some(next) => {
                drop(sched);
                next.parker.give();
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
        match self.next_holder(&mut sched) {
            Some(next) => {
                drop(sched);
                next.parker.give();
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
