//! Safe wrappers over `mac`, `dls` and `dld`: what a MAC-type plugin and a GLDv3 driver need of them.
//!
//! A plugin implements [`Plugin`] and holds a [`PluginRegistration`]; a driver implements [`Provider`] and holds a
//! [`Registration`]. C calls generic trampolines of this crate, which convert once and call the trait.
//!
//! Two words about context, beside those of the `kernel` crate:
//!
//! * **Perimeter** - runs on a thread that may block, inside the link's perimeter ("MP"): start, stop, multicast,
//!   promiscuous mode, unicast, properties. Only one at a time per link.
//! * **Enters the perimeter** - the call waits for the perimeter. Never from a thread that [`Provider::stop`] waits
//!   for, never with a lock that a perimeter callback takes: both are deadlocks.
//!
//! No upcall may be made with a lock held that a callback takes, because a single received packet is normally
//! carried through all of IP, and back into [`Provider::transmit`], on the caller's own thread.

#![no_std]

/// The processor's. Files that `tests/interleavings` compiles once more, with loom's, take them from here.
mod atomic {
    pub(crate) use core::sync::atomic::*;
}

mod admission;
mod devnet;
pub mod ibpart;
pub mod ioctl;
mod ops;
mod plugin;
mod property;
mod provider;
mod registration;
mod rings;
mod stat;
mod stream_ioctl;
mod table;
mod upcalls;

pub use devnet::{LinkId, LinkInfo, is_visible, link_info};
pub use ops::DriverOps;
pub use plugin::{DestinationClass, HeaderInfo, LinkStats, Plugin, PluginRegistration};
pub use property::{Permission, PropertyBuffer, PropertyId, PropertyInfo, PropertyValue};
pub use provider::{ChecksumOffload, Provider};
pub use registration::{Config, InstanceNumber, Registration};
pub use rings::{Generation, Ring, RingProvider};
pub use stat::Stat;
pub use upcalls::{LinkState, Mac, Perimeter};

use illumos_sys_hdrs as sys;

/// Bytes of a link-layer address of the media type this crate serves (`IPOIB_ADDRL`, DL_IB).
pub const ADDRESS_LEN: usize = sys::IPOIB_ADDRL;

/// The InfiniBand media type (`sys/dlpi.h`).
pub const DL_IB: u32 = sys::DL_IB;

/// A link-layer address as it stands in headers and in GLDv3's calls: 20 bytes, wire order.
pub type Address = [u8; ADDRESS_LEN];
