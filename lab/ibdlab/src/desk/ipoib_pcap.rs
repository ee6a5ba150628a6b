//! Classic pcap of link type 242 (LINKTYPE_IPOIB): a link's packets with their addresses.
//!
//! Each packet stands behind 40 bytes as an adapter leaves them in front of what it received: the GRH with the sender's queue
//! pair in it if one came along, otherwise twenty zero bytes and the destination's link address. A unicast packet within the
//! subnet has no GRH, so nobody can tell its sender's address, and nobody pretends to.

use std::io::Write;
use std::time::Duration;

use lab_gldv3::{Destination, LinkAddress, Received};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

/// Bytes in front of the IPoIB header.
pub const PREFIX: usize = 40;
/// More than any packet of a link has.
const SNAP: u32 = 1 << 17;

/// A file's writer, its header written.
///
/// # Errors
///
/// What the file says.
pub fn writer<W: Write>(to: W) -> Result<PcapWriter<W>, PcapError> {
    let header = PcapHeader {
        snaplen: SNAP,
        datalink: DataLink::IPOIB,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    PcapWriter::with_header(to, header)
}

/// A packet of the link whose own address is `own`. `since_1970` is when it passed.
pub fn packet(own: LinkAddress, received: &Received, since_1970: Duration) -> PcapPacket<'static> {
    let to_group = received.kind != Destination::Unicast;
    // What this host sends to a group goes out with a GRH.
    let source = received.source.or_else(|| (received.loopback && to_group).then_some(own));
    let mut bytes = prefix(source.as_ref(), &received.destination).to_vec();
    bytes.extend(received.sap.to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(&received.payload);
    PcapPacket::new_owned(since_1970, u32::try_from(bytes.len()).unwrap_or(u32::MAX), bytes)
}

fn prefix(source: Option<&LinkAddress>, destination: &LinkAddress) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    let Some(source) = source else {
        prefix[20..].copy_from_slice(&destination.0);
        return prefix;
    };
    // IP version 6, as every GRH.
    prefix[0] = 0x60;
    prefix[5..8].copy_from_slice(&source.0[1..4]);
    prefix[8..24].copy_from_slice(&source.0[4..]);
    prefix[24..].copy_from_slice(&destination.0[4..]);
    prefix
}

/// The destination of a packet in such a file; `None` if only its GID is in there, and it is no group's.
pub fn destination(prefix: &[u8; PREFIX]) -> Option<[u8; 20]> {
    let mut address = [0; 20];
    if prefix[..2] == [0, 0] {
        address.copy_from_slice(&prefix[20..]);
        return Some(address);
    }
    address[1..4].fill(0xff);
    address[4..].copy_from_slice(&prefix[24..]);
    (address[4] == 0xff).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(flags: u8, qpn: u8, gid: u8) -> LinkAddress {
        let mut bytes = [gid; 20];
        bytes[..4].copy_from_slice(&[flags, 0, 0, qpn]);
        LinkAddress(bytes)
    }

    #[test]
    fn without_grh_the_whole_destination_is_there_and_the_sender_is_not() {
        let to = address(0x80, 0x48, 0xfe);
        let prefix = prefix(None, &to);
        assert_eq!(prefix[..20], [0; 20]);
        assert_eq!(destination(&prefix), Some(to.0));
    }

    #[test]
    fn a_group_is_known_by_its_gid_and_a_station_is_not() {
        let from = address(0, 0x48, 0xfe);
        let mut group = address(0, 0, 0xff);
        group.0[1..4].fill(0xff);
        let to_group = prefix(Some(&from), &group);
        assert_eq!((to_group[5..8].to_vec(), to_group[8]), (vec![0, 0, 0x48], 0xfe));
        assert_eq!(destination(&to_group), Some(group.0));
        assert_eq!(destination(&prefix(Some(&from), &from)), None);
    }
}
