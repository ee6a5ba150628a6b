//! Where things are in a frame: the 4-byte IPoIB header, then ARP, IPv4 or IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::decode::{ARP, IPV4, IPV6};

/// Bytes of the IPoIB header.
pub(super) const LINK_HEADER: usize = 4;

/// Ports of TCP or UDP.
pub(super) struct Ports {
    pub(super) from: u16,
    pub(super) to: u16,
}

/// Two bytes, network order.
pub(super) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Four bytes, network order.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn ipv4_at(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    word(bytes, at).map(Ipv4Addr::from)
}

pub(super) fn ipv6_at(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let octets: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
    Some(Ipv6Addr::from(octets))
}

pub(super) fn ethertype(frame: &[u8]) -> Option<u16> {
    short(frame, 0)
}

/// Bytes behind the link's header.
pub(super) fn payload(frame: &[u8]) -> &[u8] {
    frame.get(LINK_HEADER..).unwrap_or_default()
}

/// A part of a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment {
    /// Where it is in the datagram, in bytes behind the header.
    pub(super) offset: u16,
    /// Others come behind it.
    pub(super) more: bool,
}

/// What an IPv4 packet is part of, if it is not a whole datagram.
pub(super) fn fragment(packet: &[u8]) -> Option<Fragment> {
    let word = short(packet, 6)?;
    let (offset, more) = ((word & 0x1fff) * 8, word & 0x2000 != 0);
    (offset > 0 || more).then_some(Fragment { offset, more })
}

/// The transport's protocol and what belongs to it; none for a fragment but the first.
pub(super) fn transport(frame: &[u8]) -> Option<(u8, &[u8])> {
    let packet = payload(frame);
    match ethertype(frame)? {
        IPV4 => {
            let header = usize::from(packet.first()? & 0xf) * 4;
            let end = usize::from(short(packet, 2)?).min(packet.len());
            (short(packet, 6)? & 0x1fff == 0 && header >= 20).then_some(())?;
            Some((*packet.get(9)?, packet.get(header..end)?))
        }
        IPV6 => {
            let end = (40 + usize::from(short(packet, 4)?)).min(packet.len());
            Some((*packet.get(6)?, packet.get(40..end)?))
        }
        _ => None,
    }
}

/// What the header of IP says is behind it, in a fragment as well.
pub(super) fn protocol(frame: &[u8]) -> Option<u8> {
    let at = match ethertype(frame)? {
        IPV4 => 9,
        IPV6 => 6,
        _ => return None,
    };
    payload(frame).get(at).copied()
}

pub(super) fn ports(frame: &[u8]) -> Option<Ports> {
    let (protocol, bytes) = transport(frame)?;
    matches!(protocol, 6 | 17).then_some(())?;
    Some(Ports { from: short(bytes, 0)?, to: short(bytes, 2)? })
}

/// Who speaks to whom; ARP's question is to nobody in particular.
pub(super) fn addresses(frame: &[u8]) -> Option<(IpAddr, Option<IpAddr>)> {
    let packet = payload(frame);
    match ethertype(frame)? {
        ARP => {
            let hardware = usize::from(*packet.get(4)?);
            let sender = ipv4_at(packet, 8 + hardware)?.into();
            let target = ipv4_at(packet, 12 + 2 * hardware)?.into();
            Some((sender, Some(target)))
        }
        IPV4 => Some((ipv4_at(packet, 12)?.into(), Some(ipv4_at(packet, 16)?.into()))),
        IPV6 => Some((ipv6_at(packet, 8)?.into(), Some(ipv6_at(packet, 24)?.into()))),
        _ => None,
    }
}
