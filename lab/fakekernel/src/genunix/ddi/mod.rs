//! Device nodes and what a driver asks of them (rules 19, 27, 46).

mod attach;
mod misc;
mod node;
mod property;
mod property_calls;
mod soft_state;

use std::sync::Arc;

pub use attach::AttachHook;
pub use node::{DevInfo, DevInfoSpec, MinorNode};
pub use property::{Properties, Value as PropertyValue};

use crate::export::Export;
use crate::handles::Handles;
use crate::host_mutex::HostMutex;

pub(super) fn exports() -> Vec<Export> {
    [node::exports(), property_calls::exports(), soft_state::exports(), misc::exports()].concat()
}

/// The device tree of a host.
pub(crate) struct Devices {
    nodes: Handles<node::Node>,
    soft_states: Handles<soft_state::SoftState>,
    hooks: HostMutex<Vec<Arc<dyn AttachHook>>>,
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devices").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl Devices {
    pub(super) fn new() -> Self {
        Self {
            nodes: Handles::new("dev_info_t"),
            soft_states: Handles::new("soft state"),
            hooks: HostMutex::new(Vec::new()),
        }
    }
}
