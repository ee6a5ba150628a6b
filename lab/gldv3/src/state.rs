//! What one host's mac, dls and dld know.

use std::collections::BTreeSet;
use std::sync::Arc;

use fakekernel::{Handles, HostMutex, Kernel};

use crate::dld::Ioctls;
use crate::dls::{Devnets, Management};
use crate::mac::{Macs, PropInfo, Ring};
use crate::plugin::Registry;

/// One host's framework.
pub(crate) struct Gldv3 {
    pub(crate) types: Registry,
    pub(crate) macs: Macs,
    pub(crate) rings: Handles<Ring>,
    pub(crate) management: Management,
    pub(crate) devnets: Devnets,
    pub(crate) ioctls: Ioctls,
    pub(crate) prop_infos: Handles<PropInfo>,
    /// Names of drivers that `mac_init_ops` marked as GLDv3.
    pub(crate) drivers: HostMutex<BTreeSet<String>>,
}

impl Gldv3 {
    fn new() -> Self {
        Self {
            types: Registry::new(),
            macs: Macs::new(),
            rings: Handles::new("mac_ring_handle_t"),
            management: Management::new(),
            devnets: Devnets::new(),
            ioctls: Ioctls::new(),
            prop_infos: Handles::new("mac_prop_info_handle_t"),
            drivers: HostMutex::new(BTreeSet::new()),
        }
    }

    /// The framework of a host.
    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        kernel.state(Self::new)
    }
}
