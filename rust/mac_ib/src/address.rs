//! The 20-byte link address: one reserved byte, the 24-bit queue pair number, the 128-bit GID (RFC 4391, section 9.1.1).

use gldv3::Address;

/// The broadcast address announced to the framework: the IPv4 broadcast group with scope (low half of byte 5) and P_Key
/// (bytes 8 and 9) zero, because they differ from link to link. Drivers fill them in when they send and clear them
/// when they receive.
pub const BROADCAST: Address = [
    0x00, 0xff, 0xff, 0xff, // reserved, queue pair number of every multicast datagram
    0xff, 0x10, 0x40, 0x1b, // multicast, scope, IPv4 signature
    0x00, 0x00, // P_Key
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, // group
];

/// The 80 bits of the group id, bytes 10..20, of every broadcast group.
const BROADCAST_GROUP: [u8; 10] = [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

/// What an address is an address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One station: a queue pair that is not 0xFFFFFF.
    Unicast,
    /// A group that is joined and left.
    Multicast,
    /// A group with the group id of broadcast, whatever its signature, scope and P_Key.
    Broadcast,
}

/// What `address` is. The reserved byte, where connected-mode peers keep flags, says nothing about it.
pub fn kind(address: &Address) -> Kind {
    let [_reserved, qpn0, qpn1, qpn2, ..] = *address;
    if [qpn0, qpn1, qpn2] != [0xff; 3] {
        Kind::Unicast
    } else if address.last_chunk() == Some(&BROADCAST_GROUP) {
        Kind::Broadcast
    } else {
        Kind::Multicast
    }
}

#[cfg(test)]
mod tests {
    use super::{BROADCAST, Kind, kind};
    use gldv3::Address;

    fn with(change: impl FnOnce(&mut Address)) -> Address {
        let mut address = BROADCAST;
        change(&mut address);
        address
    }

    #[test]
    fn reserved_byte_does_not_hide_a_group() {
        for reserved in [0x00, 0x80, 0x40, 0xff] {
            assert_eq!(kind(&with(|a| a[0] = reserved)), Kind::Broadcast);
            assert_eq!(kind(&with(|a| (a[0], a[19]) = (reserved, 1))), Kind::Multicast);
        }
    }

    #[test]
    fn any_other_queue_pair_is_a_station() {
        for byte in 1..4 {
            assert_eq!(kind(&with(|a| a[byte] = 0xfe)), Kind::Unicast);
        }
        assert_eq!(kind(&[0; 20]), Kind::Unicast);
    }

    #[test]
    fn signature_scope_and_pkey_do_not_matter() {
        for signature in [0x40, 0x60] {
            let broadcast = with(|a| {
                a[5] = 0x1e;
                a[6] = signature;
                (a[8], a[9]) = (0xff, 0xff);
            });
            assert_eq!(kind(&broadcast), Kind::Broadcast);
        }
    }

    #[test]
    fn every_bit_of_the_group_id_matters() {
        for bit in 0..80 {
            let address = with(|a| a[10 + bit / 8] ^= 1 << (bit % 8));
            assert_eq!(kind(&address), Kind::Multicast, "bit {bit}");
        }
    }
}
