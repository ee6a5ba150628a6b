//! [`Dest`]: what a transmit queue needs to send to an address.

use ibtf::{AddressVector, Pd, Status, UdDest};
use ipoib::{QKey, Qpn};
use kernel::KArc;

/// An address handle and where it leads. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Dest {
    handle: KArc<UdDest>,
    to: AddressVector,
}

impl Dest {
    /// **May block.**
    pub(crate) fn new(pd: &Pd, qpn: Qpn, qkey: QKey, to: AddressVector) -> Result<Self, Status> {
        Ok(Self { handle: KArc::new(UdDest::new(pd, qpn.get(), qkey.get(), &to)?)?, to })
    }

    pub(crate) fn handle(&self) -> &KArc<UdDest> {
        &self.handle
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
