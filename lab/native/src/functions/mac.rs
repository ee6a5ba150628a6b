//! The MAC layer: packets that come up are counted and freed, whoever hands them up.

use std::ptr;

use fakekernel::{Export, export};
use illumos_sys_hdrs::{mac_handle_t, mac_resource_handle_t, mac_ring_handle_t, mblk_t};

use crate::messages::{data, take};
use crate::processor::with;

pub(super) fn exports() -> Vec<Export> {
    export! { ANY: mac_rx, mac_rx_ring, mac_tx_update, mac_hcksum_get, mac_lso_get; }
}

unsafe extern "C" fn mac_rx(_mac: mac_handle_t, _resource: mac_resource_handle_t, chain: *mut mblk_t) {
    // SAFETY: the driver gives the chain up; it calls from a thread of ours, outside `with`.
    unsafe { take(chain) };
}

unsafe extern "C" fn mac_rx_ring(
    _mac: mac_handle_t,
    _ring: mac_ring_handle_t,
    chain: *mut mblk_t,
    _run: u64,
) {
    // SAFETY: as above.
    unsafe { take(chain) };
}

/// What a driver hands back is offered again anyhow, once its thread has done what there was to do.
unsafe extern "C" fn mac_tx_update(_mac: mac_handle_t) {}

/// Flags and segment size of a message, as `mac` keeps them in its data block.
fn offload(message: *mut mblk_t) -> (u32, u32) {
    // SAFETY: any bytes are a value of the word, which is the eight bytes of the union.
    let word = unsafe { data(message).db_struioun.enforce_alignment };
    ((word >> 32) as u32 & 0xffff, (word >> 48) as u32)
}

fn put(place: *mut u32, value: u32) {
    if !place.is_null() {
        // SAFETY: the driver's place for it.
        unsafe { *place = value };
    }
}

unsafe extern "C" fn mac_hcksum_get(
    message: *mut mblk_t,
    start: *mut u32,
    stuff: *mut u32,
    end: *mut u32,
    value: *mut u32,
    flags: *mut u32,
) {
    const CHECKSUMS: u32 = 0x0f;
    put(flags, offload(message).0 & CHECKSUMS);
    if [start, stuff, end, value] != [ptr::null_mut(); 4] {
        with(|processor| processor.fail(crate::Fault::Offload));
    }
}

unsafe extern "C" fn mac_lso_get(message: *mut mblk_t, segment: *mut u32, flags: *mut u32) {
    const LARGE_SEND: u32 = 0x10;
    let (found, size) = offload(message);
    let found = found & LARGE_SEND;
    put(flags, found);
    put(segment, if found == 0 { 0 } else { size });
}
