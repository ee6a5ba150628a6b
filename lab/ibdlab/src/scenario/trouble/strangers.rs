//! Floods of forged ARP requests, neighbour solicitations, pings and requests for connections.

use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

/// A flood to one host. Each packet asks for an address of the host, in another sender's name, so that IP answers each sender.
/// The packets arrive one at a time, evenly: ARP requests and solicitations by turns, as far as the host has addresses of both families.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Strangers {
    pub host: Spanned<String>,
    /// Where the senders say they are.
    pub claim: Claim,
    /// Packets in a second of machine time.
    #[serde(deserialize_with = "crate::scenario::range::per_second")]
    pub per_second: u32,
    /// Milliseconds of machine time.
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

/// The link-layer address that a sender says it has. Each sender has another one, except of `Broadcast`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// A GID that no port has.
    AbsentPorts,
    /// A queue pair of a port that is there, another one each time.
    QueuePairs,
    /// A solicited-node group of the host's partition.
    Groups,
    /// A group that IP has no part in.
    ForeignGroups,
    /// The broadcast group of the host's link.
    Broadcast,
    /// Of a port that is there; no frames come, but requests for connections (REQ) with its link.
    Connections,
    /// None: a ping over IPv6 from another address of the host's network, for which IP asks. A host without an address of IPv6 gets none.
    Nowhere,
}

impl Claim {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::AbsentPorts,
        Self::QueuePairs,
        Self::Groups,
        Self::ForeignGroups,
        Self::Broadcast,
        Self::Connections,
        Self::Nowhere,
    ];
}
