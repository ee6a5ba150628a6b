//! From the receive CQ to the MAC layer.

mod deliver;
mod packet;

use gldv3::Mac;
use ibtf::{BufferPool, CompletionBatch, Cq, Notify, ReceiveQueue, Refills, Status};
use ipoib::link::{Generation, Side};
use ipoib::{LinkAddr, Qpn};
use kernel::mblk::MblkChain;
use kernel::sync::{Monitor, Mutex};
use kernel::{AllocError, KArc, KVec};

use crate::counters::{Counters, PacketCounts, RxDrop};
use crate::link::backlog::Backlog;
use crate::link::control::Control;
use crate::link::delivery::Delivery;
use crate::link::settings::{Key, Settings};
use crate::now;
pub(crate) use deliver::{fetch, go_on, interrupted};
pub(super) use packet::{lend, look_closer};

/// Completions taken, and packets handed up, at once.
const BUDGET: usize = 32;

/// How received frames are passed on, as the administrator has it.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveConfig {
    /// Frames up to this length, GRH and IPoIB header included, are copied, so that the buffer stays where it is.
    copy_up_to: u32,
    /// Completions that one interrupt takes before a thread goes on ([`super::backlog`]).
    at_once: usize,
}

impl ReceiveConfig {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { copy_up_to: settings.get(Key::RxCopyThresh), at_once: settings.get(Key::RxIntrLimit) as usize }
    }

    /// Completions that one interrupt takes before a thread goes on.
    pub(crate) fn at_once(&self) -> usize {
        self.at_once
    }
}

/// The receive side of a link's queue pairs: opened when traffic starts, closed when it ends.
///
/// While open it owns the CQ and is where packets for mac come from ([`Delivery`]).
pub(crate) struct Receiver {
    state: Mutex<State>,
    mac: Mac,
    counters: KArc<Counters>,
    control: KArc<Monitor<Control>>,
    backlog: KArc<Monitor<Backlog>>,
    /// Knows it while it is open.
    delivery: KArc<Delivery>,
    config: ReceiveConfig,
}

struct State {
    side: Side<ReceiveSide>,
    /// Empty, but for what did not fit when the MAC layer fetched packets.
    batch: CompletionBatch,
}

/// The receive side of a queue pair.
pub(crate) struct ReceiveSide {
    pub(crate) queue: ReceiveQueue,
    pub(crate) pool: BufferPool,
    pub(crate) cq: Cq,
    pub(crate) own: LinkAddr,
    /// The queue pairs that send for the link beside that of its address: their multicasts come back as well.
    pub(crate) senders: KVec<Qpn>,
}

impl Receiver {
    pub(crate) fn new(
        mac: Mac,
        counters: KArc<Counters>,
        control: KArc<Monitor<Control>>,
        backlog: KArc<Monitor<Backlog>>,
        delivery: KArc<Delivery>,
        config: ReceiveConfig,
    ) -> Result<KArc<Self>, AllocError> {
        let batch = CompletionBatch::new(BUDGET)?;
        let state = State { side: Side::default(), batch };
        KArc::new(Self { state: Mutex::new(state)?, mac, counters, control, backlog, delivery, config })
    }

    /// The MAC layer does not fetch packets any more: arms the CQ, and leaves to the backlog's thread what has come in before that
    /// and calls nobody. Hands nothing up. **Any** context.
    pub(crate) fn call_again(&self) {
        if self.arm() && self.has_more() {
            Backlog::leave(&self.backlog);
        }
        // What comes on connections goes the same way.
        if let Some(connected) = self.delivery.connected() {
            connected.call_again();
        }
    }

    /// How many buffers the adapter has, and how often adapters were given some, on this queue and those before: with the lock for a moment.
    pub(crate) fn posted(&self) -> (u32, Refills) {
        let state = self.state.lock();
        let (posted, now) = state
            .side
            .get()
            .map_or_else(Default::default, |side| (side.queue.posted(), side.queue.refills()));
        (posted, self.counters.rx.refills(now))
    }

    fn has_more(&self) -> bool {
        let mut state = self.state.lock();
        let State { side, batch } = &mut *state;
        let Some(open) = side.get() else { return false };
        // A poll that fails fails again for whoever takes the rest, who says so.
        !matches!(open.available(batch), Ok(0))
    }

    /// Takes what comes in for buffers that are posted already, from now on; the receive side comes back if its generation is over.
    pub(crate) fn open(this: &KArc<Self>, generation: Generation, with: ReceiveSide) -> Option<ReceiveSide> {
        let mut state = this.state.lock();
        let before = match state.side.open(generation, with) {
            Ok(before) => before,
            Err(unused) => {
                drop(state);
                return Some(unused);
            }
        };
        let tells = this.delivery.put(generation, this);
        drop(state);
        // There is none: what was open was closed.
        drop(before);
        if tells {
            Backlog::leave(&this.backlog);
        }
        // The first may have come before.
        this.call_again();
        None
    }

    /// A queue pair that only sends has another one's place. What was sent from the one before may still come back.
    pub(crate) fn replace_sender(&self, sender: usize, qpn: Qpn) {
        let mut state = self.state.lock();
        let Some(open) = state.side.get_mut() else { return };
        let known = open.senders.len() / 2;
        let before = open.senders.get_mut(sender).map(|place| core::mem::replace(place, qpn));
        if let Some((before, place)) = before.zip(open.senders.get_mut(known + sender)) {
            *place = before;
        }
    }

    /// Ends every generation up to this one: what comes in from now on is not taken, nor what was left when the MAC layer fetched
    /// packets. The buffers, if there were some, to be closed.
    pub(crate) fn close(&self, up_to: Option<Generation>) -> Option<BufferPool> {
        let mut state = self.state.lock();
        let closed = state.side.close(up_to)?;
        let left = closed.cq.throw_away(&mut state.batch);
        // With the lock, and before it is not found any more: or whoever reads meanwhile finds them in neither place.
        self.counters.rx.refilled(closed.queue.refills());
        // With the lock held, or it would undo what the next opening does.
        self.delivery.remove(up_to);
        drop(state);
        self.counters.rx.dropped_many(RxDrop::LinkReset, left);
        Some(closed.into_pool())
    }

    /// What stood when this was seen does not work any more.
    fn broken(&self, generation: Option<Generation>) {
        let Some(generation) = generation else { return };
        self.control.lock().receive_side_failed(now(), generation);
        self.control.notify_all();
    }

    /// One pass: up to [`BUDGET`] completions, and no more than `room` bytes of them, which it lessens. `None` if the receive side
    /// is not open. The caller is on the receive path.
    fn pass(&self, room: &mut usize, end: End) -> Option<Pass> {
        let mut state = self.state.lock();
        let State { side, batch } = &mut *state;
        let open = side.get_mut()?;
        let available = open.available(batch);
        let mut pass = Pass {
            packets: MblkChain::new(),
            counts: PacketCounts::default(),
            copied: 0,
            taken: 0,
            drained: false,
            broken: available.is_err(),
            failed: None,
        };
        let mut left = *room;
        while let Some(completion) = batch.next_within(left) {
            left -= completion.bytes();
            pass.taken += 1;
            self.take(open, completion, &mut pass);
        }
        *room = left;
        if !pass.packets.is_empty() {
            self.counters.rx.received(&pass.counts, pass.copied);
        }
        if pass.taken != 0 && !pass.broken {
            // What cannot be posted now is posted with the next completion, if there will be one.
            pass.broken = open.queue.refill().is_err() && open.queue.posted() == 0;
        }
        // A full batch may not have been all.
        if end == End::Armed && pass.taken < BUDGET && !pass.broken {
            let left = open.arm(batch);
            pass.drained = left == Ok(0);
            pass.broken = left.is_err();
        }
        if pass.broken {
            pass.failed = side.generation();
        }
        Some(pass)
    }

    /// Arms the CQ; `false` if that failed, and then nobody would call again, or if the receive side is not open.
    fn arm(&self) -> bool {
        let state = self.state.lock();
        let Some(open) = state.side.get() else { return false };
        let armed = open.cq.arm(Notify::Any).is_ok();
        let generation = state.side.generation();
        drop(state);
        if !armed {
            self.broken(generation);
        }
        armed
    }
}

struct Pass {
    packets: MblkChain,
    counts: PacketCounts,
    /// Packets that are copies.
    copied: u64,
    /// Completions taken.
    taken: usize,
    /// The CQ is armed, and there was nothing in it then.
    drained: bool,
    broken: bool,
    /// What is broken.
    failed: Option<Generation>,
}

/// What is done when there seems to be nothing left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The CQ is armed, and looked into once more: a completion between the last look and the arming need not call.
    Armed,
    /// Nothing.
    Quiet,
}

impl ReceiveSide {
    /// Ends it, and leaves its buffers, to be closed once they are home: some are the adapter's until the queue pair is freed.
    pub(crate) fn into_pool(self) -> BufferPool {
        let Self { queue, pool, .. } = self;
        drop(queue);
        pool
    }

    /// How many completions there are, at least, up to a batch: what was polled before and left, or else what is polled now.
    fn available(&self, batch: &mut CompletionBatch) -> Result<usize, Status> {
        match batch.remaining() {
            0 => self.cq.poll(batch),
            left => Ok(left),
        }
    }

    /// Arms the CQ and looks for what calls nobody; how many completions there are then, at least, up to a batch.
    fn arm(&self, batch: &mut CompletionBatch) -> Result<usize, Status> {
        self.cq.arm(Notify::Any)?;
        self.available(batch)
    }
}
