//! The soft ring set of a link's client: one queue, drained by whoever finds nobody at it, and the rings behind.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fakekernel::{HostMutex, Kernel, WaitQueue, cx};

use super::fanout::{self, Class, Packet, Place};
use super::poll::Poller;
use super::ring::{Deliver, Ring};
use crate::mac::{Mac, Ring as HardwareRing};
use crate::message::{Message, Messages};
use crate::worker::Worker;

/// Packets in the set and its rings above which new ones are dropped.
const HIGH_WATER: usize = 1024;
/// Most triples of rings.
const MOST_TRIPLES: usize = 8;
const CLASSES: [Class; 3] = [Class::Tcp, Class::Udp, Class::Other];

/// What the set asks of the layer above.
pub(crate) trait Upper: Send + Sync {
    /// What the fan-out needs to know of a packet; `None` when its header is no header.
    fn look<'a>(&self, messages: &Messages<'_>, message: Message, bytes: &'a mut Vec<u8>)
    -> Option<Look<'a>>;
    /// Packets that did not come up by `mac_rx`: whoever is to see what passes has not seen them.
    fn fetched(&self, messages: &Messages<'_>, packets: &[Message]);
    /// Delivers packets; `bypass` past DLS.
    fn deliver(&self, messages: &Messages<'_>, bypass: bool, packets: Vec<Message>);
}

/// See [`Upper::look`].
pub(crate) struct Look<'a> {
    pub(crate) sap: u16,
    pub(crate) ip: &'a [u8],
    pub(crate) aligned: bool,
    pub(crate) bypass: bool,
}

/// See the module's text.
pub(crate) struct Srs {
    pub(super) name: String,
    pub(super) kernel: Kernel,
    pub(super) upper: Arc<dyn Upper>,
    state: HostMutex<State>,
    changed: WaitQueue,
    /// Packets in the set and its rings, those being delivered included.
    outstanding: Arc<AtomicUsize>,
    worker: Worker,
    /// Of the set of a receive ring.
    pub(super) poller: Option<Arc<Poller>>,
}

impl fmt::Debug for Srs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Srs({})", self.name)
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Message>,
    /// Threads bringing packets.
    inside: u32,
    /// `SRS_PROC`: somebody drains.
    busy: bool,
    /// Nobody may drain: the rings are being changed.
    paused: bool,
    quiesced: bool,
    exit: bool,
    rings: BTreeMap<Place, Arc<Ring>>,
    triples: usize,
    /// The speed the fan-out was computed for.
    speed: u64,
    drops: u64,
}

/// Counts packets out and says which layer they go to.
struct Counted {
    upper: Arc<dyn Upper>,
    outstanding: Arc<AtomicUsize>,
    poller: Option<Arc<Poller>>,
}

impl Deliver for Counted {
    fn deliver(&self, messages: &Messages<'_>, class: Class, packets: Vec<Message>) {
        let count = packets.len();
        self.upper.deliver(messages, class != Class::Other, packets);
        self.outstanding.fetch_sub(count, Ordering::AcqRel);
        if let Some(poller) = &self.poller {
            poller.delivered();
        }
    }
}

/// How many triples a link of that speed gets: hashing over eight or the processors there are, from 1 Gb/s on.
fn triples_for(speed: u64, processors: u32) -> usize {
    if speed / 1_000_000 > 1000 { MOST_TRIPLES.min(processors as usize).max(1) } else { 1 }
}

impl Srs {
    /// A set for packets of `upper`, with the fan-out that `speed` (bits per second) calls for; of a receive ring, if one is given.
    pub(crate) fn new(
        mac: &Arc<Mac>,
        name: &str,
        upper: Arc<dyn Upper>,
        speed: u64,
        ring: Option<&Arc<HardwareRing>>,
    ) -> Arc<Self> {
        let outstanding = Arc::new(AtomicUsize::new(0));
        let polled = ring.filter(|ring| ring.polls());
        let poller = polled.map(|ring| Arc::new(Poller::new(mac.clone(), ring.clone(), outstanding.clone())));
        let srs = Self {
            name: name.to_owned(),
            kernel: mac.kernel.clone(),
            upper,
            state: HostMutex::new(State::default()),
            changed: WaitQueue::new("packets of a soft ring set"),
            outstanding,
            worker: Worker::default(),
            poller,
        };
        srs.build_rings(speed);
        let srs = Arc::new(srs);
        srs.start_polling();
        srs
    }

    fn build_rings(&self, speed: u64) {
        let triples = triples_for(speed, self.kernel.machine().config().cpus);
        let mut rings = BTreeMap::new();
        for index in 0..triples {
            for class in CLASSES {
                let name = format!("mac_soft_ring {} {class:?} {index}", self.name);
                rings.insert(Place { class, index }, Ring::new(name, class));
            }
        }
        let mut state = self.state.lock();
        state.rings = rings;
        state.triples = triples;
        state.speed = speed;
    }

    /// Changes the fan-out when the speed has changed. What is queued in the old rings is delivered first, so order is kept.
    pub(crate) fn recompute(&self, speed: u64) {
        let mut state = self.state.lock();
        if state.speed == speed || state.quiesced {
            return;
        }
        state.paused = true;
        while state.busy {
            state = self.changed.wait(state);
        }
        let rings = std::mem::take(&mut state.rings);
        drop(state);
        rings.values().for_each(|ring| ring.stop());
        self.build_rings(speed);
        self.state.lock().paused = false;
        self.changed.wake_all();
    }

    /// `mac_rx_srs_process`: takes packets in, and drains the set here if nobody else does.
    pub(crate) fn process(self: &Arc<Self>, messages: &Messages<'_>, packets: Vec<Message>) {
        self.take_in(messages, packets, false);
        if let Some(poller) = self.poller.as_ref().filter(|poller| poller.is_impatient()) {
            poller.switch_to_polling();
        }
    }

    /// Takes packets in; those that were `fetched` whatever is there already, because it was looked at before.
    pub(super) fn take_in(self: &Arc<Self>, messages: &Messages<'_>, packets: Vec<Message>, fetched: bool) {
        let mut state = self.state.lock();
        let full = !fetched && self.outstanding.load(Ordering::Acquire) > HIGH_WATER;
        if state.quiesced || full {
            state.drops += packets.len() as u64;
            drop(state);
            messages.free_all(packets);
            return;
        }
        self.outstanding.fetch_add(packets.len(), Ordering::AcqRel);
        state.queue.extend(packets);
        state.inside += 1;
        let (drain, wait) = (!state.busy && !state.paused, state.paused);
        state.busy |= drain;
        drop(state);
        if drain {
            self.drain(messages);
            self.after_drain();
        } else if wait {
            self.ensure_worker();
        }
        self.state.lock().inside -= 1;
        self.changed.wake_all();
    }

    /// Nothing is queued, nothing is being delivered, and nobody is at it.
    pub(super) fn is_at_rest(&self) -> bool {
        let state = self.state.lock();
        !state.busy && state.queue.is_empty() && self.outstanding.load(Ordering::Acquire) == 0
    }

    /// Fans out until the queue is empty. The caller has set `busy`.
    fn drain(&self, messages: &Messages<'_>) {
        let up: Arc<dyn Deliver> = Arc::new(Counted {
            upper: self.upper.clone(),
            outstanding: self.outstanding.clone(),
            poller: self.poller.clone(),
        });
        loop {
            let mut state = self.state.lock();
            let packets: Vec<Message> = state.queue.drain(..).collect();
            if packets.is_empty() {
                state.busy = false;
                drop(state);
                self.changed.wake_all();
                return;
            }
            let triples = state.triples;
            drop(state);
            for (place, packets) in self.placed(messages, packets, triples) {
                let ring = self.state.lock().rings.get(&place).cloned();
                let alone = self.outstanding.load(Ordering::Acquire) <= 1;
                match ring {
                    Some(ring) => ring.process(&self.kernel, messages, packets, alone, &up),
                    None => up.deliver(messages, place.class, packets),
                }
            }
        }
    }

    /// Packets by ring, in their order; those that are malformed are dropped.
    fn placed(
        &self,
        messages: &Messages<'_>,
        packets: Vec<Message>,
        triples: usize,
    ) -> BTreeMap<Place, Vec<Message>> {
        let mut placed: BTreeMap<Place, Vec<Message>> = BTreeMap::new();
        for message in packets {
            let mut bytes = Vec::new();
            let look = self.upper.look(messages, message, &mut bytes);
            let place = look.and_then(|look| {
                let Look { sap, ip, aligned, bypass } = look;
                fanout::place(Packet { sap, ip, aligned, bypass }, triples)
            });
            match place {
                Some(place) => placed.entry(place).or_default().push(message),
                None => {
                    self.state.lock().drops += 1;
                    self.outstanding.fetch_sub(1, Ordering::AcqRel);
                    messages.free(message);
                }
            }
        }
        placed
    }

    fn ensure_worker(self: &Arc<Self>) {
        let srs = self.clone();
        self.worker.ensure(&self.kernel, &format!("mac_srs {}", self.name), move || srs.work());
    }

    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            while !state.exit && (state.busy || state.paused || state.queue.is_empty()) {
                state = self.changed.wait(state);
            }
            if state.exit {
                return;
            }
            state.busy = true;
            drop(state);
            let cx = cx();
            let genunix = cx.kernel().genunix();
            self.drain(&Messages { cx: &cx, genunix: &genunix });
            self.after_drain();
        }
    }

    /// Lets nothing in any more, waits for whoever delivers, frees the rest.
    pub(crate) fn quiesce(&self) {
        self.stop_polling();
        let mut state = self.state.lock();
        state.quiesced = true;
        state.exit = true;
        while state.busy || state.inside > 0 {
            state = self.changed.wait(state);
        }
        let rest: Vec<Message> = state.queue.drain(..).collect();
        let rings = std::mem::take(&mut state.rings);
        drop(state);
        self.changed.wake_all();
        self.worker.join();
        rings.values().for_each(|ring| ring.stop());
        let cx = cx();
        let genunix = cx.kernel().genunix();
        Messages { cx: &cx, genunix: &genunix }.free_all(rest);
    }

    /// Packets dropped: over the limit, malformed, or come too late.
    pub(crate) fn drops(&self) -> u64 {
        self.state.lock().drops
    }

    /// How many triples of rings packets are spread over.
    pub(crate) fn triples(&self) -> usize {
        self.state.lock().triples
    }
}

#[cfg(test)]
mod tests {
    use super::triples_for;

    #[test]
    fn infiniband_speeds_hash_over_the_processors_up_to_eight() {
        assert_eq!(triples_for(8_000_000_000, 4), 4);
        assert_eq!(triples_for(8_000_000_000, 64), 8);
        assert_eq!(triples_for(1_000_000_000, 64), 1);
        assert_eq!(triples_for(0, 2), 1);
    }
}
