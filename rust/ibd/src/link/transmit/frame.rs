//! What a packet of the MAC layer says about itself, read once.

use core::num::NonZeroU16;

use ibtf::{LargeSend, SendOptions};
use ipoib::header::{IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN, PseudoHeader};
use ipoib::neighbours;
use ipoib::{Cast, EtherType};
use kernel::mblk::{Mblk, Offload};

/// Bytes in front of the IPoIB header in the MAC layer's form: the two addresses.
pub(super) const ADDRESSES_LEN: usize = 40;
const IPV4_MIN: usize = 20;
const TCP_MIN: usize = 20;
const TCP: u8 = 6;

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
    /// `None` for what is no packet: less than a header in front, or a large send that is not TCP over IPv4.
    pub(super) fn read(packet: &Mblk) -> Option<(PseudoHeader, Self)> {
        let header = match packet.first().first_chunk::<PSEUDO_HEADER_LEN>() {
            Some(bytes) => PseudoHeader::parse(bytes)?,
            None => scattered_header(packet)?,
        };
        let len = packet.len() - ADDRESSES_LEN;
        let asked = packet.offload();
        let large = match asked.lso_mss {
            Some(mss) => Some(large_send(packet, header.ethertype, len, mss)?),
            None => None,
        };
        let checksum = large.is_some() || asked.has(Offload::FULL | Offload::IPV4_HEADER);
        let options = SendOptions { checksum, solicited: false, large };
        let cast = header.destination.cast();
        Some((header, Self { ethertype: header.ethertype, cast, len, options }))
    }

    /// Whether it may be a message that says who has which address: ARP, or a short one of IPv6, not to everybody.
    pub(super) fn may_tell_neighbour(&self) -> bool {
        let short = self.len <= IPOIB_HEADER_LEN + neighbours::PREFIX_LEN;
        self.cast != Cast::Broadcast
            && (self.ethertype == EtherType::ARP || short && self.ethertype == EtherType::IPV6)
    }

    /// Bytes of the longest packet that goes on the wire, IPoIB header included.
    pub(super) fn longest(&self) -> usize {
        let Some(LargeSend { header_len, mss }) = self.options.large else { return self.len };
        header_len.saturating_add(mss) as usize
    }

    /// How many packets, and bytes of IPoIB header and payload in all, go on the wire.
    pub(super) fn on_the_wire(&self) -> (usize, usize) {
        let Some(LargeSend { header_len, mss }) = self.options.large else { return (1, self.len) };
        let header = header_len as usize;
        let payload = self.len.saturating_sub(header);
        let packets = payload.div_ceil(mss.max(1) as usize).max(1);
        (packets, payload + packets * header)
    }
}

/// A header that lies in several blocks.
#[inline(never)]
fn scattered_header(packet: &Mblk) -> Option<PseudoHeader> {
    let mut bytes = [0; PSEUDO_HEADER_LEN];
    if packet.copy_to(0, &mut bytes) < PSEUDO_HEADER_LEN {
        return None;
    }
    PseudoHeader::parse(&bytes)
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
