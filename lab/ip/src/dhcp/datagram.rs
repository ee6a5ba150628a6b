//! The IPv4 and UDP headers of a client's messages. A client speaks before it has an address, so it writes them itself.

use std::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    DHCP_CLIENT_PORT, DHCP_SERVER_PORT, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;
const HOP_LIMIT: u8 = 255;

/// A message as an IPv4 packet to a server's port.
pub fn from_client(source: Ipv4Addr, destination: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    let checksums = ChecksumCapabilities::default();
    let ip = Ipv4Repr {
        src_addr: source,
        dst_addr: destination,
        next_header: IpProtocol::Udp,
        payload_len: UDP_LEN + message.len(),
        hop_limit: HOP_LIMIT,
    };
    let udp = UdpRepr { src_port: DHCP_CLIENT_PORT, dst_port: DHCP_SERVER_PORT };
    let mut bytes = vec![0; IPV4_LEN + ip.payload_len];
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &checksums);
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut bytes[IPV4_LEN..]),
        &IpAddress::Ipv4(source),
        &IpAddress::Ipv4(destination),
        message.len(),
        |payload| payload.copy_from_slice(message),
        &checksums,
    );
    bytes
}

/// The message in an IPv4 packet, if it is a whole and undamaged datagram to a client's port.
pub fn for_client(packet: &[u8]) -> Option<&[u8]> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    let whole = ip.version() == 4 && !ip.more_frags() && ip.frag_offset() == 0;
    if !whole || ip.next_header() != IpProtocol::Udp || !ip.verify_checksum() {
        return None;
    }
    let addresses = (IpAddress::Ipv4(ip.src_addr()), IpAddress::Ipv4(ip.dst_addr()));
    let udp = UdpPacket::new_checked(ip.payload()).ok()?;
    let sound = udp.verify_checksum(&addresses.0, &addresses.1);
    (udp.dst_port() == DHCP_CLIENT_PORT && sound).then(|| udp.payload())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Vec<u8> {
        let mut packet = from_client(Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::BROADCAST, b"words");
        packet[IPV4_LEN..IPV4_LEN + 4].copy_from_slice(&[0, 67, 0, 68]);
        // The ports have changed places, so the sum stays.
        packet
    }

    #[test]
    fn a_datagram_to_a_client_is_read_and_one_to_a_server_is_not() {
        assert_eq!(for_client(&answer()), Some(&b"words"[..]));
        assert_eq!(for_client(&from_client(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, b"words")), None);
    }

    #[test]
    fn damage_anywhere_is_noticed() {
        for at in 0..answer().len() {
            let mut packet = answer();
            packet[at] ^= 0x40;
            assert_eq!(for_client(&packet), None, "octet {at}");
        }
    }
}
