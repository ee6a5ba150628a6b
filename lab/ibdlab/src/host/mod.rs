//! One illumos host of a scenario: its IP layer on its link.

mod below;
mod group;
mod linux_side;
mod streams;
mod thread;
mod tun_bridge;
mod upper;

pub use group::Membership;
pub use linux_side::{DEVICE_NAME, LinuxSide};
pub use thread::{AppId, IpThread};
pub use tun_bridge::TunBridge;
pub use upper::Upper;
