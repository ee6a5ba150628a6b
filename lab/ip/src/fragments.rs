//! Fragments that smoltcp makes, with the ICMP checksum that they should have.
//!
//! smoltcp 0.14 sums up its whole fragmentation buffer for an ICMP message, what a longer message has left in it included. So the
//! fragments of one wait here until the last has come, and the first gets the sum of what is in them.

use smoltcp::wire::{Icmpv4Packet, IpProtocol, Ipv4Packet};

use super::layer::Packet;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Fragments {
    held: Vec<Packet>,
}

impl Fragments {
    /// Takes a packet; those that can go on, in order. The device has smoltcp make all fragments of a packet before another packet.
    pub fn pass(&mut self, packet: Packet) -> Vec<Packet> {
        let Some(more) = is_icmp_fragment(&packet.bytes) else { return vec![packet] };
        self.held.push(packet);
        if more {
            return Vec::new();
        }
        let mut all = std::mem::take(&mut self.held);
        let mut message: Vec<u8> = all.iter().flat_map(|packet| payload(&packet.bytes).to_vec()).collect();
        if message.len() >= ICMP_HEADER {
            let mut icmp = Icmpv4Packet::new_unchecked(&mut message[..]);
            icmp.fill_checksum();
            let sum = icmp.checksum();
            let mut first = Ipv4Packet::new_unchecked(&mut all[0].bytes[..]);
            Icmpv4Packet::new_unchecked(first.payload_mut()).set_checksum(sum);
        }
        all
    }
}

const ICMP_HEADER: usize = 8;

/// `None` for anything but a fragment of an ICMP message; whether more of it come.
fn is_icmp_fragment(packet: &[u8]) -> Option<bool> {
    let ip = Ipv4Packet::new_checked(packet).ok().filter(|ip| ip.version() == 4)?;
    let fragment = ip.more_frags() || ip.frag_offset() > 0;
    (fragment && ip.next_header() == IpProtocol::Icmp).then(|| ip.more_frags())
}

/// Of a packet that has been checked.
fn payload(packet: &[u8]) -> &[u8] {
    Ipv4Packet::new_unchecked(packet).payload()
}
