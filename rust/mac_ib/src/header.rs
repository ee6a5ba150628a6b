//! The 44 bytes in front of a packet inside the system (`ib_header_info_t`), which never go on the wire as they are:
//!
//! ```text
//! 0..20   source address, or zero in its first four bytes for "none"
//! 20..40  destination address
//! 40..42  type, big endian
//! 42..44  reserved, zero
//! ```
//!
//! The first 40 take the place of the GRH that an adapter puts in front of every datagram.

use gldv3::{ADDRESS_LEN, Address, DestinationClass, HeaderInfo};

use crate::address::{self, Kind};
use crate::sap;

/// Length of the whole header.
pub const LEN: usize = 2 * ADDRESS_LEN + 4;

/// Length of what a raw-mode program writes in front of its payload (`ipoib_ptxhdr_t`): destination, type, reserved.
pub const RAW_TRANSMIT_LEN: usize = ADDRESS_LEN + 4;

/// Length of what a raw-mode program does not see: the two addresses, where the GRH was.
pub const RAW_RECEIVE_SKIP: usize = 2 * ADDRESS_LEN;

const DESTINATION: usize = ADDRESS_LEN;

/// A header to `destination`, from nobody; `None` if `sap` is no protocol number.
pub fn make(destination: &Address, sap: u32) -> Option<[u8; LEN]> {
    let kind = sap::header_type(sap)?.to_be_bytes();
    let mut header = [0; LEN];
    let (addresses, fields) = header.split_at_mut(2 * ADDRESS_LEN);
    addresses.get_mut(DESTINATION..)?.copy_from_slice(destination);
    fields.get_mut(..2)?.copy_from_slice(&kind);
    Some(header)
}

/// Reads the header at the start of `block`, a packet's first block; `None` if the block is shorter than the header.
/// The type is not folded: a packet with an 802 SAP other than 0 finds no stream.
pub fn parse(block: &[u8]) -> Option<HeaderInfo> {
    let header = block.first_chunk::<LEN>()?;
    let destination: &Address = header.get(DESTINATION..)?.first_chunk()?;
    let fields = header.last_chunk::<4>()?;
    // The adapter's driver leaves the source queue pair zero when a packet came without a GRH.
    let has_source = header.first_chunk::<4>()? != &[0; 4];
    Some(HeaderInfo {
        header_len: LEN,
        destination: DESTINATION,
        source: has_source.then_some(0),
        sap: u32::from(u16::from_be_bytes([fields[0], fields[1]])),
        class: match address::kind(destination) {
            Kind::Unicast => DestinationClass::Unicast,
            Kind::Multicast => DestinationClass::Multicast,
            Kind::Broadcast => DestinationClass::Broadcast,
        },
    })
}

/// Reads what a raw-mode program wrote: where to, and the SAP. Its reserved bytes do not matter. `None` if `block` is
/// too short.
pub fn parse_raw(block: &[u8]) -> Option<(Address, u32)> {
    let raw = block.first_chunk::<RAW_TRANSMIT_LEN>()?;
    let (destination, fields) = raw.split_first_chunk()?;
    let kind = fields.first_chunk::<2>()?;
    Some((*destination, u32::from(u16::from_be_bytes(*kind))))
}

#[cfg(test)]
mod tests {
    use super::{LEN, RAW_TRANSMIT_LEN, make, parse, parse_raw};
    use crate::address::BROADCAST;
    use gldv3::DestinationClass;

    const PEER: [u8; 20] = [0, 0, 4, 7, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn made_header_has_no_source_a_destination_and_a_big_endian_type() {
        let header = make(&PEER, 0x0806).unwrap();
        assert_eq!(header[..20], [0; 20]);
        assert_eq!(header[20..40], PEER);
        assert_eq!(header[40..], [0x08, 0x06, 0, 0]);
        assert_eq!(make(&PEER, 65536), None);
        for sap in [0u16, 255, 256, 65535] {
            assert_eq!(make(&PEER, sap.into()).unwrap()[40..42], sap.to_be_bytes());
        }
    }

    #[test]
    fn short_first_block_is_refused() {
        assert_eq!(parse(&[0; LEN - 1]), None);
        assert!(parse(&[0; LEN]).is_some());
    }

    #[test]
    fn packet_without_grh_has_no_source() {
        let mut header = make(&PEER, 0x800).unwrap();
        header[4..20].fill(0xaa);
        assert_eq!(parse(&header).unwrap().source, None);
        for byte in 0..4 {
            let mut header = header;
            header[byte] = 1;
            assert_eq!(parse(&header).unwrap().source, Some(0));
        }
    }

    #[test]
    fn sap_is_read_as_it_is() {
        let info = parse(&make(&PEER, 5).unwrap()).unwrap();
        assert_eq!((info.sap, info.header_len, info.destination), (5, 44, 20));
    }

    #[test]
    fn class_is_that_of_the_destination() {
        let class = |to| parse(&make(to, 0x800).unwrap()).unwrap().class;
        let mut group = BROADCAST;
        group[19] = 1;
        assert_eq!(class(&PEER), DestinationClass::Unicast);
        assert_eq!(class(&group), DestinationClass::Multicast);
        assert_eq!(class(&BROADCAST), DestinationClass::Broadcast);
    }

    #[test]
    fn raw_transmit_header_is_24_bytes() {
        let mut raw = [0; RAW_TRANSMIT_LEN];
        raw[..20].copy_from_slice(&PEER);
        raw[20..].copy_from_slice(&[0x86, 0xdd, 9, 9]);
        assert_eq!(parse_raw(&raw), Some((PEER, 0x86dd)));
        assert_eq!(parse_raw(&raw[..23]), None);
    }
}
