//! From the receive CQ to the MAC layer.

use gldv3::Mac;
use ibtf::{
    Buffer, Completion, CompletionBatch, CompletionStatus, Cq, CqHandler, Notify, ReceiveQueue, Received,
};
use ipoib::header::{self, IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN};
use ipoib::neighbours::{self, Direction};
use ipoib::{EtherType, LinkAddr, Qpn, nd};
use kernel::mblk::{Mblk, MblkChain, Offload};
use kernel::sync::{Monitor, Mutex};
use kernel::{AllocError, KArc};

use super::backlog::Backlog;
use super::control::Control;
use super::upward::{self, Inside, Upward};
use crate::counters::{Counters, RxDrop};
use crate::now;

/// Completions taken, and packets handed up, at once.
const BUDGET: usize = 32;
/// Completions that one interrupt takes before a thread goes on ([`super::backlog`]).
pub(crate) const INTERRUPT_BUDGET: usize = 8 * BUDGET;
/// Frames up to this length are copied, so that the buffer stays where it is.
const COPY_UP_TO: u32 = 256;

/// The receive side of one queue pair: opened at most once, closed once.
///
/// It is the handler of the receive CQ and, while open, owns the CQ: the circle is cut by [`Receiver::close`].
pub(crate) struct Receiver {
    state: Mutex<State>,
    mac: Mac,
    counters: KArc<Counters>,
    control: KArc<Monitor<Control>>,
    backlog: KArc<Monitor<Backlog>>,
    upward: KArc<Monitor<Upward>>,
}

struct State {
    side: Side,
    batch: CompletionBatch,
    /// The CQ is not armed: an interrupt has left the rest to the thread.
    left: bool,
}

enum Side {
    New,
    Open(Open),
    Closed,
}

struct Open {
    queue: ReceiveQueue,
    cq: Cq,
    own: LinkAddr,
}

impl Receiver {
    pub(crate) fn new(
        mac: Mac,
        counters: KArc<Counters>,
        control: KArc<Monitor<Control>>,
        backlog: KArc<Monitor<Backlog>>,
        upward: KArc<Monitor<Upward>>,
    ) -> Result<KArc<Self>, AllocError> {
        let batch = CompletionBatch::new(BUDGET)?;
        let state = State { side: Side::New, batch, left: false };
        KArc::new(Self { state: Mutex::new(state)?, mac, counters, control, backlog, upward })
    }

    /// Takes what an interrupt has left, if it has. On the backlog's thread.
    pub(crate) fn go_on(&self) {
        let left = core::mem::take(&mut self.state.lock().left);
        if left {
            self.take_all(usize::MAX);
        }
    }

    /// Gives the adapter its buffers and arms the CQ. Does nothing if it was closed meanwhile.
    pub(crate) fn open(&self, queue: ReceiveQueue, cq: Cq, own: LinkAddr) {
        let mut state = self.state.lock();
        if matches!(state.side, Side::Closed) {
            drop(state);
            return;
        }
        let filled = queue.refill();
        let armed = cq.arm(Notify::Any);
        state.side = Side::Open(Open { queue, cq, own });
        drop(state);
        if filled.is_err() || armed.is_err() {
            self.broken();
        }
    }

    /// Ends it: what comes in from now on is not taken.
    pub(crate) fn close(&self) {
        let side = core::mem::replace(&mut self.state.lock().side, Side::Closed);
        drop(side);
    }

    fn broken(&self) {
        super::tell_broken(&self.control);
    }

    /// One pass: up to [`BUDGET`] completions. `None` if the receive side is not open, or the link is stopped.
    fn pass(&self) -> Option<Pass<'_>> {
        let inside = upward::enter(&self.upward)?;
        let mut state = self.state.lock();
        let State { side: Side::Open(open), batch, .. } = &mut *state else { return None };
        let polled = open.cq.poll(batch);
        let mut pass = Pass { packets: MblkChain::new(), polled: 0, broken: polled.is_err(), inside };
        pass.polled = polled.unwrap_or(0);
        for completion in batch.by_ref() {
            self.take(open, completion, &mut pass);
        }
        if pass.polled != 0 && !pass.broken {
            // What cannot be posted now is posted with the next completion, if there will be one.
            pass.broken = open.queue.refill().is_err() && open.queue.posted() == 0;
        }
        Some(pass)
    }

    fn take(&self, open: &Open, completion: Completion, pass: &mut Pass<'_>) {
        let Some(received) = open.queue.complete(completion) else { return };
        if !received.status.is_success() {
            // Flushed: the queue pair is in error and every buffer would come back the same way. Not posted again.
            pass.broken |= received.status == CompletionStatus::FLUSHED;
            if received.status != CompletionStatus::FLUSHED {
                self.counters.rx.dropped(RxDrop::Completion);
            }
            return;
        }
        match self.packet(open, received) {
            Ok(packet) => pass.packets.push_back(packet),
            Err(reason) => self.counters.rx.dropped(reason),
        }
    }

    /// Makes the packet for the MAC layer out of a frame. A buffer that is not lent goes home and is posted again.
    fn packet(&self, open: &Open, mut received: Received) -> Result<Mblk, RxDrop> {
        let sender = Qpn::from_low_bits(received.source_qpn);
        let buffer = &mut received.buffer;
        let frame = header::receive(buffer.bytes_mut(), received.has_grh, sender, &open.own)?;
        if frame.ethertype == EtherType::IPV6 {
            nd::pad_for_ip(buffer.bytes_mut().get_mut(PSEUDO_HEADER_LEN..).unwrap_or_default());
        }
        self.learn(frame.ethertype, buffer.bytes().get(PSEUDO_HEADER_LEN..).unwrap_or_default());
        let len = buffer.len();
        let verified = received.checksum_ok && has_plain_ipv4_header(buffer.bytes());
        let lend = len > COPY_UP_TO && open.queue.may_lend();
        let mut packet = self.message(received.buffer, lend)?;
        if verified {
            packet.set_offload(Offload::VERIFIED);
        }
        self.counters.rx.received(frame.cast, len as usize);
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

    fn message(&self, buffer: Buffer, lend: bool) -> Result<Mblk, RxDrop> {
        let buffer = match if lend { buffer.lend(0) } else { Err(buffer) } {
            Ok(packet) => {
                self.counters.rx.lent.increment();
                return Ok(packet);
            }
            Err(buffer) => buffer,
        };
        let packet = Mblk::from_bytes(0, buffer.bytes()).map_err(|_| RxDrop::NoMemory)?;
        self.counters.rx.copied.increment();
        Ok(packet)
    }

    /// Arms the CQ; `false` if that failed, and then nobody would call again, or if the receive side is not open.
    fn arm(&self) -> bool {
        let state = self.state.lock();
        let Side::Open(open) = &state.side else { return false };
        let armed = open.cq.arm(Notify::Any).is_ok();
        drop(state);
        if !armed {
            self.broken();
        }
        armed
    }
}

struct Pass<'a> {
    packets: MblkChain,
    polled: usize,
    broken: bool,
    inside: Inside<'a>,
}

impl Receiver {
    /// Takes everything there is, arms, and looks once more: a completion between the last look and the arming need not
    /// call again. Stops after `budget` completions with the CQ not armed; false then.
    fn take_all(&self, budget: usize) -> bool {
        let (mut taken, mut armed) = (0, false);
        while let Some(pass) = self.pass() {
            let Pass { packets, polled, broken, inside } = pass;
            if !packets.is_empty() {
                self.mac.receive(packets);
            }
            drop(inside);
            if broken {
                self.broken();
                return true;
            }
            match (polled, armed) {
                (0, true) => return true,
                (0, false) => armed = self.arm(),
                // Armed: what is taken now has been announced as well.
                _ => armed = false,
            }
            if polled == 0 && !armed {
                return true;
            }
            taken += polled;
            if taken >= budget && polled != 0 {
                return false;
            }
        }
        true
    }
}

impl CqHandler for Receiver {
    fn completion(&self) {
        if !self.take_all(INTERRUPT_BUDGET) {
            self.counters.rx.left.increment();
            self.state.lock().left = true;
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
