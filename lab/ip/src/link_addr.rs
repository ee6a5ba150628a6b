//! The 20-byte IPoIB link-layer address and how IP maps groups onto it.
//!
//! RFC 4391 section 9.1.1 for the address, section 4 for groups. IP on illumos derives a group's address from the
//! broadcast address that the link announces, so scope and P_Key are whatever that address carries (zero: the driver
//! fills them in, `DL_INFO_ACK` in gate terms).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Flags and QPN (4 bytes), then the port's GID or the MGID (16 bytes), network byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddr(pub [u8; 20]);

impl LinkAddr {
    /// No address: what an interface has before its link is up for the first time.
    pub const ZERO: Self = Self([0; 20]);

    /// Destination QPN 0xFFFFFF: a group address, broadcast included.
    pub fn is_group(&self) -> bool {
        self.0[1..4] == [0xff; 3]
    }

    /// A group address with the IPv6 signature 601B.
    pub fn is_ipv6_group(&self) -> bool {
        self.is_group() && self.0[6..8] == [0x60, 0x1b]
    }

    /// The link-local IPv6 address: the interface identifier is the port's GUID, marked universal (RFC 4391 section 8).
    pub fn link_local(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets[..2].copy_from_slice(&[0xfe, 0x80]);
        octets[8..].copy_from_slice(&self.0[12..]);
        octets[8] |= 0x02;
        Ipv6Addr::from(octets)
    }

    /// The group address of an IPv4 multicast address: the low 28 bits of the group behind the broadcast prefix.
    pub fn ipv4_group(broadcast: &LinkAddr, group: Ipv4Addr) -> Self {
        let mut addr = broadcast.0;
        let group = u32::from(group) & 0x0fff_ffff;
        addr[10..16].fill(0);
        addr[16..20].copy_from_slice(&group.to_be_bytes());
        Self(addr)
    }

    /// The group address of an IPv6 multicast address: signature 601B and the low 80 bits of the group.
    pub fn ipv6_group(broadcast: &LinkAddr, group: Ipv6Addr) -> Self {
        let mut addr = broadcast.0;
        addr[6..8].copy_from_slice(&[0x60, 0x1b]);
        addr[10..20].copy_from_slice(&group.octets()[6..16]);
        Self(addr)
    }
}

impl fmt::Display for LinkAddr {
    /// Lower-case hexadecimal without leading zeros, colons between: as illumos prints link addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROADCAST: LinkAddr = LinkAddr([
        0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
    ]);

    #[test]
    fn ipv4_all_hosts_keeps_28_bits() {
        let addr = LinkAddr::ipv4_group(&BROADCAST, Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(addr.to_string(), "0:ff:ff:ff:ff:10:40:1b:0:0:0:0:0:0:0:0:f:81:2:3");
    }

    #[test]
    fn the_link_local_address_is_the_port_s_guid() {
        let mut addr = LinkAddr::ZERO;
        addr.0[12..].copy_from_slice(&0x0002_c903_000a_1b2d_u64.to_be_bytes());
        assert_eq!(addr.link_local().to_string(), "fe80::202:c903:a:1b2d");
    }

    #[test]
    fn ipv6_solicited_node_carries_the_low_80_bits() {
        let group: Ipv6Addr = "ff02::1:ff12:3456".parse().expect("a literal");
        let addr = LinkAddr::ipv6_group(&BROADCAST, group);
        assert_eq!(addr.to_string(), "0:ff:ff:ff:ff:10:60:1b:0:0:0:0:0:0:0:1:ff:12:34:56");
        assert!(addr.is_group());
    }
}
