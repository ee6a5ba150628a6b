//! Packets of reliable connections (InfiniBand Architecture volume 1, 9.2 to 9.7): SENDs and acknowledgements.

use super::crc;
use super::headers::{
    BTH_LEN, Bth, FrameError, GRH_LEN, Grh, ICRC_LEN, IMMEDIATE_LEN, LRH_LEN, Lrh, VCRC_LEN, be32,
    check_icrc, check_vcrc, without_vcrc,
};

/// The transport of an opcode is in its upper three bits; 0 is reliable connections.
const TRANSPORT: u8 = 0xe0;
const AETH_LEN: usize = 4;

/// What a packet of a connection is (BTH opcode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // The standard's names.
pub enum RcOpcode {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImmediate = 0x03,
    SendOnly = 0x04,
    SendOnlyImmediate = 0x05,
    Acknowledge = 0x11,
}

impl RcOpcode {
    /// From the BTH; `None` for operations that nobody here has.
    #[must_use]
    pub const fn from_wire(raw: u8) -> Option<Self> {
        Some(match raw {
            0x00 => Self::SendFirst,
            0x01 => Self::SendMiddle,
            0x02 => Self::SendLast,
            0x03 => Self::SendLastImmediate,
            0x04 => Self::SendOnly,
            0x05 => Self::SendOnlyImmediate,
            0x11 => Self::Acknowledge,
            _ => return None,
        })
    }

    /// Of the packet at `place` of a message.
    #[must_use]
    pub const fn of_send(first: bool, last: bool, immediate: bool) -> Self {
        match (first, last, immediate) {
            (true, true, false) => Self::SendOnly,
            (true, true, true) => Self::SendOnlyImmediate,
            (true, false, _) => Self::SendFirst,
            (false, false, _) => Self::SendMiddle,
            (false, true, false) => Self::SendLast,
            (false, true, true) => Self::SendLastImmediate,
        }
    }

    /// A message begins with it.
    #[must_use]
    pub const fn is_first(self) -> bool {
        matches!(self, Self::SendFirst | Self::SendOnly | Self::SendOnlyImmediate)
    }

    /// A message ends with it.
    #[must_use]
    pub const fn is_last(self) -> bool {
        !matches!(self, Self::SendFirst | Self::SendMiddle | Self::Acknowledge)
    }

    pub(super) const fn has_immediate(self) -> bool {
        matches!(self, Self::SendLastImmediate | Self::SendOnlyImmediate)
    }
}

/// Why a request is refused for good (NAK code).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing before it: what was missed shall be sent again.
    Sequence = 0,
    /// The receiver cannot do with it: too long, or out of turn.
    InvalidRequest = 1,
    /// No right to that memory.
    RemoteAccess = 2,
    /// The receiver failed.
    RemoteOperation = 3,
}

/// What an acknowledgement says (AETH syndrome).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// All up to this packet has arrived. The count of credits is not used: 31, "as many as you like".
    Ack,
    /// No receive was posted for this packet: again after the time of this code (5 bits).
    NotReady(u8),
    /// Refused.
    Nak(NakCode),
}

/// Acknowledgement extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Verdict.
    pub syndrome: Syndrome,
    /// Messages that the receiver has completed; 24 bits.
    pub msn: u32,
}

const NO_CREDITS_COUNTED: u8 = 0x1f;
const KIND: u8 = 0x60;
const KIND_ACK: u8 = 0x00;
const KIND_NOT_READY: u8 = 0x20;
const KIND_NAK: u8 = 0x60;

impl Aeth {
    fn emit(self) -> [u8; AETH_LEN] {
        let syndrome = match self.syndrome {
            Syndrome::Ack => KIND_ACK | NO_CREDITS_COUNTED,
            Syndrome::NotReady(timer) => KIND_NOT_READY | timer & 0x1f,
            Syndrome::Nak(code) => KIND_NAK | code as u8,
        };
        (u32::from(syndrome) << 24 | self.msn & 0x00ff_ffff).to_be_bytes()
    }

    /// `None` for codes that the standard has not given out.
    fn parse(word: u32) -> Option<Self> {
        let [raw, ..] = word.to_be_bytes();
        let syndrome = match (raw & KIND, raw & 0x1f) {
            (KIND_ACK, _) => Syndrome::Ack,
            (KIND_NOT_READY, timer) => Syndrome::NotReady(timer),
            (KIND_NAK, 0) => Syndrome::Nak(NakCode::Sequence),
            (KIND_NAK, 1) => Syndrome::Nak(NakCode::InvalidRequest),
            (KIND_NAK, 2) => Syndrome::Nak(NakCode::RemoteAccess),
            (KIND_NAK, 3) => Syndrome::Nak(NakCode::RemoteOperation),
            _ => return None,
        };
        (raw & 0x80 == 0).then_some(Self { syndrome, msn: word & 0x00ff_ffff })
    }
}

/// A parsed packet of a connection; the payload excludes padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcPacket<'a> {
    /// Local route.
    pub lrh: Lrh,
    /// Global route, if any.
    pub grh: Option<Grh>,
    /// Transport.
    pub bth: Bth,
    /// Which one.
    pub opcode: RcOpcode,
    /// The sender wants to hear of it.
    pub ack_request: bool,
    /// With [`RcOpcode::Acknowledge`] and nothing else.
    pub aeth: Option<Aeth>,
    /// With the opcodes that say so.
    pub immediate: Option<u32>,
    /// Part of a message, 0..=path MTU bytes.
    pub payload: &'a [u8],
}

/// Is this the opcode of a connection's packet?
pub(super) const fn is_connected(opcode: u8) -> bool {
    opcode & TRANSPORT == 0
}

impl<'a> RcPacket<'a> {
    /// The frame, LRH through VCRC.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = self.emit_without_sums();
        crc::renew(&mut out, self.grh.is_some());
        out
    }

    pub(super) fn emit_without_sums(&self) -> Vec<u8> {
        let pad = self.payload.len().wrapping_neg() & 3;
        let extended = self.aeth.map_or(0, |_| AETH_LEN) + self.immediate.map_or(0, |_| IMMEDIATE_LEN);
        let after_grh = BTH_LEN + extended + self.payload.len() + pad + ICRC_LEN;
        let total = LRH_LEN + self.grh.map_or(0, |_| GRH_LEN) + after_grh;
        let mut out = Vec::with_capacity(total + VCRC_LEN);
        self.lrh.emit(&mut out, self.grh.is_some(), total);
        if let Some(grh) = &self.grh {
            grh.emit(&mut out, after_grh);
        }
        self.bth.emit(&mut out, self.opcode as u8, pad, self.ack_request);
        if let Some(aeth) = self.aeth {
            out.extend_from_slice(&aeth.emit());
        }
        if let Some(immediate) = self.immediate {
            out.extend_from_slice(&immediate.to_be_bytes());
        }
        out.extend_from_slice(self.payload);
        out.resize(out.len() + pad + ICRC_LEN + VCRC_LEN, 0);
        out
    }

    /// Checks lengths, versions and both CRCs and takes the packet apart.
    ///
    /// # Errors
    /// The first thing found wrong, outermost first.
    pub fn parse(frame: &'a [u8]) -> Result<Self, FrameError> {
        let body = check_vcrc(frame)?;
        let (lrh, has_grh) = Lrh::parse(body)?;
        check_icrc(body, has_grh)?;
        Self::parse_body(lrh, has_grh, body)
    }

    /// The same, its check sums taken for right.
    pub(super) fn parse_trusted(frame: &'a [u8]) -> Result<Self, FrameError> {
        let body = without_vcrc(frame)?;
        let (lrh, has_grh) = Lrh::parse(body)?;
        Self::parse_body(lrh, has_grh, body)
    }

    fn parse_body(lrh: Lrh, has_grh: bool, body: &'a [u8]) -> Result<Self, FrameError> {
        let short = FrameError::Short(body.len());
        let at = if has_grh { LRH_LEN + GRH_LEN } else { LRH_LEN };
        let grh = if has_grh { Some(Grh::parse(body)?) } else { None };
        let t = body.get(at..body.len() - ICRC_LEN).filter(|t| t.len() >= BTH_LEN).ok_or(short)?;
        let opcode = RcOpcode::from_wire(t[0]).ok_or(FrameError::Opcode(t[0]))?;
        let acknowledges = opcode == RcOpcode::Acknowledge;
        let extended = if acknowledges { AETH_LEN } else { 0 };
        let headers = BTH_LEN + extended + if opcode.has_immediate() { IMMEDIATE_LEN } else { 0 };
        if t.len() < headers {
            return Err(short);
        }
        let aeth =
            acknowledges.then(|| Aeth::parse(be32(t, BTH_LEN)).ok_or(FrameError::Syndrome(t[BTH_LEN])));
        let pad = usize::from(t[1] >> 4 & 3);
        let end = t.len().checked_sub(pad).filter(|&e| e >= headers).ok_or(FrameError::Padding)?;
        Ok(Self {
            lrh,
            grh,
            bth: Bth::parse(t),
            opcode,
            ack_request: t[8] & 0x80 != 0,
            aeth: aeth.transpose()?,
            immediate: opcode.has_immediate().then(|| be32(t, BTH_LEN)),
            payload: &t[headers..end],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gid, Lid, PKey, Qpn, Sl};
    use proptest::prelude::*;

    fn packet(opcode: RcOpcode, payload: &[u8], grh: bool) -> RcPacket<'_> {
        let gid = |guid| Gid { prefix: Gid::DEFAULT_PREFIX, guid };
        let acknowledges = opcode == RcOpcode::Acknowledge;
        RcPacket {
            lrh: Lrh { vl: 0, sl: Sl::truncating(3), dlid: Lid(9), slid: Lid(7) },
            grh: grh.then_some(Grh {
                tclass: 1,
                flow_label: 2,
                hop_limit: 3,
                sgid: gid(0x10),
                dgid: gid(0x20),
            }),
            bth: Bth { solicited: false, pkey: PKey(0x8001), dest: Qpn::truncating(0x48), psn: 0x12_3456 },
            opcode,
            ack_request: opcode.is_last(),
            aeth: acknowledges.then_some(Aeth { syndrome: Syndrome::NotReady(22), msn: 0x00fe_dcba }),
            immediate: opcode.has_immediate().then_some(0x0102_0304),
            payload: if acknowledges { &[] } else { payload },
        }
    }

    const ALL: [RcOpcode; 7] = [
        RcOpcode::SendFirst,
        RcOpcode::SendMiddle,
        RcOpcode::SendLast,
        RcOpcode::SendLastImmediate,
        RcOpcode::SendOnly,
        RcOpcode::SendOnlyImmediate,
        RcOpcode::Acknowledge,
    ];

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(payload in proptest::collection::vec(any::<u8>(), 0..4097), grh: bool,
                                     which in 0..ALL.len()) {
            let sent = packet(ALL[which], &payload, grh);
            let frame = sent.emit();
            prop_assert_eq!((frame.len() - VCRC_LEN) % 4, 0);
            prop_assert_eq!(RcPacket::parse(&frame), Ok(sent));
        }

        #[test]
        fn any_single_bit_error_is_noticed(bit in 0usize..8 * 100) {
            let mut frame = packet(RcOpcode::SendOnly, b"payload that is padded", true).emit();
            let bit = bit % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(RcPacket::parse(&frame).is_err());
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = RcPacket::parse(&bytes);
            let _ = RcPacket::parse_trusted(&bytes);
        }
    }

    #[test]
    fn every_verdict_survives_the_wire_and_codes_that_nobody_gave_out_do_not() {
        let naks =
            [NakCode::Sequence, NakCode::InvalidRequest, NakCode::RemoteAccess, NakCode::RemoteOperation];
        let verdicts = [Syndrome::Ack, Syndrome::NotReady(0), Syndrome::NotReady(31)];
        for syndrome in verdicts.into_iter().chain(naks.map(Syndrome::Nak)) {
            let aeth = Aeth { syndrome, msn: 7 };
            assert_eq!(Aeth::parse(u32::from_be_bytes(aeth.emit())), Some(aeth));
        }
        assert_eq!(Aeth::parse(0x7f00_0000), None);
        assert_eq!(Aeth::parse(0x4000_0000), None);
    }
}
