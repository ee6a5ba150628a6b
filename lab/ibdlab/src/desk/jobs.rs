//! From outside the machine to its hosts: what is to be done on a thread of one.

use std::collections::VecDeque;

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
    closed: bool,
}

impl Jobs {
    pub const fn new() -> Self {
        let state = State { waiting: VecDeque::new(), closed: false };
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

    /// No more from now on.
    pub fn close(&self) {
        self.state.lock().closed = true;
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
