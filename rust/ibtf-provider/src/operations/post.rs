//! Posting work requests.

use core::slice;

use illumos_sys_hdrs as sys;

use super::{Raw, provider, store};
use crate::objects::{QpRecord, behind};
use crate::provider::Provider;
use crate::status::answer;
use crate::work::{ReceiveRequest, SendRequest};

pub(super) unsafe extern "C" fn post_send<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    requests: *mut sys::ibt_send_wr_t,
    count: sys::uint_t,
    posted: *mut sys::uint_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    if requests.is_null() {
        return sys::IBT_INVALID_PARAM;
    }
    // SAFETY: so many requests, for the time of the call.
    let requests = unsafe { slice::from_raw_parts(requests, count as usize) };
    // SAFETY: as above.
    let mut requests = requests.iter().map(|raw| unsafe { SendRequest::new(raw) });
    let (taken, result) = provider.post_sends(&record.qp, &mut requests);
    // SAFETY: NULL or the caller's.
    unsafe { store(posted, taken) };
    answer(result)
}

pub(super) unsafe extern "C" fn post_recv<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    requests: *mut sys::ibt_recv_wr_t,
    count: sys::uint_t,
    posted: *mut sys::uint_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    if requests.is_null() {
        return sys::IBT_INVALID_PARAM;
    }
    // SAFETY: so many requests, for the time of the call.
    let requests = unsafe { slice::from_raw_parts(requests, count as usize) };
    // SAFETY: as above.
    let mut requests = requests.iter().map(|raw| unsafe { ReceiveRequest::new(raw) });
    let (taken, result) = provider.post_receives(&record.qp, &mut requests);
    // SAFETY: NULL or the caller's.
    unsafe { store(posted, taken) };
    answer(result)
}
