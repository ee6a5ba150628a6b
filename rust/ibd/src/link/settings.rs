//! A link's private properties: the ones that exist, their bounds, and who may set them.

use core::ffi::CStr;

/// The names GLDv3 is told; what has no effect in datagram mode, or is not there yet, answers `ENOTSUP`.
pub(crate) const NAMES: &[&CStr] = &[BROADCAST_GROUP, CREATE_BROADCAST_GROUP];

/// 1 while the broadcast group is joined; read only.
pub(crate) const BROADCAST_GROUP: &CStr = c"_ibd_broadcast_group";
/// Whether to create a broadcast group nobody has: 0 or 1, set while stopped.
pub(crate) const CREATE_BROADCAST_GROUP: &CStr = c"_ibd_create_broadcast_group";

/// The values that can be set.
pub(crate) struct Settings {
    pub(crate) create_broadcast_group: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { create_broadcast_group: true }
    }
}
