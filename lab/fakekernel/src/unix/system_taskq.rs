//! `system_taskq`: the dynamic task queue that the whole kernel shares (`os/taskq.c`).
//!
//! A task that may sleep for its place gets a thread of its own, made if need be. One that may not takes a thread that is free, and
//! if none is goes to the backing queue: there **one** thread does one task after the other, and makes new threads in between,
//! too late for what is behind it already. A thread that had nothing to do for five minutes dies. A host of the lab has been up for
//! longer than that: at first there are none.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::thread::now;
use sim::{Ctx, HostMutex, Nanos, Rule, WaitQueue, race};

use crate::loader::cx::Cx;
use crate::loader::kernel::Kernel;
use crate::loader::module::Module;

/// `taskq_thread_timeout`.
const IDLE: Nanos = Nanos::from_secs(5 * 60);
/// `system_taskq_size`, for each processor.
const THREADS_A_PROCESSOR: usize = 64;
/// How long a task may keep the backing thread from others (rule 51).
const LONGEST: Nanos = Nanos::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// Whether the dispatcher may wait, and what becomes of a task for which no thread is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskFlag {
    /// `TQ_SLEEP`: a thread is made for it.
    Sleep,
    /// `TQ_NOSLEEP`: it goes to the backing queue.
    NoSleep,
}

/// On whose account a task runs, for rule 51.
pub struct Account {
    module: Option<Module>,
    call: &'static str,
}

impl Account {
    /// A task that the module has dispatched by this call.
    pub fn of(cx: &Cx, call: &'static str) -> Self {
        Self { module: cx.module().cloned(), call }
    }

    /// A task of the kernel's own.
    pub const fn kernel(what: &'static str) -> Self {
        Self { module: None, call: what }
    }
}

struct Task {
    job: Job,
    account: Account,
}

/// What the backing thread does.
enum Backed {
    Task(Task),
    /// One more thread for this bucket.
    Extend(usize),
}

/// A free thread of a bucket: where it finds its next task.
struct Worker {
    task: HostMutex<Option<Task>>,
    given: WaitQueue,
}

#[derive(Default)]
struct State {
    /// The last freed is the first to be used.
    free: Vec<Arc<Worker>>,
    threads: usize,
    backing: VecDeque<Backed>,
    backing_runs: bool,
}

/// A host's queue. Clones of the `Arc` are the same one.
pub struct SystemTaskq {
    kernel: Kernel,
    buckets: usize,
    most: usize,
    state: HostMutex<State>,
    work: WaitQueue,
    dispatched: AtomicUsize,
}

/// Where a host keeps it.
struct Slot(Arc<SystemTaskq>);

/// The host's system task queue.
pub fn system_taskq(kernel: &Kernel) -> Arc<SystemTaskq> {
    kernel.state(|| Slot(SystemTaskq::new(kernel))).0.clone()
}

impl SystemTaskq {
    fn new(kernel: &Kernel) -> Arc<Self> {
        let cpus = kernel.machine().config().cpus.max(1) as usize;
        Arc::new(Self {
            kernel: kernel.clone(),
            // A power of two, not above the number of processors.
            buckets: 1 << cpus.ilog2().min(7),
            most: THREADS_A_PROCESSOR * cpus,
            state: HostMutex::default(),
            work: WaitQueue::new("a task of system_taskq's backing queue"),
            dispatched: AtomicUsize::new(0),
        })
    }

    /// Has `job` run soon. [`TaskFlag::NoSleep`] is for any context.
    pub fn dispatch(self: &Arc<Self>, how: TaskFlag, account: Account, job: impl FnOnce() + Send + 'static) {
        let task = Task { job: Box::new(race::carry(job)), account };
        // In illumos a hash of processor and argument.
        let bucket = self.dispatched.fetch_add(1, Ordering::Relaxed) % self.buckets;
        let Err(task) = self.give(task) else { return };
        if how == TaskFlag::NoSleep {
            return self.back(bucket, task);
        }
        // Nobody else can take the thread that is made for it, as nearly nobody can in illumos.
        match self.extend(Some(task)) {
            None => {}
            Some(task) => self.back(bucket, task),
        }
    }

    /// To a thread that is free. As it looks into five buckets, which are all that there are, it finds one if there is one.
    fn give(&self, task: Task) -> Result<(), Task> {
        let Some(worker) = self.state.lock().free.pop() else { return Err(task) };
        *worker.task.lock() = Some(task);
        worker.given.wake_one();
        Ok(())
    }

    /// To the backing queue, with a new thread for the bucket that had none in front of everything.
    fn back(self: &Arc<Self>, bucket: usize, task: Task) {
        let spawn = {
            let mut state = self.state.lock();
            let known = |backed: &Backed| matches!(backed, Backed::Extend(of) if *of == bucket);
            if !state.backing.iter().any(known) {
                state.backing.push_front(Backed::Extend(bucket));
            }
            state.backing.push_back(Backed::Task(task));
            !std::mem::replace(&mut state.backing_runs, true)
        };
        if spawn {
            let queue = self.clone();
            let _ = self.kernel.spawn("system_taskq", Ctx::Kernel, move || queue.serve_backing());
        } else {
            self.work.wake_one();
        }
    }

    /// One thread more, with its first task if there is one; hands that back if there are too many threads.
    fn extend(self: &Arc<Self>, first: Option<Task>) -> Option<Task> {
        {
            let mut state = self.state.lock();
            if state.threads >= self.most {
                return first;
            }
            state.threads += 1;
        }
        let given = WaitQueue::new("a task of system_taskq");
        let worker = Arc::new(Worker { task: HostMutex::new(first), given });
        let idle = worker.task.lock().is_none();
        if idle {
            self.state.lock().free.push(worker.clone());
        }
        let queue = self.clone();
        let _ = self.kernel.spawn("system_taskq/bucket", Ctx::Kernel, move || queue.serve_bucket(&worker));
        None
    }

    fn serve_bucket(&self, me: &Arc<Worker>) {
        while let Some(task) = self.next_of(me) {
            (task.job)();
            self.state.lock().free.push(me.clone());
        }
    }

    /// Waits for a task; `None` if none came for so long that the thread dies.
    fn next_of(&self, me: &Arc<Worker>) -> Option<Task> {
        let deadline = now() + IDLE;
        let mut given = me.task.lock();
        loop {
            if let Some(task) = given.take() {
                return Some(task);
            }
            let (guard, in_time) = me.given.wait_until(given, deadline);
            given = guard;
            if in_time || given.is_some() {
                continue;
            }
            drop(given);
            let mut state = self.state.lock();
            let at = state.free.iter().position(|free| Arc::ptr_eq(free, me));
            if let Some(at) = at {
                state.free.remove(at);
                state.threads -= 1;
                return None;
            }
            drop(state);
            // Somebody has taken it off the list and is about to give it a task.
            given = me.task.lock();
        }
    }

    fn serve_backing(self: &Arc<Self>) {
        loop {
            match self.next_backed() {
                Backed::Task(task) => self.run_backed(task),
                Backed::Extend(_) => {
                    self.extend(None);
                }
            }
        }
    }

    fn next_backed(&self) -> Backed {
        let mut state = self.state.lock();
        loop {
            if let Some(next) = state.backing.pop_front() {
                return next;
            }
            state = self.work.wait(state);
        }
    }

    fn run_backed(&self, task: Task) {
        let Task { job, account } = task;
        let begun = now();
        job();
        let taken = now().since(begun);
        // On the wall clock a workstation that is busy is late, too.
        if taken > LONGEST && !self.kernel.machine().is_live() {
            self.complain(&account, taken);
        }
    }

    /// Rule 51, unless nobody waits.
    fn complain(&self, account: &Account, taken: Nanos) {
        let waiting = self.waiting();
        let Some(module) = account.module.as_ref().filter(|_| !waiting.is_empty()) else { return };
        let detail = format!(
            "the task that {} dispatched to system_taskq took {} ms of its one backing thread; behind it: {}",
            account.call,
            taken.as_millis(),
            waiting.join(", "),
        );
        Cx::of_entry(Some(module), account.call).check(false, Rule::SystemTaskqHeld, || detail);
    }

    /// What the tasks of the backing queue are, each kind once.
    fn waiting(&self) -> Vec<&'static str> {
        let state = self.state.lock();
        let mut calls: Vec<_> = state
            .backing
            .iter()
            .filter_map(|backed| match backed {
                Backed::Task(task) => Some(task.account.call),
                Backed::Extend(_) => None,
            })
            .collect();
        calls.sort_unstable();
        calls.dedup();
        calls
    }
}
