//! Completion queues.

use core::slice;
use core::sync::atomic::Ordering;

use illumos_sys_hdrs as sys;
use kernel::{ArcRoom, KBox, Vacant};

use super::{Raw, adapter, provider, store};
use crate::event::ClientCq;
use crate::objects::{Adapter, CqRecord, behind, take};
use crate::provider::{Arm, Provider};
use crate::status::{Status, answer};

pub(super) unsafe extern "C" fn alloc_cq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    client: sys::ibt_cq_hdl_t,
    attributes: *mut sys::ibt_cq_attr_t,
    cq: *mut sys::ibc_cq_hdl_t,
    size: *mut sys::uint_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(adapter) = (unsafe { adapter::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    answer(make_cq(adapter, client, attributes.cq_size).map(|(made, entries)| {
        // SAFETY: NULL or the caller's.
        unsafe { store(size, entries) };
        // SAFETY: as above.
        unsafe { store(cq, made.into_raw().as_ptr().cast()) };
    }))
}

fn make_cq<P: Provider>(
    adapter: &Adapter<P>,
    client: sys::ibt_cq_hdl_t,
    entries: u32,
) -> Result<(KBox<CqRecord<P>>, u32), Status> {
    let room = Vacant::new()?;
    let client = ArcRoom::new()?.fill(ClientCq::new(adapter.client.load(Ordering::Acquire), client));
    let (cq, entries) = adapter.provider.alloc_cq(entries, client.clone())?;
    // No queue pair has it yet, so nothing completes before this operation has returned.
    client.open();
    Ok((room.fill(CqRecord { cq, client }), entries))
}

pub(super) unsafe extern "C" fn free_cq<P: Provider>(hca: sys::ibc_hca_hdl_t, cq: sys::ibc_cq_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<CqRecord<P>, _>(cq) }) else { return sys::IBT_CQ_HDL_INVALID };
    if let Err(status) = provider.free_cq(&record.cq) {
        return status.raw();
    }
    record.client.shut();
    // SAFETY: freed, and no handler is running: the client does not use it any more, and `record` ends here.
    unsafe { take::<CqRecord<P>, _>(cq) };
    sys::IBT_SUCCESS
}

pub(super) unsafe extern "C" fn query_cq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    cq: sys::ibc_cq_hdl_t,
    entries: *mut sys::uint_t,
    count: *mut sys::uint_t,
    micros: *mut sys::uint_t,
    handler: *mut sys::ibt_cq_handler_id_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<CqRecord<P>, _>(cq) }) else { return sys::IBT_CQ_HDL_INVALID };
    let sizes = provider.query_cq(&record.cq);
    // SAFETY: NULL or the caller's.
    unsafe { store(entries, sizes.entries) };
    // SAFETY: as above.
    unsafe { store(count, sizes.count) };
    // SAFETY: as above.
    unsafe { store(micros, sizes.micros) };
    // SAFETY: as above.
    unsafe { store(handler, 0) };
    sys::IBT_SUCCESS
}

pub(super) unsafe extern "C" fn modify_cq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    cq: sys::ibc_cq_hdl_t,
    count: sys::uint_t,
    micros: sys::uint_t,
    _handler: sys::ibt_cq_handler_id_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<CqRecord<P>, _>(cq) }) else { return sys::IBT_CQ_HDL_INVALID };
    answer(provider.modify_cq(&record.cq, count, micros))
}

pub(super) unsafe extern "C" fn poll_cq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    cq: sys::ibc_cq_hdl_t,
    completions: *mut sys::ibt_wc_t,
    count: sys::uint_t,
    polled: *mut sys::uint_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<CqRecord<P>, _>(cq) }) else { return sys::IBT_CQ_HDL_INVALID };
    if completions.is_null() {
        return sys::IBT_INVALID_PARAM;
    }
    // SAFETY: room for so many, for the time of the call; any bytes are a value of it.
    let mut room = unsafe { slice::from_raw_parts_mut(completions, count as usize) }.iter_mut();
    let mut taken = 0;
    let found = provider.poll_cq(&record.cq, &mut |completion| {
        let Some(place) = room.next() else { return false };
        *place = completion.raw();
        taken += 1;
        true
    });
    // SAFETY: NULL or the caller's.
    unsafe { store(polled, taken) };
    answer(if found { Ok(()) } else { Err(Status::CQ_EMPTY) })
}

pub(super) unsafe extern "C" fn notify_cq<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    cq: sys::ibc_cq_hdl_t,
    kind: sys::ibt_cq_notify_flags_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<CqRecord<P>, _>(cq) }) else { return sys::IBT_CQ_HDL_INVALID };
    let arm = match kind {
        sys::IBT_NEXT_COMPLETION => Arm::Next,
        sys::IBT_NEXT_SOLICITED => Arm::NextSolicited,
        _ => return sys::IBT_CQ_NOTIFY_TYPE_INVALID,
    };
    answer(provider.arm_cq(&record.cq, arm))
}
