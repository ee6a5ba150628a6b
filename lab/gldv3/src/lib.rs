//! The lab's mac, dls and dld: what a MAC-type plugin and a GLDv3 driver find in an illumos kernel, and a safe client for the
//! hosts that use their links.
//!
//! [`provide`] adds the modules `misc/mac`, `misc/dls` and `drv/dld` to a host. A driver's attach then leads to a link, as
//! it does on illumos; [`Stream`] is one open DLPI stream on it.
//!
//! The lab's locks, in the order they are taken: management daemon, perimeter of a mac, then leaf locks, one at a time. No
//! leaf lock is held across a call into a module.

mod address;
mod client;

pub use address::{Destination, LinkAddress};
pub use client::{
    Backpressure, LinkDetails, LinkState, LinkSummary, MacStatistics, Notification, Offload, PartitionError,
    Permission, Promiscuity, PropertyId, PropertyInfo, PropertyValue, ReceiveQueue, Received, Stream,
    TransmitError, create_partition, delete_partition, dld_ioctl, get_property, links, mac_statistics,
    property_info, set_property,
};

use fakekernel::Kernel;

/// Adds `misc/mac`, `misc/dls`, `drv/dld` and `drv/ip`'s share of them to a host. Before any module is loaded.
pub fn provide(kernel: &Kernel) {
    let _ = kernel;
    unimplemented!()
}
