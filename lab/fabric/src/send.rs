//! Posting sends: what is checked when, and how a request becomes frames.

use crate::arithmetic::carries;
use crate::calls::Call;
use crate::cq::{CompletionKind, CompletionStatus};
use crate::delay::Later;
use crate::port::Port;
use crate::qp::{Effects, ended, flushed};
use crate::wire::{Bth, Deth, Frame, Grh, Lrh, Packet};
use crate::{
    AddressVector, Ah, Error, Hca, Lid, PKey, Pd, PortNum, PortState, QKey, Qp, QpState, Qpn, Reason, Sge,
};
use crate::{Signalling, offload};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where a datagram goes.
#[derive(Clone)]
pub struct UdDest {
    /// Path; copied when the request is posted.
    pub ah: Ah,
    /// Destination queue pair, [`Qpn::MULTICAST`] for groups.
    pub qpn: Qpn,
    /// Queue key; bit 31 set: the sending QP's own is used.
    pub qkey: QKey,
}

/// A large send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lso {
    /// IPoIB, IP and TCP header that each segment begins with.
    pub header: Vec<u8>,
    /// Payload bytes per segment.
    pub mss: u32,
}

/// What to do with the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// One datagram.
    Send,
    /// One datagram per segment.
    Lso(Lso),
}

/// A send work request.
#[derive(Clone)]
pub struct SendWr {
    /// Given back in the completion.
    pub id: u64,
    /// Ask for a completion (only matters with [`Signalling::PerRequest`]).
    pub signal: bool,
    /// Solicited event bit of the datagram.
    pub solicited: bool,
    /// Have the HCA insert IPv4 and TCP/UDP checksums.
    pub cksum: bool,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Kind.
    pub op: SendOp,
    /// Destination.
    pub dest: UdDest,
    /// Message.
    pub sgl: Vec<Sge>,
}

/// A send that was accepted, its bytes gathered.
pub(crate) struct SendJob {
    wr_id: u64,
    kind: CompletionKind,
    status: CompletionStatus,
    signalled: bool,
    solicited: bool,
    immediate: Option<u32>,
    vector: AddressVector,
    dest: Qpn,
    qkey: QKey,
    pkey_ix: u16,
    payloads: Vec<Vec<u8>>,
    /// Its frames have left, and it never completes ([`Hca::set_sends_hang`]).
    hangs: bool,
}

/// What of the QP a send depends on, read when it is accepted.
struct Sender {
    seq: u64,
    port: PortNum,
    pkey_ix: u16,
    qkey: QKey,
    pd: Pd,
    all_signalled: bool,
    reserved_lkey: bool,
}

enum Admission {
    Run(Sender),
    Flushed,
}

impl Hca {
    /// Posts one send. The bytes are gathered and, with `send_latency` 0, on their way when this returns.
    ///
    /// # Errors
    /// [`Error::ChanStateInvalid`] in RESET, INIT or RTR; [`Error::AhHdlInvalid`]; [`Error::ChanOpTypeInvalid`] for a large
    /// send the QP or HCA cannot do; [`Error::ChanSglLenInvalid`]; [`Error::ChanFull`].
    pub fn post_send(&self, qp: &Qp, wr: SendWr) -> Result<(), Error> {
        self.check(Call::PostSend)?;
        let vector = wr.dest.ah.vector().ok_or(Error::AhHdlInvalid);
        let mut effects = Effects::default();
        let admission = self.admit(qp, &wr, vector.is_ok(), &mut effects);
        self.raise(effects);
        let Admission::Run(sender) = admission? else { return Ok(()) };
        let seq = sender.seq;
        let job = self.gather(wr, vector?, &sender);
        if self.config().send_latency.0 == 0 {
            self.carry_out(qp, seq, job);
        } else {
            self.put_off(qp, seq, job);
        }
        Ok(())
    }

    fn admit(&self, qp: &Qp, wr: &SendWr, ah_ok: bool, effects: &mut Effects) -> Result<Admission, Error> {
        let mut core = qp.0.core.lock();
        if core.freed {
            return Err(Error::ChanHdlInvalid);
        }
        if core.connection.is_some() {
            return Err(Error::ChanSrvTypeInvalid);
        }
        if matches!(core.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(Error::ChanStateInvalid);
        }
        if !ah_ok {
            return Err(Error::AhHdlInvalid);
        }
        self.check_operation(wr, core.config.uses_lso)?;
        if !self.config().attr.arithmetic.admits(wr, core.config.sizes.sq_sgl) {
            return Err(Error::ChanSglLenInvalid);
        }
        let seq = core.sq.reserve(wr.id)?;
        core.sent = true;
        if core.state != QpState::Rts {
            core.sq.finish(seq, flushed(wr.id, wr.kind(), qp.num()));
            core.report_sends(effects);
            return Ok(Admission::Flushed);
        }
        Ok(Admission::Run(Sender {
            seq,
            port: core.config.port,
            pkey_ix: core.config.pkey_ix,
            qkey: core.config.qkey,
            pd: core.config.pd.clone(),
            all_signalled: core.config.signalling == Signalling::All,
            reserved_lkey: core.config.uses_reserved_lkey,
        }))
    }

    /// Whether a send that [`Hca::post_send`] lets in is too long for its place in the queue, so that it writes over the next one.
    #[must_use]
    pub fn overruns(&self, qp: &Qp, wr: &SendWr) -> bool {
        let pieces = qp.0.core.lock().config.sizes.sq_sgl;
        self.config().attr.arithmetic.overruns(wr, pieces)
    }

    fn check_operation(&self, wr: &SendWr, uses_lso: bool) -> Result<(), Error> {
        let SendOp::Lso(lso) = &wr.op else { return Ok(()) };
        let attr = &self.config().attr;
        if !uses_lso || attr.max_lso_size == 0 {
            return Err(Error::ChanOpTypeInvalid);
        }
        if lso.header.len() > attr.max_lso_hdr_size as usize {
            return Err(Error::ChanSglLenInvalid);
        }
        Ok(())
    }

    /// Copies the message out of memory and cuts it into datagrams.
    fn gather(&self, wr: SendWr, vector: AddressVector, sender: &Sender) -> SendJob {
        let (status, payloads) = match self.payloads(&wr, &vector, sender) {
            Ok(payloads) => (CompletionStatus::Success, payloads),
            Err(status) => (status, Vec::new()),
        };
        SendJob {
            wr_id: wr.id,
            kind: wr.kind(),
            status,
            signalled: wr.signal || sender.all_signalled,
            solicited: wr.solicited,
            immediate: wr.immediate,
            vector,
            dest: wr.dest.qpn,
            qkey: if wr.dest.qkey.is_privileged() { sender.qkey } else { wr.dest.qkey },
            pkey_ix: sender.pkey_ix,
            payloads,
            hangs: false,
        }
    }

    fn payloads(
        &self,
        wr: &SendWr,
        vector: &AddressVector,
        sender: &Sender,
    ) -> Result<Vec<Vec<u8>>, CompletionStatus> {
        let port = self.port(sender.port).ok_or(CompletionStatus::LocalChannelOp)?;
        if vector.port != sender.port || !carries(wr, self.config().attr.ud_send_sgl) {
            return Err(CompletionStatus::LocalChannelOp);
        }
        let mtu = port.route().mtu.bytes();
        let limit = match &wr.op {
            SendOp::Send => mtu,
            SendOp::Lso(_) => self.config().attr.max_lso_size as usize,
        };
        let mut message = self.gather_bytes(&wr.sgl, limit, &sender.pd, sender.reserved_lkey)?;
        match &wr.op {
            SendOp::Send => {
                if wr.cksum && self.config().attr.cksum_full {
                    offload::insert(&mut message);
                }
                Ok(vec![message])
            }
            SendOp::Lso(lso) => {
                let segments = offload::segment(&lso.header, &message, lso.mss as usize)
                    .ok_or(CompletionStatus::LocalChannelOp)?;
                let fits = segments.iter().all(|s| s.len() <= mtu);
                if !fits {
                    return Err(CompletionStatus::LocalLength);
                }
                port.large_sends.fetch_add(1, Ordering::Relaxed);
                Ok(segments)
            }
        }
    }

    /// The bytes of a list of pieces, at most `limit`.
    pub(crate) fn gather_bytes(
        &self,
        sgl: &[Sge],
        limit: usize,
        pd: &Pd,
        reserved_lkey: bool,
    ) -> Result<Vec<u8>, CompletionStatus> {
        let total: u64 = sgl.iter().map(|s| u64::from(s.len)).sum();
        if total > limit as u64 {
            return Err(CompletionStatus::LocalLength);
        }
        let mut message = vec![0; total as usize];
        let mut rest = message.as_mut_slice();
        for sge in sgl.iter().filter(|s| s.len > 0) {
            let (piece, after) = rest.split_at_mut(sge.len as usize);
            rest = after;
            self.dma_read(sge, pd, reserved_lkey, piece).map_err(|()| CompletionStatus::LocalProtection)?;
        }
        Ok(message)
    }

    fn put_off(&self, qp: &Qp, seq: u64, job: SendJob) {
        let mut effects = Effects::default();
        {
            let mut core = qp.0.core.lock();
            if core.state == QpState::Rts {
                core.sq.park(seq, job);
            } else {
                core.sq.finish(seq, flushed(job.wr_id, job.kind, qp.num()));
                core.report_sends(&mut effects);
            }
        }
        self.raise(effects);
        if let Some(fabric) = self.fabric() {
            let due = fabric.clock.now().after(self.config().send_latency);
            fabric.later(due, Later::Send { hca: self.clone(), qp: qp.clone(), seq });
        }
    }

    pub(crate) fn run_delayed_send(&self, qp: &Qp, seq: u64) {
        let job = qp.0.core.lock().sq.take_at(seq);
        if let Some(job) = job {
            self.carry_out(qp, seq, job);
        }
    }

    /// Sends what has waited for credits, in order. Behind a send that hangs nothing goes.
    pub(crate) fn send_waiting(&self, qp: &Qp) {
        loop {
            let next = qp.0.core.lock().sq.take_waiting_if(|job| !job.hangs);
            let Some((seq, job)) = next else { return };
            self.carry_out(qp, seq, job);
        }
    }

    /// Sends the frames of a job and completes it.
    fn carry_out(&self, qp: &Qp, seq: u64, mut job: SendJob) {
        if self.has_no_credits() {
            qp.0.core.lock().sq.park(seq, job);
            return;
        }
        if self.takes_bad_send() {
            job.status = CompletionStatus::LocalProtection;
            job.payloads.clear();
        }
        if let Some(port) = self.port(job.vector.port) {
            for payload in &job.payloads {
                self.send_datagram(qp, port, &job, payload);
            }
        }
        if self.sends_hang() {
            // Whoever flushes the queue pair finds it waiting.
            job.hangs = true;
            qp.0.core.lock().sq.park(seq, job);
            return;
        }
        let mut effects = Effects::default();
        {
            let mut core = qp.0.core.lock();
            core.sq.finish(seq, ended(job.wr_id, job.status, job.kind, qp.num(), job.signalled));
            core.report_sends(&mut effects);
            if job.status != CompletionStatus::Success && core.state == QpState::Rts {
                core.state = QpState::Sqe;
                core.flush_sends(qp.num(), &mut effects);
            }
        }
        self.raise(effects);
    }

    fn send_datagram(&self, qp: &Qp, port: &Arc<Port>, job: &SendJob, payload: &[u8]) {
        let Some(fabric) = self.fabric() else { return };
        if self.is_gone() {
            return fabric.drop_frame(Reason::HcaGone);
        }
        let route = port.route();
        let Some(pkey) = port.pkey(job.pkey_ix).filter(|p| p.is_valid()) else {
            return fabric.drop_frame(Reason::SenderPkey);
        };
        let src_path = u16::from(job.vector.src_path) & (route.lmc.lids() - 1);
        let packet = job.packet(qp, port, Lid(route.lid.0 | src_path), pkey, payload);
        if route.state != PortState::Active {
            return fabric.refuse_to_send(port, &Frame::of(&packet), Reason::SenderPortDown);
        }
        if route.owns(job.vector.dlid) {
            // What nobody took has been counted; no link is there to show it on.
            let _ = self.accept(port, &packet, true);
            return;
        }
        if job.vector.dlid.is_multicast() {
            fabric.sent_to_groups.note(&packet, port, job.pkey_ix);
            let _ = self.accept(port, &packet, true);
        }
        if let Some(far) = port.far_end().filter(|_| packet.lrh.dlid.is_unicast()) {
            far.take(packet.lrh.dlid, payload.len(), |room| room.copy_from_slice(payload));
            return;
        }
        fabric.transmit(port, &Frame::of(&packet));
    }
}

impl SendWr {
    fn kind(&self) -> CompletionKind {
        match self.op {
            SendOp::Send => CompletionKind::Send,
            SendOp::Lso(_) => CompletionKind::SendLso,
        }
    }
}

impl SendJob {
    fn packet<'a>(&self, qp: &Qp, port: &Port, slid: Lid, pkey: PKey, payload: &'a [u8]) -> Packet<'a> {
        let grh = self.vector.grh.map(|g| Grh {
            tclass: g.tclass,
            flow_label: g.flow_label,
            hop_limit: g.hop_limit,
            sgid: port.gid(g.sgid_ix).unwrap_or_default(),
            dgid: g.dgid,
        });
        Packet {
            lrh: Lrh { vl: 0, sl: self.vector.sl, dlid: self.vector.dlid, slid },
            grh,
            bth: Bth { solicited: self.solicited, pkey, dest: self.dest, psn: next_psn(qp) },
            deth: Deth { qkey: self.qkey, src: qp.num() },
            immediate: self.immediate,
            payload,
        }
    }
}

fn next_psn(qp: &Qp) -> u32 {
    let mut core = qp.0.core.lock();
    let psn = core.psn;
    core.psn = (psn + 1) & 0x00ff_ffff;
    psn
}
