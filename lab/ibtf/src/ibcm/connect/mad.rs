//! Messages of the communication manager as MADs (InfiniBand Architecture volume 1, 12.6).
#![forbid(unsafe_code)]

use fabric::Gid;

/// Bytes of a MAD.
pub(super) const MAD_LEN: usize = 256;
const HEADER: usize = 24;
const REQ_PRIVATE_AT: usize = 140;
const REP_PRIVATE_AT: usize = 36;
/// `MgmtClass` of communication management.
pub(super) const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

/// Room for private data in each message.
pub(super) const REQ_PRIVATE: usize = 92;
pub(super) const REP_PRIVATE: usize = 196;
pub(super) const REJ_PRIVATE: usize = 148;
pub(super) const DREQ_PRIVATE: usize = 220;
pub(super) const DREP_PRIVATE: usize = 224;
pub(super) const RTU_PRIVATE: usize = 224;
pub(super) const MRA_PRIVATE: usize = 222;

/// Which message a REJ or an MRA is about; the numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum About {
    Req = 0,
    Rep = 1,
    Other = 2,
}

/// A path as a REQ has it, seen from its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReqPath {
    pub local_lid: u16,
    pub remote_lid: u16,
    pub local_gid: Gid,
    pub remote_gid: Gid,
    pub flow_label: u32,
    pub rate: u8,
    pub tclass: u8,
    pub hop_limit: u8,
    pub sl: u8,
    pub subnet_local: bool,
    /// Five bits.
    pub ack_timeout: u8,
}

/// A request for a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Req {
    pub service_id: u64,
    pub guid: u64,
    pub qpn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    /// Five bits: what the receiver may take to answer.
    pub remote_response: u8,
    /// 0 is RC.
    pub transport: u8,
    pub flow_control: bool,
    pub first_psn: u32,
    /// Five bits: what the sender may take to answer.
    pub local_response: u8,
    pub retry: u8,
    pub p_key: u16,
    pub path_mtu: u8,
    pub rnr_retry: u8,
    /// Four bits.
    pub cm_retries: u8,
    pub srq: bool,
    pub path: ReqPath,
    pub private: Vec<u8>,
}

/// An answer that agrees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rep {
    pub qpn: u32,
    pub first_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    /// Five bits.
    pub target_ack_delay: u8,
    pub flow_control: bool,
    pub rnr_retry: u8,
    pub srq: bool,
    pub guid: u64,
    pub private: Vec<u8>,
}

/// An answer that does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rej {
    pub about: About,
    pub reason: u16,
    /// Additional reject information.
    pub info: Vec<u8>,
    pub private: Vec<u8>,
}

/// What a message says beyond its two numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Req(Box<Req>),
    Mra { about: About, service: u8, private: Vec<u8> },
    Rej(Rej),
    Rep(Rep),
    Rtu { private: Vec<u8> },
    Dreq { qpn: u32, private: Vec<u8> },
    Drep { private: Vec<u8> },
}

/// A message. `local` is the sender's number of the connection, `remote` the receiver's, 0 if it is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub transaction: u64,
    pub local: u32,
    pub remote: u32,
    pub body: Body,
}

/// The data of a MAD that is written.
struct Out([u8; MAD_LEN]);

impl Out {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[HEADER + at..HEADER + at + bytes.len()].copy_from_slice(bytes);
    }

    /// Private data, cut at what there is room for.
    fn private(&mut self, at: usize, room: usize, bytes: &[u8]) {
        self.put(at, &bytes[..bytes.len().min(room)]);
    }

    fn gid(&mut self, at: usize, gid: Gid) {
        self.put(at, &gid.to_bytes());
    }
}

/// The data of a MAD that is read.
struct In<'a>(&'a [u8]);

impl In<'_> {
    fn u8(&self, at: usize) -> u8 {
        self.0[HEADER + at]
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from(self.u8(at)) << 8 | u16::from(self.u8(at + 1))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    fn u24(&self, at: usize) -> u32 {
        self.u32(at) >> 8
    }

    fn private(&self, at: usize, len: usize) -> Vec<u8> {
        self.0[HEADER + at..HEADER + at + len].to_vec()
    }

    fn gid(&self, at: usize) -> Gid {
        Gid { prefix: self.u64(at), guid: self.u64(at + 8) }
    }
}

/// A REQ's data, and where private data begins in it.
pub(super) fn data_of_req(req: &Req) -> (Vec<u8>, usize) {
    let mut out = Out([0; MAD_LEN]);
    emit_req(&mut out, req);
    (out.0[HEADER..].to_vec(), REQ_PRIVATE_AT)
}

/// A REP's, likewise.
pub(super) fn data_of_rep(rep: &Rep) -> (Vec<u8>, usize) {
    let mut out = Out([0; MAD_LEN]);
    emit_rep(&mut out, rep);
    (out.0[HEADER..].to_vec(), REP_PRIVATE_AT)
}

impl Body {
    const fn attribute(&self) -> u16 {
        match self {
            Body::Req(_) => 0x10,
            Body::Mra { .. } => 0x11,
            Body::Rej(_) => 0x12,
            Body::Rep(_) => 0x13,
            Body::Rtu { .. } => 0x14,
            Body::Dreq { .. } => 0x15,
            Body::Drep { .. } => 0x16,
        }
    }
}

impl Message {
    /// The 256 bytes.
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let mut out = Out([0; MAD_LEN]);
        out.0[..4].copy_from_slice(&[1, CLASS, CLASS_VERSION, METHOD_SEND]);
        out.0[8..16].copy_from_slice(&self.transaction.to_be_bytes());
        out.0[16..18].copy_from_slice(&self.body.attribute().to_be_bytes());
        out.put(0, &self.local.to_be_bytes());
        match &self.body {
            Body::Req(req) => emit_req(&mut out, req),
            body => {
                out.put(4, &self.remote.to_be_bytes());
                emit_answer(&mut out, body);
            }
        }
        out.0
    }

    /// Takes 256 bytes apart; `None` if they are no message of communication management, or one that nobody here knows.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != MAD_LEN || bytes[..4] != [1, CLASS, CLASS_VERSION, METHOD_SEND] {
            return None;
        }
        let data = In(bytes);
        let transaction = u64::from_be_bytes(bytes[8..16].try_into().ok()?);
        let attribute = u16::from_be_bytes([bytes[16], bytes[17]]);
        let body = match attribute {
            0x10 => Body::Req(Box::new(parse_req(&data))),
            0x11 => Body::Mra {
                about: about(data.u8(8) >> 6),
                service: data.u8(9) >> 3,
                private: data.private(10, MRA_PRIVATE),
            },
            0x12 => Body::Rej(parse_rej(&data)),
            0x13 => Body::Rep(parse_rep(&data)),
            0x14 => Body::Rtu { private: data.private(8, RTU_PRIVATE) },
            0x15 => Body::Dreq { qpn: data.u24(8), private: data.private(12, DREQ_PRIVATE) },
            0x16 => Body::Drep { private: data.private(8, DREP_PRIVATE) },
            _ => return None,
        };
        let remote = if attribute == 0x10 { 0 } else { data.u32(4) };
        Some(Message { transaction, local: data.u32(0), remote, body })
    }
}

fn about(bits: u8) -> About {
    match bits {
        0 => About::Req,
        1 => About::Rep,
        _ => About::Other,
    }
}

fn emit_req(out: &mut Out, req: &Req) {
    out.put(8, &req.service_id.to_be_bytes());
    out.put(16, &req.guid.to_be_bytes());
    out.put(32, &(req.qpn << 8 | u32::from(req.responder_resources)).to_be_bytes());
    out.put(39, &[req.initiator_depth]);
    out.put(43, &[req.remote_response << 3 | (req.transport & 3) << 1 | u8::from(req.flow_control)]);
    out.put(44, &(req.first_psn << 8).to_be_bytes());
    out.put(47, &[req.local_response << 3 | req.retry & 7]);
    out.put(48, &req.p_key.to_be_bytes());
    out.put(50, &[req.path_mtu << 4 | req.rnr_retry & 7]);
    out.put(51, &[req.cm_retries << 4 | u8::from(req.srq) << 3]);
    let path = &req.path;
    out.put(52, &path.local_lid.to_be_bytes());
    out.put(54, &path.remote_lid.to_be_bytes());
    out.gid(56, path.local_gid);
    out.gid(72, path.remote_gid);
    out.put(88, &(path.flow_label << 12 | u32::from(path.rate & 0x3f)).to_be_bytes());
    out.put(92, &[path.tclass, path.hop_limit]);
    out.put(94, &[path.sl << 4 | u8::from(path.subnet_local) << 3]);
    out.put(95, &[path.ack_timeout << 3]);
    out.private(REQ_PRIVATE_AT, REQ_PRIVATE, &req.private);
}

fn parse_req(data: &In<'_>) -> Req {
    Req {
        service_id: data.u64(8),
        guid: data.u64(16),
        qpn: data.u24(32),
        responder_resources: data.u8(35),
        initiator_depth: data.u8(39),
        remote_response: data.u8(43) >> 3,
        transport: data.u8(43) >> 1 & 3,
        flow_control: data.u8(43) & 1 != 0,
        first_psn: data.u24(44),
        local_response: data.u8(47) >> 3,
        retry: data.u8(47) & 7,
        p_key: data.u16(48),
        path_mtu: data.u8(50) >> 4,
        rnr_retry: data.u8(50) & 7,
        cm_retries: data.u8(51) >> 4,
        srq: data.u8(51) & 8 != 0,
        path: ReqPath {
            local_lid: data.u16(52),
            remote_lid: data.u16(54),
            local_gid: data.gid(56),
            remote_gid: data.gid(72),
            flow_label: data.u32(88) >> 12,
            rate: data.u8(91) & 0x3f,
            tclass: data.u8(92),
            hop_limit: data.u8(93),
            sl: data.u8(94) >> 4,
            subnet_local: data.u8(94) & 8 != 0,
            ack_timeout: data.u8(95) >> 3,
        },
        private: data.private(REQ_PRIVATE_AT, REQ_PRIVATE),
    }
}

fn emit_answer(out: &mut Out, body: &Body) {
    match body {
        Body::Req(_) => {}
        Body::Mra { about, service, private } => {
            out.put(8, &[(*about as u8) << 6, service << 3]);
            out.private(10, MRA_PRIVATE, private);
        }
        Body::Rej(rej) => {
            let info = &rej.info[..rej.info.len().min(72)];
            out.put(8, &[(rej.about as u8) << 6, (info.len() as u8) << 1]);
            out.put(10, &rej.reason.to_be_bytes());
            out.put(12, info);
            out.private(84, REJ_PRIVATE, &rej.private);
        }
        Body::Rep(rep) => emit_rep(out, rep),
        Body::Rtu { private } => out.private(8, RTU_PRIVATE, private),
        Body::Dreq { qpn, private } => {
            out.put(8, &(qpn << 8).to_be_bytes());
            out.private(12, DREQ_PRIVATE, private);
        }
        Body::Drep { private } => out.private(8, DREP_PRIVATE, private),
    }
}

fn emit_rep(out: &mut Out, rep: &Rep) {
    out.put(12, &(rep.qpn << 8).to_be_bytes());
    out.put(20, &(rep.first_psn << 8).to_be_bytes());
    out.put(24, &[rep.responder_resources, rep.initiator_depth]);
    out.put(26, &[rep.target_ack_delay << 3 | u8::from(rep.flow_control)]);
    out.put(27, &[rep.rnr_retry << 5 | u8::from(rep.srq) << 4]);
    out.put(28, &rep.guid.to_be_bytes());
    out.private(REP_PRIVATE_AT, REP_PRIVATE, &rep.private);
}

fn parse_rej(data: &In<'_>) -> Rej {
    let len = usize::from(data.u8(9) >> 1).min(72);
    Rej {
        about: about(data.u8(8) >> 6),
        reason: data.u16(10),
        info: data.private(12, len),
        private: data.private(84, REJ_PRIVATE),
    }
}

fn parse_rep(data: &In<'_>) -> Rep {
    Rep {
        qpn: data.u24(12),
        first_psn: data.u24(20),
        responder_resources: data.u8(24),
        initiator_depth: data.u8(25),
        target_ack_delay: data.u8(26) >> 3,
        flow_control: data.u8(26) & 1 != 0,
        rnr_retry: data.u8(27) >> 5,
        srq: data.u8(27) & 0x10 != 0,
        guid: data.u64(28),
        private: data.private(REP_PRIVATE_AT, REP_PRIVATE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes.resize(len, 0);
        bytes
    }

    #[test]
    fn every_message_survives_the_wire() {
        let gid = |guid| Gid { prefix: Gid::DEFAULT_PREFIX, guid };
        let req = Req {
            service_id: 0x1000_0000_0000_0048,
            guid: 0x0002_c903_000a_1b2c,
            qpn: 0x12_3456,
            responder_resources: 4,
            initiator_depth: 3,
            remote_response: 17,
            transport: 0,
            flow_control: true,
            first_psn: 0xfe_dcba,
            local_response: 20,
            retry: 5,
            p_key: 0x8001,
            path_mtu: 4,
            rnr_retry: 6,
            cm_retries: 11,
            srq: true,
            path: ReqPath {
                local_lid: 7,
                remote_lid: 9,
                local_gid: gid(1),
                remote_gid: gid(2),
                flow_label: 0xabcde,
                rate: 6,
                tclass: 1,
                hop_limit: 2,
                sl: 3,
                subnet_local: true,
                ack_timeout: 20,
            },
            private: padded(&[0, 0, 0, 0x48, 0, 0, 0xff, 0xf4], REQ_PRIVATE),
        };
        let rep = Rep {
            qpn: 0x65_4321,
            first_psn: 9,
            responder_resources: 1,
            initiator_depth: 2,
            target_ack_delay: 14,
            flow_control: true,
            rnr_retry: 7,
            srq: true,
            guid: 5,
            private: padded(&[1, 2, 3], REP_PRIVATE),
        };
        let rej =
            Rej { about: About::Rep, reason: 28, info: vec![1, 2, 3], private: padded(&[9], REJ_PRIVATE) };
        let bodies = [
            Body::Req(Box::new(req)),
            Body::Mra { about: About::Rep, service: 21, private: padded(&[4], MRA_PRIVATE) },
            Body::Rej(rej),
            Body::Rep(rep),
            Body::Rtu { private: padded(&[5], RTU_PRIVATE) },
            Body::Dreq { qpn: 0x77_7777, private: padded(&[6], DREQ_PRIVATE) },
            Body::Drep { private: padded(&[7], DREP_PRIVATE) },
        ];
        for body in bodies {
            let remote = if matches!(body, Body::Req(_)) { 0 } else { 0x0a0b_0c0d };
            let message = Message { transaction: 0x1122_3344_5566_7788, local: 0x0102_0304, remote, body };
            assert_eq!(Message::parse(&message.emit()), Some(message));
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        for seed in 0..2000u64 {
            let mut bytes = [0u8; MAD_LEN];
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            bytes[..4].copy_from_slice(&[1, CLASS, CLASS_VERSION, METHOD_SEND]);
            bytes[16..18].copy_from_slice(&(0x0f + (seed % 10) as u16).to_be_bytes());
            let _ = Message::parse(&bytes);
        }
        assert_eq!(Message::parse(&[0; MAD_LEN]), None);
        assert_eq!(Message::parse(&[]), None);
    }
}
