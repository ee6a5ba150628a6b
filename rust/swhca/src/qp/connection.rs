//! Reliable connections: messages go as a whole from the sender's memory into the receiver's buffer, in the middle of the post, or of
//! the clock's thread for one that had to wait.
//!
//! Both ends are in one machine, so nothing is cut. What both see is as if it were: packets of the path's MTU are counted, numbered and
//! lost, the other side acknowledges, has no receive, says nothing; and a message comes in order and once.

use ibtf_provider::{Completion, CompletionStatus, Opcode, QpState, SendRequest, Status};
use kernel::time::{Duration, Instant};
use kernel::{AllocError, KArc};

use super::message::{Message, Turn};
use super::requester::{Attempt, Next, PSN_MASK, Requester};
use super::{Common, Delivery, Early, Qp, Receives, Sends, owed};
use crate::buffers::Buffers;
use crate::cq::Cq;
use crate::packet::{GRH_LEN, Payload};
use crate::rate;
use crate::sa::may_talk;

/// Bytes of the longest message.
const MAX_MESSAGE: u32 = 1 << 31;
/// How long a connection that has received may be unable to send before `ibcm` is told: what makes it able may be on its way.
const GRACE: Duration = Duration::from_millis(100);

/// A send, without its list.
#[derive(Clone, Copy, Default)]
pub(super) struct Posted {
    id: u64,
    immediate: Option<u32>,
    solicited: bool,
    signaled: bool,
}

/// What a connection is to send.
pub(super) struct Outgoing {
    queue: Buffers<Posted>,
    requester: Option<Requester>,
    /// The first one has been sent, and what of it did not come is to be sent again.
    again: bool,
    /// The first one waits.
    waits: bool,
    /// Until then, if it is not for ever.
    until: Option<Instant>,
}

impl Outgoing {
    pub(super) fn new(sends: u32, segments: u32) -> Result<Self, AllocError> {
        let queue = Buffers::new(sends, segments)?;
        Ok(Self { queue, requester: None, again: false, waits: false, until: None })
    }

    /// Takes the queue away from a queue pair that goes: to be dropped without a lock.
    pub(super) fn take_queue(&mut self) -> Buffers<Posted> {
        core::mem::replace(&mut self.queue, Buffers::none())
    }

    /// Number of the next packet; `None` before it can send.
    pub(super) fn next_psn(&self) -> Option<u32> {
        self.requester.map(|requester| requester.psn())
    }
}

impl Sends {
    /// It can send from now on.
    pub(super) fn start(&mut self) {
        self.outgoing.requester = Some(Requester::start(&self.common.send));
    }
}

impl Qp {
    /// Takes messages, in order, and sends what it can.
    pub(crate) fn post_messages<'a>(
        this: &KArc<Self>,
        requests: &mut dyn Iterator<Item = SendRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        // Until after the lock is gone.
        let _posting = this.parts.node.posting();
        let mut sends = this.sends.lock();
        let mut taken = 0;
        for request in requests {
            if let Err(status) = this.post_message(&mut sends, request) {
                return (taken, Err(status));
            }
            taken += 1;
            Self::advance(this, &mut sends);
        }
        (taken, Ok(()))
    }

    fn post_message(&self, sends: &mut Sends, request: SendRequest<'_>) -> Result<(), Status> {
        use QpState::{Error, Init, ReadyToReceive, Reset, SendError};
        if matches!(sends.common.state, Reset | Init | ReadyToReceive) {
            return Err(Status::CHAN_STATE_INVALID);
        }
        if !request.is_message() {
            return Err(Status::CHAN_OP_TYPE_INVALID);
        }
        let posted = Posted {
            id: request.id(),
            immediate: request.immediate(),
            solicited: request.is_solicited(),
            signaled: request.is_signaled(),
        };
        if matches!(sends.common.state, Error | SendError) {
            self.complete_send(posted.id, Opcode::Send, posted.signaled, CompletionStatus::Flushed);
            return Ok(());
        }
        sends.outgoing.queue.push(posted, request.segments())
    }

    /// Sends what is posted, in order, until something has to wait, or the turn is over.
    fn advance(this: &KArc<Self>, sends: &mut Sends) {
        let counters = &this.parts.node.counters;
        let mut turn = Turn::WHOLE;
        while sends.common.state == QpState::ReadyToSend && !sends.outgoing.waits {
            let Sends { common, outgoing } = sends;
            let (Some((posted, _)), Some(mut requester)) = (outgoing.queue.first(), outgoing.requester)
            else {
                return;
            };
            let message = this.message(common, &requester, &posted, outgoing.queue.first_segments());
            let attempt = match requester.failure() {
                Some(status) => Attempt::Refused(status),
                None => {
                    if core::mem::take(&mut outgoing.again) {
                        counters.messages_again.increment();
                    }
                    this.attempt(common, outgoing, &message)
                }
            };
            let next = requester.judge(attempt, message.packets);
            outgoing.requester = Some(requester);
            match next {
                Next::Done => {
                    outgoing.queue.advance();
                    counters.messages.increment();
                    counters.message_bytes.add(message.len.into());
                    this.complete_send(posted.id, Opcode::Send, posted.signaled, CompletionStatus::Success);
                    turn = turn.after(message.len);
                    if turn.is_over() && outgoing.queue.first().is_some() {
                        // The clock comes back to it once it has served the others.
                        Self::wait(this, outgoing, Some(Duration::from_nanos(0)));
                    }
                }
                Next::Again => outgoing.again = true,
                Next::Wait(time) => {
                    match attempt {
                        Attempt::NotReady(_) => counters.receiver_waits.increment(),
                        _ => outgoing.again = true,
                    }
                    Self::wait(this, outgoing, time);
                }
                Next::Failed(status) => {
                    outgoing.queue.advance();
                    this.complete_send(posted.id, Opcode::Send, posted.signaled, status);
                    Self::fail_at_a_send(this, sends);
                }
            }
        }
    }

    fn wait(this: &KArc<Self>, outgoing: &mut Outgoing, time: Option<Duration>) {
        outgoing.waits = true;
        outgoing.until = time.map(|time| Instant::now() + time);
        if let (Some(seat), Some(until)) = (&this.parts.seat, outgoing.until) {
            seat.set(this, until);
        }
    }

    fn message(
        &self,
        common: &Common,
        requester: &Requester,
        posted: &Posted,
        segments: &[ibtf_provider::Segment],
    ) -> Message {
        let len = segments.iter().fold(0u32, |len, segment| len.saturating_add(segment.len));
        let mtu = rate::mtu_bytes(common.receive.path_mtu).max(rate::mtu_bytes(1));
        let route = if common.receive.vector.send_grh { GRH_LEN } else { 0 };
        Message {
            source_lid: 0,
            source_qpn: self.parts.number,
            pkey: 0,
            sl: common.receive.vector.sl,
            immediate: posted.immediate,
            solicited: posted.solicited,
            len,
            psn: requester.psn(),
            packets: len.div_ceil(mtu).max(1),
            mtu,
            come: requester.come(),
            head: 8 + route + 12 + 4,
        }
    }

    /// Sends the first one that is posted, once.
    fn attempt(&self, common: &Common, outgoing: &Outgoing, message: &Message) -> Attempt {
        let (node, number) = (&self.parts.node, common.ud.port);
        let memory = self.memory(outgoing.queue.first_segments());
        if message.len > MAX_MESSAGE {
            return Attempt::Refused(CompletionStatus::LocalLength);
        }
        if !memory.is_valid() {
            return Attempt::Refused(CompletionStatus::LocalProtection);
        }
        let port = node.with_port(number, |port| port.departure(common.ud.pkey_index));
        let Some(port) = port.filter(|port| port.active && port.pkey & 0x7fff != 0) else {
            if let Some(traffic) = node.traffic(number) {
                traffic.discards();
            }
            return Attempt::Silence(message.come);
        };
        let message = Message { source_lid: port.lid, pkey: port.pkey, ..*message };
        let to = (common.receive.vector.dlid, common.receive.peer);
        node.subnet.message((node, number), to, &message, &Payload::Client(memory))
    }

    /// The clock comes back to it. In none of the operations.
    pub(crate) fn ring(this: &KArc<Self>) {
        let posting = this.parts.node.posting();
        let mut sends = this.sends.lock();
        if sends.outgoing.waits
            && let (Some(until), Some(seat)) = (sends.outgoing.until, &this.parts.seat)
        {
            if until <= Instant::now() {
                sends.outgoing.waits = false;
                Self::advance(this, &mut sends);
            } else {
                seat.set(this, until);
            }
        }
        drop(sends);
        drop(posting);
        if this.is_overdue() {
            this.parts.client.raise_established();
        }
    }

    /// Whether it has received and cannot send, and `ibcm` is to be told: once for each time that it is connected.
    fn is_overdue(&self) -> bool {
        let mut receives = self.receives.lock();
        let Early::Since(first) = receives.early else { return false };
        let overdue = first + GRACE <= Instant::now();
        if overdue {
            receives.early = Early::Over;
        }
        overdue && receives.common.state == QpState::ReadyToReceive
    }

    /// Puts a message that has come to a port into the first buffer.
    pub(crate) fn receive_message(
        this: &KArc<Self>,
        number: u8,
        message: &Message,
        payload: &Payload<'_>,
    ) -> Attempt {
        let node = &this.parts.node;
        let mut receives = this.receives.lock();
        if let Some(answer) = this.place(&receives, number, message) {
            return answer;
        }
        let filled = match &this.parts.srq {
            None => this.fill_own(&mut receives.buffers, None, payload),
            Some(srq) => this.fill_shared(srq, None, payload),
        };
        let (id, status) = match filled {
            Ok(filled) => filled,
            Err(Delivery::SenderFault) => return Attempt::Refused(CompletionStatus::LocalProtection),
            Err(_) => return Attempt::NotReady(receives.common.receive.min_rnr),
        };
        this.complete_message(&receives, id, status, message);
        let refused = match status {
            CompletionStatus::Success => None,
            CompletionStatus::LocalLength => Some(CompletionStatus::RemoteInvalidRequest),
            _ => Some(CompletionStatus::RemoteOperation),
        };
        if let Some(status) = refused {
            Self::fail_at_a_receive(this, &mut receives);
            return Attempt::Refused(status);
        }
        receives.due_psn = receives.due_psn.wrapping_add(message.packets) & PSN_MASK;
        node.counters.messages_received.increment();
        if receives.common.state == QpState::ReadyToReceive && receives.early == Early::None {
            let now = Instant::now();
            receives.early = Early::Since(now);
            if let Some(seat) = &this.parts.seat {
                seat.set(this, now + GRACE);
            }
        }
        Attempt::Acknowledged
    }

    /// What is answered to a message that is not the next one of this connection, on that port.
    fn place(&self, receives: &Receives, number: u8, message: &Message) -> Option<Attempt> {
        let (node, nothing) = (&self.parts.node, Some(Attempt::Silence(message.come)));
        let Common { state, ud, receive, .. } = &receives.common;
        let receives_any = matches!(state, QpState::ReadyToReceive | QpState::ReadyToSend);
        let from = (message.source_qpn, message.source_lid);
        if receives.freed
            || !self.is_connection()
            || !receives_any
            || ud.port != number
            || from != (receive.peer, receive.vector.dlid)
        {
            node.counters.dropped.increment();
            return nothing;
        }
        let own = node.with_port(number, |port| port.pkeys.get(usize::from(ud.pkey_index)).copied());
        if !own.flatten().is_some_and(|own| may_talk(own, message.pkey)) {
            node.counters.pkey_violations.increment();
            node.with_port(number, |port| port.pkey_violations += 1);
            return nothing;
        }
        match message.psn.wrapping_sub(receives.due_psn) & PSN_MASK {
            0 => None,
            // It has been here, and what was said of that was lost.
            ahead if ahead > PSN_MASK / 2 => Some(Attempt::Acknowledged),
            _ => nothing,
        }
    }

    fn complete_message(&self, receives: &Receives, id: u64, status: CompletionStatus, message: &Message) {
        let completion = Completion {
            bytes: message.len,
            immediate: message.immediate,
            source_qpn: message.source_qpn,
            source_lid: message.source_lid,
            sl: message.sl,
            pkey_index: receives.common.ud.pkey_index,
            solicited: message.solicited,
            ..Completion::of(id, Opcode::Receive, status, self.parts.number)
        };
        Cq::complete(&self.parts.receive_cq, completion);
    }

    /// A send has failed, and with it the queue pair.
    fn fail_at_a_send(this: &KArc<Self>, sends: &mut Sends) {
        this.parts.node.counters.failed_connections.increment();
        sends.common.state = QpState::Error;
        this.flush_sends(sends);
        let mut receives = this.receives.lock();
        receives.common.state = QpState::Error;
        this.flush(&mut receives);
        drop(receives);
        if this.parts.srq.is_some() {
            Self::owe(this, owed::EMPTY);
        }
    }

    /// A message did not fit. The sender's locks are held, so the other side of this queue pair follows later.
    fn fail_at_a_receive(this: &KArc<Self>, receives: &mut Receives) {
        this.parts.node.counters.failed_connections.increment();
        receives.common.state = QpState::Error;
        this.flush(receives);
        let empty = if this.parts.srq.is_some() { owed::EMPTY } else { 0 };
        Self::owe(this, owed::FAILURE | empty);
    }

    /// Gives all sends back undone, in order.
    pub(super) fn flush_sends(&self, sends: &mut Sends) {
        while let Some((posted, _)) = sends.outgoing.queue.first() {
            sends.outgoing.queue.advance();
            self.complete_send(posted.id, Opcode::Send, posted.signaled, CompletionStatus::Flushed);
        }
        self.forget_sends(sends);
    }

    /// Nothing is to be sent any more.
    pub(super) fn forget_sends(&self, sends: &mut Sends) {
        sends.outgoing.queue.clear();
        (sends.outgoing.requester, sends.outgoing.again, sends.outgoing.waits) = (None, false, false);
        if let Some(seat) = &self.parts.seat {
            seat.cancel(self);
        }
    }
}
