//! `struct ib_user_mad_hdr`: what stands in front of a MAD. Numbers are in the machine's order where they concern the interface, and in
//! network order where they concern the wire.

use sm::{Gid, Lid, QKey, Qpn, Sl};
use zerocopy::byteorder::big_endian;
use zerocopy::byteorder::native_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Which layout a file speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// 56 bytes, without a P_Key index: index 0 is meant.
    #[default]
    Old,
    /// 64 bytes, with a P_Key index; after `IB_USER_MAD_ENABLE_PKEY`.
    New,
}

impl Layout {
    /// Bytes of the header.
    pub const fn size(self) -> usize {
        match self {
            Self::Old => size_of::<OldWire>(),
            Self::New => size_of::<OldWire>() + size_of::<PKeyWire>(),
        }
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The agent: who sends, or for whom it came.
    pub agent: u32,
    /// 0 for a MAD that came; otherwise an errno: `ETIMEDOUT` for a request that nobody answered, whose header follows,
    /// `EOVERFLOW` for an answer whose end may have been lost on the way. Ignored when sending.
    pub status: u32,
    /// How long an answer may take; 0: none is expected.
    pub timeout_ms: u32,
    /// How often an unanswered request is sent again.
    pub retries: u32,
    /// Bytes of the header and the MAD that came, also where the buffer is too small for them.
    pub length: u32,
    /// The other queue pair.
    pub qpn: Qpn,
    /// What to send with.
    pub q_key: QKey,
    /// The other port.
    pub lid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Of the own LID.
    pub path_bits: u8,
    /// The fields below are of a GRH; not carried here.
    pub grh_present: bool,
    /// Own GID to send with.
    pub gid_index: u8,
    /// Of the GRH.
    pub hop_limit: u8,
    /// Of the GRH.
    pub traffic_class: u8,
    /// The other port's.
    pub gid: Gid,
    /// Of the GRH, 20 bits.
    pub flow_label: u32,
    /// Index in the port's P_Key table; only in the new layout.
    pub p_key_index: u16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OldWire {
    id: U32,
    status: U32,
    timeout_ms: U32,
    retries: U32,
    length: U32,
    qpn: big_endian::U32,
    qkey: big_endian::U32,
    lid: big_endian::U16,
    sl: u8,
    path_bits: u8,
    grh_present: u8,
    gid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    gid: [u8; 16],
    flow_label: big_endian::U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PKeyWire {
    pkey_index: U16,
    reserved: [u8; 6],
}

impl Header {
    /// The header in front of a message, and what follows it; `None` if there is not even a header.
    pub fn parse(layout: Layout, message: &[u8]) -> Option<(Self, &[u8])> {
        let (wire, rest) = OldWire::ref_from_prefix(message).ok()?;
        let (p_key_index, rest) = match layout {
            Layout::Old => (0, rest),
            Layout::New => {
                let (more, rest) = PKeyWire::ref_from_prefix(rest).ok()?;
                (more.pkey_index.get(), rest)
            }
        };
        let header = Self {
            agent: wire.id.get(),
            status: wire.status.get(),
            timeout_ms: wire.timeout_ms.get(),
            retries: wire.retries.get(),
            length: wire.length.get(),
            qpn: Qpn::truncating(wire.qpn.get()),
            q_key: QKey(wire.qkey.get()),
            lid: Lid(wire.lid.get()),
            sl: Sl::truncating(wire.sl),
            path_bits: wire.path_bits,
            grh_present: wire.grh_present != 0,
            gid_index: wire.gid_index,
            hop_limit: wire.hop_limit,
            traffic_class: wire.traffic_class,
            gid: Gid::from_bytes(wire.gid),
            flow_label: wire.flow_label.get(),
            p_key_index,
        };
        Some((header, rest))
    }

    /// As it stands in front of a message.
    pub fn emit(&self, layout: Layout) -> Vec<u8> {
        let wire = OldWire {
            id: self.agent.into(),
            status: self.status.into(),
            timeout_ms: self.timeout_ms.into(),
            retries: self.retries.into(),
            length: self.length.into(),
            qpn: self.qpn.get().into(),
            qkey: self.q_key.0.into(),
            lid: self.lid.0.into(),
            sl: self.sl.get(),
            path_bits: self.path_bits,
            grh_present: self.grh_present.into(),
            gid_index: self.gid_index,
            hop_limit: self.hop_limit,
            traffic_class: self.traffic_class,
            gid: self.gid.to_bytes(),
            flow_label: self.flow_label.into(),
        };
        let mut bytes = wire.as_bytes().to_vec();
        if layout == Layout::New {
            let more = PKeyWire { pkey_index: self.p_key_index.into(), reserved: [0; 6] };
            bytes.extend(more.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_stand_as_the_kernel_reads_them() {
        let header = Header {
            agent: 3,
            timeout_ms: 0x0102_0304,
            qpn: Qpn::GSI,
            q_key: QKey::GSI,
            lid: Lid(0x0506),
            sl: Sl::truncating(7),
            p_key_index: 9,
            ..Header::default()
        };
        assert_eq!((Layout::Old.size(), Layout::New.size()), (56, 64));
        let bytes = header.emit(Layout::New);
        assert_eq!(bytes[..4], 3u32.to_ne_bytes());
        assert_eq!(bytes[8..12], 0x0102_0304u32.to_ne_bytes());
        assert_eq!(bytes[20..31], [0, 0, 0, 1, 0x80, 1, 0, 0, 5, 6, 7]);
        assert_eq!(bytes[56..58], 9u16.to_ne_bytes());
        assert_eq!(Header::parse(Layout::New, &bytes), Some((header, &[][..])));
        let old = header.emit(Layout::Old);
        assert_eq!(old, bytes[..56]);
        assert_eq!(Header::parse(Layout::Old, &old), Some((Header { p_key_index: 0, ..header }, &[][..])));
        assert_eq!(Header::parse(Layout::New, &old), None);
    }
}
