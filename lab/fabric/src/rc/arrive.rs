//! Packets of connections that arrive: acknowledgements to the requester, parts of messages to their receives.

use crate::cq::{Completion, CompletionKind, CompletionStatus, RecvInfo};
use crate::port::Port;
use crate::qp::{Effects, QpCore, ended, flushed};
use crate::queue::Done;
use crate::wire::{Aeth, AnyPacket, Frame, NakCode, RcPacket};
use crate::{AsyncEvent, Hca, PortState, Qp, QpState, Reason, Srq};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::InMessage;
use super::responder::Place;
use super::transmit::Way;

/// What becomes of a packet, once the queue pair has looked at it.
enum Verdict {
    /// Nothing more.
    Done,
    /// Its sender hears this.
    Say(Way, (u32, Aeth)),
    /// Its bytes go into this receive.
    Put(InMessage, Way),
}

/// The checks that a queue pair makes of every packet.
fn check(core: &QpCore, port: &Port, packet: &RcPacket<'_>) -> Result<Way, Reason> {
    let receiving = matches!(core.state, QpState::Rtr | QpState::Rts);
    let way = core.way().filter(|_| receiving && !core.freed && core.config.port == port.num);
    let way = way.ok_or(Reason::QpState)?;
    let receive =
        core.connection.as_ref().and_then(|connection| connection.receive).ok_or(Reason::QpState)?;
    if !port.pkey(receive.pkey_ix).is_some_and(|own| own.admits(packet.bth.pkey)) {
        port.pkey_violations.fetch_add(1, Ordering::Relaxed);
        return Err(Reason::Pkey);
    }
    if packet.lrh.slid != receive.vector.dlid {
        return Err(Reason::Stranger);
    }
    if packet.payload.len() > receive.path_mtu.bytes() {
        return Err(Reason::Mtu);
    }
    Ok(way)
}

impl Hca {
    /// A frame of a connection arrived at a port, or comes from this very port. The reason, if no queue pair took it.
    pub(crate) fn arrived(&self, port: &Arc<Port>, frame: &Frame) -> Option<Reason> {
        let Ok(AnyPacket::Connected(packet)) = frame.parse() else { return self.refuse(Reason::Malformed) };
        let qp = match self.connected_target(port, &packet) {
            Ok(qp) => qp,
            Err(reason) => return self.refuse(reason),
        };
        {
            let mut core = qp.0.core.lock();
            let Some(connection) = core.connection.as_mut() else {
                drop(core);
                return self.refuse(Reason::Service);
            };
            if connection.arriving {
                connection.inbox.push_back(frame.clone());
                return None;
            }
            connection.arriving = true;
        }
        let refused = self.arrive(&qp, port, &packet).err();
        if let Some(reason) = refused {
            self.drop_frame(reason);
        }
        self.empty_inbox(&qp, port);
        self.run_requester(&qp);
        refused
    }

    /// Packets that came while another one was dealt with.
    fn empty_inbox(&self, qp: &Qp, port: &Arc<Port>) {
        loop {
            let next = {
                let mut core = qp.0.core.lock();
                let Some(connection) = core.connection.as_mut() else { return };
                let next = connection.inbox.pop_front();
                connection.arriving = next.is_some();
                next
            };
            let Some(frame) = next else { return };
            if let Ok(AnyPacket::Connected(packet)) = frame.parse()
                && let Err(reason) = self.arrive(qp, port, &packet)
            {
                self.drop_frame(reason);
            }
        }
    }

    fn connected_target(&self, port: &Port, packet: &RcPacket<'_>) -> Result<Qp, Reason> {
        let route = port.route();
        if route.state != PortState::Active {
            return Err(Reason::ReceiverPortDown);
        }
        if !route.owns(packet.lrh.dlid) {
            return Err(Reason::WrongLid);
        }
        if packet.grh.is_some_and(|grh| !port.owns_gid(grh.dgid)) {
            return Err(Reason::WrongGid);
        }
        self.find_qp(packet.bth.dest).ok_or(Reason::NoQp)
    }

    fn arrive(&self, qp: &Qp, port: &Port, packet: &RcPacket<'_>) -> Result<(), Reason> {
        let mut effects = Effects::default();
        let verdict = {
            let mut core = qp.0.core.lock();
            check(&core, port, packet).map(|way| match packet.aeth {
                Some(aeth) => self.acknowledge(qp, &mut core, packet.bth.psn, aeth, &mut effects),
                None => request(qp, &mut core, way, packet, &mut effects),
            })
        };
        self.raise(effects);
        match verdict? {
            Verdict::Done => {}
            Verdict::Say(way, what) => self.answer(way, what),
            Verdict::Put(message, way) => self.put(qp, port, message, way, packet),
        }
        Ok(())
    }

    fn acknowledge(
        &self,
        qp: &Qp,
        core: &mut QpCore,
        psn: u32,
        aeth: Aeth,
        effects: &mut Effects,
    ) -> Verdict {
        let hang = self.sends_hang();
        let now = self.fabric().map(|fabric| fabric.clock.now()).unwrap_or_default();
        let Some(connection) = core.connection.as_mut() else { return Verdict::Done };
        connection.hangs |= hang;
        if connection.hangs || core.state != QpState::Rts {
            return Verdict::Done;
        }
        let outcome = connection.requester.acknowledged(psn, aeth, now);
        core.finish_sends(qp.num(), &outcome.arrived, effects);
        if let Some((message, status)) = outcome.failed.filter(|_| core.state != QpState::Error) {
            core.fail_send(qp.num(), message, status, effects);
        }
        Verdict::Done
    }

    /// Puts a packet's bytes where they belong, and ends the message if it was the last.
    fn put(&self, qp: &Qp, port: &Port, mut message: InMessage, way: Way, packet: &RcPacket<'_>) {
        let status = self.place_part(&message, packet.payload);
        message.at += packet.payload.len();
        let mut effects = Effects::default();
        let answer = {
            let mut core = qp.0.core.lock();
            settle(qp, &mut core, port, message, status, packet, &mut effects)
        };
        self.raise(effects);
        if let Some(answer) = answer {
            self.answer(way, answer);
        }
    }

    /// Copies a part of a message into its receive.
    fn place_part(&self, message: &InMessage, payload: &[u8]) -> CompletionStatus {
        let room: u64 = message.wr.sgl.iter().map(|sge| u64::from(sge.len)).sum();
        if (message.at + payload.len()) as u64 > room {
            return CompletionStatus::LocalLength;
        }
        let (mut skip, mut rest) = (message.at, payload);
        for sge in &message.wr.sgl {
            let len = sge.len as usize;
            let before = skip.min(len);
            skip -= before;
            let (part, after) = rest.split_at(rest.len().min(len - before));
            rest = after;
            if part.is_empty() {
                continue;
            }
            let at = sge.va + before as u64;
            if self.dma_write(at, sge.lkey, &message.pd, message.reserved_lkey, part).is_err() {
                return CompletionStatus::LocalProtection;
            }
        }
        CompletionStatus::Success
    }
}

/// A part of a message: what its number says, and whether there is a receive for it.
fn request(qp: &Qp, core: &mut QpCore, way: Way, packet: &RcPacket<'_>, effects: &mut Effects) -> Verdict {
    let Some(connection) = core.connection.as_mut() else { return Verdict::Done };
    let Some(receive) = connection.receive else { return Verdict::Done };
    let whole = packet.payload.len() == receive.path_mtu.bytes();
    match connection.responder.judge(packet.bth.psn, packet.opcode) {
        Place::Before if packet.ack_request => return Verdict::Say(way, connection.responder.so_far()),
        Place::Before | Place::Beyond { tell: false } => return Verdict::Done,
        Place::Beyond { tell: true } => {
            return Verdict::Say(way, connection.responder.no(NakCode::Sequence));
        }
        Place::Next if packet.opcode.is_last() || whole => {}
        Place::Next | Place::OutOfTurn => {
            let no = connection.responder.no(NakCode::InvalidRequest);
            effects.asyncs.push(AsyncEvent::InvalidRequest(qp.num()));
            core.fail(qp.num(), effects);
            return Verdict::Say(way, no);
        }
    }
    if packet.opcode.is_first() {
        let Some(message) = take_receive(core, effects) else {
            let Some(connection) = core.connection.as_mut() else { return Verdict::Done };
            connection.responder.not_ready();
            return Verdict::Say(way, connection.responder.later(receive.min_rnr));
        };
        if let Some(connection) = core.connection.as_mut() {
            connection.message = Some(message);
        }
    }
    let established = core.state == QpState::Rtr;
    let Some(connection) = core.connection.as_mut() else { return Verdict::Done };
    if established && !std::mem::replace(&mut connection.told_of_first, true) {
        effects.asyncs.push(AsyncEvent::Established(qp.num()));
    }
    connection.responder.take(packet.opcode);
    let Some(message) = connection.message.take() else { return Verdict::Done };
    connection.placing = true;
    Verdict::Put(message, way)
}

fn take_receive(core: &mut QpCore, effects: &mut Effects) -> Option<InMessage> {
    let (seq, wr) = match core.config.srq.clone() {
        None => core.rq.take()?,
        Some(srq) => {
            let (wr, low) = srq.take()?;
            if low {
                effects.asyncs.push(AsyncEvent::SrqLimit(srq.num()));
            }
            (core.rq.adopt(wr.id, srq.0.used.clone()), wr)
        }
    };
    Some(InMessage {
        seq,
        wr,
        pd: core.config.srq.as_ref().map_or_else(|| core.config.pd.clone(), Srq::pd),
        reserved_lkey: core.config.uses_reserved_lkey,
        at: 0,
    })
}

/// A packet's bytes are in place, or could not be put there: what its sender hears.
fn settle(
    qp: &Qp,
    core: &mut QpCore,
    port: &Port,
    message: InMessage,
    status: CompletionStatus,
    packet: &RcPacket<'_>,
    effects: &mut Effects,
) -> Option<(u32, Aeth)> {
    let failed = core.state == QpState::Error;
    let connection = core.connection.as_mut()?;
    connection.placing = false;
    let owes_empty = std::mem::take(&mut connection.owes_empty);
    if failed {
        let flushed = flushed(message.wr.id, CompletionKind::Recv, qp.num());
        core.rq.finish(message.seq, flushed);
        core.report_recvs(effects);
        if owes_empty && core.config.srq.is_some() {
            effects.asyncs.push(AsyncEvent::EmptyChannel(qp.num()));
        }
        return None;
    }
    let code = match status {
        CompletionStatus::Success => None,
        CompletionStatus::LocalLength => Some(NakCode::InvalidRequest),
        _ => Some(NakCode::RemoteOperation),
    };
    if let Some(code) = code {
        let no = connection.responder.no_to_the_last(code);
        core.rq.finish(message.seq, ended(message.wr.id, status, CompletionKind::Recv, qp.num(), true));
        core.report_recvs(effects);
        core.fail(qp.num(), effects);
        return Some(no);
    }
    let so_far = packet.ack_request.then(|| connection.responder.so_far());
    if !packet.opcode.is_last() {
        connection.message = Some(message);
        return so_far;
    }
    let done = arrived_whole(qp, core, port, &message, packet);
    core.rq.finish(message.seq, done);
    core.report_recvs(effects);
    port.delivered.fetch_add(1, Ordering::Relaxed);
    core.fail_if_overrun(qp.num(), effects);
    so_far
}

fn arrived_whole(qp: &Qp, core: &QpCore, port: &Port, message: &InMessage, packet: &RcPacket<'_>) -> Done {
    let receive = core.connection.as_ref().and_then(|connection| connection.receive);
    let mut done = ended(message.wr.id, CompletionStatus::Success, CompletionKind::Recv, qp.num(), true);
    done.solicited = packet.bth.solicited;
    done.completion = Completion {
        bytes: message.at as u32,
        recv: receive.map(|receive| RecvInfo {
            src_qpn: receive.peer,
            sl: packet.lrh.sl,
            slid: packet.lrh.slid,
            path_bits: (packet.lrh.dlid.0 - port.route().lid.0.min(packet.lrh.dlid.0)) as u8,
            pkey_ix: receive.pkey_ix,
            grh: false,
            immediate: packet.immediate,
            cksum_ok: false,
            detail: 0,
        }),
        ..done.completion
    };
    done
}
