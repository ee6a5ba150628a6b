//! `PathRecord`: how to reach one port or group from another (IBA volume 1, 15.2.5.16).

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Bound, Gid, Lid, PKey, Sl};

/// Component mask bits of [`PathRecord`].
pub mod path_mask {
    #![allow(missing_docs, reason = "the names of the record's fields")]
    /// Two components on the wire: both halves or neither.
    pub const SERVICE_ID: u64 = 3;
    pub const DGID: u64 = 1 << 2;
    pub const SGID: u64 = 1 << 3;
    pub const DLID: u64 = 1 << 4;
    pub const SLID: u64 = 1 << 5;
    pub const RAW: u64 = 1 << 6;
    pub const FLOW_LABEL: u64 = 1 << 8;
    pub const HOP_LIMIT: u64 = 1 << 9;
    pub const T_CLASS: u64 = 1 << 10;
    pub const REVERSIBLE: u64 = 1 << 11;
    pub const NUMB_PATH: u64 = 1 << 12;
    pub const P_KEY: u64 = 1 << 13;
    pub const QOS_CLASS: u64 = 1 << 14;
    pub const SL: u64 = 1 << 15;
    pub const MTU_SELECTOR: u64 = 1 << 16;
    pub const MTU: u64 = 1 << 17;
    pub const RATE_SELECTOR: u64 = 1 << 18;
    pub const RATE: u64 = 1 << 19;
    pub const LIFETIME_SELECTOR: u64 = 1 << 20;
    pub const LIFETIME: u64 = 1 << 21;
    pub const PREFERENCE: u64 = 1 << 22;
}

/// How to reach one port or group from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// For which service; zero for any.
    pub service_id: u64,
    /// The destination: a port or a group.
    pub dgid: Gid,
    /// The source port.
    pub sgid: Gid,
    /// Where packets are sent.
    pub dlid: Lid,
    /// The source's LID on this path; zero for a group, as OpenSM answers.
    pub slid: Lid,
    /// Raw packets.
    pub raw: bool,
    /// GRH flow label, 20 bits.
    pub flow_label: u32,
    /// GRH hop limit.
    pub hop_limit: u8,
    /// GRH traffic class.
    pub t_class: u8,
    /// The same way back.
    pub reversible: bool,
    /// How many paths are wanted, seven bits.
    pub numb_path: u8,
    /// A partition both ends share.
    pub p_key: PKey,
    /// Twelve bits.
    pub qos_class: u16,
    /// Service level.
    pub sl: Sl,
    /// [`MtuCode`](crate::MtuCode) with selector.
    pub mtu: Bound,
    /// [`RateCode`](crate::RateCode) with selector.
    pub rate: Bound,
    /// An `ib_time_t` with selector.
    pub lifetime: Bound,
    /// Lower is better.
    pub preference: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    service_id: U64,
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: U16,
    slid: U16,
    raw_flow_hop: U32,
    t_class: u8,
    reversible_numb: u8,
    p_key: U16,
    qos_sl: U16,
    mtu: u8,
    rate: u8,
    lifetime: u8,
    preference: u8,
    reserved: [u8; 6],
}

impl Record for PathRecord {
    const ATTRIBUTE: Attribute = Attribute::PATH_RECORD;
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        let raw_flow_hop = wire.raw_flow_hop.get();
        let qos_sl = wire.qos_sl.get();
        Some(Self {
            service_id: wire.service_id.get(),
            dgid: Gid::from_bytes(wire.dgid),
            sgid: Gid::from_bytes(wire.sgid),
            dlid: Lid(wire.dlid.get()),
            slid: Lid(wire.slid.get()),
            raw: raw_flow_hop >> 31 != 0,
            flow_label: raw_flow_hop >> 8 & 0xf_ffff,
            hop_limit: raw_flow_hop as u8,
            t_class: wire.t_class,
            reversible: wire.reversible_numb & 0x80 != 0,
            numb_path: wire.reversible_numb & 0x7f,
            p_key: PKey(wire.p_key.get()),
            qos_class: qos_sl >> 4,
            sl: Sl::truncating(qos_sl as u8),
            mtu: Bound::from_wire(wire.mtu),
            rate: Bound::from_wire(wire.rate),
            lifetime: Bound::from_wire(wire.lifetime),
            preference: wire.preference,
        })
    }

    fn emit(&self) -> Vec<u8> {
        let raw_flow_hop =
            u32::from(self.raw) << 31 | (self.flow_label & 0xf_ffff) << 8 | u32::from(self.hop_limit);
        let wire = Wire {
            service_id: self.service_id.into(),
            dgid: self.dgid.to_bytes(),
            sgid: self.sgid.to_bytes(),
            dlid: self.dlid.0.into(),
            slid: self.slid.0.into(),
            raw_flow_hop: raw_flow_hop.into(),
            t_class: self.t_class,
            reversible_numb: u8::from(self.reversible) << 7 | (self.numb_path & 0x7f),
            p_key: self.p_key.0.into(),
            qos_sl: (self.qos_class << 4 | u16::from(self.sl.get())).into(),
            mtu: self.mtu.to_wire(),
            rate: self.rate.to_wire(),
            lifetime: self.lifetime.to_wire(),
            preference: self.preference,
            reserved: [0; 6],
        };
        wire.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_standard_puts_them() {
        let record = PathRecord {
            dlid: Lid(2),
            slid: Lid(1),
            hop_limit: 64,
            reversible: true,
            numb_path: 1,
            p_key: PKey(0xffff),
            sl: Sl::truncating(3),
            mtu: Bound::exactly(4),
            rate: Bound::exactly(3),
            lifetime: Bound::exactly(18),
            ..PathRecord::default()
        };
        let bytes = record.emit();
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[40..48], [0, 2, 0, 1, 0, 0, 0, 64]);
        assert_eq!(bytes[49..58], [0x81, 0xff, 0xff, 0, 3, 0x84, 0x83, 0x92, 0]);
    }
}
