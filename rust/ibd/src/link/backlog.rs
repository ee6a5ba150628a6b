//! What one interrupt must not take alone: after [`super::receive::INTERRUPT_BUDGET`] packets the interrupt returns, and this
//! thread, which the kernel can preempt, goes on until the CQ is empty and armed again. It also takes what nobody is called for:
//! what came in while the MAC layer fetched packets, or while somebody else was handing some up.

use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{AllocError, KArc};

use super::{Shared, receive};

/// Whether there may be something that nobody else takes.
pub(crate) struct Backlog {
    due: bool,
}

impl Backlog {
    pub(crate) fn new() -> Result<KArc<Monitor<Self>>, AllocError> {
        KArc::new(Monitor::new(Self { due: false })?)
    }

    /// Leaves to the thread what there is. **Any** context.
    pub(crate) fn leave(backlog: &Monitor<Self>) {
        backlog.lock().due = true;
        backlog.notify_all();
    }
}

/// Starts the thread. **May block.**
pub(crate) fn spawn(shared: &KArc<Shared>) -> Result<Worker<Backlog>, AllocError> {
    let body = shared.clone();
    Worker::spawn(c"ibd_backlog", shared.backlog.clone(), move |parker| live(parker, &body))
}

fn live(parker: &Parker<'_, Backlog>, shared: &Shared) {
    let mut backlog = parker.lock();
    while !parker.should_stop() {
        if !core::mem::take(&mut backlog.due) {
            parker.wait(&mut backlog);
            continue;
        }
        drop(backlog);
        // Nothing, if the link was stopped meanwhile.
        receive::go_on(&shared.upward);
        backlog = parker.lock();
    }
}
