//! Multicast groups between IBTF's records and the protocol's.

use ibtf::McgInfo;
use ipoib::link::BroadcastGroup;
use ipoib::{Gid, Mgid, Mlid, Mtu, QKey, Rate, Scope};

use crate::node;

/// A group this port is in, for [`ipoib::groups`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct McgRecord(McgInfo);

impl McgRecord {
    pub(crate) fn new(info: McgInfo) -> Self {
        Self(info)
    }

    /// The port GID that is the member.
    pub(crate) fn port(&self) -> Gid {
        node::gid(self.0.address.sgid)
    }

    pub(crate) fn into_info(self) -> McgInfo {
        self.0
    }
}

/// The record of the broadcast group that was asked for, if every field of it makes sense.
pub(crate) fn broadcast(info: &McgInfo, asked: Mgid) -> Option<BroadcastGroup> {
    let mgid = Mgid::new(node::gid(info.address.dgid)).filter(|mgid| *mgid == asked)?;
    Some(BroadcastGroup {
        mgid,
        scope: mgid.scope().or_else(|| Scope::from_nibble(info.scope))?,
        mlid: Mlid::new(info.address.dlid)?,
        qkey: QKey::new(info.qkey),
        mtu: Mtu::from_code(info.mtu_code)?,
        rate: u8::try_from(info.address.rate).ok().and_then(Rate::from_code),
        sl: info.address.sl,
        tclass: info.address.tclass,
        flow_label: info.address.flow,
        hop_limit: info.address.hop_limit,
    })
}
