//! A partition as the subnet manager is configured with it.

use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;
use sm::RateCode;
use sm::partition::SCOPE_LINK_LOCAL;

use super::trouble::MembershipTo;
use super::{GroupChangesStep, HostSpec, Membership, Scenario, default_mtu, default_pkey, range, yes};

/// A partition, and what its broadcast group is like if the subnet manager makes it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionSpec {
    /// 15 significant bits; the membership bit is set for full members.
    #[serde(deserialize_with = "range::pkey")]
    pub pkey: Spanned<u16>,
    /// Does the subnet manager create the broadcast group?
    #[serde(default = "yes")]
    pub ipoib: bool,
    /// MTU of that broadcast group in bytes; 2048 if not said, or the fabric's if that is less.
    #[serde(default = "default_mtu")]
    pub mtu: Spanned<u32>,
    /// Rate of that broadcast group, by its code in the SA's records: 3 is 10 Gb/s, 16 is 100.
    #[serde(default = "default_rate", deserialize_with = "range::rate")]
    pub rate: Spanned<u8>,
    /// Service level of the group; 0 if not said.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::sl")]
    pub sl: Option<Spanned<u8>>,
    /// Q_Key of the group, and so of the link; 0xb1b if not said.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::qkey")]
    pub qkey: Option<Spanned<u32>>,
    /// Traffic class of the group; 0 if not said.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::tclass")]
    pub tclass: Option<Spanned<u8>>,
    /// Flow label of the group; 0 if not said.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::flow_label")]
    pub flow_label: Option<Spanned<u32>>,
    /// Hop limit of the group; as OpenSM has it if not said: 0 in scope 2, 255 in a wider one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::hop_limit")]
    pub hop_limit: Option<Spanned<u8>>,
    /// Scope of the group: 2 (link-local, if not said), 5, 8 or 14.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::scope")]
    pub scope: Option<Spanned<u8>>,
}

impl PartitionSpec {
    /// A partition with the usual broadcast group, made by the subnet manager or not.
    pub fn new(pkey: Spanned<u16>, ipoib: bool) -> Self {
        Self {
            pkey,
            ipoib,
            mtu: default_mtu(),
            rate: default_rate(),
            sl: None,
            qkey: None,
            tclass: None,
            flow_label: None,
            hop_limit: None,
            scope: None,
        }
    }

    /// The scope of the broadcast group: of that which the subnet manager makes, or of that which hosts make.
    pub fn group_scope(&self) -> u8 {
        self.scope.as_ref().map_or(SCOPE_LINK_LOCAL, |scope| *scope.get_ref())
    }

    /// What is said of the broadcast group beside MTU and rate: the first field, and where it stands.
    pub fn unusual(&self) -> Option<(&'static str, std::ops::Range<usize>)> {
        let fields = [
            ("sl", self.sl.as_ref().map(Spanned::span)),
            ("qkey", self.qkey.as_ref().map(Spanned::span)),
            ("tclass", self.tclass.as_ref().map(Spanned::span)),
            ("flow_label", self.flow_label.as_ref().map(Spanned::span)),
            ("hop_limit", self.hop_limit.as_ref().map(Spanned::span)),
            ("scope", self.scope.as_ref().map(Spanned::span)),
        ];
        fields.into_iter().find_map(|(name, span)| Some((name, span?)))
    }
}

/// Why a link cannot come up on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The port is a limited member: it does not have the P_Key of the link.
    Limited,
    /// Bytes that the port and the group carry.
    Mtu { port: u32, group: u32 },
    /// How fast they are.
    Rate { port: RateCode, group: RateCode },
}

impl Scenario {
    /// The partition of a host's link, which is there once a scenario was checked.
    pub fn partition_of(&self, host: &HostSpec) -> Option<&PartitionSpec> {
        let mut partitions = self.partition.iter().map(Spanned::get_ref);
        partitions.find(|partition| (partition.pkey.get_ref() ^ host.pkey.get_ref()) & 0x7fff == 0)
    }

    /// Why a host's port has no full member's P_Key, or cannot be in the broadcast group that the subnet manager makes; `None` if neither is so.
    pub fn misfit(&self, host: &HostSpec) -> Option<Misfit> {
        if host.membership == Membership::Limited {
            return Some(Misfit::Limited);
        }
        let partition = self.partition_of(host).filter(|partition| partition.ipoib)?;
        let (port, group) =
            (*host.mtu.as_ref().unwrap_or(&self.fabric.mtu).get_ref(), *partition.mtu.get_ref());
        if port < group {
            return Some(Misfit::Mtu { port, group });
        }
        let (port, group) = (host.rate()?, RateCode(*partition.rate.get_ref()));
        port.cmp_speed(group).is_lt().then_some(Misfit::Rate { port, group })
    }

    /// How a port is in its partition from now on.
    pub fn change_membership(&mut self, change: &MembershipTo) {
        let mut hosts = self.host.iter_mut().map(Spanned::as_mut);
        if let Some(host) = hosts.find(|host| host.name.get_ref() == change.host.get_ref()) {
            host.membership = change.to;
        }
    }

    /// The broadcast group of a partition as a step has it from now on.
    pub fn change_group(&mut self, change: &GroupChangesStep) {
        let mut partitions = self.partition.iter_mut().map(Spanned::as_mut);
        let is_meant =
            |partition: &PartitionSpec| (partition.pkey.get_ref() ^ change.pkey.get_ref()) & 0x7fff == 0;
        let Some(partition) = partitions.find(|partition| is_meant(partition)) else { return };
        if let Some(mtu) = &change.mtu {
            partition.mtu = mtu.clone();
        }
        if let Some(rate) = &change.rate {
            partition.rate = rate.clone();
        }
    }

    /// The scope of the groups of a host's link.
    pub fn group_scope(&self, host: &HostSpec) -> u8 {
        self.partition_of(host).map_or(SCOPE_LINK_LOCAL, PartitionSpec::group_scope)
    }
}

/// The default partition, whose broadcast group the subnet manager makes.
pub(super) fn usual() -> Vec<Spanned<PartitionSpec>> {
    vec![Spanned::new(0..0, PartitionSpec::new(default_pkey(), true))]
}

fn default_rate() -> Spanned<u8> {
    Spanned::new(0..0, 3)
}
