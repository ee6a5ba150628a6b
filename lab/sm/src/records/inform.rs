//! `InformInfo` asks for reports of traps, `Notice` is what a report carries (IBA volume 1, 13.4.8.2 and 13.4.8.3).

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Gid, Lid, Qpn};

/// The traps a subnet administrator reports on its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trap {
    /// 64: a port came into service.
    GidInService,
    /// 65: a port went out of service.
    GidOutOfService,
    /// 66: a multicast group has its first full member.
    GroupCreated,
    /// 67: a multicast group lost its last full member.
    GroupDeleted,
}

impl Trap {
    /// From `TrapNumber`; `None` for other traps.
    pub const fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            64 => Self::GidInService,
            65 => Self::GidOutOfService,
            66 => Self::GroupCreated,
            67 => Self::GroupDeleted,
            _ => return None,
        })
    }

    /// To `TrapNumber`.
    pub const fn number(self) -> u16 {
        64 + self as u16
    }

    /// Whether the subject is a multicast group.
    pub const fn is_of_group(self) -> bool {
        matches!(self, Self::GroupCreated | Self::GroupDeleted)
    }
}

/// A subscription to reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InformInfo {
    /// Only notices from this port; zero for any.
    pub gid: Gid,
    /// Only notices from these LIDs; [`Lid::PERMISSIVE`] for any.
    pub lid_range_begin: Lid,
    /// End of the range, inclusive; zero for a range of one.
    pub lid_range_end: Lid,
    /// Traps of the standard's, not a vendor's.
    pub is_generic: bool,
    /// Subscribe, not unsubscribe.
    pub subscribe: bool,
    /// Notice type: 3 subnet management, 4 informational; 0xffff for any.
    pub kind: u16,
    /// 0xffff for any.
    pub trap_number: u16,
    /// Where the reports go. Ignored on subscribing; the stored one is needed to unsubscribe.
    pub qpn: Qpn,
    /// An `ib_time_t` of five bits.
    pub resp_time: u8,
    /// 24 bits: 1 channel adapter, 2 switch, 3 router, 4 class manager; 0xffffff for any.
    pub producer_type: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct InformWire {
    gid: [u8; 16],
    lid_range_begin: U16,
    lid_range_end: U16,
    reserved: U16,
    is_generic: u8,
    subscribe: u8,
    kind: U16,
    trap_number: U16,
    qpn_resp_time: U32,
    producer_type: U32,
}

impl InformInfo {
    /// A subscription to every generic trap of such producers, from whatever port: what ibmf asks for.
    pub fn every_trap(producer_type: u32) -> Self {
        Self {
            lid_range_begin: Lid::PERMISSIVE,
            is_generic: true,
            subscribe: true,
            kind: 0xffff,
            trap_number: 0xffff,
            producer_type,
            ..Self::default()
        }
    }
}

impl Record for InformInfo {
    const ATTRIBUTE: Attribute = Attribute::INFORM_INFO;
    const LEN: usize = size_of::<InformWire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = InformWire::ref_from_prefix(bytes).ok()?;
        let qpn_resp_time = wire.qpn_resp_time.get();
        Some(Self {
            gid: Gid::from_bytes(wire.gid),
            lid_range_begin: Lid(wire.lid_range_begin.get()),
            lid_range_end: Lid(wire.lid_range_end.get()),
            is_generic: wire.is_generic != 0,
            subscribe: wire.subscribe != 0,
            kind: wire.kind.get(),
            trap_number: wire.trap_number.get(),
            qpn: Qpn::truncating(qpn_resp_time >> 8),
            resp_time: qpn_resp_time as u8 & 31,
            producer_type: wire.producer_type.get() & 0xff_ffff,
        })
    }

    fn emit(&self) -> Vec<u8> {
        let wire = InformWire {
            gid: self.gid.to_bytes(),
            lid_range_begin: self.lid_range_begin.0.into(),
            lid_range_end: self.lid_range_end.0.into(),
            reserved: 0.into(),
            is_generic: u8::from(self.is_generic),
            subscribe: u8::from(self.subscribe),
            kind: self.kind.into(),
            trap_number: self.trap_number.into(),
            qpn_resp_time: (self.qpn.get() << 8 | u32::from(self.resp_time & 31)).into(),
            producer_type: (self.producer_type & 0xff_ffff).into(),
        };
        wire.as_bytes().to_vec()
    }
}

/// What a report tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// A trap of the standard's.
    pub is_generic: bool,
    /// Seven bits: 3 subnet management, 4 informational.
    pub kind: u8,
    /// 24 bits: who produced it, 4 for a class manager.
    pub producer_type: u32,
    /// Which trap.
    pub trap_number: u16,
    /// Who issued it.
    pub issuer_lid: Lid,
    /// Toggle bit and count.
    pub toggle_count: u16,
    /// 54 bytes of details, by trap.
    pub details: [u8; 54],
    /// Who issued it.
    pub issuer_gid: Gid,
}

impl Notice {
    /// The notice a subnet administrator at `issuer` sends of `trap` about `subject`, a port's GID or an MGID.
    pub fn of(trap: Trap, subject: Gid, issuer_lid: Lid, issuer_gid: Gid) -> Self {
        let mut details = [0; 54];
        details[6..22].copy_from_slice(&subject.to_bytes());
        Self {
            is_generic: true,
            kind: 3,
            producer_type: 4,
            trap_number: trap.number(),
            issuer_lid,
            toggle_count: 0,
            details,
            issuer_gid,
        }
    }

    /// The port's GID or MGID that traps 64 to 67 are about; `None` for other traps.
    pub fn subject(&self) -> Option<(Trap, Gid)> {
        let trap = Trap::from_number(self.trap_number).filter(|_| self.is_generic)?;
        let (_, rest) = self.details.split_first_chunk::<6>()?;
        let (gid, _) = rest.split_first_chunk::<16>()?;
        Some((trap, Gid::from_bytes(*gid)))
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NoticeWire {
    generic_kind_producer: U32,
    trap_number: U16,
    issuer_lid: U16,
    toggle_count: U16,
    details: [u8; 54],
    issuer_gid: [u8; 16],
}

impl Record for Notice {
    const ATTRIBUTE: Attribute = Attribute::NOTICE;
    const LEN: usize = size_of::<NoticeWire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = NoticeWire::ref_from_prefix(bytes).ok()?;
        let first = wire.generic_kind_producer.get();
        Some(Self {
            is_generic: first >> 31 != 0,
            kind: (first >> 24) as u8 & 0x7f,
            producer_type: first & 0xff_ffff,
            trap_number: wire.trap_number.get(),
            issuer_lid: Lid(wire.issuer_lid.get()),
            toggle_count: wire.toggle_count.get(),
            details: wire.details,
            issuer_gid: Gid::from_bytes(wire.issuer_gid),
        })
    }

    fn emit(&self) -> Vec<u8> {
        let first = u32::from(self.is_generic) << 31
            | u32::from(self.kind & 0x7f) << 24
            | (self.producer_type & 0xff_ffff);
        let wire = NoticeWire {
            generic_kind_producer: first.into(),
            trap_number: self.trap_number.into(),
            issuer_lid: self.issuer_lid.0.into(),
            toggle_count: self.toggle_count.into(),
            details: self.details,
            issuer_gid: self.issuer_gid.to_bytes(),
        };
        wire.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_notice_stands_at_offset_16() {
        let mgid = Gid { prefix: 0xff12_401b_ffff_0000, guid: 0xffff_ffff };
        let notice =
            Notice::of(Trap::GroupCreated, mgid, Lid(1), Gid::of_port(Gid::DEFAULT_PREFIX, crate::Guid(5)));
        let bytes = notice.emit();
        assert_eq!(bytes.len(), 80);
        assert_eq!(bytes[..8], [0x83, 0, 0, 4, 0, 66, 0, 1]);
        assert_eq!(bytes[16..32], mgid.to_bytes());
        assert_eq!(notice.subject(), Some((Trap::GroupCreated, mgid)));
    }

    #[test]
    fn an_inform_info_is_36_bytes_with_the_producer_type_at_33() {
        let inform = InformInfo { producer_type: 4, qpn: Qpn::GSI, resp_time: 19, ..InformInfo::default() };
        let bytes = inform.emit();
        assert_eq!(bytes[28..36], [0, 0, 1, 19, 0, 0, 0, 4]);
    }
}
