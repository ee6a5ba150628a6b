//! From what Linux leaves to a device (`struct virtio_net_hdr`) to what IP asks of a link.

use lab_gldv3::{Offload, OffloadCapability};
use lab_ip::layer::Packet;
use tun_rs::{VIRTIO_NET_HDR_LEN, VirtioNetHdr};

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum field holds the sum of the pseudo header.
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`: the checksums were verified.
pub const DATA_VALID: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_NONE`, `_TCPV4`.
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;

const IPV4_MIN: usize = 20;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where TCP and UDP have their checksums.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// Why a packet cannot be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Not even a header, or offsets beyond the packet's end.
    #[error("no packet behind a virtio header")]
    Malformed,
    /// A large send that the link does not offer (any more); TCP sends its bytes again, in smaller packets.
    #[error("a large send that was not offered")]
    NotOffered,
}

/// The packet behind a virtio header, with marks for what the link offers to compute. What it does not offer is computed here.
pub fn packet(message: &[u8], link: OffloadCapability) -> Result<Packet, Unfit> {
    let header = VirtioNetHdr::decode(message).map_err(|_| Unfit::Malformed)?;
    let mut bytes = message.get(VIRTIO_NET_HDR_LEN..).ok_or(Unfit::Malformed)?.to_vec();
    let checksum =
        (header.flags & NEEDS_CSUM != 0).then(|| Checksum::of(&header, bytes.len())).transpose()?;
    let over_ipv4 = checksum.as_ref().is_some_and(|checksum| checksum.is_over_ipv4(&bytes));
    let mut offload = Offload::default();
    match header.gso_type {
        GSO_NONE => {}
        GSO_TCPV4 if over_ipv4 && link.full_v4 && may_be_sent(&bytes, link.large_send) => {
            offload.large_send = Some(header.gso_size);
        }
        _ => return Err(Unfit::NotOffered),
    }
    if let Some(checksum) = checksum {
        if over_ipv4 && link.full_v4 {
            // As IP leaves it to a link that computes the whole of it.
            checksum.put(&mut bytes, 0);
            offload.full_checksum = true;
        } else {
            checksum.compute(&mut bytes);
        }
    }
    Ok(Packet { bytes, offload })
}

fn may_be_sent(bytes: &[u8], longest: Option<u32>) -> bool {
    longest.is_some_and(|longest| bytes.len() <= longest as usize)
}

/// A checksum that Linux has left to the device.
struct Checksum {
    /// Where the sum begins: the transport header.
    start: usize,
    /// Where it goes.
    at: usize,
}

impl Checksum {
    fn of(header: &VirtioNetHdr, len: usize) -> Result<Self, Unfit> {
        let start = usize::from(header.csum_start);
        let at = start + usize::from(header.csum_offset);
        if at + 2 > len { Err(Unfit::Malformed) } else { Ok(Self { start, at }) }
    }

    /// Whether it is that of TCP or UDP right behind the header of IPv4.
    fn is_over_ipv4(&self, bytes: &[u8]) -> bool {
        let Some(ip) = bytes.first_chunk::<IPV4_MIN>() else { return false };
        let header = usize::from(ip[0] & 0xf) * 4;
        let checksum = match ip[9] {
            TCP => TCP_CHECKSUM,
            UDP => UDP_CHECKSUM,
            _ => return false,
        };
        ip[0] >> 4 == 4 && header == self.start && self.start + checksum == self.at
    }

    fn put(&self, bytes: &mut [u8], value: u16) {
        bytes[self.at..self.at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// The field holds the pseudo header's sum and is part of what is summed.
    fn compute(&self, bytes: &mut [u8]) {
        let words = bytes[self.start..].chunks(2);
        let sum: u64 =
            words.map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low))).sum();
        // Of UDP, the only one with its checksum there, does zero say that there is none (RFC 768).
        let value = match !fold(sum) {
            0 if self.at - self.start == UDP_CHECKSUM => 0xffff,
            value => value,
        };
        self.put(bytes, value);
    }
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{
        IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket, TcpRepr,
        TcpSeqNumber,
    };

    use super::*;

    const ALL: OffloadCapability =
        OffloadCapability { ip_header: false, full_v4: true, full_v6: false, large_send: Some(60_000) };
    const NONE: OffloadCapability =
        OffloadCapability { ip_header: false, full_v4: false, full_v6: false, large_send: None };
    const PAYLOAD: [u8; 3001] = [0x5a; 3001];

    /// A segment of TCP with its checksum left to the device, and where that begins.
    fn segment(from: IpAddress, to: IpAddress) -> (Vec<u8>, usize) {
        let tcp = TcpRepr {
            src_port: 1,
            dst_port: 2,
            control: TcpControl::Psh,
            seq_number: TcpSeqNumber(7),
            ack_number: Some(TcpSeqNumber(8)),
            window_len: 100,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &PAYLOAD,
        };
        let len = tcp.buffer_len();
        let (mut bytes, start) = match (from, to) {
            (IpAddress::Ipv4(src_addr), IpAddress::Ipv4(dst_addr)) => {
                let ip = Ipv4Repr {
                    src_addr,
                    dst_addr,
                    next_header: IpProtocol::Tcp,
                    payload_len: len,
                    hop_limit: 64,
                };
                let mut bytes = vec![0; 20 + len];
                ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes), &ChecksumCapabilities::default());
                (bytes, 20)
            }
            (IpAddress::Ipv6(src_addr), IpAddress::Ipv6(dst_addr)) => {
                let ip = Ipv6Repr {
                    src_addr,
                    dst_addr,
                    next_header: IpProtocol::Tcp,
                    payload_len: len,
                    hop_limit: 64,
                };
                let mut bytes = vec![0; 40 + len];
                ip.emit(&mut Ipv6Packet::new_unchecked(&mut bytes));
                (bytes, 40)
            }
            _ => unreachable!("one family"),
        };
        let mut packet = TcpPacket::new_unchecked(&mut bytes[start..]);
        tcp.emit(&mut packet, &from, &to, &ChecksumCapabilities::ignored());
        let addresses = match start {
            20 => bytes[12..20].to_vec(),
            _ => bytes[8..40].to_vec(),
        };
        let pseudo =
            addresses.chunks(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>()
                + u64::from(TCP)
                + len as u64;
        bytes[start + 16..start + 18].copy_from_slice(&fold(pseudo).to_be_bytes());
        (bytes, start)
    }

    fn message(bytes: &[u8], start: usize, gso_type: u8) -> Vec<u8> {
        let header = VirtioNetHdr {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len: start as u16 + 20,
            gso_size: if gso_type == GSO_NONE { 0 } else { 1400 },
            csum_start: start as u16,
            csum_offset: 16,
        };
        let mut message = vec![0; VIRTIO_NET_HDR_LEN];
        header.encode(&mut message).expect("room");
        message.extend_from_slice(bytes);
        message
    }

    fn v4(last: u8) -> IpAddress {
        IpAddress::v4(10, 0, 0, last)
    }

    fn v6(last: u16) -> IpAddress {
        IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, last)
    }

    #[test]
    fn checksum_that_no_link_computes_is_computed_here() {
        for (link, from, to) in [(NONE, v4(1), v4(2)), (NONE, v6(1), v6(2)), (ALL, v6(1), v6(2))] {
            let (bytes, start) = segment(from, to);
            let packet = packet(&message(&bytes, start, GSO_NONE), link).expect("a packet");
            assert_eq!(packet.offload, Offload::default());
            let tcp = TcpPacket::new_checked(&packet.bytes[start..]).expect("TCP");
            assert!(tcp.verify_checksum(&from, &to), "{from}");
        }
    }

    #[test]
    fn a_sum_of_zero_is_written_as_such_for_tcp_and_in_the_other_notation_for_udp() {
        for (at, written) in [(16, 0), (UDP_CHECKSUM, 0xffff)] {
            let mut bytes = [0; 20];
            let checksum = Checksum { start: 0, at };
            checksum.put(&mut bytes, 0xffff);
            checksum.compute(&mut bytes);
            assert_eq!(bytes[at..at + 2], u16::to_be_bytes(written));
        }
    }

    #[test]
    fn what_the_link_computes_is_marked_and_the_field_is_zero() {
        let (bytes, start) = segment(v4(1), v4(2));
        for (gso_type, large_send) in [(GSO_NONE, None), (GSO_TCPV4, Some(1400))] {
            let packet = packet(&message(&bytes, start, gso_type), ALL).expect("a packet");
            let expected = Offload { ip_checksum: false, full_checksum: true, large_send };
            assert_eq!(packet.offload, expected);
            assert_eq!(packet.bytes[36..38], [0, 0]);
            assert_eq!(packet.bytes[38..], bytes[38..]);
        }
    }

    #[test]
    fn large_send_that_is_not_offered_goes_nowhere() {
        let (v4_bytes, v4_start) = segment(v4(1), v4(2));
        let (v6_bytes, v6_start) = segment(v6(1), v6(2));
        let small = OffloadCapability { large_send: Some(3_000), ..ALL };
        for (bytes, start, gso_type, link) in [
            (&v4_bytes, v4_start, GSO_TCPV4, NONE),
            (&v4_bytes, v4_start, GSO_TCPV4, small),
            (&v6_bytes, v6_start, 4, ALL),
            (&v6_bytes, v6_start, GSO_TCPV4, ALL),
            (&v4_bytes, v4_start, 5, ALL),
        ] {
            assert_eq!(packet(&message(bytes, start, gso_type), link), Err(Unfit::NotOffered));
        }
    }

    #[test]
    fn bytes_that_are_no_packet_are_said_to_be_none() {
        let (bytes, start) = segment(v4(1), v4(2));
        let message = message(&bytes, start, GSO_NONE);
        for len in [0, VIRTIO_NET_HDR_LEN - 1, VIRTIO_NET_HDR_LEN, VIRTIO_NET_HDR_LEN + 37] {
            assert_eq!(packet(&message[..len], ALL), Err(Unfit::Malformed), "{len} bytes");
        }
    }
}
