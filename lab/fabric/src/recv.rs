//! From a frame at a port to completions: the receiver's checks in the architecture's order.

use crate::calls::Call;
use crate::cq::{Completion, CompletionKind, CompletionStatus, RecvInfo};
use crate::port::{Port, Route};
use crate::qp::{Effects, ended, flushed};
use crate::queue::Done;
use crate::srq::Srq;
use crate::wire::{AnyPacket, Frame, FrameError, GRH_LEN, Packet};
use crate::{AsyncEvent, Error, Hca, NodeKind, Pd, PortState, Qp, QpState, Qpn, Reason, RecvWr, offload};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A receive taken for one datagram.
struct Taken {
    seq: u64,
    wr: RecvWr,
    pd: Pd,
    reserved_lkey: bool,
    pkey_ix: u16,
}

impl Hca {
    /// Posts one receive.
    ///
    /// # Errors
    /// [`Error::ChanStateInvalid`] in RESET; [`Error::SrqInUse`] if the QP receives from an SRQ;
    /// [`Error::ChanSglLenInvalid`]; [`Error::ChanFull`].
    pub fn post_recv(&self, qp: &Qp, wr: RecvWr) -> Result<(), Error> {
        self.check(Call::PostRecv)?;
        let mut effects = Effects::default();
        let posted = {
            let mut core = qp.0.core.lock();
            if core.freed {
                Err(Error::ChanHdlInvalid)
            } else if core.config.srq.is_some() {
                Err(Error::SrqInUse)
            } else if core.state == QpState::Reset {
                Err(Error::ChanStateInvalid)
            } else if wr.sgl.len() > core.config.sizes.rq_sgl as usize {
                Err(Error::ChanSglLenInvalid)
            } else if core.state == QpState::Error {
                let id = wr.id;
                core.rq.reserve(id).map(|seq| {
                    core.rq.finish(seq, flushed(id, CompletionKind::Recv, qp.num()));
                    core.report_recvs(&mut effects);
                })
            } else {
                let id = wr.id;
                (core.posted, core.stale) = (true, false);
                core.rq.post(wr, id).map(|_| ())
            }
        };
        self.raise(effects);
        posted
    }

    /// Posts one receive for any QP of the SRQ.
    ///
    /// # Errors
    /// [`Error::SrqHdlInvalid`], [`Error::SrqErrorState`], [`Error::ChanSglLenInvalid`], [`Error::ChanFull`].
    pub fn post_srq(&self, srq: &Srq, wr: RecvWr) -> Result<(), Error> {
        self.check(Call::PostSrq)?;
        srq.post(wr)
    }

    /// A frame came off the link. The reason, if no QP took it.
    pub(crate) fn receive(&self, port: &Arc<Port>, frame: &Frame) -> Option<Reason> {
        port.received.fetch_add(1, Ordering::Relaxed);
        if self.is_gone() {
            return self.refuse(Reason::HcaGone);
        }
        if self.config().kind == NodeKind::Router {
            return self.route(port, frame).and_then(|reason| self.refuse(reason));
        }
        match frame.parse() {
            Ok(AnyPacket::Datagram(packet)) => self.accept(port, &packet, false),
            Ok(AnyPacket::Connected(_)) => self.arrived(port, frame),
            Err(FrameError::Icrc | FrameError::Vcrc) => self.refuse(Reason::CrcAtPort),
            Err(_) => self.refuse(Reason::Malformed),
        }
    }

    /// Finds the QPs a packet is for and gives each its copy. `looped`: it comes from this very port. The reason, if none
    /// took it.
    pub(crate) fn accept(&self, port: &Arc<Port>, packet: &Packet<'_>, looped: bool) -> Option<Reason> {
        let route = port.route();
        if packet.bth.dest == Qpn::GSI && packet.lrh.dlid.is_unicast() {
            return self.take_management(port, &route, packet).and_then(|reason| self.refuse(reason));
        }
        let targets = match self.targets(port, &route, packet) {
            // Nobody here listens to a group of the sender's own: no frame was lost.
            Err(Reason::NoQp) if looped && packet.lrh.dlid.is_multicast() => return Some(Reason::NoQp),
            Err(reason) => return self.refuse(reason),
            Ok(targets) => targets,
        };
        let mut refused = None;
        let mut taken = false;
        for qp in targets {
            match self.offer(&qp, port, &route, packet, looped) {
                Ok(()) => taken = true,
                Err(reason) => refused = self.refuse(reason),
            }
        }
        refused.filter(|_| !taken)
    }

    pub(crate) fn refuse(&self, reason: Reason) -> Option<Reason> {
        self.drop_frame(reason);
        Some(reason)
    }

    fn targets(&self, port: &Port, route: &Route, packet: &Packet<'_>) -> Result<Vec<Qp>, Reason> {
        if route.state != PortState::Active {
            return Err(Reason::ReceiverPortDown);
        }
        let multicast = packet.lrh.dlid.is_multicast();
        if !multicast && !route.owns(packet.lrh.dlid) {
            return Err(Reason::WrongLid);
        }
        if packet.payload.len() > route.mtu.bytes() {
            return Err(Reason::Mtu);
        }
        match (&packet.grh, multicast) {
            (Some(grh), true) if grh.dgid.is_multicast() => {
                if packet.bth.dest != Qpn::MULTICAST {
                    return Err(Reason::NoQp);
                }
                let members: Vec<Qp> =
                    self.groups().members(grh.dgid).into_iter().filter(|q| q.on_port(port)).collect();
                if members.is_empty() { Err(Reason::NoQp) } else { Ok(members) }
            }
            (_, true) => Err(Reason::WrongGid),
            (Some(grh), false) if !port.owns_gid(grh.dgid) => Err(Reason::WrongGid),
            (_, false) => self.find_qp(packet.bth.dest).map(|qp| vec![qp]).ok_or(Reason::NoQp),
        }
    }

    /// One QP's checks, then its copy.
    fn offer(
        &self,
        qp: &Qp,
        port: &Port,
        route: &Route,
        packet: &Packet<'_>,
        looped: bool,
    ) -> Result<(), Reason> {
        let own = looped && packet.deth.src == qp.num();
        if own && packet.lrh.dlid.is_multicast() && self.config().loopback_block {
            return Err(Reason::OwnMulticast);
        }
        let mut effects = Effects::default();
        let taken = qp.take_receive(port, packet, &mut effects)?;
        let status = self.place(&taken, packet);
        let done = self.receive_done(qp, &taken, status, route, packet);
        {
            let mut core = qp.0.core.lock();
            core.rq.finish(taken.seq, done);
            core.report_recvs(&mut effects);
            if status == CompletionStatus::LocalProtection && core.state != QpState::Error {
                core.fail(qp.num(), &mut effects);
            }
        }
        if status == CompletionStatus::Success {
            port.delivered.fetch_add(1, Ordering::Relaxed);
        }
        self.raise(effects);
        Ok(())
    }

    /// Scatters GRH and payload over the buffer. Without a GRH the first 40 bytes keep what they held.
    fn place(&self, taken: &Taken, packet: &Packet<'_>) -> CompletionStatus {
        let room: u64 = taken.wr.sgl.iter().map(|s| u64::from(s.len)).sum();
        let total = GRH_LEN + packet.payload.len();
        if (total as u64) > room {
            return CompletionStatus::LocalLength;
        }
        let grh = packet.grh.map(|g| g.to_bytes(packet.grh_pay_len()));
        let mut at = 0;
        for sge in &taken.wr.sgl {
            let end = (at + sge.len as usize).min(total);
            if self.place_piece(sge.va, sge.lkey, at, end, taken, grh.as_ref(), packet.payload).is_err() {
                return CompletionStatus::LocalProtection;
            }
            at = end;
        }
        CompletionStatus::Success
    }

    /// Fills the piece of a buffer at `va` that holds bytes `at..end` of GRH and payload.
    #[allow(clippy::too_many_arguments)] // One byte range of one scatter entry; a struct would only rename them.
    fn place_piece(
        &self,
        va: u64,
        lkey: u32,
        at: usize,
        end: usize,
        taken: &Taken,
        grh: Option<&[u8; GRH_LEN]>,
        payload: &[u8],
    ) -> Result<(), ()> {
        let put = |va: u64, bytes: &[u8]| self.dma_write(va, lkey, &taken.pd, taken.reserved_lkey, bytes);
        let split = end.min(GRH_LEN).max(at);
        if let Some(grh) = grh.filter(|_| at < split) {
            put(va, &grh[at..split])?;
        }
        if split < end {
            put(va + (split - at) as u64, &payload[split - GRH_LEN..end - GRH_LEN])?;
        }
        Ok(())
    }

    fn receive_done(
        &self,
        qp: &Qp,
        taken: &Taken,
        status: CompletionStatus,
        route: &Route,
        packet: &Packet<'_>,
    ) -> Done {
        let mut done = ended(taken.wr.id, status, CompletionKind::Recv, qp.num(), true);
        if status != CompletionStatus::Success {
            return done;
        }
        let detail = if self.config().attr.cksum_full { offload::verify(packet.payload) } else { None };
        let path_bits = if packet.lrh.dlid.is_unicast() { packet.lrh.dlid.0 - route.lid.0 } else { 0 };
        done.solicited = packet.bth.solicited;
        done.completion = Completion {
            bytes: (GRH_LEN + packet.payload.len()) as u32,
            recv: Some(RecvInfo {
                src_qpn: packet.deth.src,
                sl: packet.lrh.sl,
                slid: packet.lrh.slid,
                path_bits: path_bits as u8,
                pkey_ix: taken.pkey_ix,
                grh: packet.grh.is_some(),
                immediate: packet.immediate,
                cksum_ok: detail.is_some(),
                detail: detail.unwrap_or(0),
            }),
            ..done.completion
        };
        done
    }
}

impl Qp {
    fn on_port(&self, port: &Port) -> bool {
        self.0.core.lock().config.port == port.num
    }

    /// State, partition and queue key checks, then the oldest posted receive.
    fn take_receive(&self, port: &Port, packet: &Packet<'_>, effects: &mut Effects) -> Result<Taken, Reason> {
        let mut core = self.0.core.lock();
        let receiving = matches!(core.state, QpState::Rtr | QpState::Rts | QpState::Sqe);
        if core.freed || !receiving || core.config.port != port.num {
            return Err(Reason::QpState);
        }
        if core.connection.is_some() {
            return Err(Reason::Service);
        }
        if !port.pkey(core.config.pkey_ix).is_some_and(|own| own.admits(packet.bth.pkey)) {
            port.pkey_violations.fetch_add(1, Ordering::Relaxed);
            return Err(Reason::Pkey);
        }
        if core.config.qkey != packet.deth.qkey {
            port.qkey_violations.fetch_add(1, Ordering::Relaxed);
            return Err(Reason::Qkey);
        }
        let (seq, wr) = match core.config.srq.clone() {
            None => {
                core.strayed += u64::from(core.stale);
                core.rq.take().ok_or(Reason::NoReceive)?
            }
            Some(srq) => {
                let (wr, low) = srq.take().ok_or(Reason::NoReceive)?;
                if low {
                    effects.asyncs.push(AsyncEvent::SrqLimit(srq.num()));
                }
                (core.rq.adopt(wr.id, srq.0.used.clone()), wr)
            }
        };
        Ok(Taken {
            seq,
            wr,
            pd: core.config.srq.as_ref().map_or_else(|| core.config.pd.clone(), Srq::pd),
            reserved_lkey: core.config.uses_reserved_lkey,
            pkey_ix: core.config.pkey_ix,
        })
    }
}

impl Packet<'_> {
    /// GRH.PayLen of this packet: everything after the GRH through ICRC.
    fn grh_pay_len(&self) -> usize {
        let headers = if self.immediate.is_some() { 24 } else { 20 };
        headers + self.payload.len().next_multiple_of(4) + 4
    }
}
