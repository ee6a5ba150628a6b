//! What IP leaves to a link that offers it: checksums, and TCP segments joined into large sends.
//!
//! smoltcp makes every packet complete and no larger than the link takes. Here the work that an adapter can do is taken out of them
//! again, as illumos's IP would not have put it in: the receiver finds out whether the adapter has done it right.

use lab_gldv3::OffloadCapability;
use smoltcp::wire::{IpProtocol, Ipv4Packet, TcpPacket};

use super::layer::Packet;

const LONGEST: usize = 65_535;
/// Where TCP and UDP have their checksums.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const UDP_HEADER: usize = 8;

/// The packets for a link that offers this, in order.
pub fn to_the_link(packets: impl IntoIterator<Item = Vec<u8>>, link: OffloadCapability) -> Vec<Packet> {
    let mut left: Vec<Packet> = Vec::new();
    // The last packet, as far as another segment may follow in it.
    let mut growing: Option<Growing> = None;
    for bytes in packets {
        let segment = Segment::of(&bytes).filter(|_| link.full_v4);
        if let (Some(large), Some(segment), Some(last)) = (&mut growing, &segment, left.last_mut())
            && large.takes(segment, last, &bytes, link)
        {
            large.take(segment, last, &bytes);
            continue;
        }
        growing = segment.as_ref().and_then(Growing::new);
        left.push(without_checksum(bytes, segment.as_ref(), link));
    }
    left
}

/// A packet of TCP over IPv4, whole and without IP options or fragments.
struct Segment {
    /// Bytes of both headers.
    headers: usize,
    /// Where TCP begins.
    tcp: usize,
    sequence: i32,
    payload: usize,
    /// Nothing but an acknowledgement, and perhaps PSH or FIN.
    plain: bool,
    /// PSH or FIN: no segment may follow it in a large send.
    last: bool,
}

impl Segment {
    fn of(bytes: &[u8]) -> Option<Self> {
        let ip = Ipv4Packet::new_checked(bytes).ok()?;
        let whole = ip.frag_offset() == 0 && !ip.more_frags() && usize::from(ip.total_len()) == bytes.len();
        if ip.next_header() != IpProtocol::Tcp || !whole {
            return None;
        }
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        let start = usize::from(ip.header_len());
        let headers = start + usize::from(tcp.header_len());
        Some(Self {
            headers,
            tcp: start,
            sequence: tcp.seq_number().0,
            payload: bytes.len() - headers,
            plain: tcp.ack() && !tcp.syn() && !tcp.rst() && !tcp.urg(),
            last: tcp.psh() || tcp.fin(),
        })
    }
}

/// A packet that may become a large send.
struct Growing {
    mss: usize,
    next: i32,
    /// Nothing may follow.
    full: bool,
}

impl Growing {
    fn new(first: &Segment) -> Option<Self> {
        let fit = first.plain && !first.last && first.payload > 0;
        let next = first.sequence.wrapping_add(first.payload as i32);
        fit.then_some(Self { mss: first.payload, next, full: false })
    }

    fn takes(&self, segment: &Segment, last: &Packet, bytes: &[u8], link: OffloadCapability) -> bool {
        let longest = link.large_send.map_or(0, |longest| LONGEST.min(longest as usize));
        let follows = segment.plain && segment.sequence == self.next;
        let fits = (1..=self.mss).contains(&segment.payload) && last.bytes.len() + segment.payload <= longest;
        !self.full && follows && fits && same_connection(&last.bytes, bytes, segment)
    }

    fn take(&mut self, segment: &Segment, last: &mut Packet, bytes: &[u8]) {
        // Flags of the last one, which the adapter gives to the last one.
        last.bytes[segment.tcp + 13] |= bytes[segment.tcp + 13];
        last.bytes.extend_from_slice(&bytes[segment.headers..]);
        let total = last.bytes.len() as u16;
        let mut ip = Ipv4Packet::new_unchecked(&mut last.bytes);
        ip.set_total_len(total);
        ip.fill_checksum();
        last.offload.large_send = Some(self.mss as u16);
        self.next = self.next.wrapping_add(segment.payload as i32);
        self.full = segment.last || segment.payload < self.mss;
    }
}

/// Whether all of both headers is the same but what the adapter changes.
fn same_connection(first: &[u8], bytes: &[u8], segment: &Segment) -> bool {
    let tcp = segment.tcp;
    // Total length and identification; header checksum; sequence; flags; checksum.
    let differs = |at: usize| {
        (2..6).contains(&at)
            || (10..12).contains(&at)
            || (tcp + 4..tcp + 8).contains(&at)
            || at == tcp + 13
            || (tcp + TCP_CHECKSUM..tcp + TCP_CHECKSUM + 2).contains(&at)
    };
    first.len() > segment.headers && (0..segment.headers).all(|at| differs(at) || first[at] == bytes[at])
}

/// The packet, with its checksum left to the link if that computes it.
fn without_checksum(mut bytes: Vec<u8>, segment: Option<&Segment>, link: OffloadCapability) -> Packet {
    let at = match segment {
        Some(segment) => Some(segment.tcp + TCP_CHECKSUM),
        None if link.full_v4 => udp_checksum(&bytes),
        None => None,
    };
    let mut packet = Packet::from(std::mem::take(&mut bytes));
    if let Some(at) = at {
        packet.bytes[at..at + 2].fill(0);
        packet.offload.full_checksum = true;
    }
    packet
}

/// Where a whole datagram of UDP over IPv4 has its checksum.
fn udp_checksum(bytes: &[u8]) -> Option<usize> {
    let ip = Ipv4Packet::new_checked(bytes).ok()?;
    let whole = ip.frag_offset() == 0 && !ip.more_frags() && ip.payload().len() >= UDP_HEADER;
    (ip.next_header() == IpProtocol::Udp && whole).then(|| usize::from(ip.header_len()) + UDP_CHECKSUM)
}

#[cfg(test)]
mod tests {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{IpAddress, Ipv4Address, Ipv4Repr, TcpControl, TcpRepr, TcpSeqNumber};

    use super::*;

    const MSS: usize = 1000;
    const LINK: OffloadCapability =
        OffloadCapability { ip_header: false, full_v4: true, full_v6: false, large_send: Some(60_000) };
    const FROM: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
    const TO: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);

    fn segment(port: u16, sequence: usize, payload: usize, control: TcpControl) -> Vec<u8> {
        let payload = vec![sequence as u8; payload];
        let tcp = TcpRepr {
            src_port: port,
            dst_port: 80,
            control,
            seq_number: TcpSeqNumber(sequence as i32),
            ack_number: Some(TcpSeqNumber(1)),
            window_len: 1000,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &payload,
        };
        let ip = Ipv4Repr {
            src_addr: FROM,
            dst_addr: TO,
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: 64,
        };
        let mut bytes = vec![0; ip.buffer_len() + tcp.buffer_len()];
        let capabilities = ChecksumCapabilities::default();
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes), &capabilities);
        let (from, to) = (IpAddress::from(FROM), IpAddress::from(TO));
        tcp.emit(&mut TcpPacket::new_unchecked(&mut bytes[ip.buffer_len()..]), &from, &to, &capabilities);
        bytes
    }

    /// Lengths of the payloads, and what each is marked with.
    fn shapes(packets: &[Packet]) -> Vec<(usize, Option<u16>)> {
        packets.iter().map(|packet| (packet.bytes.len() - 40, packet.offload.large_send)).collect()
    }

    #[test]
    fn segments_that_follow_each_other_become_one_large_send() {
        let run = (0..4).map(|n| segment(1, n * MSS, MSS, TcpControl::None));
        let packets = to_the_link(run.chain([segment(1, 4 * MSS, 300, TcpControl::Psh)]), LINK);
        assert_eq!(shapes(&packets), [(4_300, Some(1000))]);
        let ip = Ipv4Packet::new_checked(&packets[0].bytes).expect("IPv4");
        assert!(ip.verify_checksum() && packets[0].offload.full_checksum);
        let tcp = TcpPacket::new_checked(ip.payload()).expect("TCP");
        assert!(tcp.psh() && tcp.checksum() == 0);
        assert_eq!(tcp.payload()[3_999..4_001], [(3 * MSS) as u8, (4 * MSS) as u8]);
    }

    #[test]
    fn what_does_not_follow_begins_anew() {
        let packets = [
            segment(1, 0, MSS, TcpControl::None),
            segment(2, MSS, MSS, TcpControl::None),
            segment(2, 2 * MSS, 10, TcpControl::None),
            segment(2, 2 * MSS + 10, MSS, TcpControl::None),
            segment(2, 9 * MSS, MSS, TcpControl::None),
            segment(2, 10 * MSS, 0, TcpControl::None),
            segment(2, 10 * MSS, MSS, TcpControl::Rst),
        ];
        let expected =
            [(MSS, None), (MSS + 10, Some(1000)), (MSS, None), (MSS, None), (0, None), (MSS, None)];
        assert_eq!(shapes(&to_the_link(packets, LINK)), expected);
    }

    #[test]
    fn large_send_is_no_longer_than_the_link_takes() {
        let run = (0..100).map(|n| segment(1, n * MSS, MSS, TcpControl::None));
        let link = OffloadCapability { large_send: Some(5_100), ..LINK };
        let shapes = shapes(&to_the_link(run, link));
        assert_eq!(shapes, vec![(5_000, Some(1000)); 20]);
    }

    #[test]
    fn link_that_offers_nothing_gets_the_packets_as_they_are() {
        let run: Vec<Vec<u8>> = (0..4).map(|n| segment(1, n * MSS, MSS, TcpControl::None)).collect();
        let packets = to_the_link(run.clone(), OffloadCapability::default());
        assert_eq!(packets, run.into_iter().map(Packet::from).collect::<Vec<Packet>>());
        let alone = to_the_link(
            [segment(1, 0, MSS, TcpControl::None)],
            OffloadCapability { large_send: None, ..LINK },
        );
        assert_eq!(shapes(&alone), [(MSS, None)]);
        assert!(alone[0].offload.full_checksum);
    }
}
