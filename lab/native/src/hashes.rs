//! The driver's hashes (`mod_hash`), with its own functions for their keys.

use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use fakekernel::genunix::HashShown;

/// A reader's share of the lock around each call.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// Chain and place of a key in it, if it is there.
///
/// # Safety
///
/// The key is one that the driver's functions take.
unsafe fn find(hash: &HashShown, key: *mut c_void) -> (usize, Option<usize>) {
    // SAFETY: the module gave this function and its argument for its own keys.
    let hashed = unsafe { (hash.algorithm)(with_exposed_provenance_mut(hash.data), key) };
    let chain = hashed as usize % hash.chains.len();
    let at = hash.chains[chain].iter().position(|(stored, _)| {
        // SAFETY: the module gave this function for its own keys.
        unsafe { (hash.compare)(key, with_exposed_provenance_mut(*stored)) == 0 }
    });
    (chain, at)
}

/// What is stored for a key.
///
/// # Safety
///
/// As for [`find`].
pub(crate) unsafe fn get(hash: &HashShown, key: *mut c_void) -> Option<usize> {
    READERS.fetch_add(1, Ordering::Acquire);
    // SAFETY: by this function's contract.
    let (chain, at) = unsafe { find(hash, key) };
    READERS.fetch_sub(1, Ordering::Release);
    Some(hash.chains[chain][at?].1)
}

/// Stores a value; false if there is one.
///
/// # Safety
///
/// As for [`find`].
pub(crate) unsafe fn put(hash: &mut HashShown, key: *mut c_void, value: *mut c_void) -> bool {
    // SAFETY: by this function's contract.
    let (chain, at) = unsafe { find(hash, key) };
    if at.is_some() {
        return false;
    }
    hash.chains[chain].insert(0, (key.expose_provenance(), value.expose_provenance()));
    true
}

/// Takes a value out.
///
/// # Safety
///
/// As for [`find`].
pub(crate) unsafe fn take(hash: &mut HashShown, key: *mut c_void) -> Option<usize> {
    // SAFETY: by this function's contract.
    let (chain, at) = unsafe { find(hash, key) };
    Some(hash.chains[chain].remove(at?).1)
}
