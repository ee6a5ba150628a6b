//! Echoes that smoltcp does not answer: of IPv4 groups (`_respond_to_echo_multicast` of illumos), and those of IPv6 that are longer
//! than the link carries.

use std::net::IpAddr;

use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet};

const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
const ICMP_HEADER: usize = 8;

/// Source and destination of a whole echo request, whose checksums are right.
pub fn request(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            let whole = !ip.more_frags() && ip.frag_offset() == 0 && ip.verify_checksum();
            let icmp = Icmpv4Packet::new_checked(ip.payload()).ok()?;
            let is_request = ip.next_header() == IpProtocol::Icmp && ip.payload()[0] == REQUEST_V4;
            (whole && is_request && icmp.verify_checksum())
                .then(|| (ip.src_addr().into(), ip.dst_addr().into()))
        }
        6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            let icmp = Icmpv6Packet::new_checked(ip.payload()).ok()?;
            let is_request = ip.next_header() == IpProtocol::Icmpv6 && ip.payload()[0] == REQUEST_V6;
            (is_request && icmp.verify_checksum(&ip.src_addr(), &ip.dst_addr()))
                .then(|| (ip.src_addr().into(), ip.dst_addr().into()))
        }
        _ => None,
    }
}

/// The answer to such a request from an address of the host; `None` if that is of another family, or the request from no host.
pub fn answer(packet: &[u8], own: IpAddr) -> Option<Vec<u8>> {
    let (source, _) = request(packet)?;
    if source.is_multicast() || source.is_unspecified() {
        return None;
    }
    let mut answer = packet.to_vec();
    match (source, own) {
        (IpAddr::V4(source), IpAddr::V4(own)) => {
            let mut ip = Ipv4Packet::new_unchecked(&mut answer[..]);
            ip.set_src_addr(own);
            ip.set_dst_addr(source);
            ip.set_hop_limit(255);
            ip.payload_mut().get_mut(..ICMP_HEADER)?[0] = REPLY_V4;
            Icmpv4Packet::new_unchecked(ip.payload_mut()).fill_checksum();
            ip.fill_checksum();
        }
        (IpAddr::V6(source), IpAddr::V6(own)) => {
            let mut ip = Ipv6Packet::new_unchecked(&mut answer[..]);
            ip.set_src_addr(own);
            ip.set_dst_addr(source);
            ip.set_hop_limit(255);
            ip.payload_mut().get_mut(..ICMP_HEADER)?[0] = REPLY_V6;
            Icmpv6Packet::new_unchecked(ip.payload_mut()).fill_checksum(&own, &source);
        }
        _ => return None,
    }
    Some(answer)
}
