//! `ibt_get_paths`, `ibt_aget_paths`.

use std::ffi::{c_char, c_void};

use fakekernel::{Account, Export, FaultKind, Kernel, TaskFlag, cx, export, system_taskq};
use illumos_sys_hdrs::{
    IBT_INSUFF_KERNEL_RESOURCE, IBT_INSUFF_RESOURCE, IBT_INVALID_PARAM, IBT_PATH_HOP, IBT_SUCCESS,
    ibt_clnt_hdl_t, ibt_path_attr_t, ibt_path_flags_t, ibt_path_handler_t, ibt_path_info_t, ibt_status_t,
};

use super::group::bound;
use super::path::{Path, Wanted};
use super::{Ibcm, units};
use crate::convert::gid_from_c;
use crate::ibtl::{Ibtl, Opaque, call, hdl};
use crate::ptr::{elements, load, set_element, store};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_get_paths;
        UKS: ibt_aget_paths;
    }
}

unsafe extern "C" fn ibt_get_paths(
    ibt_hdl: ibt_clnt_hdl_t,
    flags: ibt_path_flags_t,
    attr: *mut ibt_path_attr_t,
    max_paths: u8,
    paths: *mut ibt_path_info_t,
    num_paths_p: *mut u8,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let _client = hdl!(cx, ibtl.clients, ibt_hdl, IBT_INVALID_PARAM);
    // SAFETY: the caller's attributes and what they point to stay as they are during the call.
    let wanted = match unsafe { wanted(flags, attr, max_paths) } {
        Ok(wanted) if !paths.is_null() => wanted,
        Ok(_) => return IBT_INVALID_PARAM,
        Err(status) => return status,
    };
    let (status, found) = match cx.fault(FaultKind("ibt_get_paths")) {
        true => (IBT_INSUFF_RESOURCE, Vec::new()),
        false => Ibcm::of(cx.kernel()).get_paths(&wanted),
    };
    // SAFETY: the caller's array has room for `max_paths`, and no more are found.
    unsafe { fill(paths, &found) };
    // SAFETY: the caller's own variable, or NULL.
    unsafe { store(num_paths_p, found.len() as u8) };
    status
}

unsafe extern "C" fn ibt_aget_paths(
    ibt_hdl: ibt_clnt_hdl_t,
    flags: ibt_path_flags_t,
    attr: *mut ibt_path_attr_t,
    max_paths: u8,
    func: ibt_path_handler_t,
    arg: *mut c_void,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let _client = hdl!(cx, ibtl.clients, ibt_hdl, IBT_INVALID_PARAM);
    // SAFETY: the caller's attributes and what they point to stay as they are during the call.
    let wanted = match unsafe { wanted(flags, attr, max_paths) } {
        Ok(wanted) => wanted,
        Err(status) => return status,
    };
    let Some(func) = func else { return IBT_INVALID_PARAM };
    if cx.fault(FaultKind::KMEM) || cx.fault(FaultKind::TASKQ) {
        return IBT_INSUFF_KERNEL_RESOURCE;
    }
    let (arg, kernel) = (Opaque::of(arg), cx.kernel().clone());
    let account = Account::of(&cx, "ibt_aget_paths");
    system_taskq(cx.kernel()).dispatch(TaskFlag::NoSleep, account, move || {
        let (status, found) = Ibcm::of(&kernel).get_paths(&wanted);
        let array = hand_over(&kernel, &found);
        call(&kernel, func, (arg.get(), status, array, found.len() as u8), "path handler");
    });
    IBT_SUCCESS
}

/// The paths in an array that the client frees with `kmem_free`; NULL if there are none.
fn hand_over(kernel: &Kernel, found: &[Path]) -> *mut ibt_path_info_t {
    if found.is_empty() {
        return std::ptr::null_mut();
    }
    let size = size_of::<ibt_path_info_t>() * found.len();
    let array: *mut ibt_path_info_t = kernel.genunix().kmem_zalloc_for_module(size).cast();
    // SAFETY: the array was made for so many paths, and nobody else knows it yet.
    unsafe { fill(array, found) };
    array
}

/// Stores paths in an array.
///
/// # Safety
///
/// `array` has room for all of them, and nobody else touches it meanwhile.
unsafe fn fill(array: *mut ibt_path_info_t, found: &[Path]) {
    for (at, path) in found.iter().enumerate() {
        // SAFETY: by this function's contract.
        unsafe { set_element(array, at, path.to_c()) };
    }
}

/// What the client asks for, copied: nothing of it is looked at later.
///
/// # Safety
///
/// `attr` is NULL or points to attributes whose array of GIDs has as many as they say and whose name ends with a zero byte.
unsafe fn wanted(
    flags: ibt_path_flags_t,
    attr: *const ibt_path_attr_t,
    max: u8,
) -> Result<Wanted, ibt_status_t> {
    // SAFETY: by this function's contract.
    let attr = unsafe { load(attr) }.ok_or(IBT_INVALID_PARAM)?;
    // SAFETY: by this function's contract.
    let dgids = unsafe { elements(attr.pa_dgids, attr.pa_num_dgids.into()) };
    let service_name = if attr.pa_sname.is_null() {
        None
    } else {
        // SAFETY: by this function's contract.
        Some(unsafe { name(attr.pa_sname) }.ok_or(IBT_INVALID_PARAM)?)
    };
    let lifetime = match attr.pa_pkt_lt.p_pkt_lt {
        0 => Default::default(),
        usec => bound(units::usec_to_ib(usec).into(), attr.pa_pkt_lt.p_selector),
    };
    let wanted = Wanted {
        flags: flags.0,
        dgids: dgids.into_iter().map(gid_from_c).collect(),
        sgid: gid_from_c(attr.pa_sgid),
        hca: attr.pa_hca_guid,
        port: attr.pa_hca_port_num,
        service_name,
        service_id: attr.pa_sid,
        p_key: attr.pa_pkey,
        sl: attr.pa_sl(),
        flow_label: attr.pa_flow(),
        hop_limit: if flags.0 & IBT_PATH_HOP.0 != 0 { attr.pa_hop } else { 0 },
        t_class: attr.pa_tclass,
        mtu: bound(attr.pa_mtu.r_mtu.0, attr.pa_mtu.r_selector),
        rate: bound(attr.pa_srate.r_srate.0, attr.pa_srate.r_selector),
        lifetime,
        max,
    };
    wanted.check()?;
    Ok(wanted)
}

/// A service's name, padded with zero bytes; `None` if it is longer than 63 bytes.
///
/// # Safety
///
/// `at` points to a text that ends with a zero byte, or goes on for 64 bytes.
pub(super) unsafe fn name(at: *const c_char) -> Option<[u8; 64]> {
    let mut text = [0; 64];
    for (n, byte) in text.iter_mut().enumerate() {
        // SAFETY: by this function's contract: no zero byte came so far.
        *byte = unsafe { crate::ptr::element(at, n) } as u8;
        if *byte == 0 {
            return Some(text);
        }
    }
    None
}
