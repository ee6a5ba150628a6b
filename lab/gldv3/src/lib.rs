//! The lab's mac, dls and dld: what a MAC-type plugin and a GLDv3 driver find in an illumos kernel, and a safe client for the
//! hosts that use their links.
//!
//! [`provide`] adds the modules `misc/mac`, `misc/dls` and `drv/dld` to a host. A driver's attach then leads to a link, as
//! it does on illumos; [`Stream`] is one open DLPI stream on it.
//!
//! The lab's locks, in the order they are taken: plugin registry, perimeter of a mac, then leaf locks, one at a time. No
//! leaf lock is held across a call into a module.

mod address;
mod bare;
mod client;
mod dld;
mod dls;
mod entry;
mod mac;
mod message;
mod plugin;
mod rx;
mod timed;
mod types;
mod worker;

use std::sync::Arc;

pub use address::{Destination, LinkAddress};
pub use bare::{BareDriver, BareError};
pub use client::{
    Layout, MacReference, PointedTo, ReceiveQueue, Snoop, Stream, create_datalink, create_partition,
    create_partition_as, datalinks, delete_partition, destroy_datalink, dld_ioctl, dld_ioctl_as,
    dld_ioctl_with, get_property, keep_property, links, mac_statistics, private_properties, property_info,
    rename_datalink, set_link_zone, set_property, transmit_ring_statistics, wait_for_properties,
};
pub use entry::SendEntry;
pub use mac::OffloadCapability;
pub use plugin::{HeaderBlock, HeaderFacts, Plugin, PluginRecord};
pub use timed::{Packets, Sent, TimedLink};
pub use types::{
    Backpressure, Datalink, DlpiError, LinkDetails, LinkState, LinkSummary, MacStatistics, Notification,
    Offload, PartitionError, Permission, Promiscuity, PropertyId, PropertyInfo, PropertyValue, Received,
    RingStatistics, TransmitError,
};

use fakekernel::{FaultKind, Kernel};

/// The calls of mac that can be made to fail.
pub const FAULT_KINDS: [FaultKind; 2] = [FaultKind("dls_devnet_create"), FaultKind("mac_register")];

/// Adds `misc/mac`, `misc/dls` and `drv/dld` to a host, and has every network driver's instance become a link when it attaches.
/// Before any module is loaded.
pub fn provide(kernel: &Kernel) {
    kernel.provide("mac", "misc/mac", [plugin::exports(), mac::exports()].concat());
    kernel.provide("dls", "misc/dls", dls::exports());
    kernel.provide("dld", "drv/dld", dld::exports());
    kernel.add_attach_hook(Arc::new(dls::Softmac));
}
