//! `ddi_soft_state_init(9F)` (rule 27).

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use sim::{FaultKind, HostMutex, Rule};

use super::super::Genunix;
use super::super::console::Level;
use super::super::heap::{Fill, Kind};
use super::super::kmem;
use super::super::origin::Origin;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::errno::Errno;
use crate::loader::export::Export;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ddi_soft_state_init, ddi_soft_state_zalloc, ddi_soft_state_free, ddi_soft_state_fini;
        ANY: ddi_get_soft_state;
    }
}

const FAILURE: c_int = -1;

/// A driver's table of per-instance state.
#[derive(Debug)]
pub(super) struct SoftState {
    size: usize,
    items: HostMutex<BTreeMap<c_int, usize>>,
}

fn find(cx: &Cx, genunix: &Genunix, handle: *mut c_void) -> Option<Arc<SoftState>> {
    if handle.is_null() {
        return None;
    }
    match genunix.devices.soft_states.get(handle) {
        Ok(state) => Some(state),
        Err(error) => {
            cx.violate(Rule::BadSoftState, error.to_string());
            None
        }
    }
}

fn warn(cx: &Cx, genunix: &Genunix, what: &str) {
    genunix.cmn_err(cx, Level::Warning, what);
}

unsafe extern "C" fn ddi_soft_state_init(handle: *mut *mut c_void, size: usize, _hint: usize) -> c_int {
    let cx = cx();
    cx.may_block();
    if handle.is_null() || size == 0 {
        return Errno::EINVAL.0;
    }
    let state = SoftState { size, items: HostMutex::new(BTreeMap::new()) };
    let new = cx.kernel().genunix().devices.soft_states.insert(state);
    cx.kernel().resources().add("soft state", new.addr() as u64, format!("{size} bytes per instance"));
    // SAFETY: ddi_soft_state_init(9F): a place for the handle, not null.
    unsafe { handle.write(new) };
    0
}

unsafe extern "C" fn ddi_soft_state_zalloc(handle: *mut c_void, item: c_int) -> c_int {
    let cx = cx();
    cx.may_block();
    let genunix = cx.kernel().genunix();
    let Some(state) = find(&cx, &genunix, handle) else { return FAILURE };
    if item < 0 || cx.fault(FaultKind::DDI) {
        return FAILURE;
    }
    if state.items.lock().contains_key(&item) {
        cx.violate(Rule::BadSoftState, format!("soft state {item} is allocated although it exists"));
        return FAILURE;
    }
    let Some(mem) = genunix.memory.alloc(state.size, 8, Kind::Lab, Fill::Zero, Origin::of(&cx)) else {
        return FAILURE;
    };
    state.items.lock().insert(item, mem.addr());
    cx.kernel().resources().add("soft state item", mem.addr() as u64, format!("instance {item}"));
    0
}

unsafe extern "C" fn ddi_get_soft_state(handle: *mut c_void, item: c_int) -> *mut c_void {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let state = find(&cx, &genunix, handle);
    let addr = state.and_then(|state| state.items.lock().get(&item).copied());
    addr.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

unsafe extern "C" fn ddi_soft_state_free(handle: *mut c_void, item: c_int) {
    let cx = cx();
    cx.may_block();
    let genunix = cx.kernel().genunix();
    if handle.is_null() {
        return warn(&cx, &genunix, "ddi_soft_state_free: null handle");
    }
    let Some(state) = find(&cx, &genunix, handle) else { return };
    let removed = state.items.lock().remove(&item);
    match removed {
        Some(addr) => free_item(&cx, &genunix, &state, addr),
        None => cx.violate(Rule::BadSoftState, format!("soft state {item} is freed although there is none")),
    }
}

fn free_item(cx: &Cx, genunix: &Genunix, state: &SoftState, addr: usize) {
    kmem::nothing_lives_in(cx, addr, state.size);
    if let Err(fault) = genunix.memory.free(addr, Some(state.size), Kind::Lab, Origin::of(cx)) {
        kmem::report(cx, "a soft state item", &fault);
    }
    cx.kernel().resources().remove("soft state item", addr as u64);
}

unsafe extern "C" fn ddi_soft_state_fini(handle: *mut *mut c_void) {
    let cx = cx();
    cx.may_block();
    let genunix = cx.kernel().genunix();
    // SAFETY: ddi_soft_state_fini(9F): the place the handle is kept, or null.
    let state = if handle.is_null() { ptr::null_mut() } else { unsafe { handle.read() } };
    if state.is_null() {
        return warn(&cx, &genunix, "ddi_soft_state_fini: null handle");
    }
    let Some(table) = find(&cx, &genunix, state) else { return };
    let items: Vec<usize> = std::mem::take(&mut *table.items.lock()).into_values().collect();
    items.into_iter().for_each(|addr| free_item(&cx, &genunix, &table, addr));
    if genunix.devices.soft_states.remove(state).is_ok() {
        cx.kernel().resources().remove("soft state", state.addr() as u64);
    }
    // SAFETY: not null, and the caller's place for the handle.
    unsafe { handle.write(ptr::null_mut()) };
}
