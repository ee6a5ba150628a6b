//! The numbers of the architecture as types (InfiniBand Architecture volume 1; `sys/ib/ib_types.h`).

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

/// A static rate code of six bits: 0 unspecified, 2..=24 as the architecture numbers them. Which of them an HCA takes is in its
/// [attributes](crate::HcaAttr::static_rates).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u8);

impl Rate {
    /// `None` above six bits.
    #[must_use]
    pub const fn new(code: u8) -> Option<Rate> {
        if code < 64 { Some(Rate(code)) } else { None }
    }

    /// The code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// Link width code of PortInfo: 1, 2 = 4x, 4 = 8x, 8 = 12x, 16 = 2x.
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
    /// Two lanes.
    X2 = 16,
}

impl LinkWidth {
    /// From the number of lanes; `None` if no link has so many.
    #[must_use]
    pub const fn of_lanes(lanes: u8) -> Option<LinkWidth> {
        Some(match lanes {
            1 => LinkWidth::X1,
            2 => LinkWidth::X2,
            4 => LinkWidth::X4,
            8 => LinkWidth::X8,
            12 => LinkWidth::X12,
            _ => return None,
        })
    }

    /// 1, 2, 4, 8 or 12.
    #[must_use]
    pub const fn lanes(self) -> u8 {
        match self {
            LinkWidth::X1 => 1,
            LinkWidth::X2 => 2,
            LinkWidth::X4 => 4,
            LinkWidth::X8 => 8,
            LinkWidth::X12 => 12,
        }
    }
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
    /// 10.3125 Gb/s; as far as PortInfo tells, 10.
    Fdr10,
    /// 14.0625 Gb/s.
    Fdr,
    /// 25.78125 Gb/s.
    Edr,
    /// 53.125 Gb/s.
    Hdr,
    /// 106.25 Gb/s.
    Ndr,
}

impl LinkSpeed {
    /// `LinkSpeedActive` of PortInfo, which ends at 10 Gb/s: what is faster says that, or that another field has it.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            LinkSpeed::Sdr => 1,
            LinkSpeed::Ddr => 2,
            LinkSpeed::Qdr | LinkSpeed::Fdr10 | LinkSpeed::Fdr | LinkSpeed::Edr | LinkSpeed::Hdr => 4,
            LinkSpeed::Ndr => 0,
        }
    }

    /// `LinkSpeedExtActive`; 0 for what the other code says.
    #[must_use]
    pub const fn extended_code(self) -> u8 {
        match self {
            LinkSpeed::Sdr | LinkSpeed::Ddr | LinkSpeed::Qdr | LinkSpeed::Fdr10 => 0,
            LinkSpeed::Fdr => 1,
            LinkSpeed::Edr => 2,
            LinkSpeed::Hdr => 4,
            LinkSpeed::Ndr => 8,
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
