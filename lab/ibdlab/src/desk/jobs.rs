//! From outside the machine to its hosts: what is to be done on a thread of one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use fakekernel::{Ctx, HostMutex, Kernel, Thread, WaitQueue};

type Work = Box<dyn FnOnce() + Send>;

/// The jobs that wait, and whether there will be more.
pub struct Jobs {
    state: HostMutex<State>,
    arrived: WaitQueue,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Kernel, Work)>,
    /// How those that may go on without end are told to come to one.
    interrupts: Vec<Weak<AtomicBool>>,
    closed: bool,
}

impl Jobs {
    pub const fn new() -> Self {
        let state = State { waiting: VecDeque::new(), interrupts: Vec::new(), closed: false };
        Self { state: HostMutex::new(state), arrived: WaitQueue::new("a job from outside") }
    }

    /// Has `work` done by a process of that host; false when no more is done. From anywhere.
    pub fn put(&self, kernel: &Kernel, work: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.waiting.push_back((kernel.clone(), Box::new(work)));
        drop(state);
        self.arrived.wake_all();
        true
    }

    /// The same for work that goes on until it is interrupted, at the latest when there are no more jobs.
    pub fn put_until(
        &self,
        interrupted: &Arc<AtomicBool>,
        kernel: &Kernel,
        work: impl FnOnce() + Send + 'static,
    ) -> bool {
        let mut state = self.state.lock();
        state.interrupts.retain(|known| known.strong_count() > 0);
        state.interrupts.push(Arc::downgrade(interrupted));
        drop(state);
        self.put(kernel, work)
    }

    /// No more from now on, and those that go on until they are interrupted are.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for interrupted in state.interrupts.drain(..).filter_map(|known| known.upgrade()) {
            interrupted.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.arrived.wake_all();
    }

    pub fn are_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Starts a thread for each job until they are closed, then waits for every thread. On a thread of the machine.
    pub fn serve(&self) {
        let mut running: Vec<Thread> = Vec::new();
        while let Some((kernel, work)) = self.next() {
            running.retain(|thread| !thread.is_finished());
            running.push(kernel.spawn("process", Ctx::User, work));
        }
        running.iter().for_each(Thread::join);
    }

    fn next(&self) -> Option<(Kernel, Work)> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.arrived.wait(state);
        }
    }
}
