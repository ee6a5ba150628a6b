//! What one interrupt must not take alone: after as many packets as the administrator says (`_ibd_ud_rx_intr_limit`) the interrupt returns, and this
//! thread, which the kernel can preempt, goes on until the CQ is empty and armed again. It also takes what nobody is called for:
//! what came in while the MAC layer fetched packets, or while somebody else was handing some up, and what IP is told of packets that are too
//! long for a neighbour.

use gldv3::Generation as RingGeneration;
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::time::Duration;
use kernel::{KArc, MayBlock};

use super::{Shared, receive};

/// Before it is tried again to hand up what IP is told, where somebody else was handing something up or fetches what there is.
const AGAIN: Duration = Duration::from_millis(1);

/// Whether there may be something that nobody else takes.
pub(crate) struct Backlog {
    due: bool,
}

impl Backlog {
    pub(crate) fn new(may_block: &MayBlock) -> KArc<Monitor<Self>> {
        KArc::new_waiting(Monitor::new_waiting(Self { due: false }, may_block), may_block)
    }

    /// Leaves to the thread what there is. **Any** context.
    pub(crate) fn leave(backlog: &Monitor<Self>) {
        backlog.lock().due = true;
        backlog.notify_all();
    }
}

impl Shared {
    /// Packets may go up from now on: the link is started, or its receive ring is. A completion that came between the start and this
    /// called while the way was shut, and the CQ calls once: the thread looks for what it was called for. **Any** context.
    pub(super) fn open_delivery(&self, generation: Option<RingGeneration>) {
        self.delivery.open(generation);
        Backlog::leave(&self.backlog);
    }
}

/// Starts the thread. **May block.**
pub(crate) fn spawn(shared: &KArc<Shared>, may_block: &MayBlock) -> Worker<Backlog> {
    let body = shared.clone();
    Worker::spawn(c"ibd_backlog", shared.backlog.clone(), may_block, move |parker| live(parker, &body))
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
        receive::go_on(&shared.delivery);
        // Another thread is on the receive path, or the MAC layer fetches packets, which takes these along when there are some.
        let left = shared.delivery.has_answers();
        if left {
            kernel::time::sleep(AGAIN);
        }
        backlog = parker.lock();
        backlog.due |= left;
    }
}
