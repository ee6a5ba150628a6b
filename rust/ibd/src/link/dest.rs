//! [`Dest`]: what a transmit queue needs to send to an address.

use ibtf::{AddressVector, McgInfo, PathInfo, Pd, Status, UdDest};
use ipoib::{Mlid, Mtu, QKey, Qpn};
use kernel::KArc;

/// An address handle and where it leads. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Dest {
    handle: KArc<UdDest>,
    to: AddressVector,
    /// MTU code of the path.
    mtu: u8,
    /// See [`ibtf::PathInfo`]; of a group nobody tells it.
    lifetime: Option<u8>,
}

impl Dest {
    /// To a port. **May block.**
    pub(crate) fn port(pd: &Pd, qpn: Qpn, qkey: QKey, path: &PathInfo) -> Result<Self, Status> {
        let handle = KArc::new(UdDest::new(pd, qpn.get(), qkey.get(), &path.address)?)?;
        Ok(Self { handle, to: path.address, mtu: path.mtu_code, lifetime: Some(path.packet_lifetime) })
    }

    /// To a group. `MC_MLID_INVALID` if its LID is none of a group. **May block.**
    pub(crate) fn group(pd: &Pd, info: &McgInfo) -> Result<Self, Status> {
        Mlid::new(info.address.dlid).ok_or(Status::MC_MLID_INVALID)?;
        let handle = KArc::new(UdDest::new(pd, Qpn::MULTICAST.get(), info.qkey, &info.address)?)?;
        Ok(Self { handle, to: info.address, mtu: info.mtu_code, lifetime: None })
    }

    /// The way there.
    pub(crate) fn address(&self) -> &AddressVector {
        &self.to
    }

    /// What fits through.
    pub(crate) fn mtu(&self) -> Option<Mtu> {
        Mtu::from_code(self.mtu)
    }

    /// Code of how long a packet lives on the way.
    pub(crate) fn lifetime(&self) -> Option<u8> {
        self.lifetime
    }

    pub(crate) fn handle(&self) -> KArc<UdDest> {
        self.handle.clone()
    }
}

/// Two handles are equal if packets take the same way.
impl PartialEq for Dest {
    fn eq(&self, other: &Self) -> bool {
        self.to == other.to
    }
}

impl core::fmt::Debug for Dest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Dest({:?})", self.to)
    }
}
