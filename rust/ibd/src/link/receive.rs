//! From the receive CQ to the MAC layer.

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::Mac;
use ibtf::{Completion, CompletionBatch, CompletionStatus, Cq, Notify, ReceiveQueue, Received, Status};
use ipoib::header::{self, IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN};
use ipoib::neighbours::{self, Direction};
use ipoib::{EtherType, LinkAddr, Qpn, nd};
use kernel::mblk::{Mblk, MblkChain, Offload};
use kernel::sync::{Monitor, Mutex};
use kernel::{AllocError, KArc, KVec};

use super::backlog::Backlog;
use super::control::Control;
use super::interrupts::Standing;
use super::upward::{self, By, Inside, Upward};
use crate::counters::{Counters, RxDrop, Tally};
use crate::now;

/// Completions taken, and packets handed up, at once.
const BUDGET: usize = 32;
/// Completions that one interrupt takes before a thread goes on ([`super::backlog`]).
pub(crate) const INTERRUPT_BUDGET: usize = 8 * BUDGET;
/// Frames up to this length are copied, so that the buffer stays where it is.
const COPY_UP_TO: u32 = 256;

/// The receive side of a link's queue pairs: opened when traffic starts, closed when it ends.
///
/// While open it owns the CQ and stands for the link's interrupt ([`super::interrupts::Standing`]).
pub(crate) struct Receiver {
    state: Mutex<State>,
    /// How often it was closed: what was made ready before must not be opened after it.
    closed: AtomicU64,
    mac: Mac,
    counters: KArc<Counters>,
    control: KArc<Monitor<Control>>,
    backlog: KArc<Monitor<Backlog>>,
    upward: KArc<Monitor<Upward>>,
    /// Where it stands while it is open.
    standing: KArc<Standing>,
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
        upward: KArc<Monitor<Upward>>,
        standing: KArc<Standing>,
    ) -> Result<KArc<Self>, AllocError> {
        let batch = CompletionBatch::new(BUDGET)?;
        let state = State { open: None, batch };
        let closed = AtomicU64::new(0);
        KArc::new(Self {
            state: Mutex::new(state)?,
            closed,
            mac,
            counters,
            control,
            backlog,
            upward,
            standing,
        })
    }

    /// Takes what there is. On the backlog's thread.
    pub(crate) fn go_on(&self) {
        self.take_all(usize::MAX);
    }

    /// The MAC layer does not fetch packets any more: arms the CQ, and leaves to the backlog's thread what has come in before that
    /// and calls nobody. Hands nothing up. **Any** context.
    pub(crate) fn call_again(&self) {
        if self.arm() && self.has_more() {
            Backlog::leave(&self.backlog);
        }
    }

    fn has_more(&self) -> bool {
        let mut state = self.state.lock();
        let State { open: Some(open), batch } = &mut *state else { return false };
        // A poll that fails fails again for whoever takes the rest, who says so.
        !matches!(open.available(batch), Ok(0))
    }

    /// Takes packets for the MAC layer, no more than `bytes` of them. **Any** context.
    pub(crate) fn fetch(&self, bytes: usize) -> MblkChain {
        let (mut packets, mut room) = (MblkChain::new(), bytes);
        let Some(inside) = upward::enter(&self.upward, By::Fetch) else { return packets };
        while inside.goes_on() {
            let Some(pass) = self.pass(&mut room) else { break };
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
        if inside.leave() {
            Backlog::leave(&self.backlog);
        }
        packets
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
        this.standing.put(this);
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
        let left = state.batch.by_ref().count();
        // With the lock held, or it would undo what the next opening does.
        self.standing.remove(self);
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
    fn pass(&self, room: &mut usize) -> Option<Pass> {
        let mut state = self.state.lock();
        let State { open: Some(open), batch } = &mut *state else { return None };
        let available = open.available(batch);
        let mut pass = Pass {
            serial: open.serial,
            packets: MblkChain::new(),
            tally: Tally::default(),
            copied: 0,
            taken: 0,
            broken: available.is_err(),
        };
        while let Some(completion) = batch.next_within(*room) {
            *room -= completion.bytes();
            pass.taken += 1;
            self.take(open, completion, &mut pass);
        }
        if !pass.packets.is_empty() {
            self.counters.rx.received(&pass.tally, pass.copied);
        }
        if pass.taken != 0 && !pass.broken {
            // What cannot be posted now is posted with the next completion, if there will be one.
            pass.broken = open.queue.refill().is_err() && open.queue.posted() == 0;
        }
        Some(pass)
    }

    fn take(&self, open: &mut Open, completion: Completion, pass: &mut Pass) {
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
    fn packet(&self, open: &mut Open, mut received: Received, pass: &mut Pass) -> Result<Mblk, RxDrop> {
        let sender = Qpn::from_low_bits(received.source_qpn);
        let buffer = &mut received.buffer;
        let frame = header::receive(buffer.bytes_mut(), received.has_grh, sender, &open.own, &open.senders)?;
        if frame.ethertype == EtherType::IPV6 {
            nd::pad_for_ip(buffer.bytes_mut().get_mut(PSEUDO_HEADER_LEN..).unwrap_or_default());
        }
        self.learn(frame.ethertype, buffer.bytes().get(PSEUDO_HEADER_LEN..).unwrap_or_default());
        let len = buffer.len();
        let verified = received.checksum_ok && has_plain_ipv4_header(buffer.bytes());
        let lend = len > COPY_UP_TO && open.queue.may_lend();
        let mut packet = match if lend { received.buffer.lend(0) } else { Err(received.buffer) } {
            Ok(packet) => packet,
            Err(buffer) => {
                let packet = Mblk::from_bytes(0, buffer.bytes()).map_err(|_| RxDrop::NoMemory);
                open.queue.give_back(buffer);
                let packet = packet?;
                pass.copied += 1;
                packet
            }
        };
        if verified {
            packet.set_offload(Offload::VERIFIED);
        }
        pass.tally.add_received(frame.cast, len as usize);
        Ok(packet)
    }

    /// ARP and neighbour discovery say who has which address.
    fn learn(&self, ethertype: EtherType, payload: &[u8]) {
        let may_tell =
            ethertype == EtherType::ARP || ethertype == EtherType::IPV6 && nd::Message::may_be(payload);
        if may_tell && let Some(neighbour) = neighbours::read(ethertype, payload, Direction::In) {
            self.control.lock().neighbours.learn(now(), neighbour);
        }
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
    broken: bool,
}

impl Open {
    /// How many completions there are, at least, up to a batch: what was polled before and left, or else what is polled now.
    fn available(&self, batch: &mut CompletionBatch) -> Result<usize, Status> {
        match batch.remaining() {
            0 => self.cq.poll(batch),
            left => Ok(left),
        }
    }
}

impl Receiver {
    /// Takes everything there is, arms, and looks once more: a completion between the last look and the arming need not
    /// call again. Stops after `budget` completions with the CQ not armed; false then.
    fn take_all(&self, budget: usize) -> bool {
        let Some(inside) = upward::enter(&self.upward, By::Interrupt) else { return true };
        let finished = self.take_inside(&inside, budget);
        if inside.leave() {
            Backlog::leave(&self.backlog);
        }
        finished
    }

    fn take_inside(&self, inside: &Inside<'_>, budget: usize) -> bool {
        let (mut taken, mut armed) = (0, false);
        while inside.goes_on() {
            let Some(pass) = self.pass(&mut { usize::MAX }) else { return true };
            inside.hand_up(&self.mac, pass.packets);
            if pass.broken {
                self.broken(pass.serial);
                return true;
            }
            match (pass.taken, armed) {
                (0, true) => return true,
                (0, false) => armed = self.arm(),
                // Armed: what is taken now has been announced as well.
                _ => armed = false,
            }
            if pass.taken == 0 && !armed {
                return true;
            }
            taken += pass.taken;
            if taken >= budget && pass.taken != 0 {
                return false;
            }
        }
        true
    }
}

impl Receiver {
    /// Takes what there is, up to a budget. In a soft interrupt.
    pub(crate) fn interrupted(&self) {
        if !self.take_all(INTERRUPT_BUDGET) {
            self.counters.rx.left.increment();
            Backlog::leave(&self.backlog);
        }
    }
}

/// Whether the checksum the adapter verified is one that it looked at whole: IPv4 without options.
fn has_plain_ipv4_header(frame: &[u8]) -> bool {
    const VERSION_4_LENGTH_5: u8 = 0x45;
    let ethertype = frame.get(PSEUDO_HEADER_LEN - IPOIB_HEADER_LEN..).and_then(|rest| rest.first_chunk());
    ethertype.map(|bytes| EtherType(u16::from_be_bytes(*bytes))) == Some(EtherType::IPV4)
        && frame.get(PSEUDO_HEADER_LEN) == Some(&VERSION_4_LENGTH_5)
}
