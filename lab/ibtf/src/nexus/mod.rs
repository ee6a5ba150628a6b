//! The IB nexus: a device node per HCA, and below it those that `ib.conf` wants: per port (`ibport@1,0,ipib`), per port and P_Key
//! (`ibport@1,ffff,ibd`), per HCA (`ibport@0,0,NAME`).
//!
//! Names, unit addresses, properties and the names a node is compatible with are those of the `ib` nexus driver (`io/ib/ibnex`). The
//! driver of a node is found by those names among the aliases of installed packages; a node that no driver wants is not made.
//! Nodes are made only when somebody looks ([`look`], [`open`]): no event of a port makes one. Nodes of P_Keys are made while the
//! port is ACTIVE, and brought online with the HCA's node entered. None goes because its P_Key went. Instance numbers stick to a
//! path, as path_to_inst has it.
#![forbid(unsafe_code)]

mod binding;
mod services;

pub use binding::{IBD_PACKAGE, IBP_PACKAGE};
pub use services::{CONF_WITH_IBD, ILLUMOS_CONF, Kind};

use crate::adapter::Identity;
use crate::ibtl::{Device, Ibtl};
use binding::Aliases;
use fabric::{Guid, PKey, PortNum, PortState};
use fakekernel::genunix::{DevInfo, DevInfoSpec, Properties, PropertyValue};
use fakekernel::{Errno, HostMutex, Kernel, Module, Nanos, SleepMutex};
use illumos_sys_hdrs::dev_info_t;
use services::Services;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long after an HCA has come whoever opens a node by name waits for its ports (`ibnex_port_settling_time`).
const SETTLING_TIME: Nanos = Nanos::from_secs(8);
/// How often the ports are looked at meanwhile.
const AGAIN: Nanos = Nanos::from_millis(10);

/// A node of the nexus.
#[derive(Clone, Debug)]
pub struct PortNode {
    /// For attach and detach.
    pub device: DevInfo,
    /// The name by which its driver was found, one of those that it is compatible with.
    pub binding: String,
    /// What it is there for.
    pub kind: Kind,
    /// The service's name, as in the unit address.
    pub service: String,
    /// Node GUID of the HCA.
    pub hca: Guid,
    /// Port of the HCA; 0 for one that is there for all of it.
    pub port: PortNum,
    /// GUID of that port.
    pub port_guid: Guid,
    /// Partition, for [`Kind::PKey`].
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: Kind,
    hca: u64,
    port: u8,
    pkey: u16,
    service: String,
}

impl Key {
    fn of(node: &PortNode) -> Key {
        let pkey = node.pkey.map_or(0, |p| p.0);
        Key { kind: node.kind, hca: node.hca.0, port: node.port.0, pkey, service: node.service.clone() }
    }

    fn path(&self) -> String {
        format!("ibport@{:x},{:x},{}", self.port, self.pkey, self.service)
    }
}

/// An HCA in the tree.
struct HcaNode {
    device: DevInfo,
    came: Nanos,
    /// Held by whoever enumerates its children (`ndi_devi_enter`).
    entered: SleepMutex<()>,
}

struct State {
    services: Services,
    aliases: Aliases,
    hcas: BTreeMap<u64, Arc<HcaNode>>,
    nodes: BTreeMap<Key, PortNode>,
    /// Nodes a test asked for.
    others: Vec<DevInfo>,
    /// Drivers come by themselves.
    loads_drivers: bool,
    /// path_to_inst: numbers given out to a driver, kept while the node is away.
    instances: BTreeMap<(String, Key), u32>,
}

impl Default for State {
    fn default() -> Self {
        let mut aliases = Aliases::default();
        aliases.install(IBP_PACKAGE);
        State {
            services: Services::parse(ILLUMOS_CONF).unwrap_or_default(),
            aliases,
            hcas: BTreeMap::new(),
            nodes: BTreeMap::new(),
            others: Vec::new(),
            loads_drivers: false,
            instances: BTreeMap::new(),
        }
    }
}

#[derive(Default)]
struct Nexus(HostMutex<State>);

fn of(kernel: &Kernel) -> Arc<Nexus> {
    kernel.state(Nexus::default)
}

/// The text of the host's `ib.conf` from now on; [`ILLUMOS_CONF`] until somebody says otherwise. Nodes that are there stay.
///
/// # Errors
///
/// What in it is no `driver.conf(5)`.
pub fn set_conf(kernel: &Kernel, text: &str) -> Result<(), String> {
    of(kernel).0.lock().services = Services::parse(text)?;
    Ok(())
}

/// Installs a package by its manifest: its drivers and their aliases. That of `ibp` is there from the beginning.
pub fn install_package(kernel: &Kernel, manifest: &str) {
    of(kernel).0.lock().aliases.install(manifest);
    number_drivers(kernel);
}

/// `/etc/name_to_major` has the drivers of the packages.
fn number_drivers(kernel: &Kernel) {
    let drivers: Vec<String> = of(kernel).0.lock().aliases.drivers().map(str::to_owned).collect();
    for driver in drivers {
        kernel.add_major(&driver);
    }
}

/// What an administrator does who wants links per P_Key: installs the package of `ibd` and adds its service to `ib.conf`.
///
/// # Panics
///
/// Never: the text is the lab's own.
pub fn use_ibd(kernel: &Kernel) {
    install_package(kernel, IBD_PACKAGE);
    set_conf(kernel, CONF_WITH_IBD).expect("a driver.conf");
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
    adopt_hca(kernel, guid.0, &device);
    device
}

/// The node of an HCA whose driver has attached to it becomes one of the nexus's.
pub(crate) fn adopt_hca(kernel: &Kernel, guid: u64, device: &DevInfo) {
    number_drivers(kernel);
    let entered = SleepMutex::new("the HCA's node", ());
    let node = HcaNode { device: device.clone(), came: kernel.machine().now(), entered };
    of(kernel).0.lock().hcas.insert(guid, Arc::new(node));
}

/// And is none any more.
pub(crate) fn disown_hca(kernel: &Kernel, guid: u64) {
    of(kernel).0.lock().hcas.remove(&guid);
}

/// The nodes below an HCA are taken away (`cfgadm -c unconfigure`), as the framework does before it detaches the HCA's driver; false if
/// a driver is still attached to one.
pub fn unconfigure(kernel: &Kernel, guid: Guid) -> bool {
    let nexus = of(kernel);
    let mine: Vec<PortNode> = nexus.0.lock().nodes.values().filter(|n| n.hca == guid).cloned().collect();
    mine.iter().all(|node| forget(kernel, &nexus, node))
}

/// Takes away the nodes of an HCA that went; false if a driver is still attached to one.
pub(crate) fn remove_hca(kernel: &Kernel, guid: Guid) -> bool {
    let gone = unconfigure(kernel, guid);
    if gone {
        let hca = of(kernel).0.lock().hcas.remove(&guid.0);
        if let Some(hca) = hca {
            kernel.remove_device(&hca.device);
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

/// A walk of the tree, as `devfsadm` and a reconfiguration boot make it: every node that is to be there by now is made. User
/// context; may block.
pub fn look(kernel: &Kernel) {
    for device in Ibtl::of(kernel).all_devices() {
        enumerate(kernel, &device, |_| true);
    }
    for node in nodes(kernel).iter().filter(|node| !node.device.is_attached()) {
        online(kernel, node);
    }
}

/// The node of a port (`pkey` is `None`) or of a port and P_Key, made if it is not there: what opening a device by its name does.
/// Waits for the port for a while after its HCA has come. `None` for a P_Key that is not in the table of an ACTIVE port, a service
/// that `ib.conf` does not have, or one that no driver wants. User context; may block.
#[must_use]
pub fn open(kernel: &Kernel, port_guid: Guid, service: &str, pkey: Option<PKey>) -> Option<PortNode> {
    let (device, port) = Ibtl::of(kernel).all_devices().into_iter().find_map(|device| {
        let port = device.cached_ports().into_iter().find(|port| port.guid == port_guid)?;
        Some((device, port.num.0))
    })?;
    settle(kernel, &device, port);
    let kind = if pkey.is_some() { Kind::PKey } else { Kind::Port };
    let pkey = pkey.map_or(0, |pkey| pkey.0);
    let key = Key { kind, hca: device.guid, port, pkey, service: service.to_owned() };
    enumerate(kernel, &device, |wanted| *wanted == key);
    of(kernel).0.lock().nodes.get(&key).cloned()
}

fn settle(kernel: &Kernel, device: &Device, port: u8) {
    let came = of(kernel).0.lock().hcas.get(&device.guid).map(|hca| hca.came);
    let deadline = came.map_or(Nanos(0), |came| came + SETTLING_TIME);
    let is_active = || device.cached_port(port).is_some_and(|port| port.state == PortState::Active);
    while !is_active() && kernel.machine().now() < deadline {
        fakekernel::sleep(AGAIN);
    }
}

/// Makes the nodes below an HCA that `wanted` accepts and that are not there; those of P_Keys go online.
fn enumerate(kernel: &Kernel, device: &Device, wanted: impl Fn(&Key) -> bool) {
    let nexus = of(kernel);
    let Some(hca) = nexus.0.lock().hcas.get(&device.guid).cloned() else { return };
    let _entered = hca.entered.lock();
    let services = nexus.0.lock().services.clone();
    for key in keys(&services, device).into_iter().filter(wanted) {
        if let Some(node) = ensure(kernel, &nexus, &hca, device, key)
            && node.kind == Kind::PKey
        {
            online(kernel, &node);
        }
    }
}

/// The nodes that are to be there now.
fn keys(services: &Services, device: &Device) -> Vec<Key> {
    let key = |kind, port, pkey, service: &str| Key {
        kind,
        hca: device.guid,
        port,
        pkey,
        service: service.to_owned(),
    };
    let mut keys: Vec<Key> = services.of(Kind::Hca).map(|service| key(Kind::Hca, 0, 0, service)).collect();
    for port in device.cached_ports() {
        keys.extend(services.of(Kind::Port).map(|service| key(Kind::Port, port.num.0, 0, service)));
        if port.state != PortState::Active {
            continue;
        }
        for service in services.of(Kind::PKey) {
            let valid = port.pkeys.iter().filter(|pkey| pkey.is_valid());
            keys.extend(valid.map(|pkey| key(Kind::PKey, port.num.0, pkey.0, service)));
        }
    }
    keys
}

/// A node that was not there before; `None` if it was, or if no driver wants it.
fn ensure(kernel: &Kernel, nexus: &Nexus, hca: &HcaNode, device: &Device, key: Key) -> Option<PortNode> {
    let compatible = compatible(device, &key.service);
    let (driver, binding, instance) = {
        let mut state = nexus.0.lock();
        if state.nodes.contains_key(&key) {
            return None;
        }
        let driver = state.aliases.driver_of(&compatible)?.to_owned();
        let binding = state.aliases.binding_of(&compatible)?.to_owned();
        let next = state.instances.keys().filter(|(known, _)| *known == driver).count() as u32;
        (driver.clone(), binding, *state.instances.entry((driver, key.clone())).or_insert(next))
    };
    let spec = DevInfoSpec {
        name: "ibport".into(),
        driver,
        instance,
        parent: Some(hca.device.clone()),
        properties: properties(device, &key, compatible),
    };
    let node = PortNode {
        device: kernel.add_device(spec),
        binding,
        kind: key.kind,
        service: key.service.clone(),
        hca: Guid(key.hca),
        port: PortNum(key.port),
        port_guid: device.cached_port(key.port).map_or(Guid(0), |port| port.guid),
        pkey: (key.pkey != 0).then_some(PKey(key.pkey)),
    };
    nexus.0.lock().nodes.insert(key, node.clone());
    Some(node)
}

/// From now on the driver of a node is loaded and attached as soon as the node is there, as on illumos; its object is to be known
/// ([`Kernel::add_object`], as `drv/NAME`). A host that was not told so has its nodes attached by hand ([`attach`]).
pub fn load_drivers(kernel: &Kernel) {
    of(kernel).0.lock().loads_drivers = true;
}

fn online(kernel: &Kernel, node: &PortNode) {
    if !of(kernel).0.lock().loads_drivers {
        return;
    }
    let Ok(module) = kernel.scope(|| kernel.modload(&format!("drv/{}", node.device.driver()))) else {
        return;
    };
    let attached = kernel.scope(|| kernel.attach(&module, &node.device)).is_ok();
    if !attached && node.kind == Kind::PKey {
        // Made again by the next one who looks.
        forget(kernel, &of(kernel), node);
    }
}

/// Attaches a driver to a node, as the framework does: with the HCA's node entered if it is one of a P_Key. User context; may block.
///
/// # Errors
///
/// See [`Kernel::attach`].
pub fn attach(kernel: &Kernel, module: &Module, node: &PortNode) -> Result<(), Errno> {
    let hca = of(kernel).0.lock().hcas.get(&node.hca.0).cloned().filter(|_| node.kind == Kind::PKey);
    let _entered = hca.as_ref().map(|hca| hca.entered.lock());
    kernel.attach(module, &node.device)
}

fn compatible(device: &Device, service: &str) -> Vec<String> {
    let Identity { vendor, device: product, version } = device.adapter.identity();
    vec![
        format!("ib.V{vendor:06x}P{product:08x}v{version:04x}.{service}"),
        format!("ib.V{vendor:06x}P{product:08x}.{service}"),
        format!("ib.{service}"),
    ]
}

fn properties(device: &Device, key: &Key, compatible: Vec<String>) -> Properties {
    let Identity { vendor, device: product, version } = device.adapter.identity();
    let mut list = vec![
        ("compatible".to_owned(), PropertyValue::Strings(compatible)),
        ("hca-guid".to_owned(), PropertyValue::from(key.hca as i64)),
        ("vendor-id".to_owned(), PropertyValue::from(vendor as i32)),
        ("product-id".to_owned(), PropertyValue::from(i32::from(product))),
        ("device-version".to_owned(), PropertyValue::from(version as i32)),
    ];
    if key.pkey != 0 {
        list.push(("port-pkey".to_owned(), PropertyValue::from(i32::from(key.pkey))));
    }
    match device.cached_port(key.port) {
        Some(port) => {
            list.push(("port-number".to_owned(), PropertyValue::from(i32::from(key.port))));
            list.push(("port-guid".to_owned(), PropertyValue::from(port.claimed().0 as i64)));
        }
        None => {
            let guids = device.cached_ports().iter().map(|port| port.claimed().0 as i64).collect();
            list.push(("port-guids".to_owned(), PropertyValue::Int64(guids)));
            list.push(("num-ports".to_owned(), PropertyValue::from(i32::from(device.nports()))));
        }
    }
    Properties::new(list)
}

/// The nodes of a host that have been made: those of ports before those of P_Keys, then by HCA, port and P_Key.
#[must_use]
pub fn nodes(kernel: &Kernel) -> Vec<PortNode> {
    of(kernel).0.lock().nodes.values().cloned().collect()
}

/// The nodes of the ports for `ibp`, whatever state those are in, by HCA and port; made if they are not there. User context; may
/// block.
#[must_use]
pub fn ports(kernel: &Kernel) -> Vec<PortNode> {
    for device in Ibtl::of(kernel).all_devices() {
        enumerate(kernel, &device, |key| key.kind == Kind::Port);
    }
    let mut nodes = nodes(kernel);
    nodes.retain(|node| node.kind == Kind::Port && node.device.driver() == "ibp");
    nodes
}

/// A child of the nexus for any other driver: what a probe attaches with.
#[must_use]
pub fn add_child(kernel: &Kernel, driver: &str, instance: u32) -> DevInfo {
    let spec = DevInfoSpec { name: "ibport".into(), driver: driver.into(), instance, ..Default::default() };
    let device = kernel.add_device(spec);
    of(kernel).0.lock().others.push(device.clone());
    device
}
