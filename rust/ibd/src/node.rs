//! What the IB nexus says about a device node.

use core::fmt;

use ibtf::Gid;
use ipoib::{Guid, PKey};
use kernel::Errno;
use kernel::ddi::{DevInfo, Scope};
use kernel::log;

/// An HCA's port, and the partition on it if the node is one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The HCA's node GUID.
    pub(crate) hca: Guid,
    /// The port's GUID.
    pub(crate) port_guid: Guid,
    /// The port, from 1.
    pub(crate) port: u8,
    /// The partition; `None` on a port node.
    pub(crate) pkey: Option<PKey>,
}

/// A port in a log line.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HCA GUID {:016x} port {}", self.hca.get(), self.port)
    }
}

impl log::Source for Node {}

impl Node {
    /// Reads `port-number`, `hca-guid`, `port-guid` and, if it is there, `port-pkey`. `EINVAL` names the property that is
    /// missing or makes no sense in the log. **May block.**
    pub(crate) fn read(dip: DevInfo) -> Result<Self, Errno> {
        let guid = |name| dip.prop_int64(name, Scope::Ancestors).and_then(|raw| Guid::new(raw as u64));
        let int = |name| dip.prop_int(name, Scope::Ancestors);
        let port = int(c"port-number").and_then(|raw| u8::try_from(raw).ok()).filter(|port| *port != 0);
        let (hca, port_guid) = (guid(c"hca-guid"), guid(c"port-guid"));
        let (Some(hca), Some(port_guid), Some(port)) = (hca, port_guid, port) else {
            let missing = [("port-number", port.is_none()), ("hca-guid", hca.is_none()), ("port-guid", true)];
            let name = missing.iter().find(|(_, missing)| *missing).map_or("", |(name, _)| name);
            log!(warn, dip, "property {name} is missing or zero");
            return Err(Errno::EINVAL);
        };
        let raw = dip.prop_int(c"port-pkey", Scope::Node).filter(|raw| *raw != 0);
        let pkey =
            raw.map(|raw| u16::try_from(raw).ok().and_then(PKey::new).filter(|pkey| pkey.is_full_member()));
        if pkey == Some(None) {
            log!(warn, dip, "property port-pkey {:#x} is not the P_Key of a full member", raw.unwrap_or(0));
            return Err(Errno::EINVAL);
        }
        Ok(Self { hca, port_guid, port, pkey: pkey.flatten() })
    }
}

/// From IBTF's GID to the protocol's.
pub(crate) fn gid(gid: Gid) -> ipoib::Gid {
    ipoib::Gid { prefix: gid.prefix, guid: gid.guid }
}

/// From the protocol's GID to IBTF's.
pub(crate) fn ibtf_gid(gid: ipoib::Gid) -> Gid {
    Gid { prefix: gid.prefix, guid: gid.guid }
}
