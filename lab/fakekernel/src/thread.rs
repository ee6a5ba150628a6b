//! Kernel threads.

use std::sync::Arc;

use crate::context::Ctx;
use crate::kernel::Kernel;
use crate::nanos::Nanos;

/// A thread of the machine; cheap clone.
#[derive(Clone, Debug)]
pub struct Thread(pub(crate) Arc<ThreadInner>);

#[derive(Debug)]
pub(crate) struct ThreadInner {}

impl Thread {
    /// The calling thread.
    ///
    /// # Panics
    ///
    /// Outside a machine.
    pub fn current() -> Self {
        unimplemented!()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        unimplemented!()
    }

    /// `t_did`: what `thread_join` takes; never reused in a machine.
    pub fn did(&self) -> u64 {
        unimplemented!()
    }

    /// The address modules know it by (`kthread_t *`).
    pub fn kthread(&self) -> *mut std::ffi::c_void {
        unimplemented!()
    }

    /// Where it runs now.
    pub fn ctx(&self) -> Ctx {
        unimplemented!()
    }

    /// The processor it believes to run on, from 0.
    pub fn cpu(&self) -> u32 {
        unimplemented!()
    }

    /// The host whose code it runs, if any.
    pub fn kernel(&self) -> Option<Kernel> {
        unimplemented!()
    }

    /// Waits until it has ended.
    pub fn join(&self) {
        unimplemented!()
    }

    /// Has it ended?
    pub fn is_finished(&self) -> bool {
        unimplemented!()
    }
}

/// Sleeps for `span` on the machine's clock.
pub fn sleep(span: Nanos) {
    let _ = span;
    unimplemented!()
}

/// A scheduling point: the seed may let another thread run.
pub fn reschedule() {
    unimplemented!()
}

/// Now, on the calling thread's machine.
pub fn now() -> Nanos {
    unimplemented!()
}

pub(crate) fn machine_stopped() -> bool {
    unimplemented!()
}

pub(crate) fn abandon_here() -> ! {
    unimplemented!()
}
