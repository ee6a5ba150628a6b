//! What a host is to be.

use std::path::PathBuf;

use fabric::{HcaConfig, PKey};
use fakekernel::genunix::PropertyValue as ConfValue;
use lab_gldv3::{PropertyId, PropertyValue};

use super::Driver;

/// A host with one adapter, whose first port its link is on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the host.
    pub name: String,
    /// The driver that it has.
    pub driver: Driver,
    /// The object of the driver.
    pub object: PathBuf,
    /// The object of the plugin, `mac_ib`.
    pub plugin: PathBuf,
    /// What the driver's configuration file says.
    pub conf: Vec<(String, ConfValue)>,
    /// Its adapter.
    pub adapter: HcaConfig,
    /// Of the link.
    pub pkey: PKey,
    /// Name of the partition that `ibp`'s link is; as an administrator would call it if not said.
    pub partition: Option<String>,
    /// The partition is made whatever state the port is in (`dladm create-part -f`), else once the port is up.
    pub forced: bool,
    /// Properties that the link is given whenever it has been made.
    pub properties: Vec<(PropertyId, PropertyValue)>,
}

impl Plan {
    /// In the default partition, with no configuration and no properties.
    pub fn new(name: &str, driver: Driver, object: PathBuf, plugin: PathBuf, adapter: HcaConfig) -> Self {
        Self {
            name: name.to_owned(),
            driver,
            object,
            plugin,
            conf: Vec::new(),
            adapter,
            pkey: PKey(0xffff),
            partition: None,
            forced: false,
            properties: Vec::new(),
        }
    }
}
