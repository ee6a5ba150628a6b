//! Which partition a datalink is: one pair of callbacks per host, called with the part-attribute mutex held.

use super::events::call;
use super::{Ibtl, out};
use crate::os;
use crate::status::*;
use fakekernel::{Export, Kernel, SleepMutex, cx, export};
use illumos_sys_hdrs::{datalink_id_t, ibt_part_attr_t, ibt_status_t};
use std::ffi::c_int;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_register_part_attr_cb, ibt_unregister_part_attr_cb, ibt_get_part_attr, ibt_get_all_part_attr,
            ibt_free_part_attr;
    }
}

type Get = unsafe extern "C" fn(datalink_id_t, *mut ibt_part_attr_t) -> ibt_status_t;
type GetAll = unsafe extern "C" fn(*mut *mut ibt_part_attr_t, *mut c_int) -> ibt_status_t;

/// The pair, under the mutex that is held across their calls.
pub(super) struct Callbacks(SleepMutex<(Option<Get>, Option<GetAll>)>);

impl Callbacks {
    pub(super) fn new() -> Self {
        Callbacks(SleepMutex::new("ibtl part_attr_mutex", (None, None)))
    }
}

unsafe extern "C" fn ibt_register_part_attr_cb(get: Option<Get>, get_all: Option<GetAll>) {
    let cx = cx();
    cx.may_block();
    *Ibtl::of(cx.kernel()).partitions.0.lock() = (get, get_all);
}

unsafe extern "C" fn ibt_unregister_part_attr_cb() {
    let cx = cx();
    cx.may_block();
    // The mutex is held across a call, so nobody is in one once this has it.
    *Ibtl::of(cx.kernel()).partitions.0.lock() = (None, None);
}

unsafe extern "C" fn ibt_get_part_attr(linkid: datalink_id_t, attr: *mut ibt_part_attr_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let callbacks = ibtl.partitions.0.lock();
    match callbacks.0 {
        Some(get) => call(cx.kernel(), get, (linkid, attr), "partition attributes"),
        None => IBT_NO_SUCH_OBJECT,
    }
}

unsafe extern "C" fn ibt_get_all_part_attr(attrs: *mut *mut ibt_part_attr_t, n: *mut c_int) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let callbacks = ibtl.partitions.0.lock();
    match callbacks.1 {
        Some(get_all) => call(cx.kernel(), get_all, (attrs, n), "all partition attributes"),
        None => {
            out!(attrs, std::ptr::null_mut());
            out!(n, 0);
            IBT_SUCCESS
        }
    }
}

/// Every partition that the driver tells of, for the lab's own communication manager. May block.
pub(crate) fn all_partitions(kernel: &Kernel) -> Vec<ibt_part_attr_t> {
    let ibtl = Ibtl::of(kernel);
    let callbacks = ibtl.partitions.0.lock();
    let Some(get_all) = callbacks.1 else { return Vec::new() };
    let (mut attrs, mut n) = (std::ptr::null_mut(), 0);
    if call(kernel, get_all, (&raw mut attrs, &raw mut n), "all partition attributes") != IBT_SUCCESS {
        return Vec::new();
    }
    let n = usize::try_from(n).unwrap_or(0);
    // SAFETY: the driver answered with an array of `n` records that is the caller's from now on, or with NULL.
    let found = unsafe { crate::ptr::elements(attrs.cast_const(), n) };
    if !attrs.is_null() {
        kernel.genunix().kmem_free_for_module(attrs.addr(), n * size_of::<ibt_part_attr_t>());
    }
    found
}

unsafe extern "C" fn ibt_free_part_attr(attrs: *mut ibt_part_attr_t, n: c_int) -> ibt_status_t {
    let cx = cx();
    let n = usize::try_from(n).unwrap_or(0);
    os::take_back(&cx, attrs.cast(), n * size_of::<ibt_part_attr_t>());
    IBT_SUCCESS
}
