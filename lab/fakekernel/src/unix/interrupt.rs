//! Interrupt threads: a pool per host that runs what interrupts ask for.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use sim::{Ctx, HostMutex, Thread, WaitQueue, race};

use crate::loader::kernel::Kernel;

type Work = Box<dyn FnOnce() + Send>;

/// The pool of a host; grows with what runs at a time.
pub(crate) struct Interrupts {
    state: HostMutex<State>,
    work: WaitQueue,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

struct Job {
    ctx: Ctx,
    cpu: u32,
    work: Work,
}

impl Default for Interrupts {
    fn default() -> Self {
        Self { state: HostMutex::default(), work: WaitQueue::new("an interrupt") }
    }
}

impl Kernel {
    /// Runs `f` soon on one of the host's interrupt threads, in `ctx`, on processor `cpu`. Any context; does not wait.
    pub fn interrupt(&self, name: &'static str, ctx: Ctx, cpu: u32, f: impl FnOnce() + Send + 'static) {
        self.interrupts().post(self, name, ctx, cpu, Box::new(race::carry(f)));
    }
}

impl Interrupts {
    fn post(&self, kernel: &Kernel, name: &str, ctx: Ctx, cpu: u32, work: Work) {
        let mut state = self.state.lock();
        state.queue.push_back(Job { ctx, cpu, work });
        if state.queue.len() <= state.idle {
            self.work.wake_one();
            return;
        }
        state.threads += 1;
        let number = state.threads;
        drop(state);
        let host = kernel.clone();
        kernel.spawn(&format!("intr/{number} {name}"), Ctx::Kernel, move || serve(&host));
    }

    pub(crate) fn clear(&self) {
        self.state.lock().queue.clear();
    }
}

fn serve(kernel: &Kernel) {
    let pool = kernel.interrupts();
    let me = Thread::current();
    loop {
        let job = {
            let mut state = pool.state.lock();
            loop {
                if let Some(job) = state.queue.pop_front() {
                    break job;
                }
                state.idle += 1;
                state = pool.work.wait(state);
                state.idle -= 1;
            }
        };
        let cpus = kernel.machine().config().cpus.max(1);
        me.0.cpu.store(job.cpu % cpus, Ordering::Relaxed);
        let before = me.0.set_ctx(job.ctx);
        (job.work)();
        me.0.set_ctx(before);
    }
}
