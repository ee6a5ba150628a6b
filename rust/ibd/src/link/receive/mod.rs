//! From the receive CQ to the MAC layer.

mod packet;
mod way_up;

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::Mac;
use ibtf::{CompletionBatch, Cq, Notify, ReceiveQueue, Refills, Status};
use ipoib::{LinkAddr, Qpn};
use kernel::mblk::MblkChain;
use kernel::sync::{Monitor, Mutex};
use kernel::{AllocError, KArc, KVec};

use crate::counters::{Counters, RxDrop, Tally};
use crate::link::backlog::Backlog;
use crate::link::control::Control;
use crate::link::settings::{Key, Settings};
use crate::link::upward::Upward;
use crate::now;
pub(super) use packet::{lend, look_closer};
pub(crate) use way_up::{fetch, go_on, interrupted};

/// Completions taken, and packets handed up, at once.
const BUDGET: usize = 32;

/// How received frames are passed on, as the administrator has it.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Frames up to this length, GRH and IPoIB header included, are copied, so that the buffer stays where it is.
    copy_up_to: u32,
    /// Completions that one interrupt takes before a thread goes on ([`super::backlog`]).
    at_once: usize,
}

impl Manner {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { copy_up_to: settings.get(Key::RxCopyThresh), at_once: settings.get(Key::RxIntrLimit) as usize }
    }
}

/// The receive side of a link's queue pairs: opened when traffic starts, closed when it ends.
///
/// While open it owns the CQ and is where packets on their way up come from ([`Upward`]).
pub(crate) struct Receiver {
    state: Mutex<State>,
    /// How often it was closed: what was made ready before must not be opened after it.
    closed: AtomicU64,
    mac: Mac,
    counters: KArc<Counters>,
    control: KArc<Monitor<Control>>,
    backlog: KArc<Monitor<Backlog>>,
    /// Knows it while it is open.
    upward: KArc<Upward>,
    manner: Manner,
}

struct State {
    open: Option<Open>,
    /// Empty, but for what did not fit when the MAC layer fetched packets.
    batch: CompletionBatch,
}

struct Open {
    /// Of the traffic.
    serial: u64,
    queue: ReceiveQueue,
    cq: Cq,
    own: LinkAddr,
    /// The queue pairs that send for the link beside that of its address: their multicasts come back as well.
    senders: KVec<Qpn>,
}

impl Receiver {
    pub(crate) fn new(
        mac: Mac,
        counters: KArc<Counters>,
        control: KArc<Monitor<Control>>,
        backlog: KArc<Monitor<Backlog>>,
        upward: KArc<Upward>,
        manner: Manner,
    ) -> Result<KArc<Self>, AllocError> {
        let batch = CompletionBatch::new(BUDGET)?;
        let state = State { open: None, batch };
        let closed = AtomicU64::new(0);
        KArc::new(Self { state: Mutex::new(state)?, closed, mac, counters, control, backlog, upward, manner })
    }

    /// The MAC layer does not fetch packets any more: arms the CQ, and leaves to the backlog's thread what has come in before that
    /// and calls nobody. Hands nothing up. **Any** context.
    pub(crate) fn call_again(&self) {
        if self.arm() && self.has_more() {
            Backlog::leave(&self.backlog);
        }
        // What comes on connections goes the same way.
        if let Some(connected) = self.upward.connected() {
            connected.call_again();
        }
    }

    /// How many buffers the adapter has, and how often it was given some: with the lock for a moment.
    pub(crate) fn posted(&self) -> (u32, Refills) {
        let state = self.state.lock();
        state.open.as_ref().map_or_else(Default::default, |open| (open.queue.posted(), open.queue.refills()))
    }

    fn has_more(&self) -> bool {
        let mut state = self.state.lock();
        let State { open: Some(open), batch } = &mut *state else { return false };
        // A poll that fails fails again for whoever takes the rest, who says so.
        !matches!(open.available(batch), Ok(0))
    }

    /// How often it was closed.
    pub(crate) fn epoch(&self) -> u64 {
        self.closed.load(Ordering::SeqCst)
    }

    /// Takes what comes in for buffers that are posted already, from now on. Does nothing if it was closed since `epoch`.
    pub(crate) fn open(
        this: &KArc<Self>,
        epoch: u64,
        serial: u64,
        queue: ReceiveQueue,
        cq: Cq,
        own: LinkAddr,
        senders: KVec<Qpn>,
    ) {
        let mut state = this.state.lock();
        if this.epoch() != epoch {
            drop(state);
            return;
        }
        this.upward.put(this);
        let before = state.open.replace(Open { serial, queue, cq, own, senders });
        drop(state);
        // There is none: what was open was closed.
        drop(before);
        // The first may have come before.
        this.call_again();
    }

    /// A queue pair that only sends has another one's place. What was sent from the one before may still come back.
    pub(crate) fn replace_sender(&self, sender: usize, qpn: Qpn) {
        let mut state = self.state.lock();
        let Some(open) = &mut state.open else { return };
        let known = open.senders.len() / 2;
        let before = open.senders.get_mut(sender).map(|place| core::mem::replace(place, qpn));
        if let Some((before, place)) = before.zip(open.senders.get_mut(known + sender)) {
            *place = before;
        }
    }

    /// Ends it: what comes in from now on is not taken, nor what was left when the MAC layer fetched packets.
    pub(crate) fn close(&self) {
        // Before the lock: who opens after this sees it.
        self.closed.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        let open = state.open.take();
        let left = state.batch.clear();
        // With the lock held, or it would undo what the next opening does.
        self.upward.remove(self);
        if let Some(open) = &open {
            // With the lock, or whoever reads meanwhile finds them in neither place.
            self.counters.rx.refilled(open.queue.refills());
        }
        drop(state);
        drop(open);
        self.counters.rx.dropped_many(RxDrop::LinkReset, left);
    }

    fn broken(&self, serial: u64) {
        self.control.lock().receive_side_failed(now(), serial);
        self.control.notify_all();
    }

    /// One pass: up to [`BUDGET`] completions, and no more than `room` bytes of them, which it lessens. `None` if the receive side
    /// is not open. The caller is on the way up.
    fn pass(&self, room: &mut usize, end: End) -> Option<Pass> {
        let mut state = self.state.lock();
        let State { open: Some(open), batch } = &mut *state else { return None };
        let available = open.available(batch);
        let mut pass = Pass {
            serial: open.serial,
            packets: MblkChain::new(),
            tally: Tally::default(),
            copied: 0,
            taken: 0,
            drained: false,
            broken: available.is_err(),
        };
        let mut left = *room;
        while let Some(completion) = batch.next_within(left) {
            left -= completion.bytes();
            pass.taken += 1;
            self.take(open, completion, &mut pass);
        }
        *room = left;
        if !pass.packets.is_empty() {
            self.counters.rx.received(&pass.tally, pass.copied);
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
        Some(pass)
    }

    /// Arms the CQ; `false` if that failed, and then nobody would call again, or if the receive side is not open.
    fn arm(&self) -> bool {
        let state = self.state.lock();
        let Some(open) = &state.open else { return false };
        let (armed, serial) = (open.cq.arm(Notify::Any).is_ok(), open.serial);
        drop(state);
        if !armed {
            self.broken(serial);
        }
        armed
    }
}

struct Pass {
    /// Of the traffic that was open.
    serial: u64,
    packets: MblkChain,
    tally: Tally,
    /// Packets that are copies.
    copied: u64,
    /// Completions taken.
    taken: usize,
    /// The CQ is armed, and there was nothing in it then.
    drained: bool,
    broken: bool,
}

/// What is done when there seems to be nothing left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The CQ is armed, and looked into once more: a completion between the last look and the arming need not call.
    Armed,
    /// Nothing.
    Quiet,
}

impl Open {
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
