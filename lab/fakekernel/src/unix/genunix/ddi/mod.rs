//! Device nodes and what a driver asks of them (rules 19, 27, 46).

mod attach;
mod conf;
mod device_file;
mod fm;
mod misc;
mod node;
mod property;
mod property_calls;
mod soft_state;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use attach::AttachHook;
pub use conf::{parse as parse_conf, parse_beside_nodes};
pub use fm::{Ereport, Service};
pub use node::{DevInfo, DevInfoSpec, MinorNode};
pub use property::{Properties, Value as PropertyValue};

use sim::HostMutex;

use crate::loader::export::Export;
use crate::loader::handles::Handles;
use crate::loader::kernel::Kernel;

pub(super) fn exports() -> Vec<Export> {
    [node::exports(), property_calls::exports(), soft_state::exports(), misc::exports(), fm::exports()]
        .concat()
}

/// The device tree of a host.
pub(crate) struct Devices {
    nodes: Handles<node::Node>,
    soft_states: Handles<soft_state::SoftState>,
    hooks: HostMutex<Vec<Arc<dyn AttachHook>>>,
    /// What the `.conf` file of a driver says of all its nodes.
    conf: HostMutex<BTreeMap<String, BTreeMap<String, PropertyValue>>>,
    /// What drivers have reported, oldest first.
    ereports: HostMutex<Vec<Ereport>>,
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
            conf: HostMutex::new(BTreeMap::new()),
            ereports: HostMutex::new(Vec::new()),
        }
    }

    fn global_property(&self, driver: &str, name: &str) -> Option<PropertyValue> {
        self.conf.lock().get(driver)?.get(name).cloned()
    }
}

impl Kernel {
    /// The global properties of a driver's `.conf` file: every node of the driver has them, unless it has its own. Those given before
    /// are forgotten, as when the file is read again (`update_drv`).
    pub fn configure_driver(
        &self,
        driver: &str,
        properties: impl IntoIterator<Item = (String, PropertyValue)>,
    ) {
        let properties = properties.into_iter().collect();
        self.genunix().devices.conf.lock().insert(driver.to_owned(), properties);
    }
}
