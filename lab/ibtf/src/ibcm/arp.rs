//! From an IP interface to the port under it, as ibcm finds it for clients that start from IP addresses (NFS/RDMA, RDS, SDP,
//! iSER): the data-link id of the interface is looked for among the partitions that the IPoIB driver tells of.

use fabric::{Gid, Guid, PKey, PortState};
use fakekernel::Kernel;

use crate::ibtl::{Ibtl, all_partitions};

/// The port that an IP interface leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPort {
    /// Node GUID of the HCA.
    pub hca: Guid,
    /// GID index 0 of the port.
    pub gid: Gid,
    /// Partition of the interface's link.
    pub pkey: PKey,
}

/// What `ibcm_arp_get_ibd_insts` and `ibcm_arp_lookup` find for the data link of an IP interface. `None` if no partition has this
/// id, or its port is not ACTIVE. Asks the driver: may block.
#[must_use]
pub fn port_of_link(kernel: &Kernel, link: u32) -> Option<LinkPort> {
    let partitions = kernel.scope(|| all_partitions(kernel));
    let partition = partitions.into_iter().find(|partition| partition.pa_plinkid == link)?;
    let device = Ibtl::of(kernel).device(partition.pa_hca_guid)?;
    let port = device.cached_port(partition.pa_port).filter(|port| port.state == PortState::Active)?;
    Some(LinkPort {
        hca: Guid(partition.pa_hca_guid),
        gid: *port.gids.first()?,
        pkey: PKey(partition.pa_pkey),
    })
}
