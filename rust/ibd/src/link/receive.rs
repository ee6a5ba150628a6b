//! From the receive CQ to the MAC layer.

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::Mac;
use ibtf::{
    Buffer, Completion, CompletionBatch, CompletionStatus, Cq, Notify, ReceiveQueue, Received, Refills,
    Status, Target,
};
use ipoib::header::{self, IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN};
use ipoib::neighbours::{self, Direction};
use ipoib::{EtherType, LinkAddr, Qpn, nd};
use kernel::mblk::{Mblk, MblkChain, Offload};
use kernel::sync::{Monitor, Mutex};
use kernel::{AllocError, KArc, KVec};

use super::backlog::Backlog;
use super::control::Control;
use super::settings::{Key, Settings};
use super::upward::{By, Inside, Upward};
use crate::counters::{Counters, RxDrop, Tally};
use crate::now;

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
        if let Some(guests) = self.upward.guests() {
            guests.call_again();
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

    #[inline(always)]
    fn take(&self, open: &mut Open, completion: Completion<'_>, pass: &mut Pass) {
        let Some(received) = open.queue.complete(completion) else {
            // Of nothing that is out: whatever it tells of is lost.
            return self.counters.rx.dropped(RxDrop::Completion);
        };
        if !received.status.is_success() {
            // Flushed: the queue pair is in error and every buffer would come back the same way. Not posted again.
            pass.broken |= received.status == CompletionStatus::FLUSHED;
            if received.status != CompletionStatus::FLUSHED {
                self.counters.rx.dropped(RxDrop::Completion);
            }
            return;
        }
        match self.packet(open, received, pass) {
            Ok(packet) => pass.packets.push_back(packet),
            Err(reason) => self.counters.rx.dropped(reason),
        }
    }

    /// Makes the packet for the MAC layer out of a frame. A buffer that is not lent goes home and is posted again.
    #[inline(always)]
    fn packet(&self, open: &mut Open, received: Received, pass: &mut Pass) -> Result<Mblk, RxDrop> {
        let Received { mut buffer, has_grh, checksum_ok, source_qpn, .. } = received;
        let bytes = buffer.bytes_mut();
        let sender = Qpn::from_low_bits(source_qpn);
        let frame = header::receive(bytes, has_grh, sender, &open.own, &open.senders)?;
        if frame.ethertype != EtherType::IPV4 {
            look_closer(&self.control, frame.ethertype, bytes);
        }
        let verified = checksum_ok && has_plain_ipv4_header(bytes);
        let len = bytes.len() as u32;
        let mut packet = if len <= self.manner.copy_up_to {
            let packet = Mblk::from_bytes(0, bytes);
            open.queue.give_back(buffer);
            let packet = packet.map_err(|_| RxDrop::NoMemory)?;
            pass.copied += 1;
            packet
        } else {
            lend(&mut open.queue, buffer, &mut pass.copied)?
        };
        if verified {
            packet.set_offload(Offload::VERIFIED);
        }
        pass.tally.add_received(frame.cast, len);
        Ok(packet)
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

impl Receiver {
    /// Takes everything there is, until the CQ is armed with nothing in it. `false` if the budget of completions, which it lessens, is
    /// spent before: the CQ may not be armed then.
    fn take_all(&self, inside: &Inside<'_>, budget: &mut usize) -> bool {
        while inside.goes_on() {
            let Some(pass) = self.pass(&mut { usize::MAX }, End::Armed) else { return true };
            inside.hand_up(&self.mac, pass.packets);
            if pass.broken {
                self.broken(pass.serial);
                return true;
            }
            *budget = budget.saturating_sub(pass.taken);
            if pass.drained {
                return true;
            }
            if *budget == 0 {
                return false;
            }
        }
        true
    }

    /// Takes packets for the MAC layer, until there are none or the next one is longer than the room, which it lessens.
    fn take_within(&self, inside: &Inside<'_>, room: &mut usize) -> MblkChain {
        let mut packets = MblkChain::new();
        while inside.goes_on() {
            let Some(pass) = self.pass(room, End::Quiet) else { break };
            self.counters.rx.fetched.add(pass.packets.len() as u64);
            packets.append(pass.packets);
            if pass.broken {
                self.broken(pass.serial);
                break;
            }
            if pass.taken == 0 {
                break;
            }
        }
        packets
    }
}

/// Takes what there is, up to a budget; a thread goes on from there. In a soft interrupt.
pub(crate) fn interrupted(upward: &Upward) {
    take_all(upward, false);
}

/// Takes what there is. On the backlog's thread.
pub(crate) fn go_on(upward: &Upward) {
    take_all(upward, true);
}

/// With `everything`, or as much as the administrator lets an interrupt take.
fn take_all(upward: &Upward, everything: bool) {
    let Some(mut inside) = upward.enter(By::Interrupt) else { return };
    let mut budget = if everything { usize::MAX } else { inside.receiver().manner.at_once };
    loop {
        let finished = inside.receiver().take_all(&inside, &mut budget)
            && inside.guests().is_none_or(|guests| guests.take_all(&inside, &mut budget));
        let left = match inside.leave(finished && budget != 0) {
            Ok(left) => left,
            Err(stays) => {
                inside = stays;
                continue;
            }
        };
        if !finished {
            left.receiver.counters.rx.left.increment();
        }
        if !finished || left.again {
            Backlog::leave(&left.receiver.backlog);
        }
        return;
    }
}

/// Takes packets for the MAC layer, no more than `bytes` of them. **Any** context.
pub(crate) fn fetch(upward: &Upward, bytes: usize) -> MblkChain {
    let Some(inside) = upward.enter(By::Fetch) else { return MblkChain::new() };
    let mut room = bytes;
    let mut packets = inside.receiver().take_within(&inside, &mut room);
    if let Some(guests) = inside.guests() {
        guests.take_within(&inside, room, &mut packets);
    }
    // With `false` it does not stay.
    if let Ok(left) = inside.leave(false)
        && left.again
    {
        Backlog::leave(&left.receiver.backlog);
    }
    packets
}

/// Neighbour discovery has spare bytes elsewhere on the wire, and says, as ARP does, who has which address.
#[inline(never)]
pub(super) fn look_closer(control: &Monitor<Control>, ethertype: EtherType, frame: &mut [u8]) {
    let payload = frame.get_mut(PSEUDO_HEADER_LEN..).unwrap_or_default();
    let is_discovery = ethertype == EtherType::IPV6 && nd::Message::may_be(payload);
    if is_discovery {
        nd::pad_for_ip(payload);
    }
    if (is_discovery || ethertype == EtherType::ARP)
        && let Some(neighbour) = neighbours::read(ethertype, payload, Direction::In)
    {
        control.lock().neighbours.learn(now(), neighbour);
    }
}

/// A packet in the buffer that it was received into, if that may be lent, and otherwise in a copy.
#[inline(never)]
pub(super) fn lend<T: Target>(
    queue: &mut ReceiveQueue<T>,
    buffer: Buffer,
    copied: &mut u64,
) -> Result<Mblk, RxDrop> {
    let buffer = match if queue.may_lend() { buffer.lend(0) } else { Err(buffer) } {
        Ok(packet) => return Ok(packet),
        Err(buffer) => buffer,
    };
    let packet = Mblk::from_bytes(0, buffer.bytes());
    queue.give_back(buffer);
    let packet = packet.map_err(|_| RxDrop::NoMemory)?;
    *copied += 1;
    Ok(packet)
}

/// Whether the checksum the adapter verified is one that it looked at whole: IPv4 without options.
fn has_plain_ipv4_header(frame: &[u8]) -> bool {
    const VERSION_4_LENGTH_5: u8 = 0x45;
    let ethertype = frame.get(PSEUDO_HEADER_LEN - IPOIB_HEADER_LEN..).and_then(|rest| rest.first_chunk());
    ethertype.map(|bytes| EtherType(u16::from_be_bytes(*bytes))) == Some(EtherType::IPV4)
        && frame.get(PSEUDO_HEADER_LEN) == Some(&VERSION_4_LENGTH_5)
}
