//! Packets of connections on their way out: what the requester has to send, and acknowledgements.

use crate::cq::{CompletionKind, CompletionStatus};
use crate::delay::Later;
use crate::port::Port;
use crate::qp::{Effects, QpCore, ended};
use crate::wire::{Aeth, Bth, Frame, Grh, Lrh, RcOpcode, RcPacket};
use crate::{AddressVector, Hca, Lid, Nanos, PortState, Qp, QpState, Qpn, Reason};
use std::sync::Arc;

use super::requester::{Ended, Segment, Step};

/// Where the packets of a connection go.
#[derive(Clone, Copy)]
pub(super) struct Way {
    vector: AddressVector,
    pkey_ix: u16,
    peer: Qpn,
}

impl QpCore {
    /// The way to the peer; `None` before RTR.
    pub(super) fn way(&self) -> Option<Way> {
        let receive = self.connection.as_ref()?.receive?;
        let vector = AddressVector { port: self.config.port, ..receive.vector };
        Some(Way { vector, pkey_ix: receive.pkey_ix, peer: receive.peer })
    }

    /// These messages have arrived.
    pub(super) fn finish_sends(&mut self, qpn: Qpn, arrived: &[Ended], effects: &mut Effects) {
        for message in arrived {
            let status = CompletionStatus::Success;
            self.sq.finish(
                message.seq,
                ended(message.wr_id, status, CompletionKind::Send, qpn, message.signalled),
            );
        }
        self.report_sends(effects);
        self.fail_if_overrun(qpn, effects);
    }

    /// This message failed, and the connection with it.
    pub(super) fn fail_send(
        &mut self,
        qpn: Qpn,
        message: Ended,
        status: CompletionStatus,
        effects: &mut Effects,
    ) {
        self.sq.finish(message.seq, ended(message.wr_id, status, CompletionKind::Send, qpn, true));
        self.report_sends(effects);
        self.fail(qpn, effects);
    }

    /// A queue pair whose CQ has taken its last completion goes to ERROR.
    pub(super) fn fail_if_overrun(&mut self, qpn: Qpn, effects: &mut Effects) {
        if effects.overrun && self.state != QpState::Error {
            self.fail(qpn, effects);
        }
    }
}

impl Hca {
    /// Sends what may go and sees to it that the queue pair is looked at again in time. One thread at a time; others leave it to that one.
    pub(crate) fn run_requester(&self, qp: &Qp) {
        let Some(fabric) = self.fabric() else { return };
        let mut first = true;
        loop {
            let now = fabric.clock.now();
            let mut effects = Effects::default();
            let mut wake = None;
            let send = {
                let mut core = qp.0.core.lock();
                let sends = core.state == QpState::Rts && !core.freed && !self.has_no_credits();
                let way = core.way();
                let Some(connection) = core.connection.as_mut() else { return };
                if std::mem::take(&mut first) && connection.sending {
                    return;
                }
                connection.sending = true;
                let step = if sends && !connection.hangs {
                    connection.requester.step(now)
                } else {
                    Step::Wait(None)
                };
                match step {
                    Step::Send(segment) => way.map(|way| (way, segment)),
                    Step::Fail(message, status) => {
                        core.fail_send(qp.num(), message, status, &mut effects);
                        None
                    }
                    Step::Wait(until) => {
                        connection.sending = false;
                        wake = until.filter(|at| connection.wake.is_none_or(|known| *at < known));
                        connection.wake = wake.or(connection.wake);
                        drop(core);
                        if let Some(at) = wake {
                            fabric.later(at, Later::Requester { hca: self.clone(), qp: qp.clone(), at });
                        }
                        return;
                    }
                }
            };
            debug_assert!(wake.is_none());
            self.raise(effects);
            if let Some((way, segment)) = send {
                self.send_segment(way, &segment);
            }
        }
    }

    /// The time has come that [`Self::run_requester`] asked for.
    pub(crate) fn wake_requester(&self, qp: &Qp, at: Nanos) {
        {
            let mut core = qp.0.core.lock();
            let Some(connection) = core.connection.as_mut() else { return };
            if connection.wake == Some(at) {
                connection.wake = None;
            }
        }
        self.run_requester(qp);
    }

    fn send_segment(&self, way: Way, segment: &Segment) {
        let packet = |lrh, grh, pkey| RcPacket {
            lrh,
            grh,
            bth: Bth { solicited: segment.solicited, pkey, dest: way.peer, psn: segment.psn },
            opcode: segment.opcode,
            ack_request: segment.opcode.is_last(),
            aeth: None,
            immediate: segment.immediate,
            payload: segment.payload(),
        };
        self.send_connected(way, packet);
    }

    /// Sends an acknowledgement of the packet with this number.
    pub(super) fn answer(&self, way: Way, (psn, aeth): (u32, Aeth)) {
        let packet = |lrh, grh, pkey| RcPacket {
            lrh,
            grh,
            bth: Bth { solicited: false, pkey, dest: way.peer, psn },
            opcode: RcOpcode::Acknowledge,
            ack_request: false,
            aeth: Some(aeth),
            immediate: None,
            payload: &[],
        };
        self.send_connected(way, packet);
    }

    fn send_connected<'a>(
        &self,
        way: Way,
        packet: impl FnOnce(Lrh, Option<Grh>, crate::PKey) -> RcPacket<'a>,
    ) {
        let (Some(fabric), Some(port)) = (self.fabric(), self.port(way.vector.port)) else { return };
        if self.is_gone() {
            return fabric.drop_frame(Reason::HcaGone);
        }
        let Some(pkey) = port.pkey(way.pkey_ix).filter(|pkey| pkey.is_valid()) else {
            return fabric.drop_frame(Reason::SenderPkey);
        };
        let route = port.route();
        let src_path = u16::from(way.vector.src_path) & (route.lmc.lids() - 1);
        let slid = Lid(route.lid.0 | src_path);
        let lrh = Lrh { vl: 0, sl: way.vector.sl, dlid: way.vector.dlid, slid };
        let frame = Frame::of_connection(&packet(lrh, grh(&way.vector, port), pkey));
        if route.state != PortState::Active {
            return fabric.refuse_to_send(port, &frame, Reason::SenderPortDown);
        }
        if route.owns(way.vector.dlid) {
            // What nobody took has been counted; no link is there to show it on.
            let _ = self.arrived(port, &frame);
            return;
        }
        fabric.transmit(port, &frame);
    }
}

fn grh(vector: &AddressVector, port: &Arc<Port>) -> Option<Grh> {
    vector.grh.map(|route| Grh {
        tclass: route.tclass,
        flow_label: route.flow_label,
        hop_limit: route.hop_limit,
        sgid: port.gid(route.sgid_ix).unwrap_or_default(),
        dgid: route.dgid,
    })
}
