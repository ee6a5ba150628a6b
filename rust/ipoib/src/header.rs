//! The bytes in front of an IP packet: the 4-byte IPoIB header of the wire (RFC 4391 section 6) and the 44-byte pseudo header
//! in which the MAC layer and the driver pass both addresses (`ib_header_info_t`).
//!
//! | Bytes | Outbound | Received |
//! |---|---|---|
//! | 0..20 | not defined | source: flags and QPN, GID; first word zero if unknown |
//! | 20..40 | destination: flags and QPN, GID | same |
//! | 40..42 | EtherType | same |
//! | 42..44 | zero | same |
//!
//! The layout is one with the receive buffer's: 40 bytes of GRH, then the IPoIB header. The GRH is turned into the two
//! addresses in place.

use crate::addr::{Cast, Gid, LinkAddr, Mgid, Qpn};

/// Bytes a UD receive keeps for a Global Route Header.
pub const GRH_LEN: usize = 40;
/// Bytes of EtherType and zero on the wire.
pub const IPOIB_HEADER_LEN: usize = 4;
/// Bytes of pseudo header: two addresses and an IPoIB header.
pub const PSEUDO_HEADER_LEN: usize = 44;

const DESTINATION: core::ops::Range<usize> = 20..40;
const GRH_SGID: core::ops::Range<usize> = 8..24;
const GRH_DGID: core::ops::Range<usize> = 24..40;
/// First byte of a group's GID.
const MULTICAST: u8 = 0xff;

/// What the payload is, by its 16-bit number, host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
}

/// The pseudo header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PseudoHeader {
    /// `None` if the first word is zero: the frame came without a GRH.
    pub source: Option<LinkAddr>,
    /// Where the frame goes.
    pub destination: LinkAddr,
    /// What follows.
    pub ethertype: EtherType,
}

impl PseudoHeader {
    /// Reads the first 44 bytes; `None` if there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; PSEUDO_HEADER_LEN] = bytes.first_chunk()?;
        let source = LinkAddr::from_slice(header).filter(|_| header[..4] != [0; 4]);
        Some(Self {
            source,
            destination: LinkAddr::from_slice(&header[DESTINATION])?,
            ethertype: EtherType(u16::from_be_bytes([header[40], header[41]])),
        })
    }

    /// Reads the destination and what follows, without the source.
    #[inline]
    pub fn outbound(header: &[u8; PSEUDO_HEADER_LEN]) -> (LinkAddr, EtherType) {
        let mut to = [0; LinkAddr::LEN];
        to.copy_from_slice(&header[DESTINATION]);
        (LinkAddr::from_bytes(to), EtherType(u16::from_be_bytes([header[40], header[41]])))
    }
}

/// What a completed receive was, once its GRH has been turned into addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who it was for.
    pub cast: Cast,
    /// What the payload is.
    pub ethertype: EtherType,
}

/// Why a completed receive is not passed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Fewer than 44 bytes: no IPoIB header.
    Short,
    /// Our own multicast, come back through the fabric.
    OwnMulticast,
}

/// Turns the GRH of a completed receive into a pseudo header, in place.
///
/// `frame` is the buffer from its first byte to the end of what was received (the 40 GRH bytes included, whether or not a GRH
/// came). `sender` is the completion's source queue pair, `own` the link's address, `senders` are the queue pairs that send for it
/// beside that address's. Scope and P_Key of a multicast destination are cleared: the MAC layer compares groups in that form.
#[inline(always)]
pub fn receive(
    frame: &mut [u8],
    has_grh: bool,
    sender: Qpn,
    own: &LinkAddr,
    senders: &[Qpn],
) -> Result<Received, Rejected> {
    let header: &mut [u8; PSEUDO_HEADER_LEN] = frame.first_chunk_mut().ok_or(Rejected::Short)?;
    let ethertype = EtherType(u16::from_be_bytes([header[40], header[41]]));
    let mut group = None;
    if has_grh {
        if header[GRH_DGID.start] == MULTICAST {
            group = Some(group_from_grh(header, sender, own, senders)?);
        }
        header.copy_within(GRH_SGID, size_of::<u32>());
        header[..size_of::<u32>()].copy_from_slice(&sender.get().to_be_bytes());
    } else {
        header[..LinkAddr::LEN].fill(0);
    }
    let destination = group.as_ref().unwrap_or(own);
    header[DESTINATION].copy_from_slice(destination.as_bytes());
    let cast = group.map_or(Cast::Unicast, |group| group.cast());
    Ok(Received { cast, ethertype })
}

/// Puts a pseudo header in front of a message of a connection, in place.
///
/// `frame` begins with as many bytes as a GRH has, which mean nothing, and goes on with the message: IPoIB header and packet. No adapter
/// has to say which connection a message came on where they share a queue, so who sent it is not known.
pub fn receive_connected(frame: &mut [u8], own: &LinkAddr) -> Result<EtherType, Rejected> {
    let header: &mut [u8; PSEUDO_HEADER_LEN] = frame.first_chunk_mut().ok_or(Rejected::Short)?;
    header[..LinkAddr::LEN].fill(0);
    header[DESTINATION].copy_from_slice(own.as_bytes());
    Ok(EtherType(u16::from_be_bytes([header[40], header[41]])))
}

/// The group that a frame was sent to.
#[inline(never)]
fn group_from_grh(
    header: &[u8; PSEUDO_HEADER_LEN],
    sender: Qpn,
    own: &LinkAddr,
    senders: &[Qpn],
) -> Result<LinkAddr, Rejected> {
    let ours = sender == own.qpn() || senders.contains(&sender);
    if ours && gid_at(header, GRH_SGID) == own.gid() {
        return Err(Rejected::OwnMulticast);
    }
    let group = Mgid::new(gid_at(header, GRH_DGID));
    Ok(group.map_or(*own, |group| LinkAddr::multicast(group.canonical())))
}

fn gid_at(header: &[u8; PSEUDO_HEADER_LEN], at: core::ops::Range<usize>) -> Gid {
    let mut gid = [0; 16];
    gid.copy_from_slice(&header[at]);
    Gid::from_bytes(gid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{PKey, Scope};

    const PKEY: PKey = PKey::new(0xffff).unwrap();
    const PEER: Gid = Gid { prefix: 0xfe80 << 48, guid: 0xb };

    fn own() -> LinkAddr {
        LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: 0xa })
    }

    fn frame(sgid: Gid, dgid: Gid) -> [u8; 48] {
        let mut bytes = [0x5a; 48];
        bytes[GRH_SGID].copy_from_slice(&sgid.to_bytes());
        bytes[GRH_DGID].copy_from_slice(&dgid.to_bytes());
        bytes[40..44].copy_from_slice(&[0x86, 0xdd, 0, 0]);
        bytes
    }

    #[test]
    fn a_group_arrives_without_scope_and_pkey() {
        let mut bytes = frame(PEER, Mgid::ipv4([224, 0, 0, 5], Scope::LinkLocal, PKEY).gid());
        let sender = Qpn::new(0x99).unwrap();
        let got = receive(&mut bytes, true, sender, &own(), &[]).unwrap();
        assert_eq!(got, Received { cast: Cast::Multicast, ethertype: EtherType::IPV6 });
        let header = PseudoHeader::parse(&bytes).unwrap();
        assert_eq!(header.source, Some(LinkAddr::unicast(sender, PEER)));
        let want = [0, 255, 255, 255, 0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];
        assert_eq!(header.destination.as_bytes(), &want);
        assert_eq!(bytes[44..], [0x5a; 4]);
    }

    #[test]
    fn the_broadcast_is_counted_as_one() {
        let mut bytes = frame(PEER, Mgid::broadcast(Scope::LinkLocal, PKEY).gid());
        let got = receive(&mut bytes, true, Qpn::new(1).unwrap(), &own(), &[]).unwrap();
        assert_eq!(got.cast, Cast::Broadcast);
    }

    #[test]
    fn our_own_multicast_is_recognised_by_queue_pair_and_gid() {
        let group = Mgid::broadcast(Scope::LinkLocal, PKEY).gid();
        let us = own();
        let mut bytes = frame(us.gid(), group);
        assert_eq!(receive(&mut bytes, true, us.qpn(), &us, &[]), Err(Rejected::OwnMulticast));
        let mut other_qp = frame(us.gid(), group);
        let second = Qpn::new(0x49).unwrap();
        assert!(receive(&mut other_qp, true, second, &us, &[]).is_ok());
        let mut from_another_ring = frame(us.gid(), group);
        assert_eq!(
            receive(&mut from_another_ring, true, second, &us, &[second]),
            Err(Rejected::OwnMulticast)
        );
        let mut from_a_peer = frame(PEER, group);
        assert!(receive(&mut from_a_peer, true, second, &us, &[second]).is_ok());
    }

    #[test]
    fn a_message_of_a_connection_is_for_us_from_nobody_known_and_begins_with_an_ipoib_header() {
        let mut bytes = frame(PEER, PEER);
        let us = own().with_connections();
        assert_eq!(receive_connected(&mut bytes, &us), Ok(EtherType::IPV6));
        let header = PseudoHeader::parse(&bytes).unwrap();
        assert_eq!((header.source, header.destination), (None, us));
        assert_eq!(bytes[44..], [0x5a; 4]);
        for len in 0..PSEUDO_HEADER_LEN {
            assert_eq!(receive_connected(&mut bytes[..len], &us), Err(Rejected::Short));
        }
    }

    #[test]
    fn a_frame_without_grh_is_for_us_from_nobody_known() {
        let mut bytes = frame(PEER, PEER);
        receive(&mut bytes, false, Qpn::new(1).unwrap(), &own(), &[]).unwrap();
        let header = PseudoHeader::parse(&bytes).unwrap();
        assert_eq!((header.source, header.destination), (None, own()));
    }

    #[test]
    fn a_routed_unicast_frame_is_for_us() {
        let us = own();
        let mut bytes = frame(PEER, us.gid());
        assert_eq!(receive(&mut bytes, true, Qpn::new(1).unwrap(), &us, &[]).unwrap().cast, Cast::Unicast);
        assert_eq!(PseudoHeader::parse(&bytes).unwrap().destination, us);
    }

    #[test]
    fn a_frame_of_43_bytes_has_no_header() {
        let mut bytes = [0; 43];
        assert_eq!(receive(&mut bytes, true, Qpn::new(1).unwrap(), &own(), &[]), Err(Rejected::Short));
        assert_eq!(PseudoHeader::parse(&bytes), None);
    }

    #[test]
    fn a_source_of_zeros_is_nobody() {
        let mut bytes = [0; PSEUDO_HEADER_LEN];
        bytes[DESTINATION].copy_from_slice(own().as_bytes());
        bytes[40..42].copy_from_slice(&EtherType::ARP.0.to_be_bytes());
        let nobody = PseudoHeader { source: None, destination: own(), ethertype: EtherType::ARP };
        assert_eq!(PseudoHeader::parse(&bytes), Some(nobody));
        bytes[..LinkAddr::LEN].copy_from_slice(own().as_bytes());
        assert_eq!(PseudoHeader::parse(&bytes), Some(PseudoHeader { source: Some(own()), ..nobody }));
    }
}
