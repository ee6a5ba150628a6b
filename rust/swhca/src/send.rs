//! Sending: from a client's memory straight into the receivers', in the middle of the post.

use ibtf_provider::{AddressVector, CompletionStatus, QpState, SendRequest, Status};

use crate::mad;
use crate::node::Node;
use crate::packet::{Grh, Header, Memory, Payload};
use crate::port::Port;
use crate::qp::{Common, Delivery, Qp};

/// The first LID of a group.
const FIRST_MLID: u16 = 0xc000;
/// In a Q_Key: the queue pair's own is meant.
const OWN_QKEY: u32 = 1 << 31;

/// Sends, in order: the queue pair's side that sends is held meanwhile, so that completions are in order, too.
pub(crate) fn post<'a>(
    node: &Node,
    qp: &Qp,
    requests: &mut dyn Iterator<Item = SendRequest<'a>>,
) -> (u32, Result<(), Status>) {
    let mut side = qp.sends();
    let mut taken = 0;
    for request in requests {
        if matches!(side.state, QpState::Reset | QpState::Init | QpState::ReadyToReceive) {
            return (taken, Err(Status::CHAN_STATE_INVALID));
        }
        if request.segments().len() > qp.parts().sizes.send_segments as usize {
            return (taken, Err(Status::CHAN_SGL_LEN_INVALID));
        }
        if !request.is_datagram() {
            return (taken, Err(Status::CHAN_OP_TYPE_INVALID));
        }
        taken += 1;
        let status = if side.state == QpState::ReadyToSend {
            send(node, qp, &side, request)
        } else {
            CompletionStatus::Flushed
        };
        if status != CompletionStatus::Success && side.state == QpState::ReadyToSend {
            side.state = QpState::SendError;
        }
        qp.complete_send(request.id(), request.is_signaled(), status);
    }
    (taken, Ok(()))
}

/// Sends one datagram. What is lost on the way is a success: nobody tells the sender.
fn send(node: &Node, qp: &Qp, side: &Common, request: SendRequest<'_>) -> CompletionStatus {
    let Some(destination) = request.destination::<Node>() else { return CompletionStatus::LocalOperation };
    let Some(port) = node.port(side.ud.port) else { return CompletionStatus::LocalOperation };
    let vector = destination.handle.vector();
    let segments = request.segments();
    let len = segments.iter().fold(0u32, |len, segment| len.saturating_add(segment.len));
    if len > port.mtu_bytes() {
        return CompletionStatus::LocalLength;
    }
    let memory = Memory { node, pd: qp.parts().pd, segments };
    if vector.port != side.ud.port || !memory.is_valid() {
        return CompletionStatus::LocalProtection;
    }
    let qkey = if destination.qkey & OWN_QKEY != 0 { side.ud.qkey } else { destination.qkey };
    let header = Header {
        source_lid: port.lid,
        source_qpn: qp.wire_number(),
        pkey: port.pkey(side.ud.pkey_index),
        qkey,
        sl: vector.sl,
        grh: vector.send_grh.then(|| route(&vector, &port)),
        immediate: request.immediate(),
        solicited: request.is_solicited(),
        len,
    };
    node.counters.sent.increment();
    node.counters.sent_bytes.add(u64::from(len));
    let payload = Payload::Client(memory);
    match forward(node, &port, &header, &vector, destination.qpn, &payload) {
        Delivery::SenderFault => CompletionStatus::LocalProtection,
        _ => CompletionStatus::Success,
    }
}

fn route(vector: &AddressVector, port: &Port) -> Grh {
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
    port: &Port,
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
        return ask(node, port, header, payload);
    }
    if port.loses {
        node.counters.dropped.increment();
        return Delivery::Dropped;
    }
    if vector.dlid >= FIRST_MLID {
        return match &header.grh {
            Some(grh) => node.subnet.multicast(grh.destination, header, payload),
            None => Delivery::Dropped,
        };
    }
    node.subnet.unicast(vector.dlid, qpn, header, payload)
}

/// A request to the SA, which is copied: it is answered later.
#[inline(never)]
fn ask(node: &Node, port: &Port, header: &Header, payload: &Payload<'_>) -> Delivery {
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
    node.counters.sa_requests.increment();
    if !node.subnet.ask(&request, header, port.sa_delay) {
        node.counters.sa_dropped.increment();
    }
    Delivery::Received
}
