//! Shared receive queues.

use core::slice;
use core::sync::atomic::Ordering;

use illumos_sys_hdrs as sys;
use kernel::{KArc, Vacant};

use super::{Raw, adapter, provider, store};
use crate::event::ClientSrq;
use crate::objects::{SrqRecord, behind, share, take};
use crate::provider::{Provider, SrqSizes};
use crate::status::{Status, answer};
use crate::work::ReceiveRequest;

impl SrqSizes {
    fn raw(self) -> sys::ibt_srq_sizes_t {
        sys::ibt_srq_sizes_t { srq_wr_sz: self.receives, srq_sgl_sz: self.segments }
    }
}

pub(super) unsafe extern "C" fn alloc_srq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    flags: sys::ibt_srq_flags_t,
    client: sys::ibt_srq_hdl_t,
    pd: sys::ibc_pd_hdl_t,
    sizes: *mut sys::ibt_srq_sizes_t,
    srq: *mut sys::ibc_srq_hdl_t,
    real: *mut sys::ibt_srq_sizes_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    answer(unsafe { make_srq::<P>(hca, flags, client, pd, sizes, srq, real) })
}

/// # Safety
///
/// As the operation above.
unsafe fn make_srq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    flags: sys::ibt_srq_flags_t,
    client: sys::ibt_srq_hdl_t,
    pd: sys::ibc_pd_hdl_t,
    sizes: *mut sys::ibt_srq_sizes_t,
    handle: *mut sys::ibc_srq_hdl_t,
    real: *mut sys::ibt_srq_sizes_t,
) -> Result<(), Status> {
    // SAFETY: the contract of the operation.
    let adapter = unsafe { adapter::<P>(hca) }.ok_or(Status::INVALID_PARAM)?;
    if adapter.attributes.max_srqs == 0 {
        return Err(Status::HCA_SRQ_NOT_SUPPORTED);
    }
    // User memory, and later allocation.
    if flags != sys::IBT_SRQ_NO_FLAGS {
        return Err(Status::NOT_SUPPORTED);
    }
    // SAFETY: the contract of the operation.
    let held = unsafe { share::<P::Pd, _>(pd) }.ok_or(Status::PD_HDL_INVALID)?;
    // SAFETY: the contract of the operation.
    let wanted = unsafe { sizes.as_ref() }.ok_or(Status::INVALID_PARAM)?;
    let wanted = SrqSizes { receives: wanted.srq_wr_sz, segments: wanted.srq_sgl_sz };
    let room = Vacant::new()?;
    let client = KArc::new(ClientSrq::new(adapter.client.load(Ordering::Acquire), client))?;
    let (made, sizes) = adapter.provider.alloc_srq(&held, wanted, client.clone())?;
    client.open();
    let record = room.fill(SrqRecord::<P> { srq: made, client, pd });
    // SAFETY: NULL or the caller's.
    unsafe { store(real, sizes.raw()) };
    // SAFETY: as above.
    unsafe { store(handle, record.into_raw().as_ptr().cast()) };
    Ok(())
}

pub(super) unsafe extern "C" fn free_srq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    srq: sys::ibc_srq_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<SrqRecord<P>, _>(srq) }) else { return sys::IBT_SRQ_HDL_INVALID };
    if let Err(status) = provider.free_srq(&record.srq) {
        return status.raw();
    }
    record.client.shut();
    // SAFETY: freed: the client does not use it any more, and `record` ends here.
    unsafe { take::<SrqRecord<P>, _>(srq) };
    sys::IBT_SUCCESS
}

pub(super) unsafe extern "C" fn query_srq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    srq: sys::ibc_srq_hdl_t,
    pd: *mut sys::ibc_pd_hdl_t,
    sizes: *mut sys::ibt_srq_sizes_t,
    limit: *mut sys::uint_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<SrqRecord<P>, _>(srq) }) else { return sys::IBT_SRQ_HDL_INVALID };
    let (real, below) = provider.query_srq(&record.srq);
    // SAFETY: NULL or the caller's.
    unsafe { store(pd, record.pd) };
    // SAFETY: as above.
    unsafe { store(sizes, real.raw()) };
    // SAFETY: as above.
    unsafe { store(limit, below) };
    sys::IBT_SUCCESS
}

/// The limit is the client's to set, the size is not: the adapter does not claim `IBT_HCA_RESIZE_SRQ`.
pub(super) unsafe extern "C" fn modify_srq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    srq: sys::ibc_srq_hdl_t,
    flags: sys::ibt_srq_modify_flags_t,
    _size: sys::uint_t,
    limit: sys::uint_t,
    real: *mut sys::uint_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<SrqRecord<P>, _>(srq) }) else { return sys::IBT_SRQ_HDL_INVALID };
    if flags.0 & sys::IBT_SRQ_SET_SIZE.0 != 0 {
        return sys::IBT_HCA_RESIZE_SRQ_NOT_SUPPORTED;
    }
    let sets = flags.0 & sys::IBT_SRQ_SET_LIMIT.0 != 0;
    let done = if sets { provider.limit_srq(&record.srq, limit) } else { Ok(()) };
    // SAFETY: NULL or the caller's.
    unsafe { store(real, provider.query_srq(&record.srq).0.receives) };
    answer(done)
}

pub(super) unsafe extern "C" fn post_srq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    srq: sys::ibc_srq_hdl_t,
    requests: *mut sys::ibt_recv_wr_t,
    count: sys::uint_t,
    posted: *mut sys::uint_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<SrqRecord<P>, _>(srq) }) else { return sys::IBT_SRQ_HDL_INVALID };
    if requests.is_null() {
        return sys::IBT_INVALID_PARAM;
    }
    // SAFETY: so many requests, for the time of the call.
    let requests = unsafe { slice::from_raw_parts(requests, count as usize) };
    // SAFETY: as above.
    let mut requests = requests.iter().map(|raw| unsafe { ReceiveRequest::new(raw) });
    let (taken, result) = provider.post_shared(&record.srq, &mut requests);
    // SAFETY: NULL or the caller's.
    unsafe { store(posted, taken) };
    answer(result)
}
