//! Transmit: straight into `mc_tx`, or through a queue once the driver has handed something back (`M/mac_sched.c`).
//!
//! A packet handed back must be the very one that went in. It is queued and retried once by a worker; if it is refused again
//! the queue is blocked until `mac_tx_update`. One update that comes between a refusal and the blocking is remembered.
//!
//! With transmit rings there is a queue for each, woken by `mac_tx_ring_update`, and a flow keeps to one ring: by the hint that IP
//! gives with a packet of a connection. The framework can make a hint of Ethernet packets alone. So what comes without one - ARP, raw
//! packets - goes to the first ring of several, and is dropped if that has no room.

use std::collections::VecDeque;
use std::sync::Arc;

use fakekernel::genunix::SharedSnapshot;
use fakekernel::{Cx, HostMutex, WaitQueue, cx};

use super::link::Link;
use crate::mac::{Note, Ring};
use crate::message::{Message, Messages};
use crate::rx::fanout;
use crate::types::Backpressure;
use crate::worker::Worker;

/// More packets than this stop the sender.
const HIGH_WATER: usize = 1000;
/// More than this are dropped.
const LIMIT: usize = 100_000;

/// The transmit side of a link's client: a queue for each ring, or one.
#[derive(Debug)]
pub(crate) struct Transmit {
    queues: Vec<Queue>,
}

/// What waits for one ring.
#[derive(Debug)]
struct Queue {
    /// `None` for `mc_tx`.
    ring: Option<Arc<Ring>>,
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
    /// For a mac with these transmit rings.
    pub(crate) fn new(rings: &[Arc<Ring>]) -> Self {
        let queues = match rings {
            [] => vec![Queue::new(None)],
            rings => rings.iter().map(|ring| Queue::new(Some(ring.clone()))).collect(),
        };
        Self { queues }
    }

    /// `mac_tx_ring_update`, of no ring for `mac_tx_update`. Whether that wakes anybody.
    pub(crate) fn woken_up(&self, ring: Option<&Arc<Ring>>) -> bool {
        let same = |queue: &&Queue| match (&queue.ring, ring) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        let found = self.queues.iter().find(same);
        if let Some(queue) = found {
            queue.woken_up();
        }
        found.is_some()
    }

    /// Whether every queue that was full has room again, waiting for it until `deadline`.
    pub(crate) fn wait_room(&self, deadline: fakekernel::Nanos) -> bool {
        self.queues.iter().all(|queue| queue.wait_room(deadline))
    }

    /// Packets waiting to be retried.
    pub(crate) fn queued(&self) -> usize {
        self.queues.iter().map(|queue| queue.state.lock().queue.len()).sum()
    }

    /// Packets dropped because a queue was over its limit or the client was going away, or for want of a hint.
    pub(crate) fn drops(&self) -> u64 {
        self.queues.iter().map(|queue| queue.state.lock().drops).sum()
    }

    /// Stops senders and waits for those inside; drops what is queued.
    pub(crate) fn quiesce(&self) {
        self.queues.iter().for_each(Queue::quiesce);
    }

    /// Lets senders in again.
    pub(crate) fn restart(&self) {
        self.queues.iter().for_each(Queue::restart);
    }

    /// Where a packet with this hint goes, and whether it may wait there.
    fn place(&self, hint: u64) -> (usize, bool) {
        let mixed = hint ^ hint >> 24 ^ hint >> 16 ^ hint >> 8;
        let queues = self.queues.len();
        (mixed as usize % queues, hint != 0 || queues == 1)
    }
}

impl Queue {
    fn new(ring: Option<Arc<Ring>>) -> Self {
        Self {
            ring,
            state: HostMutex::new(State::default()),
            work: WaitQueue::new("packets to retry, or an update"),
            changed: WaitQueue::new("a link's transmit queue"),
            worker: Worker::default(),
        }
    }

    fn woken_up(&self) {
        let mut state = self.state.lock();
        state.woken_up = true;
        state.blocked = false;
        drop(state);
        self.work.wake_all();
    }

    fn wait_room(&self, deadline: fakekernel::Nanos) -> bool {
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

    fn quiesce(&self) {
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

    fn restart(&self) {
        let mut state = self.state.lock();
        state.quiesced = false;
        state.exit = false;
    }
}

/// While it lives, a sender is inside.
struct Hold<'a>(&'a Queue);

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
        let (index, may_wait) = self.transmit.place(self.hint(messages, message));
        let queue = &self.transmit.queues[index];
        match queue.admit(message, may_wait) {
            Verdict::Drop => {
                messages.free(message);
                Backpressure::Clear
            }
            Verdict::Queued(pressure) => pressure,
            Verdict::Send => {
                let _hold = Hold(queue);
                match self.offer(messages, message, queue.ring.as_ref()) {
                    None => Backpressure::Clear,
                    Some(refused) if may_wait => self.enqueue_refused(index, refused),
                    Some(refused) => {
                        queue.state.lock().drops += 1;
                        messages.free(refused);
                        Backpressure::Clear
                    }
                }
            }
        }
    }

    /// What IP says with a packet about the connection it is of; 0 without several rings, which need none, and for what is not IP's.
    fn hint(&self, messages: &Messages<'_>, message: Message) -> u64 {
        if self.transmit.queues.len() == 1 {
            return 0;
        }
        let info = self.mac.plugin.header_info(messages, message);
        info.and_then(|info| fanout::hint(info.bind_sap as u16, &messages.bytes(message, info.size)))
            .unwrap_or(0)
    }

    /// Copies for the promiscuous, then `mc_tx` or `mri_tx`; the packet again if the driver handed it back.
    fn offer(
        self: &Arc<Self>,
        messages: &Messages<'_>,
        message: Message,
        ring: Option<&Arc<Ring>>,
    ) -> Option<Message> {
        self.show_promiscuous(messages, message, true);
        let entry = if ring.is_some() { "mri_tx" } else { "mc_tx" };
        let cx = messages.cx;
        let shared: SharedSnapshot = messages.genunix.shared_snapshot(cx, message.raw());
        let driver = &self.mac.module;
        messages.give(message, driver.name(), entry);
        let back = self.mac.send(message.raw(), ring);
        messages.genunix.compare_shared(&Cx::of_entry(Some(driver), entry), &shared, entry);
        if back.is_null() {
            return None;
        }
        if back != message.raw() {
            let what = format!(
                "{entry} of {} was given mblk {:p} and handed back {back:p}: VERIFY(mp == tail) in the transmit drain",
                self.mac.name,
                message.raw()
            );
            Cx::of_entry(Some(driver), entry).panic(what);
        }
        messages.take_back(back, driver, entry).first().copied()
    }

    /// The first refusal: from here on packets queue up behind this one, and the worker tries it once more.
    fn enqueue_refused(self: &Arc<Self>, index: usize, message: Message) -> Backpressure {
        let queue = &self.transmit.queues[index];
        let mut state = queue.state.lock();
        state.enqueued = true;
        state.queue.push_front(message);
        drop(state);
        self.ensure_transmit_worker(index);
        queue.work.wake_all();
        Backpressure::Clear
    }

    fn ensure_transmit_worker(self: &Arc<Self>, index: usize) {
        let link = self.clone();
        let name = match &self.transmit.queues[index].ring {
            Some(ring) => format!("mac_tx {} {}", self.name(), ring.index),
            None => format!("mac_tx {}", self.name()),
        };
        let worker = &self.transmit.queues[index].worker;
        worker.ensure(&self.mac.kernel, &name, move || link.transmit_worker(index));
    }

    fn transmit_worker(self: Arc<Self>, index: usize) {
        let queue = &self.transmit.queues[index];
        loop {
            let mut state = queue.state.lock();
            while !state.exit && (state.queue.is_empty() || state.blocked) {
                state = queue.work.wait(state);
            }
            if state.exit {
                return;
            }
            let Some(message) = state.queue.pop_front() else { continue };
            state.woken_up = false;
            state.holds += 1;
            drop(state);
            let hold = Hold(queue);
            let cx = cx();
            let genunix = cx.kernel().genunix();
            let messages = Messages { cx: &cx, genunix: &genunix };
            let refused = self.offer(&messages, message, queue.ring.as_ref());
            drop(hold);
            if queue.after_retry(refused) {
                self.mac.post(Note::Tx);
            }
        }
    }
}

impl Queue {
    /// Whether whoever was told to stop can go on.
    fn after_retry(&self, refused: Option<Message>) -> bool {
        let mut state = self.state.lock();
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
                    self.changed.wake_all();
                }
                return stopped;
            }
            None => {}
        }
        false
    }

    fn admit(&self, message: Message, may_wait: bool) -> Verdict {
        let mut state = self.state.lock();
        let full = state.queue.len() >= LIMIT || (state.enqueued && !may_wait);
        if state.quiesced || full {
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
