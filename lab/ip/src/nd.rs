//! IPv6 neighbour discovery with 20-byte link addresses (RFC 4861, RFC 4391 section 9.3).
//!
//! Above the driver a link-layer address option is 24 bytes with its two padding bytes *after* the address; the driver
//! moves them in front on the wire. This module speaks the form above the driver.

use std::net::Ipv6Addr;

use smoltcp::wire::{Icmpv6Packet, IpProtocol, Ipv6Packet, Ipv6Repr};

use super::link_addr::LinkAddr;
use super::neighbours::Flags;

const SOLICIT: u8 = 135;
const ADVERT: u8 = 136;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
/// Option length in units of 8 bytes: 2 + 20 + 2.
const OPTION_UNITS: u8 = 3;
const FIXED_LEN: usize = 24;
const IPV6_LEN: usize = 40;

/// Question or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Who has the target address?
    Solicit,
    /// The sender has it.
    Advert(Flags),
}

/// A neighbour solicitation or advertisement with its IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nd {
    /// Solicitation or advertisement.
    pub kind: Kind,
    /// Of the IPv6 header; unspecified if the sender only asks whether somebody has the target address.
    pub source: Ipv6Addr,
    /// Of the IPv6 header; often a group.
    pub destination: Ipv6Addr,
    /// The address that it is about.
    pub target: Ipv6Addr,
    /// Source (solicitation) or target (advertisement) link-layer address, when the option is there.
    pub link: Option<LinkAddr>,
}

impl Nd {
    /// Who has `target`? Asked by `own`; goes to the solicited-node group of the target.
    pub fn solicit(own: (Ipv6Addr, LinkAddr), target: Ipv6Addr) -> Self {
        Self {
            kind: Kind::Solicit,
            source: own.0,
            destination: solicited_node(target),
            target,
            link: Some(own.1),
        }
    }

    /// Is `target` still where it was? Asked of itself.
    pub fn solicit_itself(own: (Ipv6Addr, LinkAddr), target: Ipv6Addr) -> Self {
        Self { destination: target, ..Self::solicit(own, target) }
    }

    /// Says to all that `own` is there.
    pub fn announce(own: (Ipv6Addr, LinkAddr), router: bool) -> Self {
        let flags = Flags { router, solicited: false, overrides: true };
        Self {
            kind: Kind::Advert(flags),
            source: own.0,
            destination: ALL_NODES,
            target: own.0,
            link: Some(own.1),
        }
    }

    /// Does anybody have `target`? Asked by somebody without an address (RFC 4862 section 5.4.2).
    pub fn probe(target: Ipv6Addr) -> Self {
        let destination = solicited_node(target);
        Self { kind: Kind::Solicit, source: Ipv6Addr::UNSPECIFIED, destination, target, link: None }
    }

    /// Our answer to a solicitation of `own`.
    pub fn advert(&self, own: (Ipv6Addr, LinkAddr), router: bool) -> Self {
        let mut advert = Self::announce(own, router);
        if !self.source.is_unspecified() {
            advert.destination = self.source;
            advert.kind = Kind::Advert(Flags { router, solicited: true, overrides: true });
        }
        advert
    }

    /// `None` unless `packet` is a valid NS or NA as illumos asks (`ndp_input`): RFC 4861 sections 7.1.1 and 7.1.2, and neither a
    /// loopback nor an IPv4-mapped target.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let ip = Ipv6Packet::new_checked(packet).ok()?;
        if ip.next_header() != IpProtocol::Icmpv6 || ip.hop_limit() != 255 {
            return None;
        }
        let icmp = Icmpv6Packet::new_checked(ip.payload()).ok()?;
        if !icmp.verify_checksum(&ip.src_addr(), &ip.dst_addr()) {
            return None;
        }
        let body = ip.payload();
        let (kind, wanted) = match (body[0], body.get(1)?) {
            (SOLICIT, 0) => (Kind::Solicit, OPTION_SOURCE),
            (ADVERT, 0) => (Kind::Advert(read_flags(*body.get(4)?)), OPTION_TARGET),
            _ => return None,
        };
        let target: [u8; 16] = body.get(8..FIXED_LEN)?.try_into().ok()?;
        let link = find_link_option(&body[FIXED_LEN..], wanted)?;
        let nd =
            Self { kind, source: ip.src_addr(), destination: ip.dst_addr(), target: target.into(), link };
        nd.makes_sense().then_some(nd)
    }

    fn makes_sense(&self) -> bool {
        let target = self.target;
        if target.is_multicast() || target.is_loopback() || target.to_ipv4_mapped().is_some() {
            return false;
        }
        match self.kind {
            // A probe goes to a solicited-node group, and has no link address.
            Kind::Solicit if self.source.is_unspecified() => {
                self.destination == solicited_node(self.destination) && self.link.is_none()
            }
            // Who asks a group says where the answer is to go.
            Kind::Solicit => !self.destination.is_multicast() || self.link.is_some(),
            Kind::Advert(flags) => !(flags.solicited && self.destination.is_multicast()),
        }
    }

    /// The whole IPv6 packet.
    pub fn emit(&self) -> Vec<u8> {
        let option_len = self.link.map_or(0, |_| usize::from(OPTION_UNITS) * 8);
        let ip = Ipv6Repr {
            src_addr: self.source,
            dst_addr: self.destination,
            next_header: IpProtocol::Icmpv6,
            payload_len: FIXED_LEN + option_len,
            hop_limit: 255,
        };
        let mut bytes = vec![0; IPV6_LEN + ip.payload_len];
        ip.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[..]));
        let body = &mut bytes[IPV6_LEN..];
        body[8..FIXED_LEN].copy_from_slice(&self.target.octets());
        let option = match self.kind {
            Kind::Solicit => {
                body[0] = SOLICIT;
                OPTION_SOURCE
            }
            Kind::Advert(flags) => {
                body[0] = ADVERT;
                body[4] = emit_flags(flags);
                OPTION_TARGET
            }
        };
        if let Some(link) = &self.link {
            body[FIXED_LEN..FIXED_LEN + 2].copy_from_slice(&[option, OPTION_UNITS]);
            body[FIXED_LEN + 2..FIXED_LEN + 22].copy_from_slice(&link.0);
        }
        Icmpv6Packet::new_unchecked(&mut body[..]).fill_checksum(&self.source, &self.destination);
        bytes
    }
}

/// ff02::1
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group that solicitations for `target` are sent to (RFC 4291 section 2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// Is this IPv6 packet a neighbour solicitation or advertisement, well formed or not?
pub fn is_nd(packet: &[u8]) -> bool {
    packet.get(6) == Some(&u8::from(IpProtocol::Icmpv6))
        && matches!(packet.get(IPV6_LEN), Some(&(SOLICIT | ADVERT)))
}

const fn read_flags(octet: u8) -> Flags {
    Flags { router: octet & 0x80 != 0, solicited: octet & 0x40 != 0, overrides: octet & 0x20 != 0 }
}

fn emit_flags(flags: Flags) -> u8 {
    u8::from(flags.router) << 7 | u8::from(flags.solicited) << 6 | u8::from(flags.overrides) << 5
}

/// The first link-layer address option of that kind. Outer `None`: malformed options, or one too short for an address. Inner `None`: no
/// such option.
pub(crate) fn find_link_option(mut options: &[u8], wanted: u8) -> Option<Option<LinkAddr>> {
    let mut found = None;
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if kind == wanted && found.is_none() {
            found = Some(LinkAddr(options.get(2..22).filter(|_| units >= OPTION_UNITS)?.try_into().ok()?));
        }
        options = &options[len..];
    }
    options.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (Ipv6Addr, LinkAddr) {
        ("fd00::1".parse().expect("a literal"), LinkAddr([5; 20]))
    }

    #[test]
    fn solicitation_is_88_bytes_with_padding_after_the_address() {
        let target = "fd00::12:3456".parse().expect("a literal");
        let bytes = Nd::solicit(own(), target).emit();
        assert_eq!(bytes.len(), 88);
        assert_eq!(bytes[64..66], [1, 3]);
        assert_eq!(bytes[66..86], [5; 20]);
        assert_eq!(bytes[86..88], [0, 0]);
        assert_eq!(Nd::parse(&bytes), Some(Nd::solicit(own(), target)));
    }

    #[test]
    fn advert_answers_the_asker() {
        let peer = ("fd00::2".parse().expect("a literal"), LinkAddr([6; 20]));
        let advert = Nd::solicit(own(), peer.0).advert(peer, false);
        assert_eq!(advert.destination, own().0);
        assert_eq!(Nd::parse(&advert.emit()), Some(advert));
    }

    #[test]
    fn bad_checksum_hop_limit_or_option_is_refused() {
        let good = Nd::solicit(own(), "fd00::9".parse().expect("a literal")).emit();
        for (offset, value) in [(7, 254), (42, 0xaa), (65, 0), (65, 9)] {
            let mut bad = good.clone();
            bad[offset] = value;
            assert_eq!(Nd::parse(&bad), None, "byte {offset} = {value}");
        }
        assert_eq!(Nd::parse(&good[..70]), None);
    }
}
