//! A port as the subnet administrator knows it.

use std::collections::BTreeMap;

use crate::records::{NodeRecord, PortInfo, port_capability};
use crate::types::{Gid, Guid, Lid, LinkWidth, MtuCode, PKey, RateCode};

/// A port with a link, as discovered and configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endport {
    /// Its node. The record's LID is not looked at.
    pub node: NodeRecord,
    /// Its state.
    pub info: PortInfo,
    /// Its P_Key table: as many entries as it has, zero where free.
    pub p_keys: Vec<PKey>,
}

impl Endport {
    /// The port's GUID.
    pub const fn guid(&self) -> Guid {
        self.node.port_guid
    }

    /// The port's GID in the subnet `prefix`.
    pub const fn gid(&self, prefix: u64) -> Gid {
        Gid::of_port(prefix, self.guid())
    }

    /// The LIDs it answers to: 2^LMC from the base LID on.
    pub fn lids(&self) -> std::ops::RangeInclusive<u16> {
        let base = self.info.lid.0;
        base..=base.saturating_add((1 << self.info.lmc()) - 1)
    }

    /// Whether `lid` is one of its LIDs.
    pub fn has_lid(&self, lid: Lid) -> bool {
        lid.is_unicast() && self.lids().contains(&lid.0)
    }

    /// How fast its link is; the slowest rate if the link's width and speed make no rate.
    pub fn rate(&self) -> RateCode {
        LinkWidth::from_wire(self.info.link_width_active)
            .and_then(|width| {
                let extended = self.info.capability_mask & port_capability::EXTENDED_SPEEDS != 0;
                let extended = if extended { self.info.link_speed_ext_active } else { 0 };
                RateCode::of_link(width, self.info.link_speed_active, extended)
            })
            .unwrap_or(RateCode(2))
    }

    /// What its link carries.
    pub const fn mtu(&self) -> MtuCode {
        self.info.neighbor_mtu
    }

    /// Whether it is in the partition, in whatever way. An invalid P_Key is one everybody holds, as OpenSM has it.
    pub fn holds(&self, p_key: PKey) -> bool {
        !p_key.is_valid() || self.p_keys.iter().any(|own| own.base() == p_key.base())
    }

    /// Whether the two may talk in the partition of `p_key`.
    pub fn shares(&self, other: &Self, p_key: PKey) -> bool {
        let keys = (self.keys().get(&order(p_key)).copied(), other.keys().get(&order(p_key)).copied());
        matches!(keys, (Some(own), Some(theirs)) if own.admits(theirs))
    }

    /// The first partition in which the two may talk, as this port holds it.
    pub fn common_p_key(&self, other: &Self) -> Option<PKey> {
        let theirs = other.keys();
        let mut own = self.keys().into_iter();
        own.find(|(at, key)| theirs.get(at).is_some_and(|their| key.admits(*their))).map(|(_, key)| key)
    }

    /// Whether the two share a partition. A port shares one with itself, and one without any P_Key with everybody.
    pub fn is_reachable_from(&self, other: &Self) -> bool {
        self.guid() == other.guid()
            || self.keys().is_empty()
            || other.keys().is_empty()
            || self.common_p_key(other).is_some()
    }

    /// Its P_Keys in OpenSM's order, one per partition.
    fn keys(&self) -> BTreeMap<u16, PKey> {
        let mut keys = BTreeMap::new();
        for key in self.p_keys.iter().filter(|key| key.is_valid()) {
            let kept = keys.entry(order(*key)).or_insert(*key);
            if key.is_full() {
                *kept = *key;
            }
        }
        keys
    }
}

/// Where a P_Key stands among others: OpenSM on a little-endian machine sorts them by their bytes in network order.
const fn order(key: PKey) -> u16 {
    key.base().swap_bytes()
}
