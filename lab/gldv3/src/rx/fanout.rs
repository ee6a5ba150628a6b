//! Which soft ring a received packet goes to (`M/mac_sched.c`): a pure function of its bytes.
//!
//! Soft rings come in triples (TCP, UDP, everything else). One flow always lands on one ring, which is what keeps its
//! packets in order. Fragments and the first fragment's siblings may part: the C framework does the same.

/// Which of a triple.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// TCP over IPv4 that may bypass DLS.
    Tcp,
    /// UDP, SCTP and ESP over IPv4 that may bypass DLS.
    Udp,
    /// The rest, and everything while bypass is off.
    Other,
}

/// A soft ring: class and index of the triple.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which of the triple.
    pub class: Class,
    /// Index of the triple.
    pub index: usize,
}

impl Place {
    /// Where packets go that cannot be told apart.
    pub const FIRST: Self = Self { class: Class::Other, index: 0 };
}

/// What the fan-out looks at.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Type of the payload (`mhi_bindsap`).
    pub sap: u16,
    /// The IP packet as far as its first data block holds it.
    pub ip: &'a [u8],
    /// Whether the IP header begins at a multiple of four.
    pub aligned: bool,
    /// Whether the packet meets the conditions of DLS bypass.
    pub bypass: bool,
}

const SAP_IPV4: u16 = 0x0800;
const SAP_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ESP: u8 = 50;
const SCTP: u8 = 132;

/// The ring among `triples` (at least 1); `None` means the packet is malformed and dropped.
pub fn place(packet: Packet<'_>, triples: usize) -> Option<Place> {
    if !matches!(packet.sap, SAP_IPV4 | SAP_IPV6) || !packet.aligned {
        return Some(Place::FIRST);
    }
    let Some(flow) = Flow::of(packet) else { return Some(Place::FIRST) };
    if flow.payload.is_some_and(|payload| payload < 8) {
        return None;
    }
    let index = if triples > 1 { flow.hash() as usize % triples } else { 0 };
    let class = match flow.protocol {
        _ if !packet.bypass => Class::Other,
        TCP => Class::Tcp,
        UDP => Class::Udp,
        SCTP | ESP if triples > 1 => Class::Udp,
        _ => Class::Other,
    };
    Some(Place { class, index })
}

/// What tells the flows of IP packets apart that are sent, never 0; `None` for what is not IP. IP itself takes the address of its
/// connection, which has as little to do with the packet's bytes as this has.
pub fn hint(sap: u16, ip: &[u8]) -> Option<u64> {
    if !matches!(sap, SAP_IPV4 | SAP_IPV6) {
        return None;
    }
    let flow = Flow::of(Packet { sap, ip, aligned: true, bypass: false })?;
    let words = [flow.ends[0], flow.ends[1], flow.ports.unwrap_or_default()];
    let mixed = words.iter().fold(0, |hash: u64, word| {
        let hash = (hash ^ u64::from(u32::from_be_bytes(*word))).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 29
    });
    Some(mixed.max(1))
}

/// What the hash is made of.
struct Flow {
    /// The last four bytes of each address, as they stand in the packet.
    ends: [[u8; 4]; 2],
    protocol: u8,
    /// The two ports or the SPI; absent in fragments and beyond the first block.
    ports: Option<[u8; 4]>,
    /// Bytes behind the first IP header, by the IP length field; a fragment of IPv4 may have as few as it likes.
    payload: Option<usize>,
}

impl Flow {
    /// `None` when the headers are not all in the first block.
    fn of(packet: Packet<'_>) -> Option<Self> {
        match packet.sap {
            SAP_IPV4 => Self::of_v4(packet.ip),
            _ => Self::of_v6(packet.ip),
        }
    }

    fn of_v4(ip: &[u8]) -> Option<Self> {
        let fixed: &[u8; 20] = ip.first_chunk()?;
        let header = usize::from(fixed[0] & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0;
        let protocol = fixed[9];
        let ports = if fragment { None } else { ports(protocol, ip.get(header..).unwrap_or(&[])) };
        Some(Self {
            ends: [word(ip, 12)?, word(ip, 16)?],
            protocol: if fragment { 0 } else { protocol },
            ports,
            payload: (!fragment).then(|| total.saturating_sub(header.max(20))),
        })
    }

    fn of_v6(ip: &[u8]) -> Option<Self> {
        let fixed: &[u8; 40] = ip.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let (header, protocol) = extensions(ip, fixed[6])?;
        Some(Self {
            ends: [word(ip, 20)?, word(ip, 36)?],
            protocol,
            ports: ports(protocol, ip.get(header..).unwrap_or(&[])),
            payload: Some(length),
        })
    }

    /// The addresses are added as the machine loads them and the sum is then put in network order; the ports are taken as
    /// the machine loads them.
    fn hash(&self) -> u32 {
        let sum = u32::from_ne_bytes(self.ends[0]).wrapping_add(u32::from_ne_bytes(self.ends[1]));
        let p = self.ports.map_or(0, u32::from_ne_bytes);
        u32::from_be(sum) ^ (p >> 24) ^ (p >> 16) ^ (p >> 8) ^ p
    }
}

fn word(ip: &[u8], at: usize) -> Option<[u8; 4]> {
    ip.get(at..)?.first_chunk().copied()
}

fn ports(protocol: u8, payload: &[u8]) -> Option<[u8; 4]> {
    matches!(protocol, TCP | UDP | SCTP | ESP).then(|| payload.first_chunk().copied()).flatten()
}

/// Steps over hop-by-hop, routing and destination options: where the upper layer starts and its number. A fragment header
/// ends the walk with no protocol.
fn extensions(ip: &[u8], first: u8) -> Option<(usize, u8)> {
    const FRAGMENT: u8 = 44;
    let (mut at, mut next) = (40, first);
    while matches!(next, 0 | 43 | 60 | FRAGMENT) {
        let &[following, length] = ip.get(at..)?.first_chunk::<2>()?;
        if next == FRAGMENT {
            return Some((at + 8, 0));
        }
        at += 8 + usize::from(length) * 8;
        next = following;
    }
    Some((at, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, src: [u8; 4], dst: [u8; 4], ports: [u8; 4]) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        ip.extend(src.iter().chain(&dst).chain(&ports));
        ip.resize(40, 0);
        ip
    }

    fn placed(ip: &[u8], bypass: bool, triples: usize) -> Option<Place> {
        place(Packet { sap: SAP_IPV4, ip, aligned: true, bypass }, triples)
    }

    #[test]
    fn the_hash_of_a_known_flow() {
        // 10.0.0.1:80 -> 10.0.0.2:443; the sum of the addresses is 20.0.0.3 in network order, 0x14000003.
        let ip = v4(TCP, [10, 0, 0, 1], [10, 0, 0, 2], [0, 80, 1, 187]);
        let p = u32::from_le_bytes([0, 80, 1, 187]);
        let hash = 0x1400_0003 ^ (p >> 24) ^ (p >> 16) ^ (p >> 8) ^ p;
        for triples in [2, 3, 8] {
            let want = Place { class: Class::Tcp, index: hash as usize % triples };
            assert_eq!(placed(&ip, true, triples), Some(want));
        }
    }

    #[test]
    fn bypass_splits_by_protocol_and_its_absence_does_not() {
        for (protocol, class, alone) in [
            (TCP, Class::Tcp, Class::Tcp),
            (UDP, Class::Udp, Class::Udp),
            (SCTP, Class::Udp, Class::Other),
            (1, Class::Other, Class::Other),
        ] {
            let ip = v4(protocol, [1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4]);
            assert_eq!(placed(&ip, true, 4).map(|p| p.class), Some(class));
            assert_eq!(placed(&ip, true, 1).map(|p| p.class), Some(alone));
            assert_eq!(placed(&ip, false, 4).map(|p| p.class), Some(Class::Other));
        }
    }

    #[test]
    fn fragments_hash_on_addresses_alone() {
        let whole = v4(UDP, [1, 2, 3, 4], [5, 6, 7, 8], [9, 9, 1, 1]);
        let mut fragment = whole.clone();
        fragment[6] = 0x20;
        let mut other = fragment.clone();
        other[20] = 77;
        assert_eq!(placed(&fragment, true, 8), placed(&other, true, 8));
    }

    #[test]
    fn what_is_not_ip_or_not_aligned_goes_to_the_first_ring() {
        let ip = v4(TCP, [1, 1, 1, 1], [2, 2, 2, 2], [1, 2, 3, 4]);
        for packet in [
            Packet { sap: 0x806, ip: &ip, aligned: true, bypass: false },
            Packet { sap: SAP_IPV4, ip: &ip, aligned: false, bypass: true },
            Packet { sap: SAP_IPV4, ip: &ip[..19], aligned: true, bypass: true },
            Packet { sap: SAP_IPV6, ip: &ip[..39], aligned: true, bypass: false },
        ] {
            assert_eq!(place(packet, 8), Some(Place::FIRST));
        }
    }

    #[test]
    fn fewer_than_eight_bytes_behind_the_ip_header_are_dropped() {
        let mut ip = v4(TCP, [1, 1, 1, 1], [2, 2, 2, 2], [1, 2, 3, 4]);
        ip[3] = 27;
        assert_eq!(placed(&ip, true, 8), None);
        ip[3] = 28;
        assert!(placed(&ip, true, 8).is_some());
    }

    #[test]
    fn a_last_fragment_of_a_few_bytes_is_none_of_them() {
        let mut ip = v4(1, [1, 1, 1, 1], [2, 2, 2, 2], [1, 2, 3, 4]);
        (ip[3], ip[6], ip[7]) = (21, 0, 253);
        assert!(placed(&ip, true, 8).is_some());
        let mut last = vec![0x60, 0, 0, 0, 0, 9, 44, 64];
        last.extend([0u8; 32]);
        last.extend([UDP, 0, 0x07, 0xe8, 0, 0, 0, 1, 99]);
        let packet = Packet { sap: SAP_IPV6, ip: &last, aligned: true, bypass: false };
        assert!(place(packet, 8).is_some());
    }

    #[test]
    fn ipv6_ports_are_found_behind_extension_headers() {
        let mut ip = vec![0x60, 0, 0, 0, 0, 24, 0, 64];
        ip.extend([0u8; 32]);
        ip.extend([UDP, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let packet = Packet { sap: SAP_IPV6, ip: &ip, aligned: true, bypass: false };
        let p = u32::from_le_bytes([0x12, 0x34, 0, 53]);
        let hash = (p >> 24) ^ (p >> 16) ^ (p >> 8) ^ p;
        assert_eq!(place(packet, 8), Some(Place { class: Class::Other, index: hash as usize % 8 }));
    }
}
