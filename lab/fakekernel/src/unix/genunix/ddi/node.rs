//! `dev_info` nodes: made by the lab, known to modules by an opaque pointer.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use illumos_sys_hdrs::{dev_info_t, major_t, minor_t};
use sim::{HostMutex, Rule};

use super::super::Genunix;
use super::super::heap::{Fill, Kind};
use super::super::origin::Origin;
use super::fm::Service;
use super::property::Properties;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::mem::c_string;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ddi_create_minor_node, ddi_remove_minor_node;
        ANY: ddi_get_instance, ddi_driver_name, ddi_get_name, ddi_binding_name, ddi_node_name, ddi_get_parent,
            ddi_get_driver_private, ddi_set_driver_private, ddi_driver_major, ddi_name_to_major;
    }
}

/// What a node to be made looks like.
#[derive(Clone, Debug, Default)]
pub struct DevInfoSpec {
    /// Node name, e.g. "ibport".
    pub name: String,
    /// Name of the driver bound to it.
    pub driver: String,
    /// Instance number, as path_to_inst would give it.
    pub instance: u32,
    /// The nexus above.
    pub parent: Option<DevInfo>,
    /// What the nexus and the `.conf` file give it.
    pub properties: Properties,
}

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No driver has it.
    Idle,
    /// Its driver's probe, attach or detach runs.
    Busy,
    /// Its driver has it.
    Attached,
}

/// A minor node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinorNode {
    /// Name.
    pub name: String,
    /// `S_IFCHR` or `S_IFBLK`.
    pub spec_type: i32,
    /// Minor number.
    pub minor: u32,
    /// Type, e.g. "ddi_network".
    pub node_type: String,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) spec: DevInfoSpec,
    /// The pointer modules know it by; set once, right after the node is made.
    handle: OnceLock<usize>,
    /// Name strings that modules are shown: addresses of the node's and the driver's.
    names: [usize; 2],
    pub(super) state: HostMutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) properties: Properties,
    pub(super) minors: Vec<MinorNode>,
    driver_private: usize,
    /// `ndi_hold_devi`: links that are open, children.
    pub(super) holds: u32,
    /// What its driver says is left of its service.
    pub(super) service: Service,
}

/// A device node. Cheap clone.
#[derive(Clone, Debug)]
pub struct DevInfo {
    pub(super) node: Arc<Node>,
}

impl PartialEq for DevInfo {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }
}

impl DevInfo {
    /// Instance number.
    pub fn instance(&self) -> u32 {
        self.node.spec.instance
    }

    /// Name of the driver bound to it.
    pub fn driver(&self) -> &str {
        &self.node.spec.driver
    }

    /// Node name.
    pub fn name(&self) -> &str {
        &self.node.spec.name
    }

    /// The pointer modules know it by.
    pub fn as_ptr(&self) -> *mut dev_info_t {
        ptr::without_provenance_mut(self.node.handle.get().copied().unwrap_or(0))
    }

    /// Has a driver attached to it?
    pub fn is_attached(&self) -> bool {
        self.node.state.lock().phase == Phase::Attached
    }

    /// Its minor nodes, in the order made.
    pub fn minor_nodes(&self) -> Vec<MinorNode> {
        self.node.state.lock().minors.clone()
    }

    /// Changes properties: what a nexus or a changed `.conf` file does.
    pub fn with_properties<R>(&self, f: impl FnOnce(&mut Properties) -> R) -> R {
        f(&mut self.node.state.lock().properties)
    }

    /// Adds a minor node on the framework's behalf.
    pub fn add_minor(&self, minor: MinorNode) {
        self.node.state.lock().minors.push(minor);
    }

    /// Removes the minor nodes with that name, or all of them.
    pub fn remove_minors(&self, name: Option<&str>) {
        self.node.state.lock().minors.retain(|minor| name.is_some_and(|name| name != minor.name));
    }

    /// Keeps its driver from detaching until [`DevInfo::release`].
    pub fn hold(&self) {
        self.node.state.lock().holds += 1;
    }

    /// Undoes one [`DevInfo::hold`].
    pub fn release(&self) {
        let mut state = self.node.state.lock();
        state.holds = state.holds.saturating_sub(1);
    }
}

impl Kernel {
    /// Makes a device node. The driver gets a major number if it has none.
    pub fn add_device(&self, spec: DevInfoSpec) -> DevInfo {
        self.add_major(&spec.driver);
        let genunix = self.genunix();
        let names = [genunix.kept_string(&spec.name), genunix.kept_string(&spec.driver)];
        let state = State {
            phase: Phase::Idle,
            properties: spec.properties.clone(),
            minors: Vec::new(),
            driver_private: 0,
            holds: 0,
            service: Service::default(),
        };
        if let Some(parent) = &spec.parent {
            parent.hold();
        }
        let node = Arc::new(Node { spec, handle: OnceLock::new(), names, state: HostMutex::new(state) });
        let handle = genunix.devices.nodes.insert_arc(node.clone()).addr();
        node.handle.get_or_init(|| handle);
        DevInfo { node }
    }

    /// Removes a node that no driver has; false if one does. Its pointer is stale from now on.
    pub fn remove_device(&self, device: &DevInfo) -> bool {
        if device.node.state.lock().phase != Phase::Idle {
            return false;
        }
        if let Some(parent) = &device.node.spec.parent {
            parent.release();
        }
        self.genunix().devices.nodes.remove(device.as_ptr()).is_ok()
    }

    /// The node behind a module's pointer; breaks rule 46 when there is none, or when its driver has no business with it.
    pub fn device(&self, cx: &Cx, dip: *const dev_info_t) -> Option<DevInfo> {
        match self.genunix().devices.nodes.get(dip) {
            Ok(node) => {
                let idle = node.state.lock().phase == Phase::Idle;
                if idle && cx.module().is_some_and(|module| module.name() == node.spec.driver) {
                    let what =
                        format!("{}{} is used while not attached", node.spec.driver, node.spec.instance);
                    cx.violate(Rule::BadDevInfo, what);
                }
                Some(DevInfo { node })
            }
            Err(error) => {
                cx.violate(Rule::BadDevInfo, error.to_string());
                None
            }
        }
    }
}

impl Genunix {
    /// A string in the host's memory that lives as long as the host.
    pub(in crate::unix::genunix) fn kept_string(&self, text: &str) -> usize {
        let len = text.len() + 1;
        let Some(mem) = self.memory.alloc(len, 8, Kind::Lab, Fill::Zero, Origin::KERNEL) else { return 0 };
        mem.put(text.as_bytes());
        mem.addr()
    }
}

/// The caller's node.
pub(super) fn node(dip: *const dev_info_t) -> Option<DevInfo> {
    let cx = cx();
    cx.kernel().device(&cx, dip)
}

unsafe extern "C" fn ddi_get_instance(dip: *mut dev_info_t) -> c_int {
    node(dip).map_or(-1, |device| device.instance() as c_int)
}

fn name_of(dip: *const dev_info_t, which: usize) -> *mut c_char {
    node(dip).map_or(ptr::null_mut(), |device| ptr::with_exposed_provenance_mut(device.node.names[which]))
}

unsafe extern "C" fn ddi_driver_name(dip: *mut dev_info_t) -> *const c_char {
    name_of(dip, 1)
}

unsafe extern "C" fn ddi_get_name(dip: *mut dev_info_t) -> *mut c_char {
    name_of(dip, 1)
}

unsafe extern "C" fn ddi_binding_name(dip: *mut dev_info_t) -> *mut c_char {
    name_of(dip, 1)
}

unsafe extern "C" fn ddi_node_name(dip: *mut dev_info_t) -> *mut c_char {
    name_of(dip, 0)
}

unsafe extern "C" fn ddi_get_parent(dip: *mut dev_info_t) -> *mut dev_info_t {
    let parent = node(dip).and_then(|device| device.node.spec.parent.clone());
    parent.map_or(ptr::null_mut(), |parent| parent.as_ptr())
}

unsafe extern "C" fn ddi_get_driver_private(dip: *mut dev_info_t) -> *mut c_void {
    let private = node(dip).map_or(0, |device| device.node.state.lock().driver_private);
    ptr::with_exposed_provenance_mut(private)
}

unsafe extern "C" fn ddi_set_driver_private(dip: *mut dev_info_t, data: *mut c_void) {
    if let Some(device) = node(dip) {
        device.node.state.lock().driver_private = data.expose_provenance();
    }
}

/// `DDI_MAJOR_T_NONE`
const NO_MAJOR: major_t = major_t::MAX;

unsafe extern "C" fn ddi_driver_major(dip: *mut dev_info_t) -> major_t {
    let cx = cx();
    node(dip).and_then(|device| cx.kernel().major(device.driver())).unwrap_or(NO_MAJOR)
}

unsafe extern "C" fn ddi_name_to_major(name: *mut c_char) -> major_t {
    // SAFETY: ddi_name_to_major(9F): a string.
    let name = unsafe { c_string(name, None) };
    cx().kernel().major(&String::from_utf8_lossy(&name)).unwrap_or(NO_MAJOR)
}

unsafe extern "C" fn ddi_create_minor_node(
    dip: *mut dev_info_t,
    name: *mut c_char,
    spec_type: c_int,
    minor: minor_t,
    node_type: *mut c_char,
    _flag: c_int,
) -> c_int {
    let cx = cx();
    cx.may_block();
    let Some(device) = cx.kernel().device(&cx, dip) else { return -1 };
    if cx.fault(sim::FaultKind::DDI) {
        return -1;
    }
    // SAFETY: ddi_create_minor_node(9F): two strings.
    let (name, node_type) = (unsafe { c_string(name, None) }, unsafe { c_string(node_type, None) });
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    device.add_minor(MinorNode { name: text(name), spec_type, minor, node_type: text(node_type) });
    0
}

unsafe extern "C" fn ddi_remove_minor_node(dip: *mut dev_info_t, name: *mut c_char) {
    let cx = cx();
    cx.may_block();
    let Some(device) = cx.kernel().device(&cx, dip) else { return };
    // SAFETY: ddi_remove_minor_node(9F): a string or null, which reads as empty.
    let text = unsafe { c_string(name, None) };
    let text = String::from_utf8_lossy(&text);
    device.remove_minors((!name.is_null()).then_some(&*text));
}
