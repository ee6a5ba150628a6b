//! A host as a scenario describes it.

use std::collections::BTreeMap;

use fabric::LinkWidth;
use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;
use sm::RateCode;
use smoltcp::wire::IpCidr;

use super::{Driver, PropertyText, default_pkey, range};
use crate::setup::speed_of;

/// One illumos host with one adapter port.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    pub name: Spanned<String>,
    /// `ibd`: a link per P_Key node; `ibp`: a port instance with a partition created on it.
    #[serde(default)]
    pub driver: Driver,
    /// Whose switch all its ports are cabled to: 1, or 2 behind the fabric's router.
    #[serde(
        default = "first_subnet",
        skip_serializing_if = "is_first_subnet",
        deserialize_with = "range::subnet"
    )]
    pub subnet: Spanned<u8>,
    /// The P_Key of the host's link.
    #[serde(default = "default_pkey", deserialize_with = "range::pkey")]
    pub pkey: Spanned<u16>,
    /// Addresses with prefix length, for example `192.168.7.1/24`. A lab without steps needs none.
    #[serde(default = "default_addresses", skip_serializing_if = "no_addresses")]
    pub addresses: Spanned<Vec<Cidr>>,
    /// Node GUID of the adapter; one of the lab's own if not said. A port's is its node's plus the port's number.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::guid")]
    pub guid: Option<Spanned<u64>>,
    /// Ports of the adapter. Steps use the first.
    #[serde(default = "default_ports", deserialize_with = "range::ports")]
    pub ports: Spanned<u8>,
    /// Ports without a cable, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "range::unplugged")]
    pub unplugged: Vec<Spanned<u8>>,
    /// Signalling of the ports' lanes.
    #[serde(default)]
    pub speed: Speed,
    /// Lanes of the ports: 1, 2, 4, 8 or 12.
    #[serde(default = "default_width")]
    pub width: Spanned<u8>,
    /// The largest MTU of the ports in bytes; the fabric's if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Spanned<u32>>,
    /// Does the adapter verify and make checksums, cut large sends, and have a reserved key for all memory?
    #[serde(default)]
    pub offloads: bool,
    /// How the subnet manager has the host's port in the partition.
    #[serde(default, skip_serializing_if = "Membership::is_full")]
    pub membership: Membership,
    /// The port is no full member of its partition, or it cannot be in the broadcast group, because the group has a larger MTU or rate: its link stays down.
    #[serde(default = "no", skip_serializing_if = "is_false")]
    pub stays_down: Spanned<bool>,
    /// Multicast groups that the adapter can hear; hermon's `hermon_log_num_mcg` makes it 256.
    #[serde(
        default = "default_groups",
        skip_serializing_if = "is_default_groups",
        deserialize_with = "range::groups"
    )]
    pub groups: u32,
    /// Properties of the link, set before it is opened, as `dladm set-linkprop` does: `{ linkmode = "ud" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Spanned<PropertyText>>,
    /// What the driver's `.conf` file says on this host, beside what it says as shipped: `{ ibd_rx_rings = 1, ibd_tx_rings = 4 }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conf: BTreeMap<String, i32>,
    /// A TUN device in a network namespace instead of the lab's own IP stack: Linux's programs use the link. Live runs only.
    #[serde(default)]
    pub tun: bool,
}

impl HostSpec {
    /// Whether its link has `linkmode` at `cm`.
    pub fn is_connected(&self) -> bool {
        let mode = self.properties.get("linkmode").map(Spanned::get_ref);
        mode.is_some_and(|mode| *mode == PropertyText::Text("cm".to_owned()))
    }

    /// Whether neighbours can open connections to its link: with `linkmode` at `cm`, or as a property or the driver's `.conf` file says.
    pub fn takes_connections(&self) -> bool {
        let property = self.properties.get("_ibd_rc_accept").map(|value| value.get_ref().to_string());
        let is_set = match property {
            Some(value) => value != "0",
            None => self.conf.get("ibd_rc_accept").is_some_and(|value| *value != 0),
        };
        is_set || self.is_connected()
    }

    /// How fast its ports are; `None` for a number of lanes that no port has.
    pub fn rate(&self) -> Option<RateCode> {
        let (width, speed) = (LinkWidth::of_lanes(*self.width.get_ref())?, speed_of(self.speed));
        RateCode::of_link(sm::LinkWidth::from_wire(width as u8)?, speed.code(), speed.extended_code())
    }
}

/// A port's P_Keys of a partition: that of a full member, that of a limited one, or both. A limited member talks to full ones alone, and has no
/// link on illumos.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Membership {
    #[default]
    Full,
    Limited,
    Both,
}

impl Membership {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Full, Self::Limited, Self::Both];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// How fast a lane signals: 2.5, 5, 10, 10.3, 14, 25, 53 or 106 Gb/s.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Speed {
    Sdr,
    #[default]
    Ddr,
    Qdr,
    Fdr10,
    Fdr,
    Edr,
    Hdr,
    Ndr,
}

/// An address with prefix length, read from text.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr(pub IpCidr);

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.0.to_string()
    }
}

impl TryFrom<String> for Cidr {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|()| format!("`{text}` is no address with prefix length, as `192.168.7.1/24` is"))
    }
}

fn default_addresses() -> Spanned<Vec<Cidr>> {
    Spanned::new(0..0, Vec::new())
}

fn no_addresses(addresses: &Spanned<Vec<Cidr>>) -> bool {
    addresses.get_ref().is_empty()
}

fn first_subnet() -> Spanned<u8> {
    Spanned::new(0..0, 1)
}

fn is_first_subnet(subnet: &Spanned<u8>) -> bool {
    *subnet.get_ref() == 1
}

fn default_ports() -> Spanned<u8> {
    Spanned::new(0..0, 1)
}

fn default_groups() -> u32 {
    fabric::HcaAttr::default().max_mcg
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_default_groups(groups: &u32) -> bool {
    *groups == default_groups()
}

fn default_width() -> Spanned<u8> {
    Spanned::new(0..0, 4)
}

fn no() -> Spanned<bool> {
    Spanned::new(0..0, false)
}

fn is_false(value: &Spanned<bool>) -> bool {
    !*value.get_ref()
}
