//! What a host may do with its links, without touching a kernel pointer.

mod admin;
mod stream;
mod types;

pub use admin::{
    create_partition, delete_partition, dld_ioctl, get_property, links, mac_statistics, property_info,
    set_property,
};
pub use stream::{ReceiveQueue, Stream};
pub use types::{
    Backpressure, LinkDetails, LinkState, LinkSummary, MacStatistics, Notification, Offload, PartitionError,
    Permission, Promiscuity, PropertyId, PropertyInfo, PropertyValue, Received, TransmitError,
};
