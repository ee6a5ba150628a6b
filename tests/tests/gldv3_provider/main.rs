//! What a GLDv3 driver can rely on, and what it must not do: the lab's mac, dls and dld, driven by a C driver that counts what is
//! asked of it. What the plugin answers is in `mac_ib.rs`.

#![forbid(unsafe_code)]

mod capture;
mod ioctls;
mod lifecycle;
mod notifications;
mod receive;
mod rig;
mod rings;
mod transmit;

use fakekernel::{Nanos, sleep};
use lab_gldv3::LinkAddress;

/// Broadcast as the framework knows it: scope and P_Key are zero.
const BROADCAST: LinkAddress = LinkAddress([
    0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
]);
/// 224.0.0.1's group, as IP would enable it.
const GROUP: LinkAddress =
    LinkAddress([0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
/// Another station.
const PEER: LinkAddress =
    LinkAddress([0, 0, 0, 0x49, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 0, 0, 0, 0, 2]);
const IP: u32 = 0x0800;

/// Lets the framework's threads do what they have to.
fn settle() {
    sleep(Nanos::from_millis(200));
}
