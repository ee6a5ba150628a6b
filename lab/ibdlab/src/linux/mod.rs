//! The Linux side of a live run: network namespaces, TUN devices, and Linux's own programs in them.

mod janitor;
mod namespace;
mod tun;
pub mod virtio;

use std::sync::OnceLock;

pub use janitor::Janitor;
pub use namespace::{Namespace, run};
pub use tun::{BUFFER, Device, Tun};

/// Why Linux's side cannot take part; `None` if it can.
pub fn missing() -> Option<String> {
    // Once: the namespace that is tried has one name.
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    WHY.get_or_init(look).clone()
}

fn look() -> Option<String> {
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some("there is no /dev/net/tun on this machine".to_owned());
    }
    if !is_root() {
        return Some("network namespaces need root".to_owned());
    }
    // Root of a container may lack CAP_NET_ADMIN or CAP_SYS_ADMIN.
    Namespace::create("probe").err().map(|error| format!("{error:#}"))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}
