//! `ibt_join_mcg`, `ibt_leave_mcg`, `ibt_query_mcg`, `ibt_free_mcg_info`.

use std::ffi::c_void;

use fakekernel::{Account, Export, FaultKind, TaskFlag, cx, export, system_taskq};
use illumos_sys_hdrs::{
    IBT_INSUFF_KERNEL_RESOURCE, IBT_INSUFF_RESOURCE, IBT_INVALID_PARAM, IBT_MCG_RECORDS_NOT_FOUND,
    IBT_SUCCESS, ib_gid_t, ibt_mcg_attr_t, ibt_mcg_handler_t, ibt_mcg_info_t, ibt_status_t, uint_t,
};
use sm::JoinState;

use super::Ibcm;
use super::group::Join;
use crate::convert::gid_from_c;
use crate::ibtl::{Opaque, call};
use crate::os;
use crate::ptr::{load, set_element, store};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_join_mcg, ibt_leave_mcg, ibt_query_mcg, ibt_free_mcg_info;
    }
}

unsafe extern "C" fn ibt_join_mcg(
    rgid: ib_gid_t,
    mcg_attr: *mut ibt_mcg_attr_t,
    mcg_info_p: *mut ibt_mcg_info_t,
    func: ibt_mcg_handler_t,
    arg: *mut c_void,
) -> ibt_status_t {
    let cx = cx();
    if func.is_none() {
        cx.may_block();
    }
    // SAFETY: the caller's attributes, or NULL; they stay as they are during the call.
    let Some(attr) = (unsafe { load(mcg_attr) }) else { return IBT_INVALID_PARAM };
    if mcg_info_p.is_null() {
        return IBT_INVALID_PARAM;
    }
    let ibcm = Ibcm::of(cx.kernel());
    let join = match Join::check(&ibcm, gid_from_c(rgid), &attr) {
        Ok(join) => join,
        Err(status) => return status,
    };
    let Some(func) = func else {
        if cx.fault(FaultKind("ibt_join_mcg")) {
            return IBT_INSUFF_RESOURCE;
        }
        // SAFETY: the caller waits in this call for `mcg_info_p` to be filled.
        return unsafe { finish(join.run(&ibcm), mcg_info_p) };
    };
    if cx.fault(FaultKind::TASKQ) {
        return IBT_INSUFF_KERNEL_RESOURCE;
    }
    let (info, arg, kernel) = (Opaque::of(mcg_info_p), Opaque::of(arg), cx.kernel().clone());
    let account = Account::of(&cx, "ibt_join_mcg");
    system_taskq(cx.kernel()).dispatch(TaskFlag::NoSleep, account, move || {
        let info: *mut ibt_mcg_info_t = info.get().cast();
        // SAFETY: the interface has the client keep `mcg_info_p` valid until its handler is called.
        let status = unsafe { finish(join.run(&ibcm), info) };
        call(&kernel, func, (arg.get(), status, info), "multicast join handler");
    });
    IBT_SUCCESS
}

/// Stores what a join came to.
///
/// # Safety
///
/// `info` points to memory for the result that nobody else touches meanwhile.
unsafe fn finish(result: Result<ibt_mcg_info_t, ibt_status_t>, info: *mut ibt_mcg_info_t) -> ibt_status_t {
    match result {
        Ok(group) => {
            // SAFETY: by this function's contract.
            unsafe { store(info, group) };
            IBT_SUCCESS
        }
        Err(status) => status,
    }
}

unsafe extern "C" fn ibt_leave_mcg(
    rgid: ib_gid_t,
    mc_gid: ib_gid_t,
    port_gid: ib_gid_t,
    mc_join_state: u8,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let (rgid, mgid, port) = (gid_from_c(rgid), gid_from_c(mc_gid), gid_from_c(port_gid));
    match Ibcm::of(cx.kernel()).leave(rgid, mgid, port, JoinState::truncating(mc_join_state)) {
        Ok(()) => IBT_SUCCESS,
        Err(status) => status,
    }
}

unsafe extern "C" fn ibt_query_mcg(
    rgid: ib_gid_t,
    mcg_attr: *mut ibt_mcg_attr_t,
    mcgs_max_num: uint_t,
    mcgs_info_p: *mut *mut ibt_mcg_info_t,
    entries_p: *mut uint_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    if cx.fault(FaultKind("ibt_query_mcg")) {
        return IBT_INSUFF_RESOURCE;
    }
    if mcgs_info_p.is_null() || entries_p.is_null() {
        return IBT_INVALID_PARAM;
    }
    // SAFETY: the caller's attributes, or NULL; they stay as they are during the call.
    let attr = unsafe { load(mcg_attr) };
    let found = Ibcm::of(cx.kernel()).query_groups(gid_from_c(rgid), attr.as_ref(), mcgs_max_num as usize);
    let groups = match found {
        Ok(groups) => groups,
        Err(status) => {
            if status == IBT_MCG_RECORDS_NOT_FOUND {
                // SAFETY: the caller's own variable, not NULL. Other failures leave it as it is.
                unsafe { store(entries_p, 0) };
            }
            return status;
        }
    };
    let block: *mut ibt_mcg_info_t = os::alloc(&cx, size_of::<ibt_mcg_info_t>() * groups.len()).cast();
    for (at, group) in groups.iter().enumerate() {
        // SAFETY: the block has room for as many as there are groups, and nobody else knows it yet.
        unsafe { set_element(block, at, *group) };
    }
    // SAFETY: the caller's own variable, not NULL.
    unsafe { store(mcgs_info_p, block) };
    // SAFETY: as above.
    unsafe { store(entries_p, groups.len() as uint_t) };
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_free_mcg_info(mcgs_info: *mut ibt_mcg_info_t, entries: uint_t) {
    let cx = cx();
    os::take_back(&cx, mcgs_info.cast(), size_of::<ibt_mcg_info_t>() * entries as usize);
}
