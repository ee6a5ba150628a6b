//! Control requests: dld does them, one after the other for a stream, in a task on `system_taskq` that may not wait for a thread
//! (`dld_wput_nondata` and `dld_wput_nondata_task` of `dld_str.c`). Whoever keeps that queue's threads keeps these.

use std::sync::Arc;

use fakekernel::{Account, HostMutex, Kernel, TaskFlag, WaitQueue, system_taskq};

/// Where the answer to a request comes.
struct Reply<R> {
    answer: HostMutex<Option<R>>,
    came: WaitQueue,
}

/// Has `request` done to `open` on the queue, and waits for the answer.
pub(super) fn control<O: Send + Sync + 'static, R: Send + 'static>(
    kernel: &Kernel,
    open: &Arc<O>,
    request: impl FnOnce(&O) -> R + Send + 'static,
) -> R {
    let reply = Arc::new(Reply {
        answer: HostMutex::new(None),
        came: WaitQueue::new("dld to answer a control request"),
    });
    let (open, to) = (open.clone(), reply.clone());
    let account = Account::kernel("a control request to dld");
    system_taskq(kernel).dispatch(TaskFlag::NoSleep, account, move || {
        let answer = request(&open);
        // Whoever has the stream closes it.
        drop(open);
        *to.answer.lock() = Some(answer);
        to.came.wake_all();
    });
    let mut answer = reply.answer.lock();
    loop {
        if let Some(answer) = answer.take() {
            return answer;
        }
        answer = reply.came.wait(answer);
    }
}
