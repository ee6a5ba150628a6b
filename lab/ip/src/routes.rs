//! Where a packet of the host's own goes next: a host sends nothing to a destination that it has no route to (RFC 1122 section 3.3.1).

use std::net::IpAddr;

use smoltcp::wire::{IpCidr, Ipv4Packet, Ipv6Packet};

/// Whether a destination is on a link on which the host has these addresses: a broadcast, a group, or of the subnet of one of them. The
/// prefix of link-local addresses is on each link (RFC 4861 section 5.1).
pub fn is_on_link(destination: IpAddr, addresses: &[IpCidr]) -> bool {
    let link_local = match destination {
        IpAddr::V4(ip) => ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    destination.is_multicast()
        || link_local
        || addresses.iter().any(|cidr| cidr.contains_addr(&destination.into()))
}

/// Of a packet.
pub(crate) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Packet::new_checked(packet).ok()?.dst_addr().into()),
        6 => Some(Ipv6Packet::new_checked(packet).ok()?.dst_addr().into()),
        _ => None,
    }
}
