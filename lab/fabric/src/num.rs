//! The numbers of the architecture as types (InfiniBand Architecture volume 1; `sys/ib/ib_types.h`).

use std::fmt;

/// Nanoseconds on the lab's clock, since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The instant `later` nanoseconds after this one; saturates.
    #[must_use]
    pub const fn after(self, later: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(later.0))
    }
}

/// A 64-bit EUI-64 of a node, port or system image, host order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A 128-bit global identifier as the two host-order halves IBTF uses (`ib_gid_t`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid {
    /// Subnet prefix, or the first half of a multicast GID.
    pub prefix: u64,
    /// Interface identifier (port GUID), or the second half of a multicast GID.
    pub guid: u64,
}

impl Gid {
    /// The default subnet prefix, `fe80::/64`.
    pub const LINK_LOCAL_PREFIX: u64 = 0xfe80_0000_0000_0000;

    /// From wire order.
    #[must_use]
    pub const fn from_bytes(raw: [u8; 16]) -> Gid {
        let wide = u128::from_be_bytes(raw);
        Gid { prefix: (wide >> 64) as u64, guid: wide as u64 }
    }

    /// To wire order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        (((self.prefix as u128) << 64) | self.guid as u128).to_be_bytes()
    }

    /// First byte FF.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.prefix >> 56 == 0xff
    }

    /// A multicast GID the channel interface accepts: flag nibble 0 or 1, scope 2, 5, 8 or E.
    #[must_use]
    pub const fn is_valid_multicast(self) -> bool {
        let flags = (self.prefix >> 52) & 0xf;
        let scope = (self.prefix >> 48) & 0xf;
        self.is_multicast() && flags <= 1 && matches!(scope, 2 | 5 | 8 | 0xe)
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

/// A local identifier, host order. 0 is unassigned, 1..=0xBFFF unicast, 0xC000..=0xFFFE multicast, 0xFFFF permissive.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lid(pub u16);

impl Lid {
    /// Not assigned.
    pub const NONE: Lid = Lid(0);

    /// 1..=0xBFFF.
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        self.0 >= 1 && self.0 < 0xc000
    }

    /// 0xC000..=0xFFFE.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0 >= 0xc000 && self.0 != 0xffff
    }
}

impl fmt::Debug for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// LID mask control: a port answers to 2^LMC LIDs from its base LID. 0..=7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lmc(u8);

impl Lmc {
    /// `None` above 7.
    #[must_use]
    pub const fn new(raw: u8) -> Option<Lmc> {
        if raw <= 7 { Some(Lmc(raw)) } else { None }
    }

    /// 0..=7.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// How many LIDs the port answers to.
    #[must_use]
    pub const fn lids(self) -> u16 {
        1 << self.0
    }
}

/// A queue pair number, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// Destination of every multicast datagram (`IB_MC_QPN`).
    pub const MULTICAST: Qpn = Qpn(0x00ff_ffff);
    /// General services interface.
    pub const GSI: Qpn = Qpn(1);

    /// `None` if `raw` does not fit 24 bits.
    #[must_use]
    pub const fn new(raw: u32) -> Option<Qpn> {
        if raw <= 0x00ff_ffff { Some(Qpn(raw)) } else { None }
    }

    /// The low 24 bits of `raw`, as the hardware takes them.
    #[must_use]
    pub const fn truncate(raw: u32) -> Qpn {
        Qpn(raw & 0x00ff_ffff)
    }

    /// 24 bits.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A partition key: 15 bits of partition, bit 15 full membership.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PKey(pub u16);

impl PKey {
    /// Full member of the default partition.
    pub const DEFAULT_FULL: PKey = PKey(0xffff);
    /// The empty table entry.
    pub const INVALID: PKey = PKey(0);

    /// Neither 0x0000 nor 0x8000.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 & 0x7fff != 0
    }

    /// Bit 15.
    #[must_use]
    pub const fn is_full_member(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// Same partition and not both limited: the check a receiver makes.
    #[must_use]
    pub const fn admits(self, other: PKey) -> bool {
        self.is_valid()
            && self.0 & 0x7fff == other.0 & 0x7fff
            && (self.is_full_member() || other.is_full_member())
    }
}

impl fmt::Debug for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// A queue key, 32 bits. Bit 31 in a destination means "use the sending QP's own".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QKey(pub u32);

impl QKey {
    /// Of the general services interface.
    pub const GSI: QKey = QKey(0x8001_0000);

    /// Bit 31.
    #[must_use]
    pub const fn is_privileged(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }
}

impl fmt::Debug for QKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A service level, 0..=15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sl(u8);

impl Sl {
    /// `None` above 15.
    #[must_use]
    pub const fn new(raw: u8) -> Option<Sl> {
        if raw <= 15 { Some(Sl(raw)) } else { None }
    }

    /// The low four bits.
    #[must_use]
    pub const fn truncate(raw: u8) -> Sl {
        Sl(raw & 0xf)
    }

    /// 0..=15.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// An HCA port, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNum(pub u8);

/// Largest payload of a packet (LRH and other headers not counted), as the code of the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    M256 = 1,
    /// 512 bytes.
    M512 = 2,
    /// 1024 bytes.
    M1024 = 3,
    /// 2048 bytes.
    M2048 = 4,
    /// 4096 bytes.
    M4096 = 5,
}

impl Mtu {
    /// From the code 1..=5.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Mtu> {
        Some(match code {
            1 => Mtu::M256,
            2 => Mtu::M512,
            3 => Mtu::M1024,
            4 => Mtu::M2048,
            5 => Mtu::M4096,
            _ => return None,
        })
    }

    /// 1..=5.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// 256..=4096.
    #[must_use]
    pub const fn bytes(self) -> usize {
        128 << (self as u8)
    }
}

/// A static rate code: 0 unspecified, 2..=10 as the architecture numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(u8);

impl Rate {
    /// `None` for codes the HCA does not know (1 and everything above 10).
    #[must_use]
    pub const fn new(code: u8) -> Option<Rate> {
        if code == 0 || (code >= 2 && code <= 10) { Some(Rate(code)) } else { None }
    }

    /// The code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// Link width code of PortInfo: 1, 2 = 4x, 4 = 8x, 8 = 12x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkWidth {
    /// One lane.
    X1 = 1,
    /// Four lanes.
    X4 = 2,
    /// Eight lanes.
    X8 = 4,
    /// Twelve lanes.
    X12 = 8,
}

/// How fast a lane signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSpeed {
    /// 2.5 Gb/s.
    Sdr,
    /// 5 Gb/s.
    Ddr,
    /// 10 Gb/s.
    Qdr,
    /// 14.0625 Gb/s.
    Fdr,
    /// 25.78125 Gb/s.
    Edr,
    /// 53.125 Gb/s.
    Hdr,
}

impl LinkSpeed {
    /// `LinkSpeedActive` of PortInfo, which ends at 10 Gb/s: what is faster says that.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            LinkSpeed::Sdr => 1,
            LinkSpeed::Ddr => 2,
            LinkSpeed::Qdr | LinkSpeed::Fdr | LinkSpeed::Edr | LinkSpeed::Hdr => 4,
        }
    }

    /// `LinkSpeedExtActive`; 0 for what the other code says.
    #[must_use]
    pub const fn extended_code(self) -> u8 {
        match self {
            LinkSpeed::Sdr | LinkSpeed::Ddr | LinkSpeed::Qdr => 0,
            LinkSpeed::Fdr => 1,
            LinkSpeed::Edr => 2,
            LinkSpeed::Hdr => 4,
        }
    }
}

/// Logical state of a port (PortInfo.PortState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PortState {
    /// No link.
    Down = 1,
    /// Link is there, the subnet manager has not configured it.
    Init = 2,
    /// Configured, no data yet.
    Armed = 3,
    /// Data flows.
    Active = 4,
}

/// Physical state of a port (PortInfo.PortPhysicalState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PhysState {
    /// Looking for a partner: no cable or partner down.
    Polling = 2,
    /// Switched off.
    Disabled = 3,
    /// Link established.
    LinkUp = 5,
}
