//! Zones with an IP stack of their own.

use core::ffi::CStr;

use super::{Result, call};

const CREATE: usize = 0;
const DESTROY: usize = 1;
const ENTER: usize = 3;
const SHUTDOWN: usize = 5;
const ADD_LINK: usize = 10;
const REMOVE_LINK: usize = 11;

/// `zone_def` (`sys/zone.h`).
#[repr(C)]
struct Definition {
    name: *const u8,
    root: *const u8,
    privileges: *const u8,
    privileges_size: usize,
    controls: [usize; 2],
    error: *mut i32,
    data_sets: [usize; 2],
    label: [u32; 4],
    flags: u32,
}

const _: () = assert!(size_of::<Definition>() == 96);

/// Makes a zone with an exclusive IP stack, whose processes may do what this one may; its number.
///
/// # Errors
///
/// Those of `zone_create`.
pub fn create(name: &CStr, root: &CStr) -> Result<u32> {
    let mut privileges = [0_u8; 64];
    // SAFETY: PRIVSYS_GETPPRIV writes a set no longer than it is told.
    unsafe { call(82, [1, 0, 0, privileges.as_mut_ptr() as usize, 64]) }?;
    let mut error = 0;
    let definition = Definition {
        name: name.as_ptr().cast(),
        root: root.as_ptr().cast(),
        privileges: privileges.as_ptr(),
        // Three chunks of 32 privileges.
        privileges_size: 12,
        controls: [0; 2],
        error: &raw mut error,
        data_sets: [0; 2],
        label: [0; 4],
        // ZCF_NET_EXCL.
        flags: 1,
    };
    // SAFETY: zone_create reads a definition and what it points to, and writes an int.
    unsafe { call(227, [CREATE, &raw const definition as usize]) }.map(|id| id as u32)
}

/// Lets this process enter a zone for good.
///
/// # Errors
///
/// EINVAL if it is not alone in its contract.
pub fn enter(zone: u32) -> Result<usize> {
    // SAFETY: numbers only.
    unsafe { call(227, [ENTER, zone as usize]) }
}

/// Ends what runs in a zone.
///
/// # Errors
///
/// Those of `zone_shutdown`.
pub fn shut_down(zone: u32) -> Result<usize> {
    // SAFETY: numbers only.
    unsafe { call(227, [SHUTDOWN, zone as usize]) }
}

/// Removes a zone that is shut down.
///
/// # Errors
///
/// EBUSY.
pub fn destroy(zone: u32) -> Result<usize> {
    // SAFETY: numbers only.
    unsafe { call(227, [DESTROY, zone as usize]) }
}

/// Says that a link belongs to a zone, or no longer.
///
/// # Errors
///
/// Those of `zone_add_datalink`.
pub fn own_link(zone: u32, link: u32, own: bool) -> Result<usize> {
    let what = if own { ADD_LINK } else { REMOVE_LINK };
    // SAFETY: numbers only.
    unsafe { call(227, [what, zone as usize, link as usize]) }
}
