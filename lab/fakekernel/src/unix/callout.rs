//! `timeout` and `untimeout`.
//!
//! Handlers run on callout threads under soft-interrupt rules. One idle callout thread, the leader, sleeps until the next is due; when it
//! takes a handler on, another becomes leader, so that a handler that waits for a mutex holds nobody up.

use std::collections::BTreeMap;
use std::ffi::c_void;

use illumos_sys_hdrs::{clock_t, timeout_id_t};
use sim::race::{self, Key, Moment};
use sim::{Ctx, HostGuard, HostMutex, Nanos, Rule, SeenLocks, Thread, WaitQueue, driver_locks, thread};

use crate::export;
use crate::loader::backtrace::frame;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::{EntryKind, Role};
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::services::LiveObject;

type Handler = unsafe extern "C" fn(*mut c_void);

/// Ids carry this in their top byte: others were never issued.
const ID_MARK: u64 = 0x7c << 56;
/// As many handlers run at a time.
const MAX_THREADS: u32 = 16;
/// A handler that takes longer breaks rule 25.
const PATIENCE: Nanos = Nanos::from_millis(10);
const HANDLER_CTX: Ctx = Ctx::Soft { pil: 1 };

/// A host's pending and running timeouts.
pub(crate) struct Callouts {
    state: HostMutex<State>,
    leader: WaitQueue,
    followers: WaitQueue,
    done: WaitQueue,
}

#[derive(Default)]
struct State {
    last_id: u64,
    pending: BTreeMap<(Nanos, u64), Job>,
    /// Id -> due.
    due: BTreeMap<u64, Nanos>,
    /// Id -> the thread that runs it.
    running: BTreeMap<u64, Thread>,
    seen_locks: BTreeMap<usize, SeenLocks>,
    threads: u32,
    idle: u32,
    led: bool,
}

#[derive(Clone)]
struct Job {
    handler: Handler,
    arg: usize,
    armed: Moment,
}

impl Default for Callouts {
    fn default() -> Self {
        let queue = || WaitQueue::new("the next timeout");
        Self { state: HostMutex::default(), leader: queue(), followers: queue(), done: queue() }
    }
}

pub(crate) fn exports() -> Vec<Export> {
    export! {
        UKS: timeout, untimeout;
    }
}

impl Callouts {
    /// A pending timeout whose argument lies in the range.
    pub(crate) fn live_in(&self, start: usize, len: usize) -> Option<LiveObject> {
        let state = self.state.lock();
        let hit = state.pending.iter().find(|(_, job)| (start..start.saturating_add(len)).contains(&job.arg));
        hit.map(|((due, _), job)| LiveObject {
            addr: job.arg,
            what: format!("the argument of a timeout due at {due}"),
            busy: true,
        })
    }

    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.pending.clear();
        state.running.clear();
    }

    /// Makes sure that somebody waits for the earliest job.
    fn watch(&self, kernel: &Kernel, mut state: HostGuard<'_, State>) {
        if state.pending.is_empty() {
            return;
        }
        if state.led {
            self.leader.wake_one();
        } else if state.idle > 0 {
            self.followers.wake_one();
        } else if state.threads < MAX_THREADS {
            state.threads += 1;
            let number = state.threads;
            drop(state);
            let host = kernel.clone();
            kernel.spawn(&format!("callout/{number}"), Ctx::Kernel, move || work(&host));
        }
    }
}

/// A callout thread.
fn work(kernel: &Kernel) {
    let callouts = kernel.callouts();
    loop {
        let (id, job) = next_job(callouts);
        let seen = {
            let mut state = callouts.state.lock();
            let seen = state.seen_locks.entry(job.handler as *const () as usize).or_default().clone();
            callouts.watch(kernel, state);
            seen
        };
        run(kernel, job, seen);
        kernel.resources().remove("timeout", id);
        race::release(Key("timeout handlers", kernel.index() as u64));
        callouts.state.lock().running.remove(&id);
        callouts.done.wake_all();
    }
}

fn next_job(callouts: &Callouts) -> (u64, Job) {
    let mut state = callouts.state.lock();
    loop {
        let next = state.pending.first_key_value().map_or(Nanos::NEVER, |((due, _), _)| *due);
        if next <= thread::now() {
            let ((_, id), job) = state.pending.pop_first().expect("there is one that is due");
            state.due.remove(&id);
            // Under the same lock: `untimeout` finds it pending or running, never neither.
            state.running.insert(id, Thread::current());
            return (id, job);
        }
        if state.led {
            state.idle += 1;
            state = callouts.followers.wait(state);
            state.idle -= 1;
        } else {
            state.led = true;
            state = callouts.leader.wait_until(state, next).0;
            state.led = false;
        }
    }
}

fn run(kernel: &Kernel, job: Job, seen: SeenLocks) {
    let begun = thread::now();
    let me = Thread::current();
    me.0.local().handler_locks = Some(seen);
    let arg = std::ptr::with_exposed_provenance_mut(job.arg);
    job.armed.is_over();
    let kind = EntryKind::callback_in("timeout handler", HANDLER_CTX).in_role(Role::TimeoutHandler);
    // SAFETY: the module gave handler and argument for each other.
    unsafe { kernel.enter(job.handler, (arg,), kind) };
    me.0.local().handler_locks = None;
    let took = thread::now().since(begun);
    if took > PATIENCE && !kernel.machine().is_live() {
        let module = kernel.module_at(job.handler as *const () as usize);
        let cx = Cx::of_entry(module.as_ref(), "timeout handler");
        cx.check(false, Rule::TimeoutHandlerBlocks, || format!("the handler took {took}"));
    }
}

unsafe extern "C" fn timeout(handler: Option<Handler>, arg: *mut c_void, ticks: clock_t) -> timeout_id_t {
    let cx = cx();
    let Some(handler) = handler else { cx.panic("timeout: no handler") };
    let kernel = cx.kernel();
    let callouts = kernel.callouts();
    let due = thread::now() + Nanos::from_ticks(ticks);
    let mut state = callouts.state.lock();
    state.last_id += 1;
    let id = ID_MARK | state.last_id;
    let first = state.pending.first_key_value().is_none_or(|((earliest, _), _)| due < *earliest);
    state.pending.insert((due, id), Job { handler, arg: arg.expose_provenance(), armed: Moment::now() });
    state.due.insert(id, due);
    if first {
        callouts.watch(kernel, state);
    } else {
        drop(state);
    }
    let detail = format!("handler {}", frame(kernel.machine(), handler as *const () as usize));
    kernel.resources().add_for(&cx, "timeout", id, detail);
    std::ptr::without_provenance_mut(id as usize)
}

unsafe extern "C" fn untimeout(id: timeout_id_t) -> clock_t {
    let (cx, id) = (cx(), id.addr() as u64);
    if id == 0 {
        return -1;
    }
    let kernel = cx.kernel();
    let callouts = kernel.callouts();
    let (issued, handler) = {
        let state = callouts.state.lock();
        let due = state.due.get(&id);
        let job = due.and_then(|due| state.pending.get(&(*due, id)));
        (state.last_id, job.map(|job| job.handler as *const () as usize))
    };
    if id & (0xff << 56) != ID_MARK || id & !ID_MARK > issued {
        cx.violate(Rule::BadUntimeout, format!("untimeout: impossible timeout id {id:x}"));
        return -1;
    }
    check_locks(&cx, id, handler);
    cancel(&cx, id)
}

/// Rules 24 and 4: whoever waits for a handler may not hold what the handler takes.
fn check_locks(cx: &Cx, id: u64, handler: Option<usize>) {
    let me = Thread::current();
    let held = driver_locks(&me.0.local().held);
    let (seen, runner) = {
        let state = cx.kernel().callouts().state.lock();
        (handler.and_then(|h| state.seen_locks.get(&h).cloned()), state.running.get(&id).cloned())
    };
    if runner.as_ref().is_some_and(|runner| runner.did() == me.did()) {
        return;
    }
    let blocked_on = runner.and_then(|runner| runner.0.local().waits_for).map(|w| w.addr);
    let taken = |addr: &&usize| {
        Some(**addr) == blocked_on || seen.as_ref().is_some_and(|seen| seen.lock().contains(addr))
    };
    if let Some(lock) = held.iter().find(taken) {
        let lock = cx.kernel().locks().describe(*lock);
        cx.check(false, Rule::BadUntimeout, || format!("holding {lock}, which the handler takes"));
    }
    cx.no_locks();
}

fn cancel(cx: &Cx, id: u64) -> clock_t {
    let kernel = cx.kernel();
    let callouts = kernel.callouts();
    let mut state = callouts.state.lock();
    if let Some(due) = state.due.remove(&id) {
        state.pending.remove(&(due, id));
        drop(state);
        kernel.resources().remove("timeout", id);
        return due.since(thread::now()).ticks();
    }
    let me = cx.thread().did();
    while state.running.get(&id).is_some_and(|runner| runner.did() != me) {
        state = callouts.done.wait(state);
    }
    drop(state);
    race::acquire(Key("timeout handlers", kernel.index() as u64));
    -1
}
