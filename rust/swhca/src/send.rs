//! Sending: from a client's memory straight into the receivers', in the middle of the post.

use ibtf_provider::{AddressVector, CompletionStatus, LargeSend, Opcode, QpState, SendRequest, Status};
use kernel::KArc;

use crate::attributes::MAX_LARGE_SEND;
use crate::mad;
use crate::node::Node;
use crate::offload::{self, Large, Layout, Sum};
use crate::packet::{Grh, Header, Memory, Payload};
use crate::port::{Departure, mtu_bytes};
use crate::qp::{Common, Delivery, Qp};
use crate::trouble::Does;

/// The first LID of a group.
pub(crate) const FIRST_MLID: u16 = 0xc000;
/// In a Q_Key: the queue pair's own is meant.
const OWN_QKEY: u32 = 1 << 31;

/// Sends, in order: the queue pair's side that sends is held meanwhile, so that completions are in order, too.
pub(crate) fn post<'a>(
    node: &Node,
    qp: &Qp,
    requests: &mut dyn Iterator<Item = SendRequest<'a>>,
) -> (u32, Result<(), Status>) {
    // Until after the lock is gone.
    let _posting = node.posting();
    let mut sends = qp.sends();
    let side = &mut sends.common;
    let mut taken = 0;
    for request in requests {
        if matches!(side.state, QpState::Reset | QpState::Init | QpState::ReadyToReceive) {
            return (taken, Err(Status::CHAN_STATE_INVALID));
        }
        if request.segments().len() > qp.parts().sizes.send_segments as usize {
            return (taken, Err(Status::CHAN_SGL_LEN_INVALID));
        }
        let large = request.large();
        if !(request.is_datagram() || large.is_some() && qp.parts().large_sends && node.features.large_send) {
            return (taken, Err(Status::CHAN_OP_TYPE_INVALID));
        }
        if large.is_some_and(|large| large.header.len() > offload::HEAD) {
            return (taken, Err(Status::CHAN_SGL_LEN_INVALID));
        }
        taken += 1;
        let status = match (side.state == QpState::ReadyToSend, &large) {
            (false, _) => CompletionStatus::Flushed,
            (true, None) => send(node, qp, side, request),
            (true, Some(large)) => send_large(node, qp, side, request, large),
        };
        if status != CompletionStatus::Success && side.state == QpState::ReadyToSend {
            side.state = QpState::SendError;
        }
        let opcode = if large.is_some() { Opcode::LargeSend } else { Opcode::Send };
        qp.complete_send(request.id(), opcode, request.is_signaled(), status);
    }
    (taken, Ok(()))
}

/// What all datagrams of a request have in common.
struct Way<'a> {
    node: &'a Node,
    number: u8,
    port: Departure,
    vector: AddressVector,
    qpn: u32,
    header: Header,
    memory: Memory<'a>,
}

impl<'a> Way<'a> {
    /// Of a request, whose data are so many bytes.
    fn of(
        node: &'a Node,
        qp: &'a Qp,
        side: &Common,
        request: SendRequest<'a>,
    ) -> Result<(Self, u32), CompletionStatus> {
        let destination = request.destination::<Node>().ok_or(CompletionStatus::LocalOperation)?;
        if !KArc::ptr_eq(destination.handle.domain.pd(), qp.parts().domain.pd()) {
            return Err(CompletionStatus::LocalProtection);
        }
        let index = side.ud.pkey_index;
        let port = node.with_port(side.ud.port, |port| port.departure(index));
        let port = port.ok_or(CompletionStatus::LocalOperation)?;
        let vector = destination.handle.vector();
        let segments = request.segments();
        let len = segments.iter().fold(0u32, |len, segment| len.saturating_add(segment.len));
        let memory = qp.memory(segments);
        let qkey = if destination.qkey & OWN_QKEY != 0 { side.ud.qkey } else { destination.qkey };
        let header = Header {
            source_lid: port.lid,
            source_qpn: qp.wire_number(),
            pkey: port.pkey,
            qkey,
            sl: vector.sl,
            grh: vector.send_grh.then(|| route(&vector, &port)),
            immediate: request.immediate(),
            solicited: request.is_solicited(),
            checksums: false,
            len,
        };
        Ok((Self { node, number: side.ud.port, port, vector, qpn: destination.qpn, header, memory }, len))
    }

    /// Sends one datagram. What is lost on the way is a success: nobody tells the sender.
    fn send(&self, payload: &Payload<'_>, len: u32, checksums: bool) -> CompletionStatus {
        let header = Header { len, checksums, ..self.header };
        self.node.counters.sent.increment();
        self.node.counters.sent_bytes.add(u64::from(len));
        if let Some(traffic) = self.node.traffic(self.number) {
            if self.port.active && header.pkey & 0x7fff != 0 {
                traffic.leaves(&header)
            } else {
                traffic.discards()
            }
        }
        match forward(self.node, (self.number, &self.port), &header, &self.vector, self.qpn, payload) {
            Delivery::SenderFault => CompletionStatus::LocalProtection,
            Delivery::Nobody => {
                self.node.counters.dropped.increment();
                CompletionStatus::Success
            }
            _ => CompletionStatus::Success,
        }
    }

    /// The same with checksums, computed over the head, which is in `head`, and `behind` bytes of the client's memory from `from` on.
    fn send_summed(&self, head: &mut [u8], from: u32, behind: u32) -> CompletionStatus {
        let len = head.len() as u32 + behind;
        let layout = Layout::of(head, len as usize);
        if let Some(layout) = layout {
            let Some(rest) = sum(&self.memory, from, layout.behind(head.len()).min(behind as usize) as u32)
            else {
                return CompletionStatus::LocalProtection;
            };
            layout.finish(head, rest);
            self.node.counters.checksums.increment();
        }
        let payload = Payload::Headed { head, memory: self.memory, from, len: behind };
        self.send(&payload, len, layout.is_some())
    }
}

/// The sum of a client's bytes; `None` if a key is none.
#[inline(never)]
fn sum(memory: &Memory<'_>, from: u32, len: u32) -> Option<Sum> {
    const AT_ONCE: usize = 512;
    let (mut sum, mut odd) = (Sum::default(), None);
    let mut bytes = [0; AT_ONCE];
    let done = memory.pieces(from, len, |mut piece| {
        while piece.len() != 0 {
            // A byte that was left is the first half of the next word.
            let kept = usize::from(odd.is_some());
            bytes[0] = odd.take().unwrap_or(0);
            let room = bytes.get_mut(kept..).unwrap_or_default();
            let read = piece.read(room);
            piece = piece.skip(read);
            let filled = kept + read as usize;
            let even = filled & !1;
            sum = sum.add(bytes.get(..even).unwrap_or_default());
            odd = (filled != even).then(|| bytes.get(even).copied().unwrap_or(0));
        }
        Ok(())
    });
    memory.node.counters.read_bytes.add(u64::from(len));
    done.ok().map(|()| odd.map_or(sum, |last| sum.add(&[last])))
}

/// Sends one datagram, with checksums if they are wanted.
fn send(node: &Node, qp: &Qp, side: &Common, request: SendRequest<'_>) -> CompletionStatus {
    let (way, len) = match Way::of(node, qp, side, request) {
        Ok(way) => way,
        Err(status) => return status,
    };
    if len > mtu_bytes() {
        return CompletionStatus::LocalLength;
    }
    if way.vector.port != side.ud.port || !way.memory.is_valid() {
        return CompletionStatus::LocalProtection;
    }
    if node.features.checksum && request.wants_checksums() {
        return send_with_checksums(&way, len);
    }
    way.send(&Payload::Client(way.memory), len, false)
}

#[inline(never)]
fn send_with_checksums(way: &Way<'_>, len: u32) -> CompletionStatus {
    let mut head = [0; offload::HEAD];
    let mut filled = 0;
    let read = way.memory.pieces(0, offload::HEAD as u32, |piece| {
        filled += piece.read(head.get_mut(filled..).unwrap_or_default()) as usize;
        Ok(())
    });
    way.node.counters.read_bytes.add(filled as u64);
    match head.get_mut(..filled).filter(|_| read.is_ok()) {
        Some(head) => way.send_summed(head, filled as u32, len - filled as u32),
        None => CompletionStatus::LocalProtection,
    }
}

/// Cuts a large send into datagrams and sends them, in order. One that cannot be cut, or whose pieces are longer than the MTU, fails as a
/// whole.
#[inline(never)]
fn send_large(
    node: &Node,
    qp: &Qp,
    side: &Common,
    request: SendRequest<'_>,
    large: &LargeSend<'_>,
) -> CompletionStatus {
    let (way, len) = match Way::of(node, qp, side, request) {
        Ok(way) => way,
        Err(status) => return status,
    };
    let header = large.header;
    let Some(template) = Large::of(header).filter(|_| large.mss != 0) else {
        return CompletionStatus::LocalOperation;
    };
    if len > MAX_LARGE_SEND || (header.len() as u32).saturating_add(large.mss.min(len)) > mtu_bytes() {
        return CompletionStatus::LocalLength;
    }
    if way.vector.port != side.ud.port || !way.memory.is_valid() {
        return CompletionStatus::LocalProtection;
    }
    node.counters.large_sends.increment();
    let mut room = [0; offload::HEAD];
    let Some(head) = room.get_mut(..header.len()) else { return CompletionStatus::LocalOperation };
    let (mut index, mut at) = (0, 0);
    loop {
        let piece = (len - at).min(large.mss);
        let last = at + piece == len;
        head.copy_from_slice(header);
        template.segment(head, (index, at, piece), last);
        let status = way.send_summed(head, at, piece);
        if last || status != CompletionStatus::Success {
            return status;
        }
        (index, at) = (index + 1, at + piece);
    }
}

fn route(vector: &AddressVector, port: &Departure) -> Grh {
    Grh {
        source: port.gid,
        destination: vector.dgid,
        tclass: vector.tclass,
        flow: vector.flow,
        hop_limit: vector.hop_limit,
    }
}

/// Hands a datagram to whoever it is for.
fn forward(
    node: &Node,
    (number, port): (u8, &Departure),
    header: &Header,
    vector: &AddressVector,
    qpn: u32,
    payload: &Payload<'_>,
) -> Delivery {
    if !port.active || header.pkey & 0x7fff == 0 {
        node.counters.dropped.increment();
        return Delivery::Dropped;
    }
    if vector.dlid == port.manager && qpn == 1 {
        return ask(node, (number, port), header, payload);
    }
    if port.loses && !header.is_management() && is_lost(node, number) {
        node.counters.dropped.increment();
        return Delivery::Dropped;
    }
    if vector.dlid >= FIRST_MLID {
        return match &header.grh {
            Some(grh) => node.subnet.multicast((node, number), grh.destination, header, payload),
            None => Delivery::Nobody,
        };
    }
    if qpn == 1 && manage(node, header, vector.dlid, payload) {
        return Delivery::Received;
    }
    node.subnet.unicast(vector.dlid, qpn, header, payload)
}

#[inline(never)]
fn is_lost(node: &Node, number: u8) -> bool {
    node.with_port(number, |port| port.loss.takes_one()) == Some(true)
}

/// Whether queue pair 1 at a LID does not get what is for it. Performance management of a port is this module's own.
#[inline(never)]
fn manage(node: &Node, header: &Header, lid: u16, payload: &Payload<'_>) -> bool {
    let mut request = mad::Mad::new();
    let mut at = 0;
    let (memory, from) = match payload {
        Payload::Client(memory) => (memory, 0),
        Payload::Headed { head, memory, from, .. } => {
            at = head.len().min(mad::LEN);
            mad::put(&mut request.0, 0, head.get(..at).unwrap_or_default());
            (memory, *from)
        }
        Payload::Bytes(_) => return false,
    };
    let rest = (mad::LEN - at) as u32;
    let read = memory.pieces(from, rest, |piece| {
        at += piece.read(request.0.get_mut(at..).unwrap_or_default()) as usize;
        Ok(())
    });
    node.counters.read_bytes.add(at as u64);
    if read.is_err() || header.qkey != mad::QKEY {
        return false;
    }
    // As long as it is: of a shorter one the class is known, too.
    node.subnet.manage(lid, &request, header.len == mad::LEN as u32, header)
}

/// A request to the SA, which is copied: it is answered later.
#[inline(never)]
fn ask(node: &Node, (number, port): (u8, &Departure), header: &Header, payload: &Payload<'_>) -> Delivery {
    let Payload::Client(memory) = payload else { return Delivery::Dropped };
    if port.unheard || header.qkey != mad::QKEY {
        node.counters.sa_dropped.increment();
        return Delivery::Dropped;
    }
    let mut request = mad::Mad::new();
    let mut at = 0;
    for segment in memory.segments {
        let Some(region) = memory.region(segment) else { return Delivery::SenderFault };
        let Some(window) = region.window(segment.address, segment.len) else { return Delivery::SenderFault };
        at += window.read(request.0.get_mut(at..).unwrap_or_default()) as usize;
    }
    node.counters.read_bytes.add(at as u64);
    node.counters.sa_requests.increment();
    let does = node.with_port(number, |port| port.trouble.meets(&request)).unwrap_or(Does::Usual);
    if does == Does::Silent || !node.subnet.ask(&request, header, (does, port.sa_delay)) {
        node.counters.sa_dropped.increment();
    }
    Delivery::Received
}
