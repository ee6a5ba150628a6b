//! `MCMemberRecord`: a multicast group, and a port's place in it (IBA volume 1, 15.2.5.17).

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Bound, Gid, JoinState, Lid, PKey, QKey, Sl};

/// Component mask bits of [`McMemberRecord`].
pub mod mc_member_mask {
    #![allow(missing_docs, reason = "the names of the record's fields")]
    pub const MGID: u64 = 1 << 0;
    pub const PORT_GID: u64 = 1 << 1;
    pub const Q_KEY: u64 = 1 << 2;
    pub const MLID: u64 = 1 << 3;
    pub const MTU_SELECTOR: u64 = 1 << 4;
    pub const MTU: u64 = 1 << 5;
    pub const T_CLASS: u64 = 1 << 6;
    pub const P_KEY: u64 = 1 << 7;
    pub const RATE_SELECTOR: u64 = 1 << 8;
    pub const RATE: u64 = 1 << 9;
    pub const LIFETIME_SELECTOR: u64 = 1 << 10;
    pub const LIFETIME: u64 = 1 << 11;
    pub const SL: u64 = 1 << 12;
    pub const FLOW_LABEL: u64 = 1 << 13;
    pub const HOP_LIMIT: u64 = 1 << 14;
    pub const SCOPE: u64 = 1 << 15;
    pub const JOIN_STATE: u64 = 1 << 16;
    pub const PROXY_JOIN: u64 = 1 << 17;
    /// What a join or a leave must name.
    pub const JOIN: u64 = MGID | PORT_GID | JOIN_STATE;
    /// What a join that creates the group must name.
    pub const CREATE: u64 = JOIN | Q_KEY | P_KEY | T_CLASS | FLOW_LABEL | SL;
}

/// A multicast group, and a port's place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McMemberRecord {
    /// The group.
    pub mgid: Gid,
    /// The member.
    pub port_gid: Gid,
    /// What members check.
    pub q_key: QKey,
    /// Where its packets are sent.
    pub mlid: Lid,
    /// [`MtuCode`](crate::MtuCode) with selector.
    pub mtu: Bound,
    /// GRH traffic class.
    pub t_class: u8,
    /// The group's partition.
    pub p_key: PKey,
    /// [`RateCode`](crate::RateCode) with selector.
    pub rate: Bound,
    /// An `ib_time_t` with selector.
    pub lifetime: Bound,
    /// Service level.
    pub sl: Sl,
    /// GRH flow label, 20 bits.
    pub flow_label: u32,
    /// GRH hop limit.
    pub hop_limit: u8,
    /// Four bits, those of the MGID.
    pub scope: u8,
    /// How the member is in it.
    pub join_state: JoinState,
    /// Another port joined for the member.
    pub proxy_join: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    mgid: [u8; 16],
    port_gid: [u8; 16],
    q_key: U32,
    mlid: U16,
    mtu: u8,
    t_class: u8,
    p_key: U16,
    rate: u8,
    lifetime: u8,
    sl_flow_hop: U32,
    scope_join: u8,
    proxy: u8,
    reserved: [u8; 2],
}

impl Record for McMemberRecord {
    const ATTRIBUTE: Attribute = Attribute::MC_MEMBER_RECORD;
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        let sl_flow_hop = wire.sl_flow_hop.get();
        Some(Self {
            mgid: Gid::from_bytes(wire.mgid),
            port_gid: Gid::from_bytes(wire.port_gid),
            q_key: QKey(wire.q_key.get()),
            mlid: Lid(wire.mlid.get()),
            mtu: Bound::from_wire(wire.mtu),
            t_class: wire.t_class,
            p_key: PKey(wire.p_key.get()),
            rate: Bound::from_wire(wire.rate),
            lifetime: Bound::from_wire(wire.lifetime),
            sl: Sl::truncating((sl_flow_hop >> 28) as u8),
            flow_label: sl_flow_hop >> 8 & 0xf_ffff,
            hop_limit: sl_flow_hop as u8,
            scope: wire.scope_join >> 4,
            join_state: JoinState::truncating(wire.scope_join),
            proxy_join: wire.proxy & 0x80 != 0,
        })
    }

    fn emit(&self) -> Vec<u8> {
        let sl_flow_hop =
            u32::from(self.sl.get()) << 28 | (self.flow_label & 0xf_ffff) << 8 | u32::from(self.hop_limit);
        let wire = Wire {
            mgid: self.mgid.to_bytes(),
            port_gid: self.port_gid.to_bytes(),
            q_key: self.q_key.0.into(),
            mlid: self.mlid.0.into(),
            mtu: self.mtu.to_wire(),
            t_class: self.t_class,
            p_key: self.p_key.0.into(),
            rate: self.rate.to_wire(),
            lifetime: self.lifetime.to_wire(),
            sl_flow_hop: sl_flow_hop.into(),
            scope_join: self.scope << 4 | self.join_state.bits(),
            proxy: u8::from(self.proxy_join) << 7,
            reserved: [0; 2],
        };
        wire.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_standard_puts_them() {
        let record = McMemberRecord {
            mlid: Lid(0xc001),
            mtu: Bound::exactly(4),
            p_key: PKey(0x8001),
            sl: Sl::truncating(5),
            flow_label: 0xabcde,
            hop_limit: 7,
            scope: 2,
            join_state: JoinState::FULL,
            proxy_join: true,
            ..McMemberRecord::default()
        };
        let bytes = record.emit();
        assert_eq!(bytes.len(), 52);
        assert_eq!(bytes[36..39], [0xc0, 0x01, 0x84]);
        assert_eq!(bytes[40..42], [0x80, 0x01]);
        assert_eq!(bytes[44..50], [0x5a, 0xbc, 0xde, 0x07, 0x21, 0x80]);
    }
}
