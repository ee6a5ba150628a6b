//! Queue pairs.
//!
//! Two locks: what sends is held over a post, what receives over one datagram, and the former is never taken inside the latter. What
//! both need to know (state, port, keys, the other side) each has for itself; a change takes both. A queue pair that fails while it receives
//! fails on that side first, and a call of the soft interrupt's does the rest.

mod connection;
mod later;
mod message;
mod receive;
mod requester;

use core::sync::atomic::AtomicU32;

use ibtf_provider::{
    ClientQp, Completion, CompletionStatus, Opcode, QpChange, QpQuery, QpState, QueueSizes, ReceiveSide,
    Segment, SendSide, Status, UdAttributes,
};
use kernel::sync::Mutex;
use kernel::time::Instant;
use kernel::{AllocError, KArc};

use crate::alarm::Seat;
use crate::buffers::Buffers;
use crate::calls::Caller;
use crate::cq::Cq;
use crate::domain::Inside;
use crate::node::Node;
use crate::packet::Memory;
use crate::srq::Srq;
use crate::states;
use connection::Outgoing;
use later::owed;
pub(crate) use message::Message;
pub(crate) use requester::Attempt;

/// What a queue pair is made of.
pub(crate) struct Parts {
    pub(crate) node: KArc<Node>,
    pub(crate) number: u32,
    /// The port of a special one; those have it from the start, and the number 1 for everybody.
    pub(crate) special: Option<u8>,
    pub(crate) domain: Inside,
    /// Where its receives come from, if it has none of its own.
    pub(crate) srq: Option<KArc<Srq>>,
    /// Its place among those that may wait to be called.
    pub(crate) _caller: Caller,
    /// Of a connection: its place among those that may wait for a time.
    pub(crate) seat: Option<Seat>,
    pub(crate) sizes: QueueSizes,
    pub(crate) all_signaled: bool,
    pub(crate) large_sends: bool,
    pub(crate) reserved_key: bool,
    pub(crate) send_cq: KArc<Cq>,
    pub(crate) receive_cq: KArc<Cq>,
    pub(crate) client: KArc<ClientQp>,
}

/// A queue pair.
pub(crate) struct Qp {
    parts: Parts,
    sends: Mutex<Sends>,
    receives: Mutex<Receives>,
    /// What is to be done about it where nobody holds a lock: of [`later::owed`].
    owed: AtomicU32,
}

/// What both sides know.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    pub(crate) state: QpState,
    pub(crate) ud: UdAttributes,
    /// Of a connection.
    receive: ReceiveSide,
    send: SendSide,
}

/// The side that sends.
pub(crate) struct Sends {
    pub(crate) common: Common,
    outgoing: Outgoing,
}

struct Receives {
    common: Common,
    /// Number of the packet that is due on a connection.
    due_psn: u32,
    early: Early,
    /// Its owner has been told that it holds no receive of a shared queue, since it has failed.
    told_empty: bool,
    /// It has failed by itself, and its owner is to be told.
    untold: bool,
    /// Gone: nothing is to be put anywhere any more.
    freed: bool,
    /// None if they are shared.
    buffers: Buffers,
}

/// Messages of a connection that come before it can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Early {
    /// None yet.
    None,
    /// The first one came then.
    Since(Instant),
    /// Its owner was told of them, or did not have to be.
    Over,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Received,
    /// It is for no port at all: there is none to count it.
    Nobody,
    /// Nobody was there for it.
    Dropped,
    BadPkey,
    BadQkey,
    /// The sender's own memory cannot be read.
    SenderFault,
}

impl Qp {
    pub(crate) fn new(parts: Parts) -> Result<Self, AllocError> {
        let ud = UdAttributes { port: parts.special.unwrap_or(0), ..UdAttributes::default() };
        let (receive, send) = (ReceiveSide::default(), SendSide::default());
        let common = Common { state: QpState::Reset, ud, receive, send };
        let buffers = Buffers::new(parts.sizes.receive, parts.sizes.receive_segments)?;
        let outgoing = if parts.seat.is_some() {
            Outgoing::new(parts.sizes.send, parts.sizes.send_segments)?
        } else {
            Outgoing::new(0, 0)?
        };
        let receives = Receives {
            common,
            due_psn: 0,
            early: Early::None,
            told_empty: false,
            untold: false,
            freed: false,
            buffers,
        };
        let (sends, receives) = (Mutex::new(Sends { common, outgoing })?, Mutex::new(receives)?);
        Ok(Self { parts, sends, receives, owed: AtomicU32::new(0) })
    }

    /// Whether it is of a connection.
    pub(crate) fn is_connection(&self) -> bool {
        self.parts.seat.is_some()
    }

    /// Whether it is management's, of a port.
    pub(crate) fn is_special(&self) -> bool {
        self.parts.special.is_some()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The number that others know it by.
    pub(crate) fn wire_number(&self) -> u32 {
        if self.is_special() { 1 } else { self.parts.number }
    }

    /// Its port; 0 before it has one.
    pub(crate) fn port(&self) -> u8 {
        self.receives.lock().common.ud.port
    }

    pub(crate) fn ud(&self) -> UdAttributes {
        self.receives.lock().common.ud
    }

    /// All that can be asked of it.
    pub(crate) fn query(&self) -> QpQuery {
        let sends = self.sends.lock();
        let receives = self.receives.lock();
        let Common { state, ud, receive, send } = sends.now(&receives);
        let connection = self.is_connection().then(|| {
            let next = sends.outgoing.next_psn().unwrap_or(send.psn);
            (ReceiveSide { psn: receives.due_psn, ..receive }, SendSide { psn: next, ..send })
        });
        QpQuery { qpn: self.wire_number(), state, sizes: self.parts.sizes, ud, connection }
    }

    /// What a list of its means.
    pub(crate) fn memory<'a>(&'a self, segments: &'a [Segment]) -> Memory<'a> {
        self.memory_of(self.parts.domain.number(), segments)
    }

    fn memory_of<'a>(&'a self, pd: u32, segments: &'a [Segment]) -> Memory<'a> {
        let Parts { node, reserved_key: reserved, .. } = &self.parts;
        Memory { node, pd, reserved: *reserved, segments }
    }

    /// The side that sends, to be held over a post.
    pub(crate) fn sends(&self) -> kernel::sync::MutexGuard<'_, Sends> {
        self.sends.lock()
    }

    /// Moves it, or changes a key. `check` says whether a port and an index in its table are any.
    pub(crate) fn modify(
        this: &KArc<Self>,
        change: &QpChange,
        check: impl Fn(&UdAttributes) -> Result<(), Status>,
    ) -> Result<QueueSizes, Status> {
        let fails = this.change(change, check)?;
        // Whatever was coming in has come: that takes the lock that was held.
        if fails && this.parts.srq.is_some() {
            Self::owe(this, owed::EMPTY);
        }
        Ok(this.parts.sizes)
    }

    /// Whether it is in the error state now and was not.
    fn change(
        &self,
        change: &QpChange,
        check: impl Fn(&UdAttributes) -> Result<(), Status>,
    ) -> Result<bool, Status> {
        let mut sends = self.sends.lock();
        let mut receives = self.receives.lock();
        if receives.freed {
            return Err(Status::CHAN_HDL_INVALID);
        }
        let now = sends.now(&receives);
        let before = now.state;
        let next = self.next(&now, change)?;
        if next.state != QpState::Reset && next.state != QpState::Error {
            check(&next.ud)?;
        }
        sends.common = next;
        receives.common = next;
        match next.state {
            QpState::Error => {
                self.flush_sends(&mut sends);
                self.flush(&mut receives);
            }
            QpState::Reset => {
                self.forget_sends(&mut sends);
                receives.forget();
                self.parts.send_cq.forget(self.parts.number);
                self.parts.receive_cq.forget(self.parts.number);
            }
            QpState::ReadyToReceive if before != next.state => receives.start(),
            QpState::ReadyToSend if before != next.state => sends.start(),
            _ => {}
        }
        Ok(next.state == QpState::Error && before != QpState::Error)
    }

    /// What it would be after a change.
    fn next(&self, now: &Common, change: &QpChange) -> Result<Common, Status> {
        let mut next = *now;
        let kind = if self.is_connection() { states::Kind::Connection } else { states::Kind::Datagrams };
        next.state = states::next(kind, now.state, change)?;
        if let (Some(port), None) = (change.port, self.parts.special) {
            next.ud.port = port;
        }
        let from_reset = change.initial_pkey_index.filter(|_| now.state == QpState::Reset);
        let index = change.pkey_index.or(from_reset);
        next.ud.pkey_index = index.unwrap_or(next.ud.pkey_index);
        next.ud.qkey = change.qkey.unwrap_or(next.ud.qkey);
        next.receive = change.receive_side.unwrap_or(next.receive);
        next.receive.min_rnr = change.min_rnr.unwrap_or(next.receive.min_rnr);
        next.send = change.send_side.unwrap_or(next.send);
        if next.state == QpState::Reset {
            (next.receive, next.send) = (ReceiveSide::default(), SendSide::default());
        }
        Ok(next)
    }

    /// Gives all buffers back undone, in order.
    fn flush(&self, receives: &mut Receives) {
        while let Some((id, _)) = receives.buffers.first() {
            receives.buffers.advance();
            self.complete_receive(id, CompletionStatus::Flushed);
        }
    }

    fn complete_receive(&self, id: u64, status: CompletionStatus) {
        let completion = Completion::of(id, Opcode::Receive, status, self.parts.number);
        Cq::complete(&self.parts.receive_cq, completion);
    }

    /// A completion of a send, if one is due.
    pub(crate) fn complete_send(&self, id: u64, opcode: Opcode, signaled: bool, status: CompletionStatus) {
        if signaled || self.parts.all_signaled || status != CompletionStatus::Success {
            let completion = Completion::of(id, opcode, status, self.parts.number);
            Cq::complete(&self.parts.send_cq, completion);
        }
    }

    /// Its completions go to these CQs from now on, and its receives come from that queue.
    pub(crate) fn enter_queues(this: &KArc<Self>) -> Result<(), Status> {
        let Parts { send_cq, receive_cq, srq, .. } = &this.parts;
        send_cq.add_user(this)?;
        receive_cq.add_user(this).inspect_err(|_| send_cq.remove_user(this))?;
        if let Some(srq) = srq {
            srq.hold();
        }
        Ok(())
    }

    /// And no more; it is in no protection domain either.
    pub(crate) fn leave_queues(&self) {
        self.parts.domain.leave();
        self.parts.send_cq.remove_user(self);
        self.parts.receive_cq.remove_user(self);
        if let Some(srq) = &self.parts.srq {
            srq.release();
        }
    }

    /// Whether it has anything to lose by failing.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.receives.lock().common.state, QpState::Reset | QpState::Error)
    }

    /// Puts it into the error state, as if by itself. In none of the operations.
    pub(crate) fn fail(&self) {
        let mut sends = self.sends.lock();
        sends.common.state = QpState::Error;
        self.flush_sends(&mut sends);
        let mut receives = self.receives.lock();
        receives.common.state = QpState::Error;
        self.flush(&mut receives);
        drop(receives);
        drop(sends);
        self.parts.client.raise_catastrophe();
        if self.parts.srq.is_some() {
            self.say_empty();
        }
    }

    /// Its CQs fail, each once, though no completion was lost. In none of the operations.
    pub(crate) fn fail_cqs(&self) {
        let Parts { send_cq, receive_cq, .. } = &self.parts;
        send_cq.fail();
        if !KArc::ptr_eq(send_cq, receive_cq) {
            receive_cq.fail();
        }
    }

    /// Nothing is put anywhere after this. It may be kept for its number: its queues are not.
    pub(crate) fn free(&self) {
        let mut sends = self.sends.lock();
        sends.common.state = QpState::Reset;
        self.forget_sends(&mut sends);
        let mut receives = self.receives.lock();
        receives.freed = true;
        receives.common.state = QpState::Reset;
        receives.forget();
        self.parts.send_cq.forget(self.parts.number);
        self.parts.receive_cq.forget(self.parts.number);
        let buffers = core::mem::replace(&mut receives.buffers, Buffers::none());
        let queue = sends.outgoing.take_queue();
        drop(receives);
        drop(sends);
        drop((buffers, queue));
        self.leave_queues();
    }
}

impl Sends {
    /// What both sides together are: a failed send is known on this side only, and who fails at a message may do so on the other one first.
    fn now(&self, receives: &Receives) -> Common {
        match receives.common.state {
            QpState::Error => Common { state: QpState::Error, ..self.common },
            _ => self.common,
        }
    }
}

impl Receives {
    /// It can receive from now on.
    fn start(&mut self) {
        self.due_psn = self.common.receive.psn & requester::PSN_MASK;
        self.early = Early::None;
    }

    fn forget(&mut self) {
        self.buffers.clear();
        (self.due_psn, self.early, self.told_empty, self.untold) = (0, Early::None, false, false);
    }
}
