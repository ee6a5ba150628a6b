//! Parsing into values and emitting from values; nothing re-checks after [`Packet::parse`].

use super::crc;
use crate::{Gid, Lid, PKey, QKey, Qpn, Sl};

/// Length of the local route header.
pub const LRH_LEN: usize = 8;
/// Length of the global route header.
pub const GRH_LEN: usize = 40;
/// Length of the base transport header.
pub(super) const BTH_LEN: usize = 12;
/// Length of the datagram extended transport header.
pub(super) const DETH_LEN: usize = 8;
pub(super) const IMMEDIATE_LEN: usize = 4;
pub(super) const ICRC_LEN: usize = 4;
pub(super) const VCRC_LEN: usize = 2;

const LNH_BTH: u8 = 2;
pub(super) const LNH_GRH: u8 = 3;
/// GRH.NxtHdr of an InfiniBand transport packet.
const NEXT_HEADER_BTH: u8 = 0x1b;

/// BTH opcode of a datagram.
pub const UD_SEND_ONLY: u8 = 0x64;
/// BTH opcode of a datagram with immediate data.
pub const UD_SEND_ONLY_IMMEDIATE: u8 = 0x65;

/// Local route header, the fields that vary (LVer is 0, PktLen follows from the packet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lrh {
    /// Virtual lane: 0 for data, 15 for subnet management.
    pub vl: u8,
    /// Service level.
    pub sl: Sl,
    /// Destination.
    pub dlid: Lid,
    /// Source.
    pub slid: Lid,
}

/// Global route header (IPVer is 6, PayLen and NxtHdr follow from the packet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grh {
    /// Traffic class.
    pub tclass: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source.
    pub sgid: Gid,
    /// Destination, unicast or multicast.
    pub dgid: Gid,
}

/// Base transport header (TVer is 0, PadCnt follows from the payload, MigReq is 1; AckReq is 0 but in requests on connections).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// Solicited event.
    pub solicited: bool,
    /// Partition.
    pub pkey: PKey,
    /// Destination queue pair.
    pub dest: Qpn,
    /// 24 bits; counts packets per sending QP, of which receivers of datagrams do not look at it.
    pub psn: u32,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// Queue key the receiver compares with its own.
    pub qkey: QKey,
    /// Source queue pair.
    pub src: Qpn,
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum FrameError {
    #[error("frame of {0} bytes is shorter than its headers")]
    Short(usize),
    #[error("LRH says {lrh} bytes, the frame has {frame}")]
    Length { lrh: usize, frame: usize },
    #[error("link version or next header {0:#04x} is not local or global transport")]
    NotTransport(u8),
    #[error("GRH version, length or next header is wrong")]
    Grh,
    #[error("opcode {0:#04x} is not one of this transport")]
    Opcode(u8),
    #[error("AETH syndrome {0:#04x} means nothing")]
    Syndrome(u8),
    #[error("padding exceeds the payload")]
    Padding,
    #[error("invariant CRC is wrong")]
    Icrc,
    #[error("variant CRC is wrong")]
    Vcrc,
}

/// A parsed UD packet; the payload excludes padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Local route.
    pub lrh: Lrh,
    /// Global route, if any.
    pub grh: Option<Grh>,
    /// Transport.
    pub bth: Bth,
    /// Datagram.
    pub deth: Deth,
    /// Immediate data, if any.
    pub immediate: Option<u32>,
    /// Message, 0..=MTU bytes.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The frame, LRH through VCRC.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = self.emit_without_sums();
        crc::renew(&mut out, self.grh.is_some());
        out
    }

    /// The same with zeros in place of the two check sums.
    pub(super) fn emit_without_sums(&self) -> Vec<u8> {
        let pad = self.payload.len().wrapping_neg() & 3;
        let mut out =
            Vec::with_capacity(LRH_LEN + GRH_LEN + 24 + self.payload.len() + pad + ICRC_LEN + VCRC_LEN);
        let transport = BTH_LEN + DETH_LEN + self.immediate.map_or(0, |_| IMMEDIATE_LEN);
        let after_grh = transport + self.payload.len() + pad + ICRC_LEN;
        let total = LRH_LEN + self.grh.map_or(0, |_| GRH_LEN) + after_grh;
        self.lrh.emit(&mut out, self.grh.is_some(), total);
        if let Some(grh) = &self.grh {
            grh.emit(&mut out, after_grh);
        }
        self.emit_transport(&mut out, pad);
        out.extend_from_slice(self.payload);
        out.resize(out.len() + pad + ICRC_LEN + VCRC_LEN, 0);
        out
    }

    fn emit_transport(&self, out: &mut Vec<u8>, pad: usize) {
        let opcode = if self.immediate.is_some() { UD_SEND_ONLY_IMMEDIATE } else { UD_SEND_ONLY };
        self.bth.emit(out, opcode, pad, false);
        out.extend_from_slice(&self.deth.qkey.0.to_be_bytes());
        out.extend_from_slice(&self.deth.src.get().to_be_bytes());
        if let Some(immediate) = self.immediate {
            out.extend_from_slice(&immediate.to_be_bytes());
        }
    }

    /// Checks lengths, versions and both CRCs and takes the packet apart.
    ///
    /// # Errors
    /// The first thing found wrong, outermost first.
    pub fn parse(frame: &'a [u8]) -> Result<Packet<'a>, FrameError> {
        let body = check_vcrc(frame)?;
        let (lrh, has_grh) = Lrh::parse(body)?;
        check_icrc(body, has_grh)?;
        Self::parse_body(lrh, has_grh, body)
    }

    /// The same, its check sums taken for right.
    pub(super) fn parse_trusted(frame: &'a [u8]) -> Result<Packet<'a>, FrameError> {
        let body = without_vcrc(frame)?;
        let (lrh, has_grh) = Lrh::parse(body)?;
        Self::parse_body(lrh, has_grh, body)
    }

    /// `body` is the frame up to its VCRC.
    fn parse_body(lrh: Lrh, has_grh: bool, body: &'a [u8]) -> Result<Packet<'a>, FrameError> {
        let transport = if has_grh { LRH_LEN + GRH_LEN } else { LRH_LEN };
        let grh = if has_grh { Some(Grh::parse(body)?) } else { None };
        let t = body.get(transport..body.len() - ICRC_LEN).ok_or(FrameError::Short(body.len()))?;
        let has_immediate = match t.first() {
            Some(&UD_SEND_ONLY) => false,
            Some(&UD_SEND_ONLY_IMMEDIATE) => true,
            Some(&other) => return Err(FrameError::Opcode(other)),
            None => return Err(FrameError::Short(body.len())),
        };
        let header_len = BTH_LEN + DETH_LEN + if has_immediate { IMMEDIATE_LEN } else { 0 };
        if t.len() < header_len {
            return Err(FrameError::Short(body.len()));
        }
        let pad = usize::from(t[1] >> 4 & 3);
        let end = t.len().checked_sub(pad).filter(|&e| e >= header_len).ok_or(FrameError::Padding)?;
        Ok(Packet {
            lrh,
            grh,
            bth: Bth::parse(t),
            deth: Deth { qkey: QKey(be32(t, 12)), src: Qpn::truncating(be32(t, 16)) },
            immediate: has_immediate.then(|| be32(t, 20)),
            payload: &t[header_len..end],
        })
    }

    /// The destination LID alone, for a switch that looks no further; `None` if the VCRC is wrong or the frame too short.
    #[must_use]
    pub fn route(frame: &[u8]) -> Option<Lid> {
        check_vcrc(frame).ok().map(|body| Lid(be16(body, 2)))
    }

    /// The same, its VCRC taken for right.
    pub(super) fn route_trusted(frame: &[u8]) -> Option<Lid> {
        without_vcrc(frame).ok().map(|body| Lid(be16(body, 2)))
    }
}

/// The headers that a router looks at, and no more: of a `trusted` frame the variant CRC is taken for right.
pub(super) fn routing_headers(frame: &[u8], trusted: bool) -> Result<(Lrh, Option<Grh>), FrameError> {
    let body = if trusted { without_vcrc(frame)? } else { check_vcrc(frame)? };
    let (lrh, has_grh) = Lrh::parse(body)?;
    let grh = if has_grh { Some(Grh::parse(body)?) } else { None };
    Ok((lrh, grh))
}

impl Bth {
    /// Twelve bytes; `pad` is how many zeros follow the payload.
    pub(super) fn emit(&self, out: &mut Vec<u8>, opcode: u8, pad: usize, ack_request: bool) {
        out.push(opcode);
        out.push(u8::from(self.solicited) << 7 | 0x40 | (pad as u8) << 4);
        out.extend_from_slice(&self.pkey.0.to_be_bytes());
        out.extend_from_slice(&self.dest.get().to_be_bytes());
        let ack = u32::from(ack_request) << 31;
        out.extend_from_slice(&(ack | self.psn & 0x00ff_ffff).to_be_bytes());
    }

    /// `t` has twelve bytes at least.
    pub(super) fn parse(t: &[u8]) -> Bth {
        Bth {
            solicited: t[1] & 0x80 != 0,
            pkey: PKey(be16(t, 2)),
            dest: Qpn::truncating(be32(t, 4)),
            psn: be32(t, 8) & 0x00ff_ffff,
        }
    }
}

impl Lrh {
    /// Eight bytes; `total` is the length of the frame up to its VCRC.
    pub(super) fn emit(&self, out: &mut Vec<u8>, has_grh: bool, total: usize) {
        let lnh = if has_grh { LNH_GRH } else { LNH_BTH };
        out.push(self.vl << 4);
        out.push(self.sl.get() << 4 | lnh);
        out.extend_from_slice(&self.dlid.0.to_be_bytes());
        out.extend_from_slice(&((total / 4) as u16 & 0x7ff).to_be_bytes());
        out.extend_from_slice(&self.slid.0.to_be_bytes());
    }

    pub(super) fn parse(body: &[u8]) -> Result<(Lrh, bool), FrameError> {
        if body.len() < LRH_LEN + BTH_LEN + ICRC_LEN {
            return Err(FrameError::Short(body.len()));
        }
        let has_grh = match (body[0] & 0xf, body[1] & 3) {
            (0, LNH_BTH) => false,
            (0, LNH_GRH) => true,
            _ => return Err(FrameError::NotTransport(body[1])),
        };
        let stated = usize::from(be16(body, 4) & 0x7ff) * 4;
        if stated != body.len() {
            return Err(FrameError::Length { lrh: stated, frame: body.len() });
        }
        let lrh = Lrh {
            vl: body[0] >> 4,
            sl: Sl::truncating(body[1] >> 4),
            dlid: Lid(be16(body, 2)),
            slid: Lid(be16(body, 6)),
        };
        Ok((lrh, has_grh))
    }
}

impl Grh {
    pub(super) fn emit(&self, out: &mut Vec<u8>, pay_len: usize) {
        let word = 6 << 28 | u32::from(self.tclass) << 20 | self.flow_label & 0x000f_ffff;
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&(pay_len as u16).to_be_bytes());
        out.push(NEXT_HEADER_BTH);
        out.push(self.hop_limit);
        out.extend_from_slice(&self.sgid.to_bytes());
        out.extend_from_slice(&self.dgid.to_bytes());
    }

    pub(super) fn parse(body: &[u8]) -> Result<Grh, FrameError> {
        let g = body.get(LRH_LEN..LRH_LEN + GRH_LEN).ok_or(FrameError::Short(body.len()))?;
        let word = be32(g, 0);
        let pay_len = usize::from(be16(g, 4));
        if word >> 28 != 6 || g[6] != NEXT_HEADER_BTH || pay_len != body.len() - LRH_LEN - GRH_LEN {
            return Err(FrameError::Grh);
        }
        Ok(Grh {
            tclass: (word >> 20) as u8,
            flow_label: word & 0x000f_ffff,
            hop_limit: g[7],
            sgid: gid(g, 8),
            dgid: gid(g, 24),
        })
    }

    /// The 40 bytes a receiver finds in front of its payload; `pay_len` as on the wire.
    #[must_use]
    pub fn to_bytes(&self, pay_len: usize) -> [u8; GRH_LEN] {
        let mut out = Vec::with_capacity(GRH_LEN);
        self.emit(&mut out, pay_len);
        let mut raw = [0; GRH_LEN];
        raw.copy_from_slice(&out);
        raw
    }
}

pub(super) fn check_vcrc(frame: &[u8]) -> Result<&[u8], FrameError> {
    let body = without_vcrc(frame)?;
    if crc::vcrc(body) == frame[body.len()..] { Ok(body) } else { Err(FrameError::Vcrc) }
}

pub(super) fn without_vcrc(frame: &[u8]) -> Result<&[u8], FrameError> {
    if frame.len() < LRH_LEN + ICRC_LEN + VCRC_LEN {
        return Err(FrameError::Short(frame.len()));
    }
    Ok(&frame[..frame.len() - VCRC_LEN])
}

pub(super) fn check_icrc(body: &[u8], has_grh: bool) -> Result<(), FrameError> {
    let (covered, icrc) = body.split_at(body.len() - ICRC_LEN);
    if has_grh && covered.len() < LRH_LEN + GRH_LEN + BTH_LEN {
        return Err(FrameError::Short(body.len()));
    }
    if crc::icrc(covered, has_grh) == icrc { Ok(()) } else { Err(FrameError::Icrc) }
}

pub(super) fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

pub(super) fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn gid(b: &[u8], at: usize) -> Gid {
    let mut raw = [0; 16];
    raw.copy_from_slice(&b[at..at + 16]);
    Gid::from_bytes(raw)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::wire) fn packet(payload: &[u8], grh: bool, immediate: Option<u32>) -> Packet<'_> {
        Packet {
            lrh: Lrh { vl: 0, sl: Sl::truncating(3), dlid: Lid(0xc001), slid: Lid(7) },
            grh: grh.then_some(Grh {
                tclass: 0xab,
                flow_label: 0x54321,
                hop_limit: 9,
                sgid: Gid { prefix: Gid::DEFAULT_PREFIX, guid: 0x10 },
                dgid: Gid { prefix: 0xff12_401b_ffff_0000, guid: 0xffff_ffff },
            }),
            bth: Bth { solicited: true, pkey: PKey(0x8001), dest: Qpn::MULTICAST, psn: 0x12_3456 },
            deth: Deth { qkey: QKey(0xb1b), src: Qpn::truncating(0x99) },
            immediate,
            payload,
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(payload in proptest::collection::vec(any::<u8>(), 0..4097), grh: bool,
                                     immediate: Option<u32>) {
            let sent = packet(&payload, grh, immediate);
            let frame = sent.emit();
            prop_assert_eq!((frame.len() - VCRC_LEN) % 4, 0);
            prop_assert_eq!(Packet::parse(&frame), Ok(sent));
        }

        #[test]
        fn any_single_bit_error_is_noticed(bit in 0usize..8 * 100) {
            let mut frame = packet(b"payload that is padded", true, None).emit();
            let bit = bit % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Packet::parse(&frame).is_err());
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), reseal: bool) {
            let mut bytes = bytes;
            if reseal && bytes.len() > VCRC_LEN {
                let at = bytes.len() - VCRC_LEN;
                let vcrc = crc::vcrc(&bytes[..at]);
                bytes[at..].copy_from_slice(&vcrc);
            }
            let _ = Packet::parse(&bytes);
        }
    }
}
