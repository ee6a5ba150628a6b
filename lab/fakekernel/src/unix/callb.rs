//! Suspend and resume callbacks (`callb_add`, CPR).

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use illumos_sys_hdrs::{boolean_t, callb_cpr_t, callb_id_t};
use sim::HostMutex;

use crate::export;
use crate::loader::cx::cx;
use crate::loader::entry::EntryKind;
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::services::LiveObject;
use crate::unix::sync;

type Callback = unsafe extern "C" fn(*mut c_void, c_int) -> boolean_t;

const CPR_START: i8 = 1;
const CODE_RESUME: c_int = 1;

#[derive(Default)]
struct Callbacks(HostMutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Clone)]
struct Entry {
    callback: Callback,
    arg: usize,
    class: c_int,
    name: String,
}

pub(crate) fn exports() -> Vec<Export> {
    export! {
        UK: callb_add, callb_delete, callb_generic_cpr;
    }
}

fn callbacks(kernel: &Kernel) -> Arc<Callbacks> {
    kernel.state(Callbacks::default)
}

/// A callback whose argument lies in the range.
pub(crate) fn live_in(kernel: &Kernel, start: usize, len: usize) -> Option<LiveObject> {
    let range = start..start.saturating_add(len);
    let callbacks = callbacks(kernel);
    let state = callbacks.0.lock();
    let hit = state.entries.values().find(|e| range.contains(&e.arg))?;
    Some(LiveObject { addr: hit.arg, what: format!("the argument of callback '{}'", hit.name), busy: true })
}

unsafe extern "C" fn callb_add(
    callback: Option<Callback>,
    arg: *mut c_void,
    class: c_int,
    name: *mut c_char,
) -> callb_id_t {
    let cx = cx();
    cx.may_block();
    let Some(callback) = callback else { cx.panic("callb_add: no callback") };
    let kernel = cx.kernel();
    // SAFETY: a C string of the module.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    // CALLB_CPR_INIT zeroes the structure and calls this: its condition variables begin a new life.
    kernel.locks().revive_cvs(arg.addr(), size_of::<callb_cpr_t>());
    let callbacks = callbacks(kernel);
    let id = {
        let mut state = callbacks.0.lock();
        state.last += 1;
        let id = state.last;
        let entry = Entry { callback, arg: arg.expose_provenance(), class, name: name.clone() };
        state.entries.insert(id, entry);
        id
    };
    kernel.resources().add_for(&cx, "callb", id, name);
    std::ptr::without_provenance_mut(id as usize)
}

unsafe extern "C" fn callb_delete(id: callb_id_t) -> c_int {
    let (cx, id) = (cx(), id.addr() as u64);
    cx.may_block();
    let known = callbacks(cx.kernel()).0.lock().entries.remove(&id).is_some();
    cx.kernel().resources().remove("callb", id);
    if known { 0 } else { -1 }
}

unsafe extern "C" fn callb_generic_cpr(arg: *mut c_void, code: c_int) -> boolean_t {
    let cx = cx();
    let cpr = arg.cast::<callb_cpr_t>();
    // SAFETY: registered with a `callb_cpr_t`, which lives until `callb_delete`.
    let lock = unsafe { (*cpr).cc_lockp }.cast();
    sync::lock_for(&cx, lock);
    // SAFETY: as above.
    let events = unsafe { &raw mut (*cpr).cc_events };
    // SAFETY: as above, and its lock is held.
    let before = unsafe { events.read() };
    let after = if code == CODE_RESUME { before & !CPR_START } else { before | CPR_START };
    // SAFETY: as above.
    unsafe { events.write(after) };
    if code == CODE_RESUME {
        // SAFETY: as above.
        let stop_cv = unsafe { &raw mut (*cpr).cc_stop_cv };
        sync::wake_all(&cx, stop_cv.cast());
    }
    sync::unlock_for(&cx, lock);
    boolean_t(1)
}

impl Kernel {
    /// Runs every callback of a class (0 is CPR's) as suspend (`code` 0) or resume (1) would; the names of those that refused.
    pub fn run_callbacks(&self, class: i32, code: i32) -> Vec<String> {
        let entries: Vec<Entry> = callbacks(self).0.lock().entries.values().cloned().collect();
        let mut refused = Vec::new();
        for entry in entries.into_iter().filter(|e| e.class == class) {
            let arg = std::ptr::with_exposed_provenance_mut(entry.arg);
            let kind = EntryKind::callback("callb");
            // SAFETY: the module gave callback and argument for each other.
            if unsafe { self.enter(entry.callback, (arg, code), kind) } == boolean_t(0) {
                refused.push(entry.name);
            }
        }
        refused
    }
}
