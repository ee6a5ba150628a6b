//! `ddi_prop_*(9F)`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use illumos_sys_hdrs::{caddr_t, ddi_prop_op_t, dev_info_t, dev_t, uint_t};
use sim::Rule;

use super::super::heap::{Fill, Kind};
use super::super::kmem;
use super::super::origin::Origin;
use super::node::DevInfo;
use super::property::{CANSLEEP, DONTPASS, NOTPROM, Value, as_int, as_int64};
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::mem::{Mem, c_string};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ddi_prop_get_int, ddi_prop_get_int64, ddi_prop_exists, ddi_prop_lookup_string, ddi_prop_lookup_int_array,
            ddi_prop_free, ddi_prop_update_int, ddi_prop_update_int64, ddi_prop_update_int_array, ddi_prop_update_string,
            ddi_prop_remove, ddi_prop_remove_all, ddi_prop_op;
    }
}

const SUCCESS: c_int = 0;
const NOT_FOUND: c_int = 1;
const INVALID: c_int = 4;
const CANNOT_DECODE: c_int = 6;
/// What `ddi_prop_get_int*` answers to flags it does not know.
const BAD_FLAGS: i64 = 4;

/// A caller's request, its arguments read.
struct Request {
    cx: Cx,
    device: Option<DevInfo>,
    name: String,
}

impl Request {
    /// # Safety
    ///
    /// `name` is a string.
    unsafe fn new(dip: *mut dev_info_t, name: *mut c_char) -> Self {
        let cx = cx();
        cx.may_block();
        // SAFETY: by contract.
        let name = String::from_utf8_lossy(&unsafe { c_string(name, None) }).into_owned();
        let device = cx.kernel().device(&cx, dip);
        Self { cx, device, name }
    }

    /// The value: the node's, or else its driver's, or (unless told not to) that of a node above.
    fn find(&self, flags: uint_t) -> Option<Value> {
        let mut node = self.device.clone();
        let genunix = self.cx.kernel().genunix();
        while let Some(device) = node {
            if let Some(value) = device.node.state.lock().properties.get(&self.name) {
                return Some(value.clone());
            }
            if let Some(value) = genunix.devices.global_property(device.driver(), &self.name) {
                return Some(value);
            }
            node = device.node.spec.parent.clone().filter(|_| flags & DONTPASS == 0);
        }
        None
    }

    fn update(&self, value: Value) -> c_int {
        let Some(device) = &self.device else { return INVALID };
        if self.name.is_empty() {
            return INVALID;
        }
        device.with_properties(|properties| properties.update(&self.name, value));
        SUCCESS
    }

    fn bad_flags(&self, flags: uint_t) -> bool {
        let bad = flags & !(DONTPASS | CANSLEEP | NOTPROM) != 0;
        self.cx
            .check(!bad, Rule::AbsurdArgument, || format!("flags {flags:#x} for property '{}'", self.name));
        bad
    }

    /// A block the module frees with `ddi_prop_free`.
    fn give(&self, bytes: &[u8]) -> *mut c_void {
        let genunix = self.cx.kernel().genunix();
        let Some(mem) = genunix.memory.alloc(bytes.len(), 8, Kind::Lab, Fill::Zero, Origin::of(&self.cx))
        else {
            return ptr::null_mut();
        };
        mem.put(bytes);
        self.cx.kernel().resources().add("property value", mem.addr() as u64, self.name.clone());
        mem.start().as_ptr().cast()
    }
}

unsafe extern "C" fn ddi_prop_get_int(
    _dev: dev_t,
    dip: *mut dev_info_t,
    flags: uint_t,
    name: *mut c_char,
    default: c_int,
) -> c_int {
    // SAFETY: ddi_prop_get_int(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    if request.bad_flags(flags) {
        return BAD_FLAGS as c_int;
    }
    request.find(flags).as_ref().and_then(as_int).unwrap_or(default)
}

unsafe extern "C" fn ddi_prop_get_int64(
    _dev: dev_t,
    dip: *mut dev_info_t,
    flags: uint_t,
    name: *mut c_char,
    default: i64,
) -> i64 {
    // SAFETY: ddi_prop_get_int64(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    if request.bad_flags(flags) {
        return BAD_FLAGS;
    }
    request.find(flags).as_ref().and_then(as_int64).unwrap_or(default)
}

unsafe extern "C" fn ddi_prop_exists(
    _dev: dev_t,
    dip: *mut dev_info_t,
    flags: uint_t,
    name: *mut c_char,
) -> c_int {
    // SAFETY: ddi_prop_exists(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    request.find(flags).is_some().into()
}

unsafe extern "C" fn ddi_prop_lookup_string(
    _dev: dev_t,
    dip: *mut dev_info_t,
    flags: uint_t,
    name: *mut c_char,
    out: *mut *mut c_char,
) -> c_int {
    // SAFETY: ddi_prop_lookup_string(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    let text = match request.find(flags) {
        // Of several the first one.
        Some(Value::Strings(texts)) => texts.into_iter().next().map(Value::String),
        other => other,
    };
    match text {
        Some(Value::String(text)) => {
            let copy = request.give(&[text.as_bytes(), b"\0"].concat());
            // SAFETY: ddi_prop_lookup_string(9F): a place for the pointer.
            unsafe { out.write(copy.cast()) };
            SUCCESS
        }
        Some(_) => CANNOT_DECODE,
        None => NOT_FOUND,
    }
}

unsafe extern "C" fn ddi_prop_lookup_int_array(
    _dev: dev_t,
    dip: *mut dev_info_t,
    flags: uint_t,
    name: *mut c_char,
    out: *mut *mut c_int,
    count: *mut uint_t,
) -> c_int {
    // SAFETY: ddi_prop_lookup_int_array(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    match request.find(flags) {
        Some(Value::Int(values)) => {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            let copy = request.give(&bytes);
            // SAFETY: ddi_prop_lookup_int_array(9F): a place for the pointer.
            unsafe { out.write(copy.cast()) };
            // SAFETY: and one for the count.
            unsafe { count.write(values.len() as uint_t) };
            SUCCESS
        }
        Some(_) => CANNOT_DECODE,
        None => NOT_FOUND,
    }
}

unsafe extern "C" fn ddi_prop_free(data: *mut c_void) {
    let cx = cx();
    if data.is_null() {
        return;
    }
    let genunix = cx.kernel().genunix();
    if let Err(fault) = genunix.memory.free(data.addr(), None, Kind::Lab, Origin::of(&cx)) {
        kmem::report(&cx, "ddi_prop_free", &fault);
    }
    cx.kernel().resources().remove("property value", data.addr() as u64);
}

unsafe extern "C" fn ddi_prop_update_int(
    _dev: dev_t,
    dip: *mut dev_info_t,
    name: *mut c_char,
    value: c_int,
) -> c_int {
    // SAFETY: ddi_prop_update_int(9F): a string.
    unsafe { Request::new(dip, name) }.update(value.into())
}

unsafe extern "C" fn ddi_prop_update_int64(
    _dev: dev_t,
    dip: *mut dev_info_t,
    name: *mut c_char,
    value: i64,
) -> c_int {
    // SAFETY: ddi_prop_update_int64(9F): a string.
    unsafe { Request::new(dip, name) }.update(value.into())
}

unsafe extern "C" fn ddi_prop_update_int_array(
    _dev: dev_t,
    dip: *mut dev_info_t,
    name: *mut c_char,
    data: *mut c_int,
    count: uint_t,
) -> c_int {
    // SAFETY: ddi_prop_update_int_array(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    // SAFETY: and `count` integers.
    let bytes = unsafe { Mem::of(data, count as usize * 4) }.get();
    let values = bytes.chunks_exact(4).map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect();
    request.update(Value::Int(values))
}

unsafe extern "C" fn ddi_prop_update_string(
    _dev: dev_t,
    dip: *mut dev_info_t,
    name: *mut c_char,
    value: *mut c_char,
) -> c_int {
    // SAFETY: ddi_prop_update_string(9F): a string for the name.
    let request = unsafe { Request::new(dip, name) };
    // SAFETY: and one for the value.
    let text = unsafe { c_string(value, None) };
    request.update(Value::String(String::from_utf8_lossy(&text).into_owned()))
}

unsafe extern "C" fn ddi_prop_remove(_dev: dev_t, dip: *mut dev_info_t, name: *mut c_char) -> c_int {
    // SAFETY: ddi_prop_remove(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    let removed = request.device.as_ref().is_some_and(|d| d.with_properties(|p| p.remove(&request.name)));
    if removed { SUCCESS } else { NOT_FOUND }
}

unsafe extern "C" fn ddi_prop_remove_all(dip: *mut dev_info_t) {
    let cx = cx();
    cx.may_block();
    if let Some(device) = cx.kernel().device(&cx, dip) {
        device.with_properties(super::property::Properties::remove_all);
    }
}

/// The old interface, which drivers name in `cb_prop_op`: only whether a property is there can be asked (`PROP_EXISTS`).
unsafe extern "C" fn ddi_prop_op(
    _dev: dev_t,
    dip: *mut dev_info_t,
    op: ddi_prop_op_t,
    flags: c_int,
    name: *mut c_char,
    _value: caddr_t,
    length: *mut c_int,
) -> c_int {
    const PROP_EXISTS: u32 = 4;
    // SAFETY: ddi_prop_op(9F): a string.
    let request = unsafe { Request::new(dip, name) };
    match request.find(flags as uint_t) {
        None => NOT_FOUND,
        Some(Value::Boolean) if op.0 == PROP_EXISTS => {
            // SAFETY: ddi_prop_op(9F): a place for the length.
            unsafe { length.write(0) };
            SUCCESS
        }
        Some(_) => CANNOT_DECODE,
    }
}
