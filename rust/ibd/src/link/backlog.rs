//! What one interrupt must not take alone: after as many packets as the administrator says (`_ibd_ud_rx_intr_limit`) the interrupt returns, and this
//! thread, which the kernel can preempt, goes on until the CQ is empty and armed again. It also takes what nobody is called for:
//! what came in while the MAC layer fetched packets, or while somebody else was handing some up. And it hands up what IP is told of packets
//! that are too long for a neighbour.

use gldv3::Generation as RingGeneration;
use kernel::mblk::{Mblk, MblkChain};
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::time::Duration;
use kernel::{AllocError, KArc};

use super::delivery::By;
use super::{Shared, receive};

/// Before it is tried again to hand up what IP is told, where somebody else was handing something up or fetches what there is.
const AGAIN: Duration = Duration::from_millis(1);
/// How many of that wait at most.
const ANSWERS: usize = 32;

/// Whether there may be something that nobody else takes.
pub(crate) struct Backlog {
    due: bool,
    /// What IP is told.
    answers: MblkChain,
}

impl Backlog {
    pub(crate) fn new() -> Result<KArc<Monitor<Self>>, AllocError> {
        KArc::new(Monitor::new(Self { due: false, answers: MblkChain::new() })?)
    }

    /// Leaves to the thread what there is. **Any** context.
    pub(crate) fn leave(backlog: &Monitor<Self>) {
        backlog.lock().due = true;
        backlog.notify_all();
    }

    /// Has the thread hand up what IP is told; comes back if too much of that waits. **Any** context.
    pub(super) fn tell(backlog: &Monitor<Self>, answer: Mblk) -> Option<Mblk> {
        let mut state = backlog.lock();
        if state.answers.len() >= ANSWERS {
            return Some(answer);
        }
        state.answers.push_back(answer);
        state.due = true;
        drop(state);
        backlog.notify_all();
        None
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
        tell_ip(shared);
        // Nothing, if the link was stopped meanwhile.
        receive::go_on(&shared.delivery);
        backlog = parker.lock();
    }
}

/// Hands up what IP is told, if there is something. While somebody else is on the way up this waits a little, and is done again.
#[inline(never)]
fn tell_ip(shared: &Shared) {
    let answers = core::mem::take(&mut shared.backlog.lock().answers);
    if answers.is_empty() {
        return;
    }
    if let Some(inside) = shared.delivery.enter(By::Interrupt) {
        inside.deliver(&shared.mac, answers);
        if inside.leave(false).is_ok_and(|left| left.again) {
            Backlog::leave(&shared.backlog);
        }
        return;
    }
    // Of a link that is stopped nobody is told anything. While the MAC layer fetches packets itself this waits until it does not.
    if shared.delivery.is_open() {
        kernel::time::sleep(AGAIN);
        let mut backlog = shared.backlog.lock();
        let later = core::mem::replace(&mut backlog.answers, answers);
        backlog.answers.append(later);
        backlog.due = true;
    }
}
