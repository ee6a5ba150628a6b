//! The fabric's numbers, one type each (InfiniBand Architecture volume 1; `sys/ib/ib_types.h`).

use core::fmt;

/// Local identifier of a unicast port: 16 bits, host order, 0x0001..=0xBFFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lid(u16);

impl Lid {
    /// `None` for 0 (unassigned), multicast LIDs and the permissive LID.
    pub const fn new(raw: u16) -> Option<Self> {
        if matches!(raw, 0x0001..=0xbfff) { Some(Self(raw)) } else { None }
    }

    /// The 16 bits, host order.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Local identifier of a multicast group: 16 bits, host order, 0xC000..=0xFFFE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mlid(u16);

impl Mlid {
    /// `None` outside the multicast range.
    pub const fn new(raw: u16) -> Option<Self> {
        if matches!(raw, 0xc000..=0xfffe) { Some(Self(raw)) } else { None }
    }

    /// The 16 bits, host order.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Partition key: 15 bits of partition and one of membership. Never 0x0000 or 0x8000, which no port may hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PKey(u16);

impl PKey {
    const FULL: u16 = 0x8000;

    /// `None` if the 15 partition bits are zero.
    pub const fn new(raw: u16) -> Option<Self> {
        if raw & !Self::FULL != 0 { Some(Self(raw)) } else { None }
    }

    /// All 16 bits, host order, membership included.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether the holder may talk to limited members too.
    pub const fn is_full_member(self) -> bool {
        self.0 & Self::FULL != 0
    }

    /// The same partition with the full-member bit, which is the form an IPoIB MGID carries (RFC 4391 section 4).
    pub const fn to_full(self) -> Self {
        Self(self.0 | Self::FULL)
    }

    /// Whether both name one partition, whatever the membership.
    pub const fn same_partition(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::FULL == 0
    }
}

impl fmt::Debug for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PKey({:#06x})", self.0)
    }
}

/// Queue key: 32 bits, host order. A datagram is taken only by a queue pair that has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QKey(u32);

impl QKey {
    /// What a broadcast group is created with when nobody has configured one (`IBD_DEFAULT_QKEY`).
    pub const IPOIB_DEFAULT: Self = Self(0x0b1b);

    /// Any 32 bits are a queue key.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The 32 bits, host order.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// InfiniBand MTU: the payload of one packet, which includes the 4-byte IPoIB header but no InfiniBand header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Mtu {
    B256 = 1,
    B512 = 2,
    B1024 = 3,
    B2048 = 4,
    B4096 = 5,
}

impl Mtu {
    /// The wire's code, 1..=5; `None` for anything else.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::B256,
            2 => Self::B512,
            3 => Self::B1024,
            4 => Self::B2048,
            5 => Self::B4096,
            _ => return None,
        })
    }

    /// The wire's code.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The next larger one, if there is one.
    pub const fn next_larger(self) -> Option<Self> {
        Self::from_code(self.code() + 1)
    }

    /// Bytes, IPoIB header included.
    pub const fn bytes(self) -> u32 {
        128 << self.code()
    }

    /// The link's SDU in datagram mode: what IP may put into one packet (RFC 4391 section 7).
    pub const fn sdu(self) -> u32 {
        self.bytes() - crate::header::IPOIB_HEADER_LEN as u32
    }

    /// What a receive buffer must hold: every UD receive begins with 40 bytes kept for a GRH.
    pub const fn receive_buffer(self) -> u32 {
        self.bytes() + crate::header::GRH_LEN as u32
    }
}

/// Static rate, by its code in path and member records. The codes are not in order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate(u8);

impl Rate {
    /// Four lanes of 2.5 Gb/s: 10 Gb/s.
    pub const SDR_4X: Self = Self(3);

    /// `None` for 0 ("not specified"), 1 and codes that name no rate.
    pub const fn from_code(code: u8) -> Option<Self> {
        if matches!(code, 2..=24) { Some(Self(code)) } else { None }
    }

    /// The code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// What the code names, in tenths of Gb/s, line code included: 25 to 12,000 (InfiniBand Architecture volume 1, PathRecord, and
    /// its annexes for the codes from 11 on).
    pub const fn tenths_of_gbps(self) -> u16 {
        match self.0 {
            2 => 25,
            3 => 100,
            4 => 300,
            5 => 50,
            6 => 200,
            7 => 400,
            8 => 600,
            9 => 800,
            10 => 1_200,
            11 => 140,
            12 => 560,
            13 => 1_120,
            14 => 1_680,
            15 => 250,
            16 => 1_000,
            17 => 2_000,
            18 => 3_000,
            19 => 280,
            20 => 500,
            21 => 4_000,
            22 => 6_000,
            23 => 8_000,
            _ => 12_000,
        }
    }

    /// The fastest rate that carries less than this one: 120 Gb/s are less than 100, because of the line code. OpenSM compares
    /// rates in the same way.
    pub fn next_slower(self) -> Option<Self> {
        let all = (2..=24).filter_map(Self::from_code);
        let slower = all.filter(|rate| rate.bits_per_second() < self.bits_per_second());
        slower.max_by_key(|rate| rate.bits_per_second())
    }

    /// The slowest rate that carries more than this one.
    pub fn next_faster(self) -> Option<Self> {
        let all = (2..=24).filter_map(Self::from_code);
        let faster = all.filter(|rate| rate.bits_per_second() > self.bits_per_second());
        faster.min_by_key(|rate| rate.bits_per_second())
    }

    /// Payload bits per second: the signalling rate less the line code (8b/10b up to 4x QDR lanes, 64b/66b from FDR on).
    pub const fn bits_per_second(self) -> u64 {
        const fn lanes_8b10b(lane_mbps: u64, lanes: u64) -> u64 {
            lane_mbps * 1_000_000 * lanes * 8 / 10
        }
        /// One FDR lane signals 14.0625 Gb/s.
        const fn fdr(lanes: u64) -> u64 {
            14_062_500_000 * lanes * 64 / 66
        }
        /// One EDR lane signals 25.78125 Gb/s, which is 25 Gb/s of payload; HDR and NDR double it each.
        const fn edr(lanes: u64) -> u64 {
            25_781_250_000 * lanes * 64 / 66
        }
        match self.0 {
            2 => lanes_8b10b(2_500, 1),
            3 => lanes_8b10b(2_500, 4),
            4 => lanes_8b10b(2_500, 12),
            5 => lanes_8b10b(5_000, 1),
            6 => lanes_8b10b(5_000, 4),
            7 => lanes_8b10b(10_000, 4),
            8 => lanes_8b10b(5_000, 12),
            9 => lanes_8b10b(10_000, 8),
            10 => lanes_8b10b(10_000, 12),
            11 => fdr(1),
            12 => fdr(4),
            13 => fdr(8),
            14 => fdr(12),
            15 => edr(1),
            16 => edr(4),
            17 => edr(8),
            18 => edr(12),
            19 => fdr(2),
            20 => edr(2),
            21 => edr(16),
            22 => edr(24),
            23 => edr(32),
            _ => edr(48),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tenths_of_gbps() / 10, self.tenths_of_gbps() % 10) {
            (gbps, 0) => write!(f, "{gbps} Gb/s"),
            (gbps, tenths) => write!(f, "{gbps}.{tenths} Gb/s"),
        }
    }
}

/// How far a multicast group reaches (RFC 4391 section 4; the four scopes a broadcast group may have).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Scope {
    LinkLocal = 0x2,
    SiteLocal = 0x5,
    OrganisationLocal = 0x8,
    Global = 0xe,
}

impl Scope {
    /// The order in which a link looks for its broadcast group.
    pub const SEARCH_ORDER: [Self; 4] =
        [Self::LinkLocal, Self::SiteLocal, Self::OrganisationLocal, Self::Global];

    /// Whether a search looks in the other scope before this one.
    pub fn is_searched_after(self, other: Self) -> bool {
        let place = |scope| Self::SEARCH_ORDER.iter().position(|searched| *searched == scope);
        place(self).is_none_or(|mine| place(other).is_some_and(|theirs| theirs < mine))
    }

    /// The low nibble of an MGID's second byte.
    pub const fn from_nibble(nibble: u8) -> Option<Self> {
        Some(match nibble {
            0x2 => Self::LinkLocal,
            0x5 => Self::SiteLocal,
            0x8 => Self::OrganisationLocal,
            0xe => Self::Global,
            _ => return None,
        })
    }

    /// The nibble.
    pub const fn nibble(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pkey_without_partition_bits_is_no_pkey() {
        assert_eq!(PKey::new(0), None);
        assert_eq!(PKey::new(0x8000), None);
        let limited = PKey::new(0x7fff).unwrap();
        assert!(!limited.is_full_member());
        assert_eq!(limited.to_full().get(), 0xffff);
        assert!(limited.same_partition(PKey::new(0xffff).unwrap()));
        assert!(!limited.same_partition(PKey::new(0x8001).unwrap()));
    }

    #[test]
    fn lids_and_mlids_do_not_overlap() {
        assert_eq!(Lid::new(0), None);
        assert!(Lid::new(0xbfff).is_some() && Mlid::new(0xbfff).is_none());
        assert!(Lid::new(0xc000).is_none() && Mlid::new(0xc000).is_some());
        assert_eq!(Mlid::new(0xffff), None);
    }

    #[test]
    fn mtu_codes_give_their_sizes() {
        let sizes: std::vec::Vec<_> = (0..=6).map(|c| Mtu::from_code(c).map(Mtu::bytes)).collect();
        assert_eq!(sizes, [None, Some(256), Some(512), Some(1024), Some(2048), Some(4096), None]);
        assert_eq!(Mtu::B2048.sdu(), 2044);
        assert_eq!(Mtu::B2048.receive_buffer(), 2088);
    }

    #[test]
    fn every_rate_reports_its_payload_speed() {
        let gbps = |code| Rate::from_code(code).map(|r| r.bits_per_second() / 1_000_000_000);
        let eight_ten = [(2, 2), (5, 4), (3, 8), (6, 16), (4, 24), (7, 32), (8, 48), (9, 64), (10, 96)];
        for (code, want) in eight_ten {
            assert_eq!(gbps(code), Some(want), "rate code {code}");
        }
        let newer = [(11, 13), (12, 54), (13, 109), (14, 163), (15, 25), (16, 100), (17, 200), (18, 300)];
        for (code, want) in newer {
            assert_eq!(gbps(code), Some(want), "rate code {code}");
        }
        let newest = [(19, 27), (20, 50), (21, 400), (22, 600), (23, 800), (24, 1200)];
        for (code, want) in newest {
            assert_eq!(gbps(code), Some(want), "rate code {code}");
        }
        assert_eq!(gbps(0), None);
        assert_eq!(gbps(25), None);
    }

    #[test]
    fn from_the_fastest_rate_down_every_code_comes_up_once_in_order_of_payload() {
        let mut codes = std::vec::Vec::new();
        let mut next = Rate::from_code(24);
        while let Some(rate) = next {
            codes.push(rate.code());
            next = rate.next_slower();
        }
        let order = [24, 23, 22, 21, 18, 17, 14, 13, 16, 10, 9, 12, 20, 8, 7, 19, 15, 4, 6, 11, 3, 5, 2];
        assert_eq!(codes, order);
        assert_eq!(Rate::from_code(19).unwrap().tenths_of_gbps(), 280, "two lanes of FDR");
        let said = |code| std::string::ToString::to_string(&Rate::from_code(code).unwrap());
        assert_eq!((said(2), said(7)), ("2.5 Gb/s".into(), "40 Gb/s".into()));
    }
}
