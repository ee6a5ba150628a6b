//! The identifiers and keys of the architecture, one type each (InfiniBand Architecture volume 1, chapters 4, 9 and 10;
//! `sys/ib/ib_types.h`): what fabric, subnet manager and IBTF say to each other. Host byte order; no bytes on the wire but where a
//! function says so.
//!
//! ```
//! use iba::PKey;
//!
//! let (full, limited) = (PKey(0x8001), PKey(0x0001));
//! assert!(full.admits(limited) && full.admits(full));
//! assert!(!limited.admits(limited), "two limited members do not talk");
//! ```

#![forbid(unsafe_code)]

use std::fmt;

/// A node, port or system identifier (EUI-64), host byte order. Zero is no identifier.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A global identifier: subnet prefix and port GUID of a port, or the two halves of a multicast GID. Host byte order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid {
    /// The subnet prefix; of a multicast GID its first eight bytes.
    pub prefix: u64,
    /// The port's GUID; of a multicast GID its last eight bytes.
    pub guid: u64,
}

impl Gid {
    /// The prefix of a subnet that nobody configured: link-local, fe80::/64.
    pub const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;
    /// All sixteen bytes zero.
    pub const ZERO: Self = Self { prefix: 0, guid: 0 };

    /// The GID of port `guid` in the subnet `prefix`.
    pub const fn of_port(prefix: u64, guid: Guid) -> Self {
        Self { prefix, guid: guid.0 }
    }

    /// From wire order.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let whole = u128::from_be_bytes(bytes);
        Self { prefix: (whole >> 64) as u64, guid: whole as u64 }
    }

    /// To wire order.
    pub const fn to_bytes(self) -> [u8; 16] {
        ((self.prefix as u128) << 64 | self.guid as u128).to_be_bytes()
    }

    /// Whether the first byte is 0xff.
    pub const fn is_multicast(self) -> bool {
        self.prefix >> 56 == 0xff
    }

    /// Whether the channel interface accepts this as a group's: flags 0 or 1, scope 2, 5, 8 or 0xe.
    pub const fn is_valid_multicast(self) -> bool {
        self.is_multicast() && self.flags() <= 1 && matches!(self.scope(), 2 | 5 | 8 | 0xe)
    }

    /// Whether all bytes are zero.
    pub const fn is_zero(self) -> bool {
        self.prefix == 0 && self.guid == 0
    }

    /// The scope nibble of a multicast GID: 2 link-local, 5 site-local, 8 organisation-local, 0xe global.
    pub const fn scope(self) -> u8 {
        (self.prefix >> 48) as u8 & 0xf
    }

    /// The flags nibble of a multicast GID.
    pub const fn flags(self) -> u8 {
        (self.prefix >> 52) as u8 & 0xf
    }

    /// Bytes 2 and 3 of a multicast GID: 0x401b IPv4, 0x601b IPv6, 0xa01b made by the subnet administrator.
    pub const fn signature(self) -> u16 {
        (self.prefix >> 32) as u16
    }

    /// Bytes 4 and 5 of an IPoIB multicast GID: its P_Key (RFC 4391, section 4).
    pub const fn ipoib_pkey(self) -> PKey {
        PKey((self.prefix >> 16) as u16)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::Ipv6Addr::from(self.to_bytes()).fmt(f)
    }
}

/// A local identifier: 0 none, 1..=0xbfff unicast, 0xc000..=0xfffe multicast, 0xffff permissive.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lid(pub u16);

impl Lid {
    /// No LID assigned.
    pub const NONE: Self = Self(0);
    /// "Any port", in ranges of event subscriptions.
    pub const PERMISSIVE: Self = Self(0xffff);
    /// The first multicast LID.
    pub const FIRST_MULTICAST: Self = Self(0xc000);
    /// The last one.
    pub const LAST_MULTICAST: Self = Self(0xfffe);
    /// The last unicast LID.
    pub const LAST_UNICAST: Self = Self(0xbfff);

    /// Whether this addresses one port.
    pub const fn is_unicast(self) -> bool {
        self.0 != 0 && self.0 <= Self::LAST_UNICAST.0
    }

    /// Whether this addresses a multicast group.
    pub const fn is_multicast(self) -> bool {
        self.0 >= Self::FIRST_MULTICAST.0 && self.0 != 0xffff
    }
}

impl fmt::Debug for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// A partition key: fifteen bits of partition, and bit 15 for full membership.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PKey(pub u16);

impl PKey {
    /// Full membership of the default partition.
    pub const DEFAULT_FULL: Self = Self(0xffff);
    /// Limited membership of the default partition.
    pub const DEFAULT_LIMITED: Self = Self(0x7fff);
    /// An empty entry of a table.
    pub const INVALID: Self = Self(0);

    /// The fifteen partition bits.
    pub const fn base(self) -> u16 {
        self.0 & 0x7fff
    }

    /// Whether the membership bit is set.
    pub const fn is_full(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// This partition, as a full member.
    pub const fn full(self) -> Self {
        Self(self.0 | 0x8000)
    }

    /// This partition, as a limited member.
    pub const fn limited(self) -> Self {
        Self(self.base())
    }

    /// Whether this is a partition at all: 0x0000 and 0x8000 are not.
    pub const fn is_valid(self) -> bool {
        self.base() != 0
    }

    /// Whether holders of the two keys may talk, which is what a receiver checks: the same partition, and not both limited.
    pub const fn admits(self, other: Self) -> bool {
        self.is_valid() && self.base() == other.base() && (self.is_full() || other.is_full())
    }
}

impl fmt::Debug for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Display for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// A queue key, 32 bits. Bit 31 in a destination means "use the sending queue pair's own".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QKey(pub u32);

impl QKey {
    /// Of the general services queue pair (QP 1).
    pub const GSI: Self = Self(0x8001_0000);
    /// Of IPoIB groups nobody configured otherwise (OpenSM's default).
    pub const IPOIB: Self = Self(0x0b1b);

    /// Whether bit 31 is set.
    pub const fn is_privileged(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }
}

impl fmt::Debug for QKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A queue pair number, 24 bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// The general services interface.
    pub const GSI: Self = Self(1);
    /// Destination of every multicast datagram (`IB_MC_QPN`).
    pub const MULTICAST: Self = Self(0x00ff_ffff);

    /// `None` if `raw` does not fit in 24 bits.
    pub const fn new(raw: u32) -> Option<Self> {
        if raw <= 0x00ff_ffff { Some(Self(raw)) } else { None }
    }

    /// The low 24 bits of `raw`, for fields that are that wide on the wire.
    pub const fn truncating(raw: u32) -> Self {
        Self(raw & 0x00ff_ffff)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A service level, 0..=15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sl(u8);

impl Sl {
    /// `None` above 15.
    pub const fn new(raw: u8) -> Option<Self> {
        if raw <= 15 { Some(Self(raw)) } else { None }
    }

    /// The low four bits of `raw`.
    pub const fn truncating(raw: u8) -> Self {
        Self(raw & 0xf)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_gid_takes_apart() {
        let mgid = Gid { prefix: 0xff12_401b_8001_0000, guid: 0xffff_ffff };
        assert!(mgid.is_multicast());
        assert_eq!((mgid.flags(), mgid.scope(), mgid.signature()), (1, 2, 0x401b));
        assert_eq!(mgid.ipoib_pkey(), PKey(0x8001));
        assert_eq!(mgid.to_string(), "ff12:401b:8001::ffff:ffff");
        assert_eq!(Gid::from_bytes(mgid.to_bytes()), mgid);
    }

    #[test]
    fn two_limited_members_do_not_meet() {
        assert!(PKey(0x8001).admits(PKey(0x0001)));
        assert!(!PKey(0x0001).admits(PKey(0x0001)));
        assert!(!PKey(0x8001).admits(PKey(0x8002)));
    }
}
