//! What a driver calls to send a packet.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use fakekernel::export;
use illumos_sys_hdrs::{
    IBT_CQ_EMPTY, IBT_SUCCESS, IBT_WC_SUCCESS, IBT_WR_SEND_SIGNAL, hrtime_t, ibt_channel_hdl_t, ibt_cq_hdl_t,
    ibt_cq_notify_flags_t, ibt_send_wr_t, ibt_status_t, ibt_wc_t, kmutex_t, mblk_t, uint_t,
};

use crate::sender::with;

/// By name, with the prototypes that the headers have for them.
pub(crate) fn all() -> Vec<(&'static str, usize)> {
    let exports = export! {
        ANY: mutex_enter, mutex_exit, gethrtime, freemsg, ibt_post_send, ibt_poll_cq, ibt_enable_cq_notify;
    };
    let copy = ("memcpy", copy as *const () as usize);
    exports.into_iter().map(|export| (export.name, export.addr)).chain([copy]).collect()
}

/// The lock: 0 when it is free, as in the lab, where a lock that is free may be taken by either.
fn word<'a>(lock: *mut kmutex_t) -> &'a AtomicUsize {
    // SAFETY: the driver's lock, a word, aligned, which is there as long as it calls.
    unsafe { AtomicUsize::from_ptr(lock.cast()) }
}

unsafe extern "C" fn mutex_enter(lock: *mut kmutex_t) {
    while word(lock).compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::hint::spin_loop();
    }
}

unsafe extern "C" fn mutex_exit(lock: *mut kmutex_t) {
    word(lock).store(0, Ordering::Release);
}

/// The machine's clock, as if it went on while it stands.
unsafe extern "C" fn gethrtime() -> hrtime_t {
    with(|sender| sender.time())
}

/// `memcpy`.
unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    // SAFETY: the driver's own copy, of places that do not overlap.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.cast(), len) };
    to
}

unsafe extern "C" fn freemsg(message: *mut mblk_t) {
    with(|sender| sender.freed(message));
}

/// An array of the driver's; none if there is none.
///
/// # Safety
///
/// It has so many elements, which nobody changes while they are looked at.
unsafe fn elements<'a, T>(first: *const T, count: uint_t) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// The adapter takes everything, discards it, and is done with it.
unsafe extern "C" fn ibt_post_send(
    channel: ibt_channel_hdl_t,
    requests: *mut ibt_send_wr_t,
    count: uint_t,
    posted: *mut uint_t,
) -> ibt_status_t {
    with(|sender| {
        sender.posts_to(channel);
        // SAFETY: the driver's array has so many.
        let requests = unsafe { elements(requests, count) };
        for request in requests {
            // SAFETY: the request's list has so many.
            let pieces = unsafe { elements(request.wr_sgl, request.wr_nds) };
            sender.sent.octets += pieces.iter().map(|piece| u64::from(piece.ds_len)).sum::<u64>();
            if request.wr_flags & IBT_WR_SEND_SIGNAL != 0 {
                sender.completed.push_back(request.wr_id);
            }
        }
        sender.sent.packets += u64::from(count);
    });
    if !posted.is_null() {
        // SAFETY: the driver's place for it.
        unsafe { *posted = count };
    }
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_poll_cq(
    cq: ibt_cq_hdl_t,
    completions: *mut ibt_wc_t,
    room: uint_t,
    polled: *mut uint_t,
) -> ibt_status_t {
    let found = with(|sender| {
        sender.polls(cq);
        // SAFETY: the driver's array has room for so many, and it has filled it with something before.
        let places = unsafe { std::slice::from_raw_parts_mut(completions, room as usize) };
        let found = sender.completed.len().min(room as usize);
        for (id, place) in sender.completed.drain(..found).zip(places) {
            *place = ibt_wc_t { wc_id: id, wc_status: IBT_WC_SUCCESS, ..ibt_wc_t::default() };
        }
        found
    });
    if !polled.is_null() {
        // SAFETY: the driver's place for it.
        unsafe { *polled = found as uint_t };
    }
    if found == 0 { IBT_CQ_EMPTY } else { IBT_SUCCESS }
}

/// Nothing comes that was not there when it was asked for.
unsafe extern "C" fn ibt_enable_cq_notify(_cq: ibt_cq_hdl_t, _what: ibt_cq_notify_flags_t) -> ibt_status_t {
    IBT_SUCCESS
}
