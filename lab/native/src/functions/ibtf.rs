//! IBTF with the adapter behind it.

use fakekernel::{Export, export};
use illumos_sys_hdrs::{
    IBT_CQ_EMPTY, IBT_CQ_HDL_INVALID, IBT_SUCCESS, ibt_channel_hdl_t, ibt_cq_hdl_t, ibt_cq_notify_flags_t,
    ibt_recv_wr_t, ibt_send_wr_t, ibt_status_t, ibt_wc_t, uint_t,
};

use super::elements;
use crate::adapter::Receive;
use crate::processor::with;

pub(super) fn exports() -> Vec<Export> {
    export! { ANY: ibt_post_send, ibt_post_recv, ibt_poll_cq, ibt_enable_cq_notify; }
}

unsafe extern "C" fn ibt_post_send(
    channel: ibt_channel_hdl_t,
    requests: *mut ibt_send_wr_t,
    count: uint_t,
    posted: *mut uint_t,
) -> ibt_status_t {
    with(|processor| {
        if let Err(fault) = processor.adapter.posts_to(channel) {
            processor.fail(fault);
        }
        // SAFETY: the driver's array has so many.
        for request in unsafe { elements(requests, count) } {
            // SAFETY: the request's list has so many.
            let pieces = unsafe { elements(request.wr_sgl, request.wr_nds) };
            processor.adapter.send(request, pieces.iter().map(|piece| u64::from(piece.ds_len)).sum());
        }
    });
    tell(posted, count);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_post_recv(
    channel: ibt_channel_hdl_t,
    requests: *mut ibt_recv_wr_t,
    count: uint_t,
    posted: *mut uint_t,
) -> ibt_status_t {
    with(|processor| {
        if let Err(fault) = processor.adapter.posts_to(channel) {
            processor.fail(fault);
        }
        // SAFETY: the driver's array has so many.
        for request in unsafe { elements(requests, count) } {
            // SAFETY: the request's list has so many.
            if let [piece] = unsafe { elements(request.wr_sgl, request.wr_nds) } {
                let receive =
                    Receive { id: request.wr_id, key: piece.ds_key, va: piece.ds_va, len: piece.ds_len };
                processor.adapter.receives.push_back(receive);
            } else {
                processor.fail(crate::Fault::Pieces);
            }
        }
    });
    tell(posted, count);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_poll_cq(
    cq: ibt_cq_hdl_t,
    completions: *mut ibt_wc_t,
    room: uint_t,
    polled: *mut uint_t,
) -> ibt_status_t {
    let found = with(|processor| {
        // SAFETY: the driver's array has room for so many, and a completion may have any value.
        let places = unsafe { std::slice::from_raw_parts_mut(completions, room as usize) };
        let found = processor.adapter.poll(cq, places);
        found.unwrap_or_else(|fault| {
            processor.fail(fault);
            0
        })
    });
    tell(polled, found as uint_t);
    if found == 0 { IBT_CQ_EMPTY } else { IBT_SUCCESS }
}

/// Nothing comes that was not there when it was asked for.
unsafe extern "C" fn ibt_enable_cq_notify(cq: ibt_cq_hdl_t, _what: ibt_cq_notify_flags_t) -> ibt_status_t {
    with(|processor| match processor.adapter.arm(cq) {
        Ok(()) => IBT_SUCCESS,
        Err(fault) => {
            processor.fail(fault);
            IBT_CQ_HDL_INVALID
        }
    })
}

fn tell(place: *mut uint_t, value: uint_t) {
    if !place.is_null() {
        // SAFETY: the driver's place for it.
        unsafe { *place = value };
    }
}
