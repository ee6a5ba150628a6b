//! The IB nexus: a device node per HCA, below it one per port for `ibp` and one per port and P_Key for `ibd`.
//!
//! Names, unit addresses and properties are those the `ib` nexus driver gives (`io/ib/ibnex`): `ibport@1,0,ipib` and
//! `ibport@1,ffff,ibd`. Nodes of P_Keys appear and go as the port's table changes; one whose driver is attached stays until it
//! is detached. Instance numbers stick to a path, as path_to_inst has it.
#![forbid(unsafe_code)]

use crate::ibtl::{Device, Ibtl};
use fabric::{Guid, PKey, PortNum};
use fakekernel::genunix::{DevInfo, DevInfoSpec, Properties, PropertyValue};
use fakekernel::{HostMutex, Kernel};
use illumos_sys_hdrs::dev_info_t;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a node below an HCA is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// The port driver, one per port.
    Ibp,
    /// A link of one partition.
    Ibd,
}

impl Service {
    /// Name of the driver bound to it.
    #[must_use]
    pub const fn driver(self) -> &'static str {
        match self {
            Service::Ibp => "ibp",
            Service::Ibd => "ibd",
        }
    }

    /// As in the unit address.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Service::Ibp => "ipib",
            Service::Ibd => "ibd",
        }
    }
}

/// A node of the nexus.
#[derive(Clone, Debug)]
pub struct PortNode {
    /// For attach and detach.
    pub device: DevInfo,
    /// Service.
    pub service: Service,
    /// Node GUID of the HCA.
    pub hca: Guid,
    /// Port of the HCA.
    pub port: PortNum,
    /// GUID of that port.
    pub port_guid: Guid,
    /// Partition, for [`Service::Ibd`].
    pub pkey: Option<PKey>,
}

impl PortNode {
    /// E.g. `ibport@1,0,ipib`.
    #[must_use]
    pub fn path(&self) -> String {
        Key::of(self).path()
    }
}

/// What identifies a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    service: Service,
    hca: u64,
    port: u8,
    pkey: u16,
}

impl Key {
    fn of(node: &PortNode) -> Key {
        let pkey = node.pkey.map_or(0, |p| p.0);
        Key { service: node.service, hca: node.hca.0, port: node.port.0, pkey }
    }

    fn path(&self) -> String {
        format!("ibport@{:x},{:x},{}", self.port, self.pkey, self.service.name())
    }
}

#[derive(Default)]
struct State {
    hcas: BTreeMap<u64, DevInfo>,
    nodes: BTreeMap<Key, PortNode>,
    /// Nodes a test asked for.
    others: Vec<DevInfo>,
    /// path_to_inst: numbers given out, kept while the node is away.
    instances: BTreeMap<Key, u32>,
}

#[derive(Default)]
struct Nexus(HostMutex<State>);

fn of(kernel: &Kernel) -> Arc<Nexus> {
    kernel.state(Nexus::default)
}

/// Is `dip` a node of the nexus?
pub(crate) fn is_child(kernel: &Kernel, dip: *const dev_info_t) -> bool {
    let nexus = of(kernel);
    let state = nexus.0.lock();
    let mut known = state.nodes.values().map(|n| &n.device).chain(&state.others);
    !dip.is_null() && known.any(|d| d.as_ptr().cast_const() == dip)
}

/// The node of a new HCA.
pub(crate) fn add_hca(kernel: &Kernel, guid: Guid, nexus_driver: &str) -> DevInfo {
    let nexus = of(kernel);
    let instance = nexus.0.lock().hcas.len() as u32;
    let spec = DevInfoSpec {
        name: "pci15b3,6750".into(),
        driver: nexus_driver.into(),
        instance,
        properties: Properties::new([("hca-guid".to_owned(), PropertyValue::from(guid.0 as i64))]),
        ..Default::default()
    };
    let device = kernel.add_device(spec);
    nexus.0.lock().hcas.insert(guid.0, device.clone());
    device
}

/// Takes away the nodes of an HCA that went; false if a driver is still attached to one.
pub(crate) fn remove_hca(kernel: &Kernel, guid: Guid) -> bool {
    let nexus = of(kernel);
    let mine: Vec<PortNode> = nexus.0.lock().nodes.values().filter(|n| n.hca == guid).cloned().collect();
    let gone = mine.iter().all(|node| forget(kernel, &nexus, node));
    if gone {
        let hca = nexus.0.lock().hcas.remove(&guid.0);
        if let Some(hca) = hca {
            kernel.remove_device(&hca);
        }
    }
    gone
}

fn forget(kernel: &Kernel, nexus: &Nexus, node: &PortNode) -> bool {
    let removed = kernel.remove_device(&node.device);
    if removed {
        nexus.0.lock().nodes.remove(&Key::of(node));
    }
    removed
}

/// Brings the nodes into line with the HCAs' ports and P_Key tables. A node that should go but has a driver stays.
pub fn configure(kernel: &Kernel) {
    let nexus = of(kernel);
    for device in Ibtl::of(kernel).all_devices() {
        let wanted = wanted(&device);
        for key in &wanted {
            ensure(kernel, &nexus, &device, *key);
        }
        let surplus: Vec<PortNode> = {
            let state = nexus.0.lock();
            let mine = state.nodes.iter().filter(|(key, _)| key.hca == device.guid && !wanted.contains(key));
            mine.map(|(_, node)| node.clone()).collect()
        };
        for node in surplus {
            forget(kernel, &nexus, &node);
        }
    }
}

fn wanted(device: &Device) -> Vec<Key> {
    let mut keys = Vec::new();
    for port in device.cached_ports() {
        let key = Key { service: Service::Ibp, hca: device.guid, port: port.num.0, pkey: 0 };
        keys.push(key);
        let members = port.pkeys.iter().filter(|p| p.is_valid());
        keys.extend(members.map(|p| Key { service: Service::Ibd, pkey: p.0, ..key }));
    }
    keys
}

fn ensure(kernel: &Kernel, nexus: &Nexus, device: &Device, key: Key) {
    let (instance, parent) = {
        let mut state = nexus.0.lock();
        if state.nodes.contains_key(&key) {
            return;
        }
        let next = state.instances.keys().filter(|k| k.service == key.service).count() as u32;
        (*state.instances.entry(key).or_insert(next), state.hcas.get(&key.hca).cloned())
    };
    let spec = DevInfoSpec {
        name: "ibport".into(),
        driver: key.service.driver().into(),
        instance,
        parent,
        properties: properties(device, key),
    };
    let node = PortNode {
        device: kernel.add_device(spec),
        service: key.service,
        hca: Guid(key.hca),
        port: PortNum(key.port),
        port_guid: device.cached_port(key.port).map_or(Guid(0), |port| port.guid),
        pkey: (key.pkey != 0).then_some(PKey(key.pkey)),
    };
    nexus.0.lock().nodes.insert(key, node);
}

fn properties(device: &Device, key: Key) -> Properties {
    let port_guid = device.cached_port(key.port).map_or(0, |p| p.guid.0);
    let attr = &device.hca.config().attr;
    let mut list = vec![
        ("compatible".to_owned(), PropertyValue::from(format!("ib.{}", key.service.name()).as_str())),
        ("port-number".to_owned(), PropertyValue::from(i32::from(key.port))),
        ("port-guid".to_owned(), PropertyValue::from(port_guid as i64)),
        ("hca-guid".to_owned(), PropertyValue::from(key.hca as i64)),
        ("vendor-id".to_owned(), PropertyValue::from(attr.vendor_id as i32)),
        ("product-id".to_owned(), PropertyValue::from(i32::from(attr.device_id))),
        ("device-version".to_owned(), PropertyValue::from(attr.version_id as i32)),
    ];
    if key.pkey != 0 {
        list.push(("port-pkey".to_owned(), PropertyValue::from(i32::from(key.pkey))));
    }
    Properties::new(list)
}

/// The nodes of a host now: `ibp` before `ibd`, then by HCA, port and P_Key.
#[must_use]
pub fn nodes(kernel: &Kernel) -> Vec<PortNode> {
    of(kernel).0.lock().nodes.values().cloned().collect()
}

/// The node of a port for `ibp`, or of a port and P_Key for `ibd`.
#[must_use]
pub fn node(kernel: &Kernel, port_guid: Guid, pkey: Option<PKey>) -> Option<PortNode> {
    let hca = Ibtl::of(kernel).all_devices().into_iter().find_map(|d| {
        let port = d.cached_ports().into_iter().find(|p| p.guid == port_guid)?;
        Some((d.guid, port.num.0))
    })?;
    let service = if pkey.is_some() { Service::Ibd } else { Service::Ibp };
    let key = Key { service, hca: hca.0, port: hca.1, pkey: pkey.map_or(0, |p| p.0) };
    of(kernel).0.lock().nodes.get(&key).cloned()
}

/// A child of the nexus for any other driver: what a probe attaches with.
#[must_use]
pub fn add_child(kernel: &Kernel, driver: &str, instance: u32) -> DevInfo {
    let spec = DevInfoSpec { name: "ibport".into(), driver: driver.into(), instance, ..Default::default() };
    let device = kernel.add_device(spec);
    of(kernel).0.lock().others.push(device.clone());
    device
}
