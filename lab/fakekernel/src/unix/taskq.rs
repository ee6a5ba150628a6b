//! Task queues, the kernel's and the driver flavour.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use illumos_sys_hdrs::{ddi_taskq_t, dev_info_t, pri_t, task_func_t, taskq_t, taskqid_t};
use sim::race::{self, Key, Moment};
use sim::{Ctx, FaultKind, HostMutex, Rule, Thread, WaitQueue};

use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::EntryKind;
use crate::loader::export::Export;
use crate::loader::handles::Handles;
use crate::loader::kernel::Kernel;
use crate::unix::system_taskq::{Account, TaskFlag, system_taskq};

type Task = unsafe extern "C" fn(*mut c_void);

const TQ_NOSLEEP: c_uint = 1;
const DDI_SUCCESS: c_int = 0;
/// What `system_taskq` points to: no address, and no handle of the table's.
const SYSTEM: usize = 0x5a << 56 | 0x10;
static SYSTEM_TASKQ: [u8; 8] = SYSTEM.to_le_bytes();
const DDI_FAILURE: c_int = -1;

struct Taskq {
    kernel: Kernel,
    name: String,
    state: HostMutex<State>,
    work: WaitQueue,
    drained: WaitQueue,
    workers: HostMutex<Vec<Thread>>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Task, usize, Moment)>,
    running: usize,
    closing: bool,
}

struct Table(Handles<Taskq>);

pub(crate) fn exports() -> Vec<Export> {
    let mut all = export! {
        UK: taskq_create, taskq_wait, taskq_destroy;
        UK: ddi_taskq_create, ddi_taskq_wait, ddi_taskq_destroy;
        UKS: taskq_dispatch, ddi_taskq_dispatch;
    };
    all.push(Export::data("system_taskq", &SYSTEM_TASKQ));
    all
}

fn table(kernel: &Kernel) -> Arc<Table> {
    kernel.state(|| Table(Handles::new("taskq_t")))
}

fn create(cx: &Cx, name: *const c_char, threads: c_int) -> *mut c_void {
    cx.may_block();
    // SAFETY: a C string of the module.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let kernel = cx.kernel();
    let taskq = Arc::new(Taskq {
        kernel: kernel.clone(),
        name: name.clone(),
        state: HostMutex::default(),
        work: WaitQueue::new("a task"),
        drained: WaitQueue::new("a task queue to drain"),
        workers: HostMutex::default(),
    });
    for number in 1..=threads.max(1) {
        let mine = taskq.clone();
        let worker = kernel.spawn(&format!("taskq {name}/{number}"), Ctx::Kernel, move || work(&mine));
        taskq.workers.lock().push(worker);
    }
    let handle = table(kernel).0.insert_arc(taskq);
    kernel.resources().add_for(cx, "taskq", handle.addr() as u64, name);
    handle
}

fn work(taskq: &Taskq) {
    loop {
        let (task, arg, dispatched) = {
            let mut state = taskq.state.lock();
            loop {
                if let Some(task) = state.queue.pop_front() {
                    state.running += 1;
                    break task;
                }
                if state.closing {
                    return;
                }
                state = taskq.work.wait(state);
            }
        };
        let arg = std::ptr::with_exposed_provenance_mut(arg);
        dispatched.is_over();
        // SAFETY: the module gave task and argument for each other.
        unsafe { taskq.kernel.enter(task, (arg,), EntryKind::callback("task")) };
        race::release(taskq.key());
        let mut state = taskq.state.lock();
        state.running -= 1;
        if state.running == 0 && state.queue.is_empty() {
            taskq.drained.wake_all();
        }
    }
}

impl Taskq {
    /// What its tasks leave for whoever waits for them.
    fn key(&self) -> Key {
        Key("taskq", (&raw const *self).addr() as u64)
    }
}

fn find(cx: &Cx, handle: *mut c_void) -> Option<Arc<Taskq>> {
    match table(cx.kernel()).0.get(handle) {
        Ok(taskq) => Some(taskq),
        Err(error) => {
            cx.violate(Rule::AbsurdArgument, error.to_string());
            None
        }
    }
}

fn dispatch(cx: &Cx, handle: *mut c_void, task: task_func_t, arg: *mut c_void, flags: c_uint) -> bool {
    let Some(task) = task else { cx.panic("taskq_dispatch: no function") };
    if flags & TQ_NOSLEEP == 0 {
        cx.wait_for_memory();
    } else if cx.fault(FaultKind::TASKQ) {
        return false;
    }
    if handle.addr() == SYSTEM {
        dispatch_to_system(cx, task, arg, flags);
        return true;
    }
    let Some(taskq) = find(cx, handle) else { return false };
    taskq.state.lock().queue.push_back((task, arg.expose_provenance(), Moment::now()));
    taskq.work.wake_one();
    true
}

fn dispatch_to_system(cx: &Cx, task: Task, arg: *mut c_void, flags: c_uint) {
    let (kernel, arg) = (cx.kernel().clone(), arg.expose_provenance());
    let how = if flags & TQ_NOSLEEP == 0 { TaskFlag::Sleep } else { TaskFlag::NoSleep };
    system_taskq(cx.kernel()).dispatch(how, Account::of(cx, "taskq_dispatch"), move || {
        let arg = std::ptr::with_exposed_provenance_mut(arg);
        // SAFETY: the module gave task and argument for each other.
        unsafe { kernel.enter(task, (arg,), EntryKind::callback("task")) };
    });
}

fn wait(cx: &Cx, handle: *mut c_void) -> Option<Arc<Taskq>> {
    cx.may_block();
    cx.no_locks();
    let taskq = find(cx, handle)?;
    let mut state = taskq.state.lock();
    while state.running > 0 || !state.queue.is_empty() {
        state = taskq.drained.wait(state);
    }
    drop(state);
    race::acquire(taskq.key());
    Some(taskq)
}

fn destroy(cx: &Cx, handle: *mut c_void) {
    let Some(taskq) = wait(cx, handle) else { return };
    taskq.state.lock().closing = true;
    taskq.work.wake_all();
    let workers = std::mem::take(&mut *taskq.workers.lock());
    for worker in workers {
        worker.join();
    }
    if table(cx.kernel()).0.remove(handle).is_err() {
        cx.violate(Rule::AbsurdArgument, format!("task queue '{}' destroyed twice", taskq.name));
    }
    cx.kernel().resources().remove("taskq", handle.addr() as u64);
}

unsafe extern "C" fn taskq_create(
    name: *const c_char,
    threads: c_int,
    _pri: pri_t,
    _min: c_int,
    _max: c_int,
    _flags: c_uint,
) -> *mut taskq_t {
    create(&cx(), name, threads).cast()
}

unsafe extern "C" fn taskq_dispatch(
    handle: *mut taskq_t,
    task: task_func_t,
    arg: *mut c_void,
    flags: c_uint,
) -> taskqid_t {
    usize::from(dispatch(&cx(), handle.cast(), task, arg, flags))
}

unsafe extern "C" fn taskq_wait(handle: *mut taskq_t) {
    wait(&cx(), handle.cast());
}

unsafe extern "C" fn taskq_destroy(handle: *mut taskq_t) {
    destroy(&cx(), handle.cast());
}

unsafe extern "C" fn ddi_taskq_create(
    _dip: *mut dev_info_t,
    name: *const c_char,
    threads: c_int,
    _pri: pri_t,
    _flags: c_uint,
) -> *mut ddi_taskq_t {
    create(&cx(), name, threads).cast()
}

unsafe extern "C" fn ddi_taskq_dispatch(
    handle: *mut ddi_taskq_t,
    task: task_func_t,
    arg: *mut c_void,
    flags: c_uint,
) -> c_int {
    if dispatch(&cx(), handle.cast(), task, arg, flags) { DDI_SUCCESS } else { DDI_FAILURE }
}

unsafe extern "C" fn ddi_taskq_wait(handle: *mut ddi_taskq_t) {
    wait(&cx(), handle.cast());
}

unsafe extern "C" fn ddi_taskq_destroy(handle: *mut ddi_taskq_t) {
    destroy(&cx(), handle.cast());
}
