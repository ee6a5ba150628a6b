//! `mac_hcksum_get` and its kin: pure data access, safe under any lock of the driver's.

use fakekernel::genunix::Checksums;
use fakekernel::{Export, cx, export};
use illumos_sys_hdrs::{HCK_FLAGS, HCK_FULLCKSUM, HCK_PARTIALCKSUM, mblk_t};

pub(crate) fn exports() -> Vec<Export> {
    export! { UKS: mac_hcksum_get, mac_hcksum_set, mac_lso_get; }
}

const HW_LSO: u32 = 0x10;

/// # Safety
///
/// `place` is null or writable.
unsafe fn put(place: *mut u32, value: u32) {
    if !place.is_null() {
        // SAFETY: by contract, and not null.
        unsafe { place.write(value) };
    }
}

unsafe extern "C" fn mac_hcksum_get(
    mp: *mut mblk_t,
    start: *mut u32,
    stuff: *mut u32,
    end: *mut u32,
    value: *mut u32,
    flags: *mut u32,
) {
    let cx = cx();
    let sums = cx.kernel().genunix().checksums(&cx, mp);
    let kept = sums.flags & HCK_FLAGS;
    // SAFETY: mac_hcksum_get(9F): each place is null or writable.
    unsafe { put(flags, kept) };
    if kept & (HCK_PARTIALCKSUM | HCK_FULLCKSUM) != 0 {
        // SAFETY: as above.
        unsafe { put(value, sums.value) };
    }
    if kept & HCK_PARTIALCKSUM != 0 {
        for (place, word) in [(start, sums.start), (stuff, sums.stuff), (end, sums.end)] {
            // SAFETY: as above.
            unsafe { put(place, word) };
        }
    }
}

unsafe extern "C" fn mac_hcksum_set(
    mp: *mut mblk_t,
    start: u32,
    stuff: u32,
    end: u32,
    value: u32,
    flags: u32,
) {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let mss = genunix.checksums(&cx, mp).mss;
    genunix.set_checksums(&cx, mp, Checksums { start, stuff, end, value, flags, mss });
}

unsafe extern "C" fn mac_lso_get(mp: *mut mblk_t, mss: *mut u32, flags: *mut u32) {
    let cx = cx();
    let sums = cx.kernel().genunix().checksums(&cx, mp);
    let large = sums.flags & HW_LSO;
    if flags.is_null() {
        return;
    }
    // SAFETY: mac_lso_get: writable, not null.
    unsafe { put(flags, large) };
    if large != 0 {
        // SAFETY: mac_lso_get: null or writable.
        unsafe { put(mss, sums.mss) };
    }
}
