//! Queue pairs.
//!
//! Two locks: what sends is held over a post, what receives over one datagram, and the former is never taken inside the latter. What
//! both need to know (state, port, keys) each has for itself; a change takes both.

use ibtf_provider::{
    ClientQp, Completion, CompletionStatus, Opcode, QpChange, QpState, QueueSizes, ReceiveRequest, Segment,
    Status, UdAttributes,
};
use kernel::sync::Mutex;
use kernel::{AllocError, KArc, KVec};

use crate::cq::Cq;
use crate::node::Node;
use crate::packet::{Buffer, Fault, GRH_LEN, Header, Memory, Payload};
use crate::port::Port;
use crate::sa::may_talk;
use crate::states;

/// What a queue pair is made of.
pub(crate) struct Parts {
    pub(crate) node: KArc<Node>,
    pub(crate) number: u32,
    /// The port of a special one; those have it from the start, and the number 1 for everybody.
    pub(crate) special: Option<u8>,
    pub(crate) pd: u32,
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
    sends: Mutex<Common>,
    receives: Mutex<Receives>,
}

/// What both sides know.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    pub(crate) state: QpState,
    pub(crate) ud: UdAttributes,
}

struct Receives {
    common: Common,
    /// Gone: nothing is to be put anywhere any more.
    freed: bool,
    buffers: Buffers,
}

/// Posted receives, in order.
struct Buffers {
    requests: KVec<(u64, u32)>,
    segments: KVec<Segment>,
    per_request: usize,
    head: usize,
    count: usize,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Received,
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
        let common = Common { state: QpState::Reset, ud };
        let buffers = Buffers::new(parts.sizes.receive, parts.sizes.receive_segments)?;
        let receives = Receives { common, freed: false, buffers };
        Ok(Self { parts, sends: Mutex::new(common)?, receives: Mutex::new(receives)? })
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The number that others know it by.
    pub(crate) fn wire_number(&self) -> u32 {
        if self.parts.special.is_some() { 1 } else { self.parts.number }
    }

    /// Its port; 0 before it has one.
    pub(crate) fn port(&self) -> u8 {
        self.receives.lock().common.ud.port
    }

    pub(crate) fn common(&self) -> Common {
        *self.sends.lock()
    }

    /// What a list of its means.
    pub(crate) fn memory<'a>(&'a self, segments: &'a [Segment]) -> Memory<'a> {
        let Parts { node, pd, reserved_key: reserved, .. } = &self.parts;
        Memory { node, pd: *pd, reserved: *reserved, segments }
    }

    /// The side that sends, to be held over a post.
    pub(crate) fn sends(&self) -> kernel::sync::MutexGuard<'_, Common> {
        self.sends.lock()
    }

    /// Moves it, or changes a key. `check` says whether a port and an index in its table are any.
    pub(crate) fn modify(
        &self,
        change: &QpChange,
        check: impl Fn(&UdAttributes) -> Result<(), Status>,
    ) -> Result<QueueSizes, Status> {
        let mut sends = self.sends.lock();
        let mut next = *sends;
        next.state = states::next(sends.state, change)?;
        if let (Some(port), None) = (change.port, self.parts.special) {
            next.ud.port = port;
        }
        next.ud.pkey_index = change.pkey_index.unwrap_or(next.ud.pkey_index);
        next.ud.qkey = change.qkey.unwrap_or(next.ud.qkey);
        if next.state != QpState::Reset && next.state != QpState::Error {
            check(&next.ud)?;
        }
        *sends = next;
        let mut receives = self.receives.lock();
        receives.common = next;
        match next.state {
            QpState::Error => self.flush(&mut receives),
            QpState::Reset => {
                receives.buffers.clear();
                self.parts.send_cq.forget(self.parts.number);
                self.parts.receive_cq.forget(self.parts.number);
            }
            _ => {}
        }
        Ok(self.parts.sizes)
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

    /// Its completions go to these CQs from now on.
    pub(crate) fn enter_cqs(this: &KArc<Self>) -> Result<(), AllocError> {
        let Parts { send_cq, receive_cq, .. } = &this.parts;
        send_cq.add_user(this)?;
        receive_cq.add_user(this).inspect_err(|_| send_cq.remove_user(this))
    }

    /// And no more.
    pub(crate) fn leave_cqs(&self) {
        self.parts.send_cq.remove_user(self);
        self.parts.receive_cq.remove_user(self);
    }

    /// Whether it has anything to lose by failing.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.receives.lock().common.state, QpState::Reset | QpState::Error)
    }

    /// Puts it into the error state, as if by itself. In none of the operations.
    pub(crate) fn fail(&self) {
        let mut sends = self.sends.lock();
        sends.state = QpState::Error;
        let mut receives = self.receives.lock();
        receives.common.state = QpState::Error;
        self.flush(&mut receives);
        drop(receives);
        drop(sends);
        self.parts.client.raise_catastrophe();
    }

    /// Nothing is put anywhere after this.
    pub(crate) fn free(&self) {
        let mut sends = self.sends.lock();
        sends.state = QpState::Reset;
        let mut receives = self.receives.lock();
        receives.freed = true;
        receives.common.state = QpState::Reset;
        receives.buffers.clear();
        self.parts.send_cq.forget(self.parts.number);
        self.parts.receive_cq.forget(self.parts.number);
        drop(receives);
        drop(sends);
        self.leave_cqs();
    }

    pub(crate) fn post_receives<'a>(
        &self,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        let mut receives = self.receives.lock();
        let mut taken = 0;
        for request in requests {
            if receives.freed || receives.common.state == QpState::Reset {
                return (taken, Err(Status::CHAN_STATE_INVALID));
            }
            if receives.common.state == QpState::Error {
                self.complete_receive(request.id(), CompletionStatus::Flushed);
            } else if let Err(status) = receives.buffers.push(request) {
                return (taken, Err(status));
            }
            taken += 1;
        }
        (taken, Ok(()))
    }

    /// Puts a datagram into the first buffer.
    pub(crate) fn receive(&self, header: &Header, payload: &Payload<'_>) -> Delivery {
        let mut receives = self.receives.lock();
        let Common { state, ud } = receives.common;
        use QpState::{ReadyToReceive, ReadyToSend, SendError};
        if receives.freed || !matches!(state, ReadyToReceive | ReadyToSend | SendError) {
            return Delivery::Dropped;
        }
        let own = |port: &mut Port| self.pkey_index(header.pkey, ud.pkey_index, &port.pkeys);
        let Some(pkey_index) = self.parts.node.with_port(ud.port, own).flatten() else {
            return Delivery::BadPkey;
        };
        if header.qkey != ud.qkey {
            return Delivery::BadQkey;
        }
        let Some((id, _)) = receives.buffers.first() else { return Delivery::Dropped };
        let memory = self.memory(receives.buffers.first_segments());
        let status = match fill(&mut Buffer::new(memory), header, payload) {
            Ok(()) => CompletionStatus::Success,
            Err(Fault::Sender) => return Delivery::SenderFault,
            Err(Fault::Receiver) => CompletionStatus::LocalProtection,
            Err(Fault::TooLong) => CompletionStatus::LocalLength,
        };
        receives.buffers.advance();
        let completion = Completion {
            bytes: header.len + GRH_LEN,
            grh: header.grh.is_some(),
            immediate: header.immediate,
            source_qpn: header.source_qpn,
            source_lid: header.source_lid,
            sl: header.sl,
            pkey_index,
            solicited: header.solicited,
            checksums: header.checksums,
            ..Completion::of(id, Opcode::Receive, status, self.parts.number)
        };
        Cq::complete(&self.parts.receive_cq, completion);
        Delivery::Received
    }

    /// Where in the table the P_Key of a datagram is: a special queue pair takes any of the port's, others their own.
    fn pkey_index(&self, pkey: u16, own: u16, pkeys: &[u16]) -> Option<u16> {
        if self.parts.special.is_none() {
            return pkeys.get(usize::from(own)).filter(|mine| may_talk(**mine, pkey)).map(|_| own);
        }
        pkeys.iter().position(|mine| may_talk(*mine, pkey)).and_then(|index| u16::try_from(index).ok())
    }
}

/// The 40 bytes of the global route, which are left as they are without one, and the payload.
fn fill(buffer: &mut Buffer<'_>, header: &Header, payload: &Payload<'_>) -> Result<(), Fault> {
    match &header.grh {
        Some(grh) => buffer.write(&grh.bytes(header.len))?,
        None => buffer.skip(GRH_LEN)?,
    }
    buffer.copy(payload)
}

impl Buffers {
    fn new(requests: u32, segments: u32) -> Result<Self, AllocError> {
        let (requests, per_request) = (requests as usize, segments as usize);
        Ok(Self {
            requests: KVec::from_fn(requests, |_| (0, 0))?,
            segments: KVec::from_fn(requests * per_request, |_| Segment::default())?,
            per_request,
            head: 0,
            count: 0,
        })
    }

    fn push(&mut self, request: ReceiveRequest<'_>) -> Result<(), Status> {
        let segments = request.segments();
        if segments.len() > self.per_request {
            return Err(Status::CHAN_SGL_LEN_INVALID);
        }
        if self.count == self.requests.len() {
            return Err(Status::CHAN_FULL);
        }
        let at = (self.head + self.count) % self.requests.len();
        if let Some(place) = self.requests.get_mut(at) {
            *place = (request.id(), segments.len() as u32);
        }
        let places = self.segments.iter_mut().skip(at * self.per_request);
        for (to, from) in places.zip(segments) {
            *to = *from;
        }
        self.count += 1;
        Ok(())
    }

    fn first(&self) -> Option<(u64, u32)> {
        if self.count == 0 { None } else { self.requests.get(self.head).copied() }
    }

    fn first_segments(&self) -> &[Segment] {
        let count = self.first().map_or(0, |(_, count)| count as usize);
        let from = self.head * self.per_request;
        self.segments.get(from..from + count).unwrap_or_default()
    }

    fn advance(&mut self) {
        if self.count != 0 {
            self.head = (self.head + 1) % self.requests.len();
            self.count -= 1;
        }
    }

    fn clear(&mut self) {
        self.count = 0;
    }
}
