//! Packets that nobody should send.

use serde::{Deserialize, Serialize};

/// What is wrong with a packet. Each is right in every other respect: it comes from a port of the subnet, with the link's
/// P_Key, to the host's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Malformed {
    /// Nothing behind the transport headers.
    Empty,
    /// Three bytes: not even an IPoIB header.
    ThreeBytes,
    /// The IPoIB header and nothing behind it.
    HeaderOnly,
    /// An IPv4 packet that says it is longer than it is.
    LengthBeyondEnd,
    /// As long as the link's MTU.
    Largest,
    /// Longer than the link's MTU, which may be less than the port's.
    LongerThanLink,
    /// Longer than the port's MTU.
    Oversize,
    /// Another Q_Key than the link's.
    WrongQkey,
    /// Another P_Key than the link's.
    WrongPkey,
    /// A type of payload that nobody knows.
    WrongEthertype,
    /// A neighbour solicitation that ends in the middle of its option.
    NdOptionCut,
    /// A neighbour solicitation whose option has length zero.
    NdOptionEmpty,
    /// A neighbour solicitation whose option is longer than the packet.
    NdOptionTooLong,
    /// A neighbour solicitation that ends with its fixed part.
    NdWithoutOption,
    /// An ARP request that ends in the middle of an address.
    ArpCut,
    /// An ARP request with addresses of 255 bytes.
    ArpAddressTooLong,
    /// A multicast packet of the link's broadcast group without GRH.
    MulticastWithoutGrh,
    /// A multicast packet whose GRH names another group than the one it was sent to.
    GrhOtherGroup,
    /// A multicast packet of another partition's broadcast group.
    GroupOfOtherPartition,
    /// A multicast packet of the same group in another scope.
    GroupOfOtherScope,
    /// A multicast packet that says it comes from the receiver itself.
    FromItself,
    /// A unicast packet whose GRH says it is for another port.
    GrhOtherPort,
    /// A unicast packet whose GRH says it is not IP version 6.
    GrhVersion,
    /// A unicast packet whose GRH gives another length than the packet has.
    GrhLength,
    /// A unicast packet whose GRH says that UDP follows.
    GrhNextHeader,
    /// A unicast packet that says it has a GRH and has none.
    GrhMissing,
}

impl Malformed {
    /// Every one.
    pub const ALL: [Self; 26] = [
        Self::Empty,
        Self::ThreeBytes,
        Self::HeaderOnly,
        Self::LengthBeyondEnd,
        Self::Largest,
        Self::LongerThanLink,
        Self::Oversize,
        Self::WrongQkey,
        Self::WrongPkey,
        Self::WrongEthertype,
        Self::NdOptionCut,
        Self::NdOptionEmpty,
        Self::NdOptionTooLong,
        Self::NdWithoutOption,
        Self::ArpCut,
        Self::ArpAddressTooLong,
        Self::MulticastWithoutGrh,
        Self::GrhOtherGroup,
        Self::GroupOfOtherPartition,
        Self::GroupOfOtherScope,
        Self::FromItself,
        Self::GrhOtherPort,
        Self::GrhVersion,
        Self::GrhLength,
        Self::GrhNextHeader,
        Self::GrhMissing,
    ];
}
