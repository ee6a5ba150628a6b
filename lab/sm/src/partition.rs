//! Partitions: who is a member of what, and which multicast groups exist from the start (OpenSM's partitions.conf, as values).

use crate::records::McMemberRecord;
use crate::types::{Bound, Gid, Guid, JoinState, MtuCode, PKey, QKey, RateCode, Sl};

/// How a port is in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Talks to everybody.
    Full,
    /// Talks to full members only.
    Limited,
    /// Has both P_Keys in its table.
    Both,
}

/// A set of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Every port of the subnet.
    All,
    /// Every port of a channel adapter.
    AllChannelAdapters,
    /// Every switch.
    AllSwitches,
    /// The subnet manager's own port.
    Own,
    /// This port.
    One(Guid),
}

/// What a group is like; the defaults are OpenSM's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupParams {
    /// Largest packet.
    pub mtu: MtuCode,
    /// Slowest member.
    pub rate: RateCode,
    /// Service level.
    pub sl: Sl,
    /// What members check.
    pub q_key: QKey,
    /// GRH traffic class.
    pub t_class: u8,
    /// GRH flow label, 20 bits.
    pub flow_label: u32,
    /// GRH hop limit; `None` is OpenSM's: 0 in the link-local scope, 255 in a wider one.
    pub hop_limit: Option<u8>,
}

impl Default for GroupParams {
    fn default() -> Self {
        Self {
            mtu: MtuCode::B2048,
            rate: RateCode::G10,
            sl: Sl::default(),
            q_key: QKey::IPOIB,
            t_class: 0,
            flow_label: 0,
            hop_limit: None,
        }
    }
}

/// A group that exists whether or not it has members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermanentGroup {
    /// Its address. Zero P_Key bits of an IPoIB address are filled in from the partition.
    pub mgid: Gid,
    /// What it is like.
    pub params: GroupParams,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// For messages.
    pub name: String,
    /// Fifteen bits count.
    pub p_key: PKey,
    /// Its P_Key goes to index 0 of every member's table.
    pub index0: bool,
    /// Later rules overrule earlier ones.
    pub members: Vec<(Ports, Membership)>,
    /// The groups it has from the start.
    pub groups: Vec<PermanentGroup>,
}

/// IPv4 signature in an IPoIB multicast GID (RFC 4391, section 4).
pub const SIGNATURE_IPV4: u16 = 0x401b;
/// IPv6 signature in an IPoIB multicast GID.
pub const SIGNATURE_IPV6: u16 = 0x601b;
/// Signature of multicast GIDs the subnet administrator made.
pub const SIGNATURE_SA: u16 = 0xa01b;

/// The link-local scope.
pub const SCOPE_LINK_LOCAL: u8 = 2;

/// The IPv4 broadcast group of a partition in a scope: ffS:401b:P_Key::ffff:ffff with the full-member P_Key.
pub const fn broadcast_mgid(p_key: PKey, scope: u8) -> Gid {
    let prefix = 0xff10_401b_0000_0000 | ((scope & 0xf) as u64) << 48 | (p_key.full().0 as u64) << 16;
    Gid { prefix, guid: 0xffff_ffff }
}

impl Partition {
    /// A partition without members and groups.
    pub fn new(name: &str, p_key: PKey) -> Self {
        Self {
            name: name.into(),
            p_key: p_key.limited(),
            index0: false,
            members: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// The default partition as it is without a configuration: all ports full members, and the broadcast group.
    pub fn default_open() -> Self {
        Self::new("Default", PKey::DEFAULT_LIMITED)
            .with_members(Ports::All, Membership::Full)
            .with_ipoib(GroupParams::default())
    }

    /// The default partition as it is beside a configuration that does not speak of it: all limited, the manager full, no
    /// group.
    pub fn default_closed() -> Self {
        Self::new("Default", PKey::DEFAULT_LIMITED)
            .with_members(Ports::All, Membership::Limited)
            .with_members(Ports::Own, Membership::Full)
    }

    /// Adds a rule.
    #[must_use]
    pub fn with_members(mut self, ports: Ports, membership: Membership) -> Self {
        self.members.push((ports, membership));
        self
    }

    /// Adds the link-local IPv4 broadcast group; what OpenSM's `ipoib` flag does.
    #[must_use]
    pub fn with_ipoib(self, params: GroupParams) -> Self {
        self.with_ipoib_in(SCOPE_LINK_LOCAL, params)
    }

    /// The same in another scope; what OpenSM's `ipoib` does beside its `scope`.
    #[must_use]
    pub fn with_ipoib_in(self, scope: u8, params: GroupParams) -> Self {
        let mgid = broadcast_mgid(self.p_key, scope);
        self.with_group(PermanentGroup { mgid, params })
    }

    /// Adds a group.
    #[must_use]
    pub fn with_group(mut self, group: PermanentGroup) -> Self {
        self.groups.push(group);
        self
    }
}

impl PermanentGroup {
    /// The group's record, without MLID, for partition `p_key` in a subnet with this packet lifetime.
    pub fn record(&self, p_key: PKey, lifetime: u8) -> McMemberRecord {
        let mgid = self.filled_in(p_key);
        let scope = mgid.scope();
        McMemberRecord {
            mgid,
            q_key: self.params.q_key,
            mtu: Bound::exactly(self.params.mtu.0),
            t_class: self.params.t_class,
            p_key: p_key.full(),
            rate: Bound::exactly(self.params.rate.0),
            lifetime: Bound::exactly(lifetime),
            sl: self.params.sl,
            flow_label: self.params.flow_label,
            hop_limit: self.params.hop_limit.unwrap_or(if scope == SCOPE_LINK_LOCAL { 0 } else { 255 }),
            scope,
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        }
    }

    fn filled_in(&self, p_key: PKey) -> Gid {
        let is_ipoib = matches!(self.mgid.signature(), SIGNATURE_IPV4 | SIGNATURE_IPV6);
        if is_ipoib && self.mgid.ipoib_pkey() == PKey(0) {
            return Gid { prefix: self.mgid.prefix | u64::from(p_key.full().0) << 16, ..self.mgid };
        }
        self.mgid
    }
}
