//! `ibc_*`: what a driver calls. Part of `misc/ibtl`; `drv/ib`, which it depends on beside that, has nothing of its own here.

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fabric::{AsyncEvent, PortChange, PortNum};
use fakekernel::{Cx, Export, Handles, HostMutex, Kernel, Rule, cx, export};
use illumos_sys_hdrs::{
    DDI_DETACH, IBC_FAILURE, IBC_SUCCESS, IBCI_V4, IBT_CLNT_REREG_EVENT, IBT_ERROR_CATASTROPHIC_CHAN,
    IBT_ERROR_CQ, IBT_ERROR_LOCAL_CATASTROPHIC, IBT_ERROR_PORT_DOWN, IBT_EVENT_COM_EST, IBT_EVENT_EMPTY_CHAN,
    IBT_EVENT_LIMIT_REACHED_SRQ, IBT_EVENT_PORT_UP, IBT_HCA_CURRENT_QP_STATE, IBT_HCA_PORT_UP,
    IBT_PORT_CHANGE_EVENT, dev_ops, ibc_async_event_t, ibc_clnt_hdl_t, ibc_hca_info_t, ibc_operations_t,
    ibc_status_t, ibt_async_code_e, ibt_cq_hdl_t, ibt_srq_hdl_t, ibtl_qp_hdl_t, modldrv, modlinkage,
};
use std::ffi::c_int;

use super::judge::Calls;
use super::{Driver, Registered};
use crate::adapter::{Adapter, Wire};
use crate::ibcm::Ibcm;
use crate::ibtl::{self, Device, Opaque, SelfHandle, drop_hold, hold};
use crate::{nexus, os};

/// Adds the provider's side of `misc/ibtl`, and `drv/ib`, to a host.
pub(crate) fn provide(kernel: &Kernel) {
    let exports = export! {
        UK: ibc_init, ibc_fini, ibc_attach, ibc_post_attach, ibc_pre_detach, ibc_detach;
        UKS: ibc_cq_handler, ibc_async_handler;
    };
    kernel.provide("ibtl", "misc/ibtl", exports);
    kernel.provide("ib", "drv/ib", Vec::<Export>::new());
}

/// The adapters of a host that drivers have attached, by what the drivers know them by.
struct Attached(Handles<Driver>);

fn attached(kernel: &Kernel) -> Arc<Attached> {
    kernel.state(|| Attached(Handles::new("ibc_clnt_hdl_t")))
}

fn driver(cx: &Cx, client: ibc_clnt_hdl_t) -> Option<Arc<Driver>> {
    let found = attached(cx.kernel()).0.get(client);
    found.inspect_err(|error| cx.violate(Rule::HeapCorruption, error.to_string())).ok()
}

/// Where a driver's bus operations go.
///
/// # Safety
///
/// `linkage` is a module's, and its first entry a driver's.
unsafe fn bus_operations(linkage: *mut modlinkage) -> *mut *mut std::ffi::c_void {
    // SAFETY: by this function's contract.
    let first: *const modldrv = unsafe { (*linkage).ml_linkage[0] }.cast();
    // SAFETY: as above.
    let ops = unsafe { (*first).drv_dev_ops };
    ops.wrapping_byte_add(offset_of!(dev_ops, devo_bus_ops)).cast()
}

/// The nexus puts its bus operations into the driver's table before the module is installed: a driver without any is one whose devices
/// have no children.
unsafe extern "C" fn ibc_init(linkage: *mut modlinkage) -> c_int {
    let cx = cx();
    cx.may_block();
    // SAFETY: the interface wants that of a driver's module.
    let at = unsafe { bus_operations(linkage) };
    // SAFETY: as above, and `dev_ops` is the module's writable data.
    let known = unsafe { at.read() };
    cx.check(known.is_null(), Rule::AbsurdArgument, || {
        "ibc_init of a driver that has bus operations of its own".into()
    });
    // SAFETY: as above.
    unsafe { at.write(std::ptr::without_provenance_mut(BUS_OPERATIONS)) };
    hold(cx.kernel(), "ibc_init", linkage.cast(), "an adapter's driver");
    0
}

/// Nothing of the lab calls them.
const BUS_OPERATIONS: usize = 0x5a00_6962_0000;

unsafe extern "C" fn ibc_fini(linkage: *mut modlinkage) {
    let cx = cx();
    cx.may_block();
    let installed = cx.module().is_some_and(|module| module.dev_ops().is_some());
    cx.check(!installed, Rule::AbsurdArgument, || "ibc_fini before mod_remove".into());
    // SAFETY: as for ibc_init.
    let at = unsafe { bus_operations(linkage) };
    // SAFETY: as for ibc_init.
    unsafe { at.write(std::ptr::null_mut()) };
    drop_hold(cx.kernel(), "ibc_init", linkage);
}

unsafe extern "C" fn ibc_attach(client: *mut ibc_clnt_hdl_t, info: *mut ibc_hca_info_t) -> ibc_status_t {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let kernel = cx.kernel().clone();
    // SAFETY: the interface wants a record.
    let Some(info) = (unsafe { crate::ptr::load(info) }) else { return IBC_FAILURE };
    // SAFETY: and in it one of attributes, for as long as the adapter is attached.
    let Some(attributes) = (unsafe { crate::ptr::load(info.hca_attr) }) else { return IBC_FAILURE };
    // SAFETY: and one of operations.
    let Some(operations) = (unsafe { crate::ptr::load(info.hca_ops) }) else { return IBC_FAILURE };
    let wanted = IBT_HCA_CURRENT_QP_STATE.0 | IBT_HCA_PORT_UP.0;
    let sound = info.hca_ci_vers == IBCI_V4 as i32
        && attributes.hca_nports > 0
        && attributes.hca_max_port_pkey_tbl_sz > 0
        && attributes.hca_flags.0 & wanted == wanted;
    if !sound || cx.fault(fakekernel::FaultKind("ibc_attach")) {
        return IBC_FAILURE;
    }
    check_complete(&cx, &operations);
    let Some(node) = kernel.device(&cx, attributes.hca_dip) else { return IBC_FAILURE };
    let guid = attributes.hca_node_guid;
    let known = ibtl::Ibtl::of(&kernel).device(guid).is_some();
    cx.check(!known, Rule::AbsurdArgument, || {
        format!("there is an adapter with node GUID {guid:016x} already")
    });
    let driver = Arc::new(Driver {
        kernel: kernel.clone(),
        registered: Registered { operations, attributes },
        hca: Opaque::of(info.hca_handle),
        client: SelfHandle::default(),
        device: HostMutex::new(None),
        cqs: Handles::new("ibt_cq_hdl_t of an adapter"),
        qps: Handles::new("ibtl_qp_hdl_t"),
        srqs: Handles::new("ibt_srq_hdl_t of an adapter"),
        next_number: AtomicU32::new(0),
        calls: Calls::default(),
        given: HostMutex::new(BTreeSet::new()),
    });
    let handle = attached(&kernel).0.insert_arc(driver.clone());
    driver.client.set(handle);
    let device = Arc::new(Device::new(Adapter::Driver(driver.clone()), Opaque::of(attributes.hca_dip)));
    device.refresh_ports();
    *driver.device.lock() = Some(device.clone());
    nexus::adopt_hca(&kernel, guid, &node);
    hold(&kernel, "ibc_clnt_hdl_t", handle, format!("adapter {guid:016x}"));
    // SAFETY: room for the answer.
    unsafe { crate::ptr::store(client, handle.cast()) };
    IBC_SUCCESS
}

/// IBTL looks at no operation before it calls it.
fn check_complete(cx: &Cx, operations: &ibc_operations_t) {
    const SLOTS: usize = size_of::<ibc_operations_t>() / size_of::<usize>();
    let slots: *const usize = std::ptr::from_ref(operations).cast();
    // SAFETY: the table is functions and nothing else, so many.
    let empty = (0..SLOTS).filter(|n| unsafe { crate::ptr::element(slots, *n) } == 0).count();
    cx.check(empty == 0, Rule::AbsurdArgument, || format!("{empty} of {SLOTS} operations are NULL"));
}

/// Clients hear of the adapter, after its management has queue pairs.
unsafe extern "C" fn ibc_post_attach(client: ibc_clnt_hdl_t) {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let Some(driver) = driver(&cx, client) else { return };
    driver.check_upcall("ibc_post_attach");
    let Some(device) = driver.device() else { return };
    let kernel = cx.kernel();
    let wire = Wire::of(kernel);
    wire.add(&device);
    let ibcm = Ibcm::of(kernel);
    if ibcm.transport().is_none() {
        ibcm.connect(wire);
    }
    ibtl::add_device(kernel, &device);
    ibtl::deliver(kernel, &device);
}

unsafe extern "C" fn ibc_pre_detach(
    client: ibc_clnt_hdl_t,
    command: illumos_sys_hdrs::ddi_detach_cmd_t,
) -> ibc_status_t {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let Some(driver) = driver(&cx, client) else { return IBC_FAILURE };
    if command != DDI_DETACH {
        return IBC_FAILURE;
    }
    driver.check_upcall("ibc_pre_detach");
    let Some(device) = driver.device() else { return IBC_FAILURE };
    match ibtl::remove_device(cx.kernel(), &device) {
        Ok(()) => {
            Wire::of(cx.kernel()).remove(&device);
            nexus::disown_hca(cx.kernel(), device.guid);
            IBC_SUCCESS
        }
        Err(names) => {
            os::console(&cx, &format!("ibc_pre_detach: in use by {}", names.join(", ")));
            IBC_FAILURE
        }
    }
}

unsafe extern "C" fn ibc_detach(client: ibc_clnt_hdl_t) {
    let cx = cx();
    cx.may_block();
    let Some(driver) = driver(&cx, client) else { return };
    let known = ibtl::Ibtl::of(cx.kernel()).device(driver.guid()).is_some();
    cx.check(!known, Rule::AbsurdArgument, || "ibc_detach before ibc_pre_detach has succeeded".into());
    let left = driver.left();
    cx.check(left.is_empty(), Rule::Leak, || format!("the adapter is detached with {left:?}"));
    *driver.device.lock() = None;
    let _ = attached(cx.kernel()).0.remove(client);
    drop_hold(cx.kernel(), "ibc_clnt_hdl_t", client);
}

impl Driver {
    fn device(&self) -> Option<Arc<Device>> {
        self.device.lock().clone()
    }
}

unsafe extern "C" fn ibc_cq_handler(client: ibc_clnt_hdl_t, cq: ibt_cq_hdl_t) {
    let cx = cx();
    cx.no_locks();
    let Some(driver) = driver(&cx, client) else { return };
    driver.check_upcall("ibc_cq_handler");
    let Ok(cq) = driver.cq_of(cq) else { return };
    driver.begin_cq_call(&cq);
    if let Some(owner) = cq.owner.get() {
        owner();
    }
    driver.end_cq_call(&cq);
}

unsafe extern "C" fn ibc_async_handler(
    client: ibc_clnt_hdl_t,
    code: ibt_async_code_e,
    event: *mut ibc_async_event_t,
) {
    let cx = cx();
    cx.no_locks();
    let Some(driver) = driver(&cx, client) else { return };
    driver.check_upcall("ibc_async_handler");
    // SAFETY: the interface wants a record.
    let Some(event) = (unsafe { crate::ptr::load(event) }) else { return };
    let Some(device) = driver.device() else { return };
    let known = (1..=driver.nports()).contains(&event.ev_port);
    let port = PortNum(event.ev_port);
    let of_port = [IBT_EVENT_PORT_UP, IBT_ERROR_PORT_DOWN, IBT_PORT_CHANGE_EVENT, IBT_CLNT_REREG_EVENT];
    cx.check(known || !of_port.contains(&code), Rule::AbsurdArgument, || {
        format!("an event of port {}", port.0)
    });
    let event = match code {
        IBT_EVENT_PORT_UP => AsyncEvent::PortUp(port),
        IBT_ERROR_PORT_DOWN => AsyncEvent::PortDown(port),
        IBT_PORT_CHANGE_EVENT => AsyncEvent::PortChange(port, PortChange(event.ev_port_flags.0)),
        IBT_CLNT_REREG_EVENT => AsyncEvent::ClientReregister(port),
        IBT_ERROR_LOCAL_CATASTROPHIC => AsyncEvent::LocalCatastrophic,
        IBT_ERROR_CATASTROPHIC_CHAN => match driver.qps.get(event.ev_qp_hdl) {
            Ok(qp) => AsyncEvent::CatastrophicChannel(qp.num()),
            Err(error) => return cx.violate(Rule::HeapCorruption, error.to_string()),
        },
        IBT_EVENT_COM_EST => match driver.qps.get(event.ev_qp_hdl) {
            Ok(qp) if qp.is_connection => {
                qp.established.fetch_add(1, Ordering::Relaxed);
                AsyncEvent::Established(qp.num())
            }
            Ok(qp) => {
                let what =
                    format!("queue pair {:?} is of datagrams, and says that it is connected", qp.num());
                return cx.violate(Rule::AbsurdArgument, what);
            }
            Err(error) => return cx.violate(Rule::HeapCorruption, error.to_string()),
        },
        IBT_ERROR_CQ => match driver.cq_of(event.ev_cq_hdl) {
            Ok(cq) => AsyncEvent::CqError(cq.num()),
            Err(_) => return,
        },
        IBT_EVENT_EMPTY_CHAN => return emptied(&cx, &driver, &device, event.ev_qp_hdl),
        IBT_EVENT_LIMIT_REACHED_SRQ => return runs_out(&cx, &driver, event.ev_srq_hdl),
        other => return cx.violate(Rule::AbsurdArgument, format!("asynchronous event {:#x}", other.0)),
    };
    ibtl::happened(&driver.kernel, &device, event);
}

/// A queue pair that has failed holds none of a shared queue's receives any more.
fn emptied(cx: &Cx, driver: &Driver, device: &Arc<Device>, qp: ibtl_qp_hdl_t) {
    match driver.qps.get(qp) {
        Ok(qp) if qp.srq.is_some() => ibtl::emptied(&driver.kernel, device, qp.num()),
        Ok(qp) => cx.violate(
            Rule::AbsurdArgument,
            format!("queue pair {:?} has no shared receive queue to be without", qp.num()),
        ),
        Err(error) => cx.violate(Rule::HeapCorruption, error.to_string()),
    }
}

fn runs_out(cx: &Cx, driver: &Driver, srq: ibt_srq_hdl_t) {
    match driver.srqs.get(srq) {
        Ok(srq) if srq.runs_out() => {}
        Ok(_) => cx.violate(
            Rule::AbsurdArgument,
            "the limit of a shared receive queue that is not armed".to_owned(),
        ),
        Err(error) => cx.violate(Rule::HeapCorruption, error.to_string()),
    }
}
