//! A thread that starts when there is first something for it to do.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use fakekernel::{Ctx, HostMutex, Kernel, Thread};

/// See the module's text.
#[derive(Default)]
pub(crate) struct Worker {
    started: AtomicBool,
    thread: HostMutex<Option<Thread>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({})", self.started.load(Ordering::Relaxed))
    }
}

impl Worker {
    /// Starts it unless it runs.
    pub(crate) fn ensure(&self, kernel: &Kernel, name: &str, f: impl FnOnce() + Send + 'static) {
        if !self.started.swap(true, Ordering::AcqRel) {
            let thread = kernel.spawn(name, Ctx::Kernel, f);
            *self.thread.lock() = Some(thread);
        }
    }

    /// Waits for it to end, which the caller has told it to, and nobody starts it meanwhile.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.join();
        }
        self.started.store(false, Ordering::Release);
    }
}
