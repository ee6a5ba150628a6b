//! Clients and their HCAs: `ibt_attach`, `ibt_detach`, `ibt_open_hca`, `ibt_close_hca`.

use super::objects::{Client, Kind, NoticeHandler, Opaque, OpenHca, OpenState, drop_hold, hold};
use super::{Ibtl, arg, hdl, out, take};
use crate::os;
use crate::status::*;
use fakekernel::{Cx, Export, FaultKind, HostMutex, WaitQueue, cx, export, race};
use illumos_sys_hdrs::{
    IBT_CM, IBT_DM, IBT_DM_AGENT, IBT_GENERIC_MISC, IBT_IBMA, IBT_INSUFF_RESOURCE, IBT_NETWORK, IBT_TEST_DEV,
    IBTI_V_CURR, dev_info_t, ib_guid_t, ibt_clnt_hdl_t, ibt_clnt_modinfo_t, ibt_hca_hdl_t, ibt_status_t,
};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Longer client names are cut.
const NAME_LEN: usize = 7;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_attach, ibt_detach, ibt_open_hca, ibt_close_hca, ibt_hca_guid_to_handle;
        UKS: ibt_hca_handle_to_guid, ibt_set_hca_private, ibt_get_hca_private;
    }
}

/// Classes that are modules rather than devices and need no device node.
fn is_module_class(class: u32) -> bool {
    let classes = [IBT_IBMA, IBT_CM, IBT_DM, IBT_DM_AGENT, IBT_GENERIC_MISC];
    classes.iter().any(|c| c.0 == class) || class == IBT_TEST_DEV
}

/// Classes of which there is one client only.
fn is_unique_class(class: u32) -> bool {
    [IBT_IBMA, IBT_CM, IBT_DM].iter().any(|c| c.0 == class)
}

unsafe extern "C" fn ibt_attach(
    mod_infop: *mut ibt_clnt_modinfo_t,
    dip: *mut dev_info_t,
    clnt_private: *mut c_void,
    ibt_hdl_p: *mut ibt_clnt_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    if cx.fault(FaultKind("ibt_attach")) {
        return IBT_INSUFF_RESOURCE;
    }
    let info = arg!(cx, mod_infop, "the ibt_clnt_modinfo_t of ibt_attach");
    if info.mi_ibt_version != IBTI_V_CURR as i32 {
        return IBT_NOT_SUPPORTED;
    }
    if info.mi_clnt_name.is_null() {
        return IBT_INVALID_PARAM;
    }
    let class = info.mi_clnt_class.0;
    let kernel = cx.kernel();
    if !is_module_class(class) && !crate::nexus::is_child(kernel, dip) {
        return IBT_INVALID_PARAM;
    }
    let ibtl = Ibtl::of(kernel);
    if is_unique_class(class) && ibtl.clients.all().iter().any(|c| c.class == class) {
        return IBT_INVALID_PARAM;
    }
    // SAFETY: the name of a client is a C string that lives as long as the module information, until detach.
    let name = unsafe { CStr::from_ptr(info.mi_clnt_name) };
    let name: String = name.to_string_lossy().chars().take(NAME_LEN).collect();
    let client = new_client(&name, class, Opaque::of(mod_infop), Opaque::of(clnt_private));
    let client = Arc::new(client);
    race::release(client.key());
    let handle = ibtl.clients.insert_arc(client);
    hold(kernel, "ibt client", handle, name);
    out!(ibt_hdl_p, handle.cast());
    IBT_SUCCESS
}

fn new_client(name: &str, class: u32, info: Opaque, private: Opaque) -> Client {
    Client {
        name: name.to_owned(),
        class,
        info,
        kept: AtomicBool::new(false),
        left: AtomicBool::new(false),
        private,
        opens: HostMutex::new(BTreeMap::new()),
        notices: NoticeHandler::default(),
        services: AtomicU32::new(0),
        callbacks: HostMutex::new(0),
        idle: WaitQueue::new("callbacks of a detaching IBTF client"),
    }
}

/// A client that is no module's and hears nothing.
pub(super) fn native_client(name: &str, class: u32) -> Arc<Client> {
    Arc::new(new_client(name, class, Opaque::default(), Opaque::default()))
}

unsafe extern "C" fn ibt_detach(ibt_hdl: ibt_clnt_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let ibtl = Ibtl::of(cx.kernel());
    let client = hdl!(cx, ibtl.clients, ibt_hdl, IBT_INVALID_PARAM);
    if !client.opens.lock().is_empty() || client.services.load(Ordering::Acquire) > 0 {
        os::console(&cx, &format!("ibt_detach: {}: resources not freed", client.name));
        if client.kept.load(Ordering::Acquire) {
            // Nothing that the module could do. What it said of itself has to stay, too.
            drop_hold(cx.kernel(), "ibt client", ibt_hdl);
            drop_hold(cx.kernel(), "kmem", client.info.get());
        }
        return IBT_HCA_RESOURCES_NOT_FREED;
    }
    // Out of the table first: no new callback begins.
    let Some(client) = take(&cx, &ibtl.clients, ibt_hdl) else { return IBT_INVALID_PARAM };
    client.wait_for_callbacks();
    drop_hold(cx.kernel(), "ibt client", ibt_hdl);
    let is_network = |client: &Client| client.class == IBT_NETWORK.0;
    if is_network(&client) && !ibtl.clients.all().iter().any(|other| is_network(other)) {
        let hooks = ibtl.cm.lock().clone();
        if let Some(hooks) = hooks {
            hooks.clients_are_gone();
        }
    }
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_open_hca(
    ibt_hdl: ibt_clnt_hdl_t,
    hca_guid: ib_guid_t,
    hca_hdl: *mut ibt_hca_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let client = hdl!(cx, ibtl.clients, ibt_hdl, IBT_INVALID_PARAM);
    if cx.fault(FaultKind("ibt_open_hca")) {
        out!(hca_hdl, std::ptr::null_mut());
        return IBT_INSUFF_RESOURCE;
    }
    let Some(device) = ibtl.device(hca_guid) else {
        out!(hca_hdl, std::ptr::null_mut());
        return IBT_HCA_INVALID;
    };
    if *device.detaching.lock() {
        out!(hca_hdl, std::ptr::null_mut());
        return IBT_HCA_BUSY_DETACHING;
    }
    let existing = client.opens.lock().get(&hca_guid).cloned();
    match existing {
        Some(OpenState::Open(open)) => {
            out!(hca_hdl, open.handle.get());
            return IBT_HCA_IN_USE;
        }
        Some(OpenState::Closing) => return IBT_HCA_BUSY_CLOSING,
        None => {}
    }
    let open = Arc::new(OpenHca::new(client.clone(), device));
    let handle = ibtl.opens.insert_arc(open.clone());
    open.handle.set(handle);
    client.opens.lock().insert(hca_guid, OpenState::Open(open));
    hold(cx.kernel(), "ibt open HCA", handle, format!("{hca_guid:016x} by {}", client.name));
    out!(hca_hdl, handle.cast());
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_close_hca(hca_hdl: ibt_hca_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let left = open.left();
    if !left.is_empty() {
        report_left(&cx, &open, &left);
        open.client.left.fetch_or(open.client.kept.load(Ordering::Acquire), Ordering::AcqRel);
        return IBT_HCA_RESOURCES_NOT_FREED;
    }
    let guid = open.device.guid;
    open.client.opens.lock().insert(guid, OpenState::Closing);
    let taken = take(&cx, &ibtl.opens, hca_hdl);
    open.client.opens.lock().remove(&guid);
    if taken.is_none() {
        return IBT_HCA_HDL_INVALID;
    }
    drop_hold(cx.kernel(), "ibt open HCA", hca_hdl);
    IBT_SUCCESS
}

fn report_left(cx: &Cx, open: &OpenHca, left: &[(Kind, u32)]) {
    for (kind, n) in left {
        let line = format!("ibt_close_hca: {}: {n} {} not freed", open.client.name, kind.plural());
        os::console(cx, &line);
    }
}

unsafe extern "C" fn ibt_hca_handle_to_guid(hca: ibt_hca_hdl_t) -> ib_guid_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.opens, hca, 0).device.guid
}

unsafe extern "C" fn ibt_hca_guid_to_handle(
    ibt_hdl: ibt_clnt_hdl_t,
    hca_guid: ib_guid_t,
    hca_hdl: *mut ibt_hca_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let client = hdl!(cx, ibtl.clients, ibt_hdl, IBT_INVALID_PARAM);
    match client.open(hca_guid) {
        Some(open) => {
            out!(hca_hdl, open.handle.get());
            IBT_SUCCESS
        }
        None => IBT_HCA_INVALID,
    }
}

unsafe extern "C" fn ibt_set_hca_private(hca_hdl: ibt_hca_hdl_t, clnt_private: *mut c_void) {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.opens, hca_hdl).private.set(clnt_private);
}

unsafe extern "C" fn ibt_get_hca_private(hca_hdl: ibt_hca_hdl_t) -> *mut c_void {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    hdl!(cx, ibtl.opens, hca_hdl, std::ptr::null_mut()).private.get()
}
