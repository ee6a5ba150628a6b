//! The lists and hashes of a driver, and the memory of what is in them.

use std::ffi::{c_int, c_void};
use std::ptr;

use fakekernel::genunix::HashShown;
use fakekernel::{Export, export};
use illumos_sys_hdrs::{kmem_cache_t, list_node_t, list_t, mod_hash_key_t, mod_hash_t, mod_hash_val_t};

use crate::hashes;
use crate::processor::with;

const NOT_FOUND: c_int = -3;
const DUPLICATE: c_int = -2;

pub(super) fn exports() -> Vec<Export> {
    export! {
        ANY: list_head, list_tail, list_next, list_prev, list_insert_head, list_insert_tail, list_remove, kmem_cache_alloc,
            kmem_cache_free, mod_hash_find, mod_hash_insert, mod_hash_remove;
    }
}

/// Where the head of a list is, and where the node of an object in it.
///
/// # Safety
///
/// A live list of the driver's.
unsafe fn places(list: *mut list_t, object: *mut c_void) -> (*mut list_node_t, *mut list_node_t) {
    // SAFETY: by this function's contract.
    let offset = unsafe { (*list).list_offset };
    // SAFETY: as above.
    (unsafe { &raw mut (*list).list_head }, object.wrapping_byte_add(offset).cast())
}

/// The object around a node, null for the head.
///
/// # Safety
///
/// As for [`places`].
unsafe fn object(list: *mut list_t, node: *mut list_node_t) -> *mut c_void {
    // SAFETY: by this function's contract.
    let (head, _) = unsafe { places(list, ptr::null_mut()) };
    if node == head {
        return ptr::null_mut();
    }
    // SAFETY: as above.
    node.wrapping_byte_sub(unsafe { (*list).list_offset }).cast()
}

unsafe extern "C" fn list_head(list: *mut list_t) -> *mut c_void {
    // SAFETY: list_head(9F): a live list.
    let (head, _) = unsafe { places(list, ptr::null_mut()) };
    // SAFETY: as above.
    let found = unsafe { (*head).list_next };
    // SAFETY: as above.
    unsafe { object(list, found) }
}

unsafe extern "C" fn list_tail(list: *mut list_t) -> *mut c_void {
    // SAFETY: list_tail(9F): a live list.
    let (head, _) = unsafe { places(list, ptr::null_mut()) };
    // SAFETY: as above.
    let found = unsafe { (*head).list_prev };
    // SAFETY: as above.
    unsafe { object(list, found) }
}

unsafe extern "C" fn list_next(list: *mut list_t, of: *mut c_void) -> *mut c_void {
    // SAFETY: list_next(9F): a live list with the object in it.
    let (_, node) = unsafe { places(list, of) };
    // SAFETY: as above.
    let found = unsafe { (*node).list_next };
    // SAFETY: as above.
    unsafe { object(list, found) }
}

unsafe extern "C" fn list_prev(list: *mut list_t, of: *mut c_void) -> *mut c_void {
    // SAFETY: list_prev(9F): a live list with the object in it.
    let (_, node) = unsafe { places(list, of) };
    // SAFETY: as above.
    let found = unsafe { (*node).list_prev };
    // SAFETY: as above.
    unsafe { object(list, found) }
}

/// # Safety
///
/// Both are nodes of one live list, and `new` is in none.
unsafe fn link(before: *mut list_node_t, new: *mut list_node_t) {
    // SAFETY: by this function's contract.
    let after = unsafe { (*before).list_next };
    // SAFETY: as above.
    unsafe { new.write(list_node_t { list_next: after, list_prev: before }) };
    // SAFETY: as above.
    unsafe { (*before).list_next = new };
    // SAFETY: as above.
    unsafe { (*after).list_prev = new };
}

unsafe extern "C" fn list_insert_head(list: *mut list_t, new: *mut c_void) {
    // SAFETY: list_insert_head(9F): a live list and an object in none.
    let (head, node) = unsafe { places(list, new) };
    // SAFETY: as above.
    unsafe { link(head, node) };
}

unsafe extern "C" fn list_insert_tail(list: *mut list_t, new: *mut c_void) {
    // SAFETY: list_insert_tail(9F): a live list and an object in none.
    let (head, node) = unsafe { places(list, new) };
    // SAFETY: as above.
    let last = unsafe { (*head).list_prev };
    // SAFETY: as above.
    unsafe { link(last, node) };
}

unsafe extern "C" fn list_remove(list: *mut list_t, of: *mut c_void) {
    // SAFETY: list_remove(9F): a live list with the object in it.
    let (_, node) = unsafe { places(list, of) };
    // SAFETY: as above.
    let list_node_t { list_next, list_prev } = unsafe { node.read() };
    // SAFETY: as above.
    unsafe { (*list_prev).list_next = list_next };
    // SAFETY: as above.
    unsafe { (*list_next).list_prev = list_prev };
    // SAFETY: as above.
    unsafe { node.write(list_node_t { list_next: ptr::null_mut(), list_prev: ptr::null_mut() }) };
}

unsafe extern "C" fn kmem_cache_alloc(_cache: *mut kmem_cache_t, _flags: c_int) -> *mut c_void {
    with(|processor| processor.objects.pop()).unwrap_or(ptr::null_mut())
}

unsafe extern "C" fn kmem_cache_free(_cache: *mut kmem_cache_t, object: *mut c_void) {
    with(|processor| processor.objects.push(object));
}

/// Lends the hash to a function that calls the driver, which does not come back to it meanwhile.
fn hash<R>(handle: *mut mod_hash_t, f: impl FnOnce(&mut HashShown) -> R) -> Option<R> {
    let mut hash = with(|processor| {
        let known = processor.hashes.iter().position(|hash| hash.handle == handle.addr());
        known.map(|place| processor.hashes.swap_remove(place))
    })?;
    let value = f(&mut hash);
    with(|processor| processor.hashes.push(hash));
    Some(value)
}

unsafe extern "C" fn mod_hash_find(
    of: *mut mod_hash_t,
    key: mod_hash_key_t,
    value: *mut mod_hash_val_t,
) -> c_int {
    // SAFETY: a key of the driver's.
    let Some(found) = hash(of, |hash| unsafe { hashes::get(hash, key) }).flatten() else { return NOT_FOUND };
    // SAFETY: the caller gives a place for the value.
    unsafe { value.write(ptr::with_exposed_provenance_mut(found)) };
    0
}

unsafe extern "C" fn mod_hash_insert(
    of: *mut mod_hash_t,
    key: mod_hash_key_t,
    value: mod_hash_val_t,
) -> c_int {
    // SAFETY: as above.
    let new = hash(of, |hash| unsafe { hashes::put(hash, key, value) });
    if new == Some(true) { 0 } else { DUPLICATE }
}

unsafe extern "C" fn mod_hash_remove(
    of: *mut mod_hash_t,
    key: mod_hash_key_t,
    value: *mut mod_hash_val_t,
) -> c_int {
    // SAFETY: as above.
    let Some(found) = hash(of, |hash| unsafe { hashes::take(hash, key) }).flatten() else { return NOT_FOUND };
    // SAFETY: as above.
    unsafe { value.write(ptr::with_exposed_provenance_mut(found)) };
    0
}
