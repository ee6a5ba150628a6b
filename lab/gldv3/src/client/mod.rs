//! What a host may do with its links, without touching a kernel pointer.

mod admin;
mod control;
mod datalink;
mod held;
mod layout;
mod partition;
mod plugin;
mod snoop;
mod stream;

pub use admin::{
    MacReference, dld_ioctl, dld_ioctl_as, get_property, keep_property, links, mac_statistics,
    private_properties, property_info, set_link_zone, set_property, transmit_ring_statistics,
};
pub use datalink::{
    PointedTo, create_datalink, datalinks, destroy_datalink, dld_ioctl_with, rename_datalink,
    wait_for_properties,
};
pub use held::Held;
pub use layout::Layout;
pub use partition::{create_partition, create_partition_as, delete_partition};
pub use snoop::Snoop;
pub use stream::{ReceiveQueue, Stream};
