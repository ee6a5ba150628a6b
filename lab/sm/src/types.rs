//! The numbers of the architecture, one type each (InfiniBand Architecture volume 1, chapters 4, 9 and 14).

pub use iba::{Gid, Guid, Lid, PKey, QKey, Qpn, Sl};

/// Nanoseconds on the lab's clock. The machines of this crate read no clock: they are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// This instant, `span` later; the end of time if that does not fit.
    pub const fn after(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// An `ib_time_t`: 4.096 us * 2^`code`; 31 is the largest.
///
/// ```
/// assert_eq!(sm::ib_time(0), sm::Nanos(4_096));
/// assert_eq!(sm::ib_time(18), sm::Nanos(4_096 << 18));
/// ```
pub const fn ib_time(code: u8) -> Nanos {
    Nanos(4_096 << (code & 31))
}

/// An MTU code: 1 = 256, 2 = 512, 3 = 1024, 4 = 2048, 5 = 4096 bytes of IB payload. Six bits; other values mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MtuCode(pub u8);

impl MtuCode {
    /// 2048 bytes.
    pub const B2048: Self = Self(4);
    /// 4096 bytes.
    pub const B4096: Self = Self(5);

    /// Whether the code names an MTU.
    pub const fn is_valid(self) -> bool {
        self.0 >= 1 && self.0 <= 5
    }

    /// Bytes of IB payload, `None` for a code that names none.
    pub const fn bytes(self) -> Option<u16> {
        if self.is_valid() { Some(128 << self.0) } else { None }
    }
}

/// A static rate code, six bits (IBA volume 1, PathRecord; later annexes for the codes from 11 on). The codes are not in
/// order of speed: compare with [`RateCode::cmp_speed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RateCode(pub u8);

/// Every rate code, from the least payload to the most, with its name in units of 0.1 Gb/s. What is older than FDR has two bits of
/// line code in ten, so that 120 Gb/s are less than 100. OpenSM has the same order, and the last two from 3.3.24 on.
const RATES: [(u8, u16); 23] = [
    (2, 25),
    (5, 50),
    (3, 100),
    (11, 140),
    (6, 200),
    (4, 300),
    (15, 250),
    (19, 280),
    (7, 400),
    (8, 600),
    (20, 500),
    (12, 560),
    (9, 800),
    (10, 1200),
    (16, 1000),
    (13, 1120),
    (14, 1680),
    (17, 2000),
    (18, 3000),
    (21, 4000),
    (22, 6000),
    (23, 8000),
    (24, 12000),
];

impl RateCode {
    /// 10 Gb/s: four lanes of 2.5 Gb/s.
    pub const G10: Self = Self(3);

    /// What the code names in units of 0.1 Gb/s, line code included; `None` for a code that names none.
    pub fn tenths_of_gbps(self) -> Option<u16> {
        self.rank().map(|rank| RATES[rank].1)
    }

    /// Its place among all rates.
    fn rank(self) -> Option<usize> {
        RATES.iter().position(|(code, _)| *code == self.0)
    }

    /// Whether the code names a rate.
    pub fn is_valid(self) -> bool {
        self.rank().is_some()
    }

    /// Compares by payload; a code that names no rate is slower than any.
    pub fn cmp_speed(self, other: Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }

    /// The slower of the two.
    pub fn slower(self, other: Self) -> Self {
        if self.cmp_speed(other).is_le() { self } else { other }
    }

    /// The next slower rate there is.
    pub fn next_slower(self) -> Option<Self> {
        let slower = self.rank()?.checked_sub(1)?;
        Some(Self(RATES[slower].0))
    }

    /// The rate of a link: lanes (1, 2, 4, 8 or 12) times signalling speed (1 = 2.5, 2 = 5, 4 = 10 Gb/s per lane, unless the
    /// extended code is one of 1 = 14, 2 = 25, 4 = 50, 8 = 100). `None` for a combination that does not exist.
    pub const fn of_link(width: LinkWidth, speed_active: u8, extended: u8) -> Option<Self> {
        if extended != 0 {
            return Self::of_extended_link(width, extended);
        }
        Some(Self(match (width, speed_active) {
            (LinkWidth::X1, 1) => 2,
            (LinkWidth::X1, 2) => 5,
            (LinkWidth::X1, 4) => 3,
            (LinkWidth::X2, 1) => 5,
            (LinkWidth::X2, 2) => 3,
            (LinkWidth::X2, 4) => 6,
            (LinkWidth::X4, 1) => 3,
            (LinkWidth::X4, 2) => 6,
            (LinkWidth::X4, 4) => 7,
            (LinkWidth::X8, 1) => 6,
            (LinkWidth::X8, 2) => 7,
            (LinkWidth::X8, 4) => 9,
            (LinkWidth::X12, 1) => 4,
            (LinkWidth::X12, 2) => 8,
            (LinkWidth::X12, 4) => 10,
            _ => return None,
        }))
    }

    const fn of_extended_link(width: LinkWidth, extended: u8) -> Option<Self> {
        Some(Self(match (width, extended) {
            (LinkWidth::X1, 1) => 11,
            (LinkWidth::X2, 1) => 19,
            (LinkWidth::X4, 1) => 12,
            (LinkWidth::X8, 1) => 13,
            (LinkWidth::X12, 1) => 14,
            (LinkWidth::X1, 2) => 15,
            (LinkWidth::X2, 2) => 20,
            (LinkWidth::X4, 2) => 16,
            (LinkWidth::X8, 2) => 17,
            (LinkWidth::X12, 2) => 18,
            (LinkWidth::X1, 4) => 20,
            (LinkWidth::X2, 4) => 16,
            (LinkWidth::X4, 4) => 17,
            (LinkWidth::X8, 4) => 21,
            (LinkWidth::X12, 4) => 22,
            (LinkWidth::X1, 8) => 16,
            (LinkWidth::X2, 8) => 17,
            (LinkWidth::X4, 8) => 21,
            (LinkWidth::X8, 8) => 23,
            (LinkWidth::X12, 8) => 24,
            _ => return None,
        }))
    }
}

/// `LinkWidthActive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkWidth {
    /// One lane.
    X1,
    /// Two lanes.
    X2,
    /// Four lanes.
    X4,
    /// Eight lanes.
    X8,
    /// Twelve lanes.
    X12,
}

impl LinkWidth {
    /// From the wire: 1, 2 = 4x, 4 = 8x, 8 = 12x, 16 = 2x.
    pub const fn from_wire(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::X1,
            2 => Self::X4,
            4 => Self::X8,
            8 => Self::X12,
            16 => Self::X2,
            _ => return None,
        })
    }

    /// To the wire.
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::X1 => 1,
            Self::X4 => 2,
            Self::X8 => 4,
            Self::X12 => 8,
            Self::X2 => 16,
        }
    }
}

/// How the value beside it bounds a path: the two high bits of the MTU, rate and lifetime bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Greater than the value.
    #[default]
    Greater,
    /// Less than the value.
    Less,
    /// Exactly the value.
    Exactly,
    /// The best there is, whatever the value: largest MTU and rate, smallest lifetime.
    Best,
}

/// A value of six bits with its selector: one byte on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bound {
    /// How the value bounds.
    pub selector: Selector,
    /// Six bits: an MTU code, a rate code, or a packet lifetime.
    pub value: u8,
}

impl Bound {
    /// Exactly `value`, of which the low six bits count.
    pub const fn exactly(value: u8) -> Self {
        Self { selector: Selector::Exactly, value: value & 0x3f }
    }

    /// From the wire.
    pub const fn from_wire(raw: u8) -> Self {
        let selector = match raw >> 6 {
            0 => Selector::Greater,
            1 => Selector::Less,
            2 => Selector::Exactly,
            _ => Selector::Best,
        };
        Self { selector, value: raw & 0x3f }
    }

    /// To the wire.
    pub const fn to_wire(self) -> u8 {
        (self.selector as u8) << 6 | (self.value & 0x3f)
    }
}

/// How a port is in a multicast group: a set of bits, four wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct JoinState(u8);

impl JoinState {
    /// In no way.
    pub const NONE: Self = Self(0);
    /// Sends and receives, and keeps the group alive.
    pub const FULL: Self = Self(1);
    /// Sends and receives, and does not keep the group alive.
    pub const NON: Self = Self(2);
    /// Only sends, and does not keep the group alive.
    pub const SEND_ONLY_NON: Self = Self(4);
    /// Only sends, and keeps the group alive.
    pub const SEND_ONLY_FULL: Self = Self(8);

    /// The low four bits of `raw`.
    pub const fn truncating(raw: u8) -> Self {
        Self(raw & 0xf)
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether no bit is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any bit of `other` is set here.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits here that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether a port with these bits keeps the group alive.
    pub const fn keeps_group(self) -> bool {
        self.intersects(Self(Self::FULL.0 | Self::SEND_ONLY_FULL.0))
    }
}

/// `PortState`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortState {
    /// No link.
    #[default]
    Down,
    /// Link, not configured: only the subnet manager may talk.
    Init,
    /// Configured, waiting to be activated.
    Armed,
    /// In service.
    Active,
}

impl PortState {
    /// From the wire; `None` for the numbers that are no state.
    pub const fn from_wire(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            _ => return None,
        })
    }

    /// To the wire.
    pub const fn to_wire(self) -> u8 {
        self as u8 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_compare_by_speed_and_not_by_code() {
        assert!(RateCode(5).cmp_speed(RateCode(3)).is_lt(), "5 Gb/s is slower than 10 Gb/s");
        assert_eq!(RateCode(3).next_slower(), Some(RateCode(5)));
        assert_eq!(RateCode(2).next_slower(), None);
        assert_eq!(RateCode::of_link(LinkWidth::X4, 1, 0), Some(RateCode::G10));
        assert!(!RateCode(0).is_valid());
        assert!(RateCode(10).cmp_speed(RateCode(16)).is_lt(), "120 Gb/s carry 96, 100 carry 100");
    }

    #[test]
    fn every_bound_survives_the_wire() {
        for raw in 0..=255 {
            assert_eq!(Bound::from_wire(raw).to_wire(), raw);
        }
    }
}
