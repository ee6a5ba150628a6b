//! What a packet of the MAC layer says about itself, read once.

use core::num::NonZeroU16;

use ibtf::{LargeSend, SendOptions};
use ipoib::header::{IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN, PseudoHeader};
use ipoib::{AddrWords, Cast, EtherType, LinkAddr};
use ipoib::{nd, neighbours};
use kernel::mblk::{Mblk, Offload};

/// Bytes in front of the IPoIB header in the MAC layer's form: the two addresses.
pub(super) const ADDRESSES_LEN: usize = 40;
/// Where the headers of IP have the destination.
const IPV4_DESTINATION: usize = 16;
const IPV6_DESTINATION: usize = 24;
/// Bytes of a header that have it.
const DESTINATIONS_LEN: usize = IPV6_DESTINATION + 16;
const IPV4_MIN: usize = 20;
const TCP_MIN: usize = 20;
const TCP: u8 = 6;

/// What nearly every packet is: one block, IP and nothing that tells of neighbours, no large send.
pub(super) struct Plain<'a> {
    pub(super) to: AddrWords,
    /// IPoIB header and payload.
    pub(super) message: &'a [u8],
    pub(super) checksum: bool,
    ethertype: EtherType,
}

impl<'a> Plain<'a> {
    /// `None` for every other packet.
    #[inline(always)]
    pub(super) fn read(packet: &'a Mblk) -> Option<Self> {
        let (to, message) = packet.only_block()?.split_first_chunk::<ADDRESSES_LEN>()?;
        let ethertype = EtherType(u16::from_be_bytes(*message.first_chunk()?));
        let is_ip = match ethertype {
            EtherType::IPV4 => true,
            EtherType::IPV6 => !nd::may_have_link_addresses(message.get(IPOIB_HEADER_LEN..)?),
            _ => false,
        };
        let asked = packet.offload_flags();
        if !is_ip || message.len() < IPOIB_HEADER_LEN || asked & Offload::LARGE_SEND != 0 {
            return None;
        }
        let checksum = asked & (Offload::FULL | Offload::IPV4_HEADER) != 0;
        Some(Self { to: AddrWords::read(to.last_chunk()?), message, checksum, ethertype })
    }

    /// As [`Frame::is_astray`].
    #[inline(always)]
    pub(super) fn is_astray(&self) -> bool {
        let cast = self.to.cast();
        cast != Cast::Unicast
            && is_astray(cast, self.ethertype, self.message.get(IPOIB_HEADER_LEN..).unwrap_or_default())
    }
}

/// A packet that can be sent, apart from where it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) ethertype: EtherType,
    pub(super) cast: Cast,
    /// Bytes of IPoIB header and payload.
    pub(super) len: usize,
    pub(super) options: SendOptions,
}

impl Frame {
    /// Where it goes, and what it is; `None` for what is no packet: less than a header in front, or a large send that is not TCP over
    /// IPv4.
    #[inline(never)]
    pub(super) fn read(packet: &Mblk) -> Option<(LinkAddr, Self)> {
        let (to, ethertype) = match packet.first().first_chunk() {
            Some(header) => PseudoHeader::outbound(header),
            None => scattered_header(packet)?,
        };
        let len = packet.len() - ADDRESSES_LEN;
        let options = asked(packet, ethertype, len)?;
        Some((to, Self { ethertype, cast: to.cast(), len, options }))
    }

    /// Whether it may be a message about who has which address: ARP, or neighbour discovery, which is never to everybody.
    pub(super) fn may_be_resolution(&self, packet: &Mblk) -> bool {
        match self.ethertype {
            EtherType::ARP => true,
            EtherType::IPV6 => self.cast != Cast::Broadcast && self.may_be_discovery(packet),
            _ => false,
        }
    }

    /// Whether it is for one host by what is in it, and would go to a group ([`is_astray`]).
    pub(super) fn is_astray(&self, packet: &Mblk) -> bool {
        let mut payload = [0; DESTINATIONS_LEN];
        let len =
            if self.cast == Cast::Unicast { 0 } else { packet.copy_to(PSEUDO_HEADER_LEN, &mut payload) };
        is_astray(self.cast, self.ethertype, payload.get(..len).unwrap_or_default())
    }

    fn may_be_discovery(&self, packet: &Mblk) -> bool {
        // Most of what is short is not, either.
        let short = self.len <= IPOIB_HEADER_LEN + neighbours::PREFIX_LEN;
        short && {
            let mut head = [0; nd::Message::HEAD_LEN];
            packet.copy_to(PSEUDO_HEADER_LEN, &mut head);
            nd::may_have_link_addresses(&head)
        }
    }

    /// Bytes of the longest packet that goes on the wire, IPoIB header included.
    pub(super) fn longest(&self) -> usize {
        let Some(LargeSend { header_len, mss }) = self.options.large else { return self.len };
        header_len.saturating_add(mss) as usize
    }

    /// As it goes on the wire.
    pub(super) fn wire(&self) -> Wire {
        let (cast, len) = (self.cast, self.len as u32);
        let Some(LargeSend { header_len, mss }) = self.options.large else { return Wire::one(cast, len) };
        let payload = len.saturating_sub(header_len);
        let packets = payload.div_ceil(mss.max(1)).max(1);
        Wire { cast, packets, bytes: payload.saturating_add(packets.saturating_mul(header_len)) }
    }
}

/// Whether a packet is for one host and would go to a group: a neighbour has told a wrong link address. ARP asks all hosts or answers one.
/// IPv6 never goes to the broadcast group. IPv4 does, and the driver cannot tell which destinations are broadcast addresses: netmasks are
/// IP's, and the administrator may choose any address (`ifconfig broadcast`). A neighbour at the broadcast group is refused when it
/// [says so](neighbours::refuse).
#[inline(never)]
fn is_astray(cast: Cast, ethertype: EtherType, payload: &[u8]) -> bool {
    let is_for_one_host = match ethertype {
        EtherType::ARP => return cast == Cast::Multicast,
        EtherType::IPV4 if cast == Cast::Broadcast => false,
        EtherType::IPV4 => payload.get(IPV4_DESTINATION).is_some_and(|first| first >> 4 != 0xe),
        EtherType::IPV6 => payload.get(IPV6_DESTINATION).is_some_and(|first| *first != 0xff),
        _ => false,
    };
    cast != Cast::Unicast && is_for_one_host
}

/// One send as it goes on the wire: so many packets, and bytes of IPoIB headers and payload in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(super) cast: Cast,
    pub(super) packets: u32,
    pub(super) bytes: u32,
}

impl Wire {
    /// A message that is one packet.
    #[inline]
    pub(super) fn one(cast: Cast, bytes: u32) -> Self {
        Self { cast, packets: 1, bytes }
    }
}

/// A header that lies in several blocks.
#[inline(never)]
fn scattered_header(packet: &Mblk) -> Option<(LinkAddr, EtherType)> {
    let mut bytes = [0; PSEUDO_HEADER_LEN];
    let whole = packet.copy_to(0, &mut bytes) == PSEUDO_HEADER_LEN;
    whole.then(|| PseudoHeader::outbound(&bytes))
}

/// What the adapter is to do with a message of `len` bytes; `None` if that makes no sense.
fn asked(packet: &Mblk, ethertype: EtherType, len: usize) -> Option<SendOptions> {
    let asked = packet.offload();
    let large = match asked.lso_mss {
        Some(mss) => Some(large_send(packet, ethertype, len, mss)?),
        None => None,
    };
    let checksum = large.is_some() || asked.has(Offload::FULL | Offload::IPV4_HEADER);
    Some(SendOptions { checksum, solicited: false, large })
}

/// What the adapter must know to cut a message of `len` bytes.
#[inline(never)]
fn large_send(packet: &Mblk, ethertype: EtherType, len: usize, mss: NonZeroU16) -> Option<LargeSend> {
    if ethertype != EtherType::IPV4 {
        return None;
    }
    let mut ip = [0; IPV4_MIN];
    if packet.copy_to(PSEUDO_HEADER_LEN, &mut ip) < IPV4_MIN || ip[0] >> 4 != 4 || ip[9] != TCP {
        return None;
    }
    let ip_len = usize::from(ip[0] & 0xf) * 4;
    let mut tcp = [0; TCP_MIN];
    if ip_len < IPV4_MIN || packet.copy_to(PSEUDO_HEADER_LEN + ip_len, &mut tcp) < TCP_MIN {
        return None;
    }
    let tcp_len = usize::from(tcp[12] >> 4) * 4;
    let header = IPOIB_HEADER_LEN + ip_len + tcp_len;
    let fits = tcp_len >= TCP_MIN && header <= len;
    fits.then_some(LargeSend { header_len: header as u32, mss: mss.get().into() })
}
