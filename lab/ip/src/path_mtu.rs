//! What goes to a destination, where that is less than the link carries: learned from who says that a packet was too long (RFC 1191, RFC 8201).
//!
//! smoltcp knows one size for all. So TCP's segments are cut into shorter ones here, as TCP would have made them; other packets are
//! fragmented, those of IPv6 also where only the link is too small for them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket};

use super::ipv6_fragments;

/// How long it is believed (`_pathmtu_interval` of illumos).
const BELIEVED: Duration = Duration::from_secs(1200);
/// What goes to every destination, of IPv4 and of IPv6.
const LEAST: [usize; 2] = [68, 1280];
/// ICMP type and code of who wants shorter packets.
const TOO_BIG_V4: [u8; 2] = [3, 4];
const TOO_BIG_V6: [u8; 2] = [2, 0];
const ICMP_HEADER: usize = 8;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct PathMtus {
    known: BTreeMap<IpAddr, (usize, Duration)>,
    ident: u32,
}

impl PathMtus {
    /// What a packet that came in says, if it is about one that somebody with an address of this host's has sent.
    pub fn note(&mut self, now: Duration, packet: &[u8], is_own: impl Fn(IpAddr) -> bool) {
        let Some((_, destination, mtu)) = too_big(packet).filter(|(source, ..)| is_own(*source)) else {
            return;
        };
        let mtu = mtu.max(LEAST[usize::from(destination.is_ipv6())]);
        let known = self.to(now, destination).unwrap_or(usize::MAX);
        self.known.insert(destination, (known.min(mtu), now + BELIEVED));
    }

    /// What goes there, in octets of IP packets, if it is less than the link's.
    pub fn to(&self, now: Duration, destination: IpAddr) -> Option<usize> {
        self.known.get(&destination).filter(|(_, until)| now < *until).map(|(mtu, _)| *mtu)
    }

    /// A complete packet, as those that go in its place on a link that carries `link` octets.
    pub fn cut(&mut self, now: Duration, packet: Vec<u8>, link: usize) -> Vec<Vec<u8>> {
        if self.known.is_empty() && packet.len() <= link {
            return vec![packet];
        }
        let way = ends(&packet).and_then(|(_, destination)| self.to(now, destination));
        let mtu = way.unwrap_or(link).min(link);
        if packet.len() <= mtu {
            return vec![packet];
        }
        segments(&packet, mtu).or_else(|| self.fragments(&packet, mtu)).unwrap_or(vec![packet])
    }

    fn fragments(&mut self, packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
        self.ident = self.ident.wrapping_add(1);
        if packet.first()? >> 4 == 6 {
            return ipv6_fragments::cut(packet, mtu, self.ident);
        }
        let ip = Ipv4Packet::new_checked(packet).ok().filter(|ip| ip.version() == 4)?;
        let header = usize::from(ip.header_len());
        let each = mtu.checked_sub(header)? / 8 * 8;
        if each == 0 {
            return None;
        }
        let (payload, mut pieces) = (ip.payload(), Vec::new());
        for (n, part) in payload.chunks(each).enumerate() {
            let mut piece = [&packet[..header], part].concat();
            let (total, is_last) = (piece.len() as u16, (n + 1) * each >= payload.len());
            let mut to = Ipv4Packet::new_unchecked(&mut piece[..]);
            if !ip.more_frags() && ip.frag_offset() == 0 {
                to.set_ident(self.ident as u16);
            }
            to.set_total_len(total);
            to.set_frag_offset(ip.frag_offset() + (n * each) as u16);
            to.set_more_frags(ip.more_frags() || !is_last);
            to.set_dont_frag(false);
            to.fill_checksum();
            pieces.push(piece);
        }
        Some(pieces)
    }
}

/// Source and destination.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => Ipv4Packet::new_checked(packet).ok().map(|ip| (ip.src_addr().into(), ip.dst_addr().into())),
        6 => Ipv6Packet::new_checked(packet).ok().map(|ip| (ip.src_addr().into(), ip.dst_addr().into())),
        _ => None,
    }
}

/// Of a packet that says that another one was too long: that one's source and destination, and how long it may be.
fn too_big(packet: &[u8]) -> Option<(IpAddr, IpAddr, usize)> {
    let v4 = packet.first()? >> 4 == 4;
    let icmp = if v4 {
        let ip = Ipv4Packet::new_checked(packet).ok()?;
        (ip.next_header() == IpProtocol::Icmp).then(|| &packet[usize::from(ip.header_len())..])?
    } else {
        let ip = Ipv6Packet::new_checked(packet).ok()?;
        (ip.next_header() == IpProtocol::Icmpv6).then(|| &packet[ip.header_len()..])?
    };
    if icmp.len() < ICMP_HEADER || icmp[..2] != if v4 { TOO_BIG_V4 } else { TOO_BIG_V6 } {
        return None;
    }
    let field = u32::from_be_bytes(icmp[4..8].try_into().ok()?);
    let mtu = if v4 { field & 0xffff } else { field };
    let quoted = &icmp[ICMP_HEADER..];
    let (source, destination) = if v4 { quoted_v4(quoted)? } else { quoted_v6(quoted)? };
    Some((source, destination, mtu as usize))
}

/// A quotation is shorter than what it says of itself.
fn quoted_v4(quoted: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let address = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(quoted.get(at..at + 4)?).ok()?));
    (quoted.first()? >> 4 == 4).then_some((address(12)?, address(16)?))
}

fn quoted_v6(quoted: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let octets = |at: usize| <[u8; 16]>::try_from(quoted.get(at..at + 16)?).ok();
    let address = |at: usize| Some(IpAddr::from(Ipv6Addr::from(octets(at)?)));
    (quoted.first()? >> 4 == 6).then_some((address(8)?, address(24)?))
}

/// A packet of TCP as shorter ones; `None` of any other.
fn segments(packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let (start, protocol) = match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Packet::new_checked(packet)
                .ok()
                .filter(|ip| !ip.more_frags() && ip.frag_offset() == 0)?;
            (usize::from(ip.header_len()), ip.next_header())
        }
        _ => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            (ip.header_len(), ip.next_header())
        }
    };
    if protocol != IpProtocol::Tcp {
        return None;
    }
    let (source, destination) = ends(packet)?;
    let tcp = TcpPacket::new_checked(&packet[start..]).ok()?;
    let headers = start + usize::from(tcp.header_len());
    let each = mtu.checked_sub(headers).filter(|each| *each > 0)?;
    let (payload, mut pieces) = (packet.get(headers..)?, Vec::new());
    for (n, part) in payload.chunks(each).enumerate() {
        let mut piece = [&packet[..headers], part].concat();
        let is_last = (n + 1) * each >= payload.len();
        set_length(&mut piece, start);
        let mut to = TcpPacket::new_unchecked(&mut piece[start..]);
        to.set_seq_number(tcp.seq_number() + n * each);
        to.set_psh(tcp.psh() && is_last);
        to.set_fin(tcp.fin() && is_last);
        to.fill_checksum(&source.into(), &destination.into());
        pieces.push(piece);
    }
    Some(pieces)
}

fn set_length(packet: &mut [u8], start: usize) {
    let total = packet.len();
    if packet[0] >> 4 == 4 {
        let mut ip = Ipv4Packet::new_unchecked(packet);
        ip.set_total_len(total as u16);
        ip.fill_checksum();
    } else {
        Ipv6Packet::new_unchecked(packet).set_payload_len((total - start) as u16);
    }
}

/// An ICMP message over IPv4 may be cut on its way, as illumos sends it; smoltcp forbids it.
pub fn may_be_cut(mut packet: Vec<u8>) -> Vec<u8> {
    if packet.first().is_some_and(|first| first >> 4 == 4)
        && let Ok(mut ip) = Ipv4Packet::new_checked(&mut packet[..])
        && ip.next_header() == IpProtocol::Icmp
        && ip.dont_frag()
    {
        ip.set_dont_frag(false);
        ip.fill_checksum();
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{
        IpAddress, Ipv4Address, Ipv4Repr, Ipv6Address, Ipv6Repr, TcpControl, TcpRepr, TcpSeqNumber,
    };

    /// More than any packet here.
    const LINK: usize = 65_520;
    const OWN: [IpAddr; 2] = [IpAddr::V4(Ipv4Address::new(10, 0, 0, 1)), IpAddr::V6(V6[0])];
    const PEER: [IpAddr; 2] = [IpAddr::V4(Ipv4Address::new(10, 0, 0, 2)), IpAddr::V6(V6[1])];
    const V6: [Ipv6Address; 2] =
        [Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)];

    fn ip(six: usize, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
        match (OWN[six], PEER[six]) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let repr = Ipv4Repr {
                    src_addr: from,
                    dst_addr: to,
                    next_header: protocol,
                    payload_len: payload.len(),
                    hop_limit: 64,
                };
                let mut packet = vec![0; 20];
                repr.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &ChecksumCapabilities::ignored());
                packet[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
                [packet, payload.to_vec()].concat()
            }
            _ => {
                let repr = Ipv6Repr {
                    src_addr: V6[0],
                    dst_addr: V6[1],
                    next_header: protocol,
                    payload_len: payload.len(),
                    hop_limit: 64,
                };
                let mut packet = vec![0; 40];
                repr.emit(&mut Ipv6Packet::new_unchecked(&mut packet[..]));
                [packet, payload.to_vec()].concat()
            }
        }
    }

    /// What the link says of a packet.
    fn told(six: usize, about: &[u8], mtu: u16) -> Vec<u8> {
        let kind = if six == 0 { TOO_BIG_V4 } else { TOO_BIG_V6 };
        let mut icmp = vec![kind[0], kind[1], 0, 0, 0, 0, (mtu >> 8) as u8, mtu as u8];
        icmp.extend_from_slice(&about[..48]);
        ip(six, if six == 0 { IpProtocol::Icmp } else { IpProtocol::Icmpv6 }, &icmp)
    }

    fn segment(six: usize, payload: usize) -> Vec<u8> {
        let payload: Vec<u8> = (0..payload).map(|n| n as u8).collect();
        let repr = TcpRepr {
            src_port: 1,
            dst_port: 2,
            control: TcpControl::Fin,
            seq_number: TcpSeqNumber(-5),
            ack_number: Some(TcpSeqNumber(1)),
            window_len: 1000,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &payload,
        };
        let mut tcp = vec![0; repr.buffer_len()];
        let ends: (IpAddress, IpAddress) = (OWN[six].into(), PEER[six].into());
        let caps = ChecksumCapabilities::default();
        repr.emit(&mut TcpPacket::new_unchecked(&mut tcp[..]), &ends.0, &ends.1, &caps);
        ip(six, IpProtocol::Tcp, &tcp)
    }

    fn learned(six: usize, mtu: u16) -> PathMtus {
        let mut known = PathMtus::default();
        known.note(Duration::ZERO, &told(six, &segment(six, 100), mtu), |address| address == OWN[six]);
        known
    }

    #[test]
    fn a_segment_longer_than_its_way_goes_as_several() {
        for six in [0, 1] {
            let long = segment(six, 5_000);
            let pieces = learned(six, 2_044).cut(Duration::from_secs(1), long.clone(), LINK);
            assert_eq!(pieces.len(), 3);
            let start = if six == 0 { 20 } else { 40 };
            let mut whole = Vec::new();
            for (n, piece) in pieces.iter().enumerate() {
                assert!(piece.len() <= 2_044);
                let tcp = TcpPacket::new_checked(&piece[start..]).expect("a segment");
                assert!(tcp.verify_checksum(&OWN[six].into(), &PEER[six].into()));
                assert_eq!((tcp.seq_number() - TcpSeqNumber(-5), tcp.fin()), (whole.len(), n == 2));
                whole.extend_from_slice(tcp.payload());
            }
            assert_eq!(whole, long[start + 20..]);
        }
    }

    #[test]
    fn another_packet_of_ipv4_is_fragmented() {
        let data: Vec<u8> = (0..5_000).map(|n| n as u8).collect();
        let pieces = learned(0, 2_044).cut(Duration::ZERO, ip(0, IpProtocol::Udp, &data), LINK);
        let mut whole = Vec::new();
        for piece in &pieces {
            let packet = Ipv4Packet::new_checked(&piece[..]).expect("a packet");
            assert!(packet.verify_checksum() && !packet.dont_frag() && piece.len() <= 2_044);
            assert_eq!(usize::from(packet.frag_offset()), whole.len());
            whole.extend_from_slice(packet.payload());
            assert_eq!(packet.more_frags(), whole.len() < data.len());
        }
        assert_eq!((whole, pieces.len()), (data, 3));
    }

    /// Before, it went as it was, and was lost.
    #[test]
    fn another_packet_of_ipv6_is_fragmented_for_its_way_and_for_the_link() {
        let long = ip(1, IpProtocol::Udp, &[7; 5_000]);
        for (mut known, link) in [(learned(1, 2_044), LINK), (PathMtus::default(), 2_044)] {
            let pieces = known.cut(Duration::ZERO, long.clone(), link);
            assert_eq!(pieces.len(), 3);
            let mut together = crate::ipv6_fragments::Reassembly::default();
            let whole = pieces.into_iter().filter_map(|piece| together.take(Duration::ZERO, piece)).last();
            assert_eq!(whole, Some(long.clone()));
        }
    }

    #[test]
    fn what_others_are_told_what_is_old_and_what_is_too_little_changes_nothing() {
        let long = segment(0, 5_000);
        let mut strangers = PathMtus::default();
        strangers.note(Duration::ZERO, &told(0, &long, 2_044), |_| false);
        assert_eq!(strangers.cut(Duration::ZERO, long.clone(), LINK), std::slice::from_ref(&long));
        let mut known = learned(0, 2_044);
        assert_eq!(known.cut(BELIEVED, long.clone(), LINK), [long]);
        assert_eq!(learned(1, 100).to(Duration::ZERO, PEER[1]), Some(1_280));
        for cut in 0..70 {
            PathMtus::default().note(Duration::ZERO, &told(0, &segment(0, 100), 2_044)[..cut], |_| true);
        }
    }
}
