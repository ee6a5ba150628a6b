//! What the two ends of a connection tell each other while they make it (RFC 4755 section 3): the service that listens, and eight octets in
//! the private data of REQ and REP.
//!
//! | octet | meaning |
//! |---|---|
//! | 0 | reserved: sent as zero, ignored |
//! | 1 to 3 | number of the sender's datagram queue pair, big-endian |
//! | 4 to 7 | the longest message that the sender takes, with the IPoIB header of four octets, big-endian |

use crate::addr::Qpn;

/// The longest message of a connection in octets, with the IPoIB header: what illumos's C driver and Linux announce.
pub const LONGEST_MESSAGE: u32 = 65_524;
/// A message that is no longer carries nothing.
const HEADER: u32 = 4;

/// Where a station listens. Every station has one service for each of its datagram queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Where Linux listens, and the C driver, too: one digit off.
    Legacy,
    /// As RFC 4755 section 3.5 says.
    Ietf,
}

impl Service {
    /// The service ID of the station with this datagram queue pair.
    pub const fn id(self, qpn: Qpn) -> u64 {
        let base = match self {
            Self::Legacy => 0x1000_0000_0000_0000,
            Self::Ietf => 0x0100_0000_0000_0000,
        };
        base + qpn.get() as u64
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Ietf,
            Self::Ietf => Self::Legacy,
        }
    }
}

/// The private data of a REQ or a REP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateData {
    /// The sender's datagram queue pair: with the GID in the REQ, the link address that the sender has in ARP and ND.
    pub qpn: Qpn,
    /// The longest message that the sender takes, in octets, with the IPoIB header; at most [`LONGEST_MESSAGE`].
    pub longest: u32,
}

/// Why private data are no private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateDataError {
    /// Fewer than eight octets.
    Short,
    /// A queue pair that no station has for datagrams: 0, 1 or the multicast one.
    QueuePair,
    /// No message is so short.
    Length,
}

impl PrivateData {
    /// Octets of it.
    pub const LEN: usize = 8;

    /// As they stand at the beginning of the private data.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let [_, q1, q2, q3] = self.qpn.get().to_be_bytes();
        let [m0, m1, m2, m3] = self.longest.to_be_bytes();
        [0, q1, q2, q3, m0, m1, m2, m3]
    }

    /// From private data, of which more may follow: a REQ carries 92 octets and a REP 196, whatever was filled in.
    ///
    /// # Errors
    ///
    /// What is wrong with them. Who sends such data gets REJ 28 (consumer reject).
    pub fn from_bytes(data: &[u8]) -> Result<Self, PrivateDataError> {
        let [_, q1, q2, q3, m0, m1, m2, m3] =
            *data.first_chunk::<{ Self::LEN }>().ok_or(PrivateDataError::Short)?;
        let qpn = Qpn::from_low_bits(u32::from_be_bytes([0, q1, q2, q3]));
        if qpn.get() <= 1 || qpn == Qpn::MULTICAST {
            return Err(PrivateDataError::QueuePair);
        }
        match u32::from_be_bytes([m0, m1, m2, m3]) {
            0..=HEADER => Err(PrivateDataError::Length),
            longest => Ok(Self { qpn, longest: longest.min(LONGEST_MESSAGE) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_MESSAGE, PrivateData, PrivateDataError, Service};
    use crate::addr::Qpn;

    #[test]
    fn the_octets_are_those_that_linux_and_the_c_driver_send() {
        let private = PrivateData { qpn: Qpn::from_low_bits(0x00_04_8b), longest: LONGEST_MESSAGE };
        assert_eq!(private.to_bytes(), [0, 0, 0x04, 0x8b, 0, 0, 0xff, 0xf4]);
        assert_eq!(PrivateData::from_bytes(&[&private.to_bytes()[..], &[0; 84]].concat()), Ok(private));
    }

    #[test]
    fn the_reserved_octet_is_ignored_and_a_longer_message_than_any_is_cut_to_the_longest() {
        let private = PrivateData::from_bytes(&[0xff, 0, 0, 2, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(private, Ok(PrivateData { qpn: Qpn::from_low_bits(2), longest: LONGEST_MESSAGE }));
    }

    #[test]
    fn data_that_name_no_station_or_take_no_message_are_refused() {
        assert_eq!(PrivateData::from_bytes(&[0; 7]), Err(PrivateDataError::Short));
        for qpn in [[0, 0, 0], [0, 0, 1], [0xff, 0xff, 0xff]] {
            let data = [0, qpn[0], qpn[1], qpn[2], 0, 0, 8, 0];
            assert_eq!(PrivateData::from_bytes(&data), Err(PrivateDataError::QueuePair));
        }
        assert_eq!(PrivateData::from_bytes(&[0, 0, 0, 2, 0, 0, 0, 4]), Err(PrivateDataError::Length));
        assert!(PrivateData::from_bytes(&[0, 0, 0, 2, 0, 0, 0, 5]).is_ok());
    }

    #[test]
    fn services_have_the_queue_pair_in_their_last_three_octets() {
        let qpn = Qpn::from_low_bits(0x12_34_56);
        assert_eq!(Service::Legacy.id(qpn), 0x1000_0000_0012_3456);
        assert_eq!(Service::Ietf.id(qpn), 0x0100_0000_0012_3456);
        assert_eq!(Service::Legacy.other().other(), Service::Legacy);
    }
}
