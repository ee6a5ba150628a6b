//! A second subnet, and who talks across the router.

use serde::{Deserialize, Serialize};

use super::{HostSpec, Scenario, range};

/// A router that joins a second subnet to the first one. Each subnet has a manager of its own, with the same partitions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouterSpec {
    /// `ibcm` asks the SA for paths to the other subnet, which that of illumos does not: hosts of a partition whose groups have a wider scope
    /// than the link's reach one another then. Without it they hear one another's multicast, and no more.
    pub paths: bool,
}

/// The router goes for a time: hosts of a subnet reach one another all the same, and all do when it is back.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RouterAwayStep {
    #[serde(deserialize_with = "range::router_away_ms")]
    pub away_ms: u64,
}

/// The scope that does not leave a subnet.
const LINK_LOCAL: u8 = 2;
/// The router passes no packet on that has this hop limit, or none.
const LAST_HOP: u8 = 1;

impl Scenario {
    /// Hosts with the same hear one another's groups: a partition, and a subnet where groups stay in it.
    pub fn hearing(&self, host: &HostSpec) -> (u16, u8) {
        let wide = self.fabric.router.is_some() && self.group_scope(host) > LINK_LOCAL;
        let spans = wide && self.last_hop(host).is_none();
        (host.pkey.get_ref() & 0x7fff, if spans { 0 } else { *host.subnet.get_ref() })
    }

    /// The hop limit of the host's groups, if it keeps their packets in the subnet.
    pub fn last_hop(&self, host: &HostSpec) -> Option<u8> {
        let limit = self.partition_of(host)?.hop_limit.as_ref()?;
        Some(*limit.get_ref()).filter(|limit| *limit <= LAST_HOP)
    }

    /// Hosts with the same reach one another.
    pub fn link_of(&self, host: &HostSpec) -> (u16, u8) {
        match &self.fabric.router {
            Some(router) if router.paths => self.hearing(host),
            _ => (host.pkey.get_ref() & 0x7fff, *host.subnet.get_ref()),
        }
    }
}
