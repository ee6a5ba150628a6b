//! IBTL's threads for the handlers of CQs that were made with `IBT_CQ_HANDLER_IN_THREAD` (`ibtl_handlers.c`): one to eight, by the number
//! of such CQs that all clients of the system have, with one list in front of them. An event at a thread that sleeps costs a switch.

use super::Ibtl;
use fakekernel::{Ctx, HostMutex, Kernel, Mode, Nanos, WaitQueue, race};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// With this many CQs there is one more thread (`ibtl_cq_scaling`).
const STEPS: [usize; 8] = [1, 2, 4, 6, 10, 16, 24, 32];
/// Virtual time from the signal to the thread that runs, perhaps on another processor.
const SWITCH: Nanos = Nanos(5_000);

type Job = Box<dyn FnOnce() + Send>;

/// The threads of one host.
pub(crate) struct CqThreads {
    state: HostMutex<State>,
    work: WaitQueue,
    stranger: HostMutex<Option<Arc<AtomicBool>>>,
}

#[derive(Default)]
struct State {
    list: VecDeque<Job>,
    cqs: usize,
    threads: usize,
}

/// Another client of IBTL's on a host, with slow handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Its CQs.
    pub cqs: usize,
    /// How long each handler takes.
    pub hold: Nanos,
    /// How often each CQ has an event.
    pub every: Nanos,
}

impl CqThreads {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(CqThreads {
            state: HostMutex::new(State::default()),
            work: WaitQueue::new("events of completion queues"),
            stranger: HostMutex::new(None),
        })
    }

    /// One more CQ uses the threads; there may be one more then, which stays.
    pub(crate) fn gained(self: &Arc<Self>, kernel: &Kernel) {
        let mut state = self.state.lock();
        state.cqs += 1;
        let more = STEPS.get(state.threads).is_some_and(|step| state.cqs >= *step);
        state.threads += usize::from(more);
        drop(state);
        if more {
            let threads = self.clone();
            let inner = kernel.clone();
            let _ = kernel.spawn("ibtl_cq_thread", Ctx::Kernel, move || threads.serve(&inner));
        }
    }

    /// One fewer.
    pub(crate) fn lost(&self) {
        self.state.lock().cqs -= 1;
    }

    /// Has a thread run a handler. Any context; does not wait.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.state.lock().list.push_back(Box::new(race::carry(job)));
        self.work.wake_one();
    }

    fn serve(&self, kernel: &Kernel) {
        loop {
            let mut state = self.state.lock();
            let mut slept = false;
            let job = loop {
                if let Some(job) = state.list.pop_front() {
                    break job;
                }
                slept = true;
                state = self.work.wait(state);
            };
            drop(state);
            if slept {
                pay_for_switch(kernel);
            }
            job();
        }
    }

    /// Another client comes, in the place of the one before, or goes.
    pub(crate) fn set_stranger(self: &Arc<Self>, kernel: &Kernel, stranger: Option<Stranger>) {
        let here = Arc::new(AtomicBool::new(true));
        let before = std::mem::replace(&mut *self.stranger.lock(), stranger.map(|_| here.clone()));
        if let Some(before) = before {
            before.store(false, Ordering::Release);
        }
        let Some(stranger) = stranger else { return };
        for _ in 0..stranger.cqs {
            self.gained(kernel);
            let (threads, here) = (self.clone(), here.clone());
            let _ = kernel.spawn("stranger's adapter", Ctx::Kernel, move || threads.events(stranger, &here));
        }
    }

    /// The events of one CQ of the stranger's.
    fn events(self: &Arc<Self>, stranger: Stranger, here: &AtomicBool) {
        let pending = Arc::new(AtomicBool::new(false));
        while here.load(Ordering::Acquire) {
            // A CQ is in the list once.
            if !pending.swap(true, Ordering::AcqRel) {
                let pending = pending.clone();
                self.run(move || {
                    fakekernel::sleep(stranger.hold);
                    pending.store(false, Ordering::Release);
                });
            }
            fakekernel::sleep(stranger.every);
        }
        self.lost();
    }
}

/// A machine on the wall clock, or one that is measured, pays by itself.
fn pay_for_switch(kernel: &Kernel) {
    let config = kernel.machine().config();
    if config.checks && matches!(config.mode, Mode::Virtual { .. }) {
        fakekernel::sleep(SWITCH);
    }
}

/// See [`crate::set_stranger`].
pub(crate) fn set_stranger(kernel: &Kernel, stranger: Option<Stranger>) {
    Ibtl::of(kernel).cq_threads.set_stranger(kernel, stranger);
}
