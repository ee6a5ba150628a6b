//! Transmit: straight into `mc_tx`, or through a queue once the driver has handed something back (`M/mac_sched.c`).
//!
//! A packet handed back must be the very one that went in. It is queued and retried once by a worker; if it is refused again
//! the queue is blocked until `mac_tx_update`. One update that comes between a refusal and the blocking is remembered.

use std::collections::VecDeque;
use std::sync::Arc;

use fakekernel::genunix::SharedSnapshot;
use fakekernel::{Cx, HostMutex, WaitQueue, cx};

use crate::client::Backpressure;
use crate::dls::Link;
use crate::mac::Note;
use crate::message::{Message, Messages};
use crate::worker::Worker;

/// More packets than this stop the sender.
const HIGH_WATER: usize = 1000;
/// More than this are dropped.
const LIMIT: usize = 100_000;

/// The transmit side of a link's client.
#[derive(Debug)]
pub(crate) struct Transmit {
    state: HostMutex<State>,
    work: WaitQueue,
    /// For those who wait for senders to leave, and for room.
    changed: WaitQueue,
    worker: Worker,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Message>,
    /// A refused packet is queued; nothing overtakes it.
    enqueued: bool,
    /// No attempt before the next update.
    blocked: bool,
    /// An update came since the last attempt began.
    woken_up: bool,
    /// Somebody was told to stop sending.
    stopped: bool,
    /// Senders inside.
    holds: u32,
    quiesced: bool,
    exit: bool,
    drops: u64,
}

impl Transmit {
    pub(crate) fn new() -> Self {
        Self {
            state: HostMutex::new(State::default()),
            work: WaitQueue::new("packets to retry, or an update"),
            changed: WaitQueue::new("a link's transmit queue"),
            worker: Worker::default(),
        }
    }

    /// `mac_tx_update`.
    pub(crate) fn woken_up(&self) {
        let mut state = self.state.lock();
        state.woken_up = true;
        state.blocked = false;
        drop(state);
        self.work.wake_all();
    }

    /// Whether the queue that was full has room again, waiting for it until `deadline`.
    pub(crate) fn wait_room(&self, deadline: fakekernel::Nanos) -> bool {
        let mut state = self.state.lock();
        while state.stopped {
            let (guard, in_time) = self.changed.wait_until(state, deadline);
            state = guard;
            if !in_time {
                return !state.stopped;
            }
        }
        true
    }

    /// Packets waiting to be retried.
    pub(crate) fn queued(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Packets dropped because the queue was over its limit or the client was going away.
    pub(crate) fn drops(&self) -> u64 {
        self.state.lock().drops
    }

    /// Stops senders and waits for those inside; drops what is queued.
    pub(crate) fn quiesce(&self) {
        let mut state = self.state.lock();
        state.quiesced = true;
        while state.holds > 0 {
            state = self.changed.wait(state);
        }
        let dropped: Vec<Message> = state.queue.drain(..).collect();
        state.drops += dropped.len() as u64;
        state.enqueued = false;
        state.blocked = false;
        state.stopped = false;
        state.exit = true;
        drop(state);
        self.work.wake_all();
        self.changed.wake_all();
        self.worker.join();
        let cx = cx();
        let genunix = cx.kernel().genunix();
        Messages { cx: &cx, genunix: &genunix }.free_all(dropped);
    }

    /// Lets senders in again.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock();
        state.quiesced = false;
        state.exit = false;
    }
}

/// While it lives, a sender is inside.
struct Hold<'a>(&'a Transmit);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.state.lock().holds -= 1;
        self.0.changed.wake_all();
    }
}

/// What is to be done with a packet, decided under the lock.
enum Verdict {
    Send,
    Queued(Backpressure),
    Drop,
}

impl Link {
    /// `mac_tx`: sends a packet. It is consumed whatever happens.
    pub(crate) fn transmit(self: &Arc<Self>, messages: &Messages<'_>, message: Message) -> Backpressure {
        let verdict = self.transmit.admit(message);
        match verdict {
            Verdict::Drop => {
                messages.free(message);
                Backpressure::Clear
            }
            Verdict::Queued(pressure) => pressure,
            Verdict::Send => {
                let _hold = Hold(&self.transmit);
                match self.offer(messages, message) {
                    None => Backpressure::Clear,
                    Some(refused) => self.enqueue_refused(refused),
                }
            }
        }
    }

    /// Copies for the promiscuous, then `mc_tx`; the packet again if the driver handed it back.
    fn offer(self: &Arc<Self>, messages: &Messages<'_>, message: Message) -> Option<Message> {
        self.show_promiscuous(messages, message, true);
        let cx = messages.cx;
        let shared: SharedSnapshot = messages.genunix.shared_snapshot(cx, message.raw());
        let driver = &self.mac.module;
        messages.give(message, driver.name(), "mc_tx");
        let back = self.mac.send(message.raw());
        messages.genunix.compare_shared(&Cx::of_entry(Some(driver), "mc_tx"), &shared, "mc_tx");
        if back.is_null() {
            return None;
        }
        if back != message.raw() {
            let what = format!(
                "mc_tx of {} was given mblk {:p} and handed back {back:p}: VERIFY(mp == tail) in the transmit drain",
                self.mac.name,
                message.raw()
            );
            Cx::of_entry(Some(driver), "mc_tx").panic(what);
        }
        messages.take_back(back, driver, "mc_tx").first().copied()
    }

    /// The first refusal: from here on packets queue up behind this one, and the worker tries it once more.
    fn enqueue_refused(self: &Arc<Self>, message: Message) -> Backpressure {
        let mut state = self.transmit.state.lock();
        state.enqueued = true;
        state.queue.push_front(message);
        drop(state);
        self.ensure_transmit_worker();
        self.transmit.work.wake_all();
        Backpressure::Clear
    }

    fn ensure_transmit_worker(self: &Arc<Self>) {
        let link = self.clone();
        let name = format!("mac_tx {}", self.name());
        self.transmit.worker.ensure(&self.mac.kernel, &name, move || link.transmit_worker());
    }

    fn transmit_worker(self: Arc<Self>) {
        loop {
            let mut state = self.transmit.state.lock();
            while !state.exit && (state.queue.is_empty() || state.blocked) {
                state = self.transmit.work.wait(state);
            }
            if state.exit {
                return;
            }
            let Some(message) = state.queue.pop_front() else { continue };
            state.woken_up = false;
            state.holds += 1;
            drop(state);
            let hold = Hold(&self.transmit);
            let cx = cx();
            let genunix = cx.kernel().genunix();
            let refused = self.offer(&Messages { cx: &cx, genunix: &genunix }, message);
            drop(hold);
            self.after_retry(refused);
        }
    }

    fn after_retry(&self, refused: Option<Message>) {
        let mut state = self.transmit.state.lock();
        match refused {
            Some(message) => {
                state.queue.push_front(message);
                state.blocked = !state.woken_up;
            }
            None if state.queue.is_empty() => {
                state.enqueued = false;
                let stopped = std::mem::take(&mut state.stopped);
                drop(state);
                if stopped {
                    self.transmit.changed.wake_all();
                    self.mac.post(Note::Tx);
                }
            }
            None => {}
        }
    }
}

impl Transmit {
    fn admit(&self, message: Message) -> Verdict {
        let mut state = self.state.lock();
        if state.quiesced || state.queue.len() >= LIMIT {
            state.drops += 1;
            return Verdict::Drop;
        }
        if !state.enqueued {
            state.holds += 1;
            return Verdict::Send;
        }
        state.queue.push_back(message);
        if state.queue.len() > HIGH_WATER {
            state.stopped = true;
            return Verdict::Queued(Backpressure::Stop);
        }
        Verdict::Queued(Backpressure::Clear)
    }
}
