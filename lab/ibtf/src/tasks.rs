//! A pool of threads: IBTL's for asynchronous events.

use fakekernel::{Ctx, HostMutex, Kernel, WaitQueue, race};
use std::collections::VecDeque;
use std::sync::Arc;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs run in order of arrival, each on a kernel thread. Threads are made when needed, up to a limit, and stay.
pub(crate) struct Tasks {
    name: &'static str,
    state: HostMutex<State>,
    work: WaitQueue,
}

struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    limit: usize,
}

impl Tasks {
    /// At most `limit` threads.
    pub(crate) fn new(name: &'static str, limit: usize) -> Arc<Self> {
        let state = State { jobs: VecDeque::new(), idle: 0, threads: 0, limit };
        Arc::new(Tasks { name, state: HostMutex::new(state), work: WaitQueue::new(name) })
    }

    /// Queues a job. Any context; does not wait.
    pub(crate) fn run(self: &Arc<Self>, kernel: &Kernel, job: impl FnOnce() + Send + 'static) {
        let spawn = {
            let mut state = self.state.lock();
            state.jobs.push_back(Box::new(race::carry(job)));
            let spawn = state.jobs.len() > state.idle && state.threads < state.limit;
            state.threads += usize::from(spawn);
            spawn
        };
        if spawn {
            let tasks = self.clone();
            let _ = kernel.spawn(self.name, Ctx::Kernel, move || tasks.serve());
        } else {
            self.work.wake_one();
        }
    }

    fn serve(&self) {
        loop {
            let mut state = self.state.lock();
            let job = loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                state.idle += 1;
                state = self.work.wait(state);
                state.idle -= 1;
            };
            drop(state);
            job();
        }
    }
}

/// Waits until everything counted has ended.
pub(crate) struct Latch {
    open: HostMutex<usize>,
    done: WaitQueue,
}

impl Latch {
    /// Waits for `n` calls of [`Latch::count_down`].
    pub(crate) fn new(n: usize) -> Arc<Self> {
        Arc::new(Latch { open: HostMutex::new(n), done: WaitQueue::new("IBTF callbacks to return") })
    }

    pub(crate) fn count_down(&self) {
        race::release(self.key());
        let mut open = self.open.lock();
        *open -= 1;
        let last = *open == 0;
        drop(open);
        if last {
            self.done.wake_all();
        }
    }

    pub(crate) fn wait(&self) {
        let mut open = self.open.lock();
        while *open > 0 {
            open = self.done.wait(open);
        }
        drop(open);
        race::acquire(self.key());
    }

    fn key(&self) -> race::Key {
        race::Key("latch", (&raw const *self).addr() as u64)
    }
}
