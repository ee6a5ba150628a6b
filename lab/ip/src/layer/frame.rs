//! What goes to a link and comes from it, and what a link says of itself.

use lab_gldv3::{Offload, OffloadCapability};
use smoltcp::wire::IpCidr;

use crate::link_addr::LinkAddr;

/// Ethertype of IPv4.
pub const SAP_IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const SAP_ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const SAP_IPV6: u16 = 0x86dd;

/// A packet for the link: destination address, SAP (Ethertype), and what comes behind the link's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it goes, or where it was sent to.
    pub dst: LinkAddr,
    /// Ethertype, host byte order.
    pub sap: u16,
    /// What comes behind the link's header.
    pub payload: Vec<u8>,
    /// What the link is to compute.
    pub offload: Offload,
}

/// An IP packet to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The packet, from its IP header on.
    pub bytes: Vec<u8>,
    /// What the link is to compute.
    pub offload: Offload,
}

impl From<Vec<u8>> for Packet {
    /// A packet that is complete.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, offload: Offload::default() }
    }
}

impl Frame {
    /// How many packets it is on the wire; a large send is TCP over IPv4.
    pub(super) fn packets(&self) -> u64 {
        let Some(mss) = self.offload.large_send else { return 1 };
        let header = |at: usize, nibble: u32| {
            self.payload.get(at).map_or(0, |byte| usize::from(byte >> nibble & 0xf) * 4)
        };
        let ip = header(0, 0);
        let data = self.payload.len().saturating_sub(ip + header(ip + 12, 4));
        data.div_ceil(usize::from(mss).max(1)).max(1) as u64
    }
}

/// What the link says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The link's own address.
    pub own: LinkAddr,
    /// With scope and P_Key as the link announces it (zero).
    pub broadcast: LinkAddr,
    /// Largest IP packet in bytes.
    pub sdu: usize,
    /// What it computes for those who send.
    pub offload: OffloadCapability,
}

/// Which addresses an interface is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Those that an administrator has given.
    pub fixed: Vec<IpCidr>,
    /// The one that is made of the link's address.
    pub link_local: bool,
    /// The one that a DHCP server gives; the seed of its client.
    pub dhcp: Option<u64>,
}

/// Frames that passed this layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All that the link handed up.
    pub received: u64,
    /// As the link counts them: a large send as the packets it becomes.
    pub transmitted: u64,
    /// Of those received: ARP and ND packets, consumed here.
    pub resolution: u64,
    /// Of those received: with a SAP that nobody wants.
    pub unknown_sap: u64,
    /// Of those for address resolution: with content that changes nothing.
    pub ignored: u64,
    /// Of those received: IP of another version than the SAP says.
    pub wrong_version: u64,
    /// Packets that were to go out and have no destination, or no way to it.
    pub unsendable: u64,
}
