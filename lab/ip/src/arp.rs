//! ARP over InfiniBand: RFC 826 with hardware type 32 and 20-byte addresses (RFC 4391 section 9.1.1).

use std::net::Ipv4Addr;

use super::link_addr::LinkAddr;

/// Length of an IPv4-over-IB ARP packet, headers of the link not counted.
pub const LEN: usize = 56;
const HTYPE_INFINIBAND: [u8; 2] = [0, 32];
const PTYPE_IPV4: [u8; 2] = [0x08, 0x00];

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// An ARP packet with addresses of IPv4 and of InfiniBand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Question or answer.
    pub operation: Operation,
    /// Who sends it; without an IPv4 address if it only asks whether somebody has one.
    pub sender: (Ipv4Addr, LinkAddr),
    /// Who is asked for, without a link address, or who is answered.
    pub target: (Ipv4Addr, LinkAddr),
}

impl Arp {
    /// Who has `target`? Asked by `sender`.
    pub fn request(sender: (Ipv4Addr, LinkAddr), target: Ipv4Addr) -> Self {
        Self { operation: Operation::Request, sender, target: (target, LinkAddr::ZERO) }
    }

    /// Does anybody have `target`? Asked by somebody without an address (RFC 5227).
    pub fn probe(own: LinkAddr, target: Ipv4Addr) -> Self {
        Self::request((Ipv4Addr::UNSPECIFIED, own), target)
    }

    /// Whether the sender or the target can be no host's: a group, or this host itself (`arp_process_packet`).
    pub fn is_martian(&self) -> bool {
        [self.sender.0, self.target.0].iter().any(|ip| ip.is_multicast() || ip.is_loopback())
    }

    /// Whether this is no request and no probe, and tells that somebody at another place than `own` answers for the target.
    pub fn answers_for_target(&self, own: LinkAddr) -> bool {
        self.operation == Operation::Reply && self.target.1 != own
    }

    /// Our answer to a request for `own`.
    pub fn reply(&self, own: (Ipv4Addr, LinkAddr)) -> Self {
        Self { operation: Operation::Reply, sender: own, target: self.sender }
    }

    /// `None` for anything that is short, has addresses of other lengths, or another operation. Of any hardware type and protocol, as
    /// illumos takes it (`arp_process_packet`).
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.get(..LEN)?.try_into().ok()?;
        if bytes[4..6] != [20, 4] {
            return None;
        }
        let operation = match bytes[6..8] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return None,
        };
        Some(Self { operation, sender: endpoint(&bytes[8..32]), target: endpoint(&bytes[32..56]) })
    }

    /// The packet as it stands behind the link's header.
    pub fn emit(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0..2].copy_from_slice(&HTYPE_INFINIBAND);
        bytes[2..4].copy_from_slice(&PTYPE_IPV4);
        bytes[4..6].copy_from_slice(&[20, 4]);
        bytes[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        emit_endpoint(&mut bytes[8..32], &self.sender);
        emit_endpoint(&mut bytes[32..56], &self.target);
        bytes
    }
}

/// 20 bytes of link address, 4 of IPv4 address.
fn endpoint(bytes: &[u8]) -> (Ipv4Addr, LinkAddr) {
    let mut link = [0; 20];
    link.copy_from_slice(&bytes[..20]);
    let mut ip = [0; 4];
    ip.copy_from_slice(&bytes[20..24]);
    (Ipv4Addr::from(ip), LinkAddr(link))
}

fn emit_endpoint(bytes: &mut [u8], (ip, link): &(Ipv4Addr, LinkAddr)) {
    bytes[..20].copy_from_slice(&link.0);
    bytes[20..24].copy_from_slice(&ip.octets());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_back_as_sent() {
        let asker = (Ipv4Addr::new(10, 0, 0, 1), LinkAddr([7; 20]));
        let owner = (Ipv4Addr::new(10, 0, 0, 2), LinkAddr([9; 20]));
        let reply = Arp::request(asker, owner.0).reply(owner);
        assert_eq!(Arp::parse(&reply.emit()), Some(reply));
        assert_eq!(reply.target, asker);
    }

    #[test]
    fn hardware_type_and_protocol_do_not_matter() {
        let request = Arp::request((Ipv4Addr::LOCALHOST, LinkAddr::ZERO), Ipv4Addr::BROADCAST);
        for (offset, value) in [(0, 7), (1, 1), (2, 0x86)] {
            let mut odd = request.emit();
            odd[offset] = value;
            assert_eq!(Arp::parse(&odd), Some(request), "byte {offset} = {value}");
        }
    }

    #[test]
    fn short_foreign_or_odd_packets_are_refused() {
        let good = Arp::request((Ipv4Addr::LOCALHOST, LinkAddr::ZERO), Ipv4Addr::BROADCAST).emit();
        assert_eq!(Arp::parse(&good[..LEN - 1]), None);
        for (offset, value) in [(4, 6), (4, 0), (5, 16), (7, 3)] {
            let mut bad = good;
            bad[offset] = value;
            assert_eq!(Arp::parse(&bad), None, "byte {offset} = {value}");
        }
    }
}
