//! The operations as `ibtl` calls them (`ibc_operations_t`).
//!
//! Every function here has the contract of the operation of its name: handles are the adapter's own and not freed, records are
//! there for the time of the call, and results that may be NULL are looked at. `ibtl` and its clients leave fields that an operation
//! does not use uninitialised; they are integers and pointers that are not followed.

use core::marker::PhantomData;
use core::slice;
use core::sync::atomic::Ordering;

use illumos_sys_hdrs as sys;
use kernel::time::{Duration, sleep};
use kernel::{ArcRoom, KArc, KBox};

use crate::address::{AddressVector, Gid};
use crate::attributes::Attributes;
use crate::event::{ClientCq, ClientQp};
use crate::memory::{Access, Region};
use crate::objects::{Adapter, CqRecord, MrRecord, QpRecord, behind, release, share, take};
use crate::port::PortReport;
use crate::provider::{Arm, Provider};
use crate::qp::{Purpose, QpChange, QpRequest, QueueSizes};
use crate::refuse::{refuse0, refuse2, refuse3, refuse4, refuse5, refuse6, refuse7, refuse8, refuse10};
use crate::status::{Status, answer};
use crate::work::{ReceiveRequest, SendRequest};

#[cfg(test)]
mod tests;

type Raw = sys::ibt_status_t;

/// The lowest address of the kernel; below are users' and those that there are not.
const KERNEL_BASE: u64 = 0xffff_8000_0000_0000;

/// The operations of a provider.
pub(crate) struct Table<P>(PhantomData<P>);

impl<P: Provider> Table<P> {
    /// All of them.
    pub(crate) const OPERATIONS: &sys::ibc_operations_t = &sys::ibc_operations_t {
        ibc_query_hca_ports: Some(query_hca_ports::<P>),
        ibc_modify_ports: Some(modify_ports::<P>),
        ibc_modify_system_image: Some(refuse2),
        ibc_alloc_pd: Some(alloc_pd::<P>),
        ibc_free_pd: Some(free_pd::<P>),
        ibc_alloc_rdd: Some(refuse3),
        ibc_free_rdd: Some(refuse2),
        ibc_alloc_ah: Some(alloc_ah::<P>),
        ibc_free_ah: Some(free_ah::<P>),
        ibc_query_ah: Some(query_ah::<P>),
        ibc_modify_ah: Some(modify_ah::<P>),
        ibc_alloc_qp: Some(alloc_qp::<P>),
        ibc_alloc_special_qp: Some(alloc_special_qp::<P>),
        ibc_alloc_qp_range: Some(refuse10),
        ibc_free_qp: Some(free_qp::<P>),
        ibc_release_qpn: Some(release_qpn::<P>),
        ibc_query_qp: Some(query_qp::<P>),
        ibc_modify_qp: Some(modify_qp::<P>),
        ibc_alloc_cq: Some(alloc_cq::<P>),
        ibc_free_cq: Some(free_cq::<P>),
        ibc_query_cq: Some(query_cq::<P>),
        ibc_resize_cq: Some(refuse4),
        ibc_modify_cq: Some(modify_cq::<P>),
        ibc_alloc_cq_sched: Some(refuse3),
        ibc_free_cq_sched: Some(refuse2),
        ibc_query_cq_handler_id: Some(refuse3),
        ibc_alloc_eec: Some(refuse5),
        ibc_free_eec: Some(refuse2),
        ibc_query_eec: Some(refuse3),
        ibc_modify_eec: Some(refuse4),
        ibc_register_mr: Some(register_mr::<P>),
        ibc_register_buf: Some(refuse7),
        ibc_register_shared_mr: Some(refuse7),
        ibc_deregister_mr: Some(deregister_mr::<P>),
        ibc_query_mr: Some(refuse3),
        ibc_reregister_mr: Some(refuse7),
        ibc_reregister_buf: Some(refuse8),
        ibc_sync_mr: Some(sync_mr),
        ibc_alloc_mw: Some(refuse5),
        ibc_free_mw: Some(refuse2),
        ibc_query_mw: Some(refuse3),
        ibc_attach_mcg: Some(attach_mcg::<P>),
        ibc_detach_mcg: Some(detach_mcg::<P>),
        ibc_post_send: Some(post_send::<P>),
        ibc_post_recv: Some(post_recv::<P>),
        ibc_poll_cq: Some(poll_cq::<P>),
        ibc_notify_cq: Some(notify_cq::<P>),
        ibc_ci_data_in: Some(refuse6),
        ibc_ci_data_out: Some(refuse6),
        ibc_alloc_srq: Some(refuse7),
        ibc_free_srq: Some(refuse2),
        ibc_query_srq: Some(refuse5),
        ibc_modify_srq: Some(refuse6),
        ibc_post_srq: Some(refuse5),
        ibc_map_mem_area: Some(refuse6),
        ibc_unmap_mem_area: Some(refuse2),
        ibc_map_mem_iov: Some(refuse4),
        ibc_unmap_mem_iov: Some(refuse2),
        ibc_alloc_lkey: Some(refuse6),
        ibc_register_physical_mr: Some(refuse6),
        ibc_reregister_physical_mr: Some(refuse7),
        ibc_create_fmr_pool: Some(refuse4),
        ibc_destroy_fmr_pool: Some(refuse2),
        ibc_flush_fmr_pool: Some(refuse2),
        ibc_register_physical_fmr: Some(refuse6),
        ibc_deregister_fmr: Some(refuse2),
        ibc_alloc_io_mem: Some(refuse5),
        ibc_free_io_mem: Some(refuse2),
        ibc_alloc_xrc_domain: Some(refuse0),
        ibc_free_xrc_domain: Some(refuse0),
        ibc_alloc_xrc_srq: Some(refuse0),
        ibc_free_xrc_srq: Some(refuse0),
        ibc_query_xrc_srq: Some(refuse0),
        ibc_modify_xrc_srq: Some(refuse0),
        ibc_alloc_xrc_tgt_qp: Some(refuse0),
        ibc_free_xrc_tgt_qp: Some(refuse0),
        ibc_query_xrc_tgt_qp: Some(refuse0),
        ibc_modify_xrc_tgt_qp: Some(refuse0),
        ibc_register_dma_mr: Some(refuse6),
        ibc_enhancement1: Some(refuse0),
        ibc_enhancement2: Some(refuse0),
        ibc_enhancement3: Some(refuse0),
        ibc_enhancement4: Some(refuse0),
    };
}

/// The adapter of a handle.
///
/// # Safety
///
/// `hca` is the handle of an [`Attachment`](crate::Attachment) of `P`.
unsafe fn adapter<'a, P: Provider>(hca: sys::ibc_hca_hdl_t) -> Option<&'a Adapter<P>> {
    // SAFETY: by this function's contract; the adapter lives until it is detached.
    unsafe { behind(hca) }
}

/// As [`adapter`].
///
/// # Safety
///
/// As for [`adapter`].
unsafe fn provider<'a, P: Provider>(hca: sys::ibc_hca_hdl_t) -> Option<&'a P> {
    // SAFETY: by this function's contract.
    unsafe { adapter::<P>(hca) }.map(|adapter| &*adapter.provider)
}

/// Stores a result that the caller may not want.
///
/// # Safety
///
/// `to` is NULL or the caller's.
unsafe fn store<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by this function's contract.
        unsafe { to.write(value) };
    }
}

unsafe extern "C" fn query_hca_ports<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    port: u8,
    info: *mut sys::ibt_hca_portinfo_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(adapter) = (unsafe { adapter::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    let Attributes { ports, pkeys, gids, .. } = adapter.attributes;
    if port > ports || info.is_null() {
        return sys::IBT_HCA_PORT_INVALID;
    }
    let (first, count) = if port == 0 { (1, ports) } else { (port, 1) };
    // SAFETY: one record for a port, or one for each of all.
    let records = unsafe { slice::from_raw_parts_mut(info, usize::from(count)) };
    for (number, record) in (first..).zip(records) {
        // SAFETY: `ibtl` has made the tables as large as the attributes say.
        let mut report = unsafe { PortReport::new(record, pkeys, gids) };
        adapter.provider.query_port(number, &mut report);
    }
    sys::IBT_SUCCESS
}

/// Capabilities of a port that nothing here depends on are accepted: `ibdma` gives an adapter up that refuses.
unsafe extern "C" fn modify_ports<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    port: u8,
    _flags: sys::ibt_port_modify_flags_t,
    _init_type: u8,
) -> Raw {
    // SAFETY: the contract of the operation.
    let there =
        unsafe { adapter::<P>(hca) }.is_some_and(|adapter| (1..=adapter.attributes.ports).contains(&port));
    answer(if there { Ok(()) } else { Err(Status::HCA_PORT_INVALID) })
}

unsafe extern "C" fn alloc_pd<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    _flags: sys::ibt_pd_flags_t,
    pd: *mut sys::ibc_pd_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    answer(provider.alloc_pd().map(|made| {
        // SAFETY: the caller has room for the handle.
        unsafe { store(pd, KArc::into_raw(made).as_ptr().cast()) }
    }))
}

unsafe extern "C" fn free_pd<P: Provider>(hca: sys::ibc_hca_hdl_t, pd: sys::ibc_pd_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(held) = (unsafe { share::<P::Pd, _>(pd) }) else { return sys::IBT_PD_HDL_INVALID };
    answer(provider.free_pd(&held).map(|()| {
        // SAFETY: freed: the client does not use it any more.
        unsafe { release::<P::Pd, _>(pd) }
    }))
}

unsafe extern "C" fn alloc_ah<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    _flags: sys::ibt_ud_dest_flags_t,
    pd: sys::ibc_pd_hdl_t,
    vector: *mut sys::ibt_adds_vect_t,
    ah: *mut sys::ibc_ah_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(pd) = (unsafe { share::<P::Pd, _>(pd) }) else { return sys::IBT_PD_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(vector) = (unsafe { vector.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    answer(provider.alloc_ah(&pd, AddressVector::from_raw(vector)).map(|made| {
        // SAFETY: the caller has room for the handle.
        unsafe { store(ah, KArc::into_raw(made).as_ptr().cast()) }
    }))
}

unsafe extern "C" fn free_ah<P: Provider>(hca: sys::ibc_hca_hdl_t, ah: sys::ibc_ah_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(held) = (unsafe { share::<P::AddressHandle, _>(ah) }) else {
        return sys::IBT_UD_DEST_HDL_INVALID;
    };
    answer(provider.free_ah(&held).map(|()| {
        // SAFETY: freed: the client does not use it any more.
        unsafe { release::<P::AddressHandle, _>(ah) }
    }))
}

unsafe extern "C" fn query_ah<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    ah: sys::ibc_ah_hdl_t,
    _pd: *mut sys::ibc_pd_hdl_t,
    vector: *mut sys::ibt_adds_vect_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(handle) = (unsafe { behind::<P::AddressHandle, _>(ah) }) else {
        return sys::IBT_UD_DEST_HDL_INVALID;
    };
    // SAFETY: the caller has room for the vector.
    unsafe { store(vector, provider.query_ah(handle).raw()) };
    sys::IBT_SUCCESS
}

unsafe extern "C" fn modify_ah<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    ah: sys::ibc_ah_hdl_t,
    vector: *mut sys::ibt_adds_vect_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(handle) = (unsafe { behind::<P::AddressHandle, _>(ah) }) else {
        return sys::IBT_UD_DEST_HDL_INVALID;
    };
    // SAFETY: the contract of the operation.
    let Some(vector) = (unsafe { vector.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    answer(provider.modify_ah(handle, AddressVector::from_raw(vector)))
}

unsafe extern "C" fn alloc_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    client: sys::ibtl_qp_hdl_t,
    kind: sys::ibt_qp_type_t,
    attributes: *mut sys::ibt_qp_alloc_attr_t,
    sizes: *mut sys::ibt_chan_sizes_t,
    qpn: *mut sys::ib_qpn_t,
    qp: *mut sys::ibc_qp_hdl_t,
) -> Raw {
    if kind != sys::IBT_UD_RQP {
        return sys::IBT_NOT_SUPPORTED;
    }
    // SAFETY: the contract of the operation.
    answer(unsafe { make_qp::<P>(hca, client, Purpose::Datagram, attributes, sizes, qpn, qp) })
}

unsafe extern "C" fn alloc_special_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    port: u8,
    client: sys::ibtl_qp_hdl_t,
    kind: sys::ibt_sqp_type_t,
    attributes: *mut sys::ibt_qp_alloc_attr_t,
    sizes: *mut sys::ibt_chan_sizes_t,
    qp: *mut sys::ibc_qp_hdl_t,
) -> Raw {
    let purpose = match kind {
        sys::IBT_SMI_SQP => Purpose::SubnetManagement(port),
        sys::IBT_GSI_SQP => Purpose::GeneralServices(port),
        _ => return sys::IBT_NOT_SUPPORTED,
    };
    // SAFETY: the contract of the operation.
    answer(unsafe { make_qp::<P>(hca, client, purpose, attributes, sizes, core::ptr::null_mut(), qp) })
}

/// What a queue pair may not ask for: user memory, later allocation, shared receive queues, receive side scaling, Fibre Channel.
const ONLY_PLAIN: u32 = 0x7f;

/// # Safety
///
/// As the two operations above.
unsafe fn make_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    client: sys::ibtl_qp_hdl_t,
    purpose: Purpose,
    attributes: *mut sys::ibt_qp_alloc_attr_t,
    sizes: *mut sys::ibt_chan_sizes_t,
    qpn: *mut sys::ib_qpn_t,
    handle: *mut sys::ibc_qp_hdl_t,
) -> Result<(), Status> {
    // SAFETY: the contract of the operation.
    let adapter = unsafe { adapter::<P>(hca) }.ok_or(Status::INVALID_PARAM)?;
    // SAFETY: the contract of the operation.
    let attributes = unsafe { attributes.as_ref() }.ok_or(Status::INVALID_PARAM)?;
    if attributes.qp_alloc_flags.0 & ONLY_PLAIN != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    // SAFETY: `ibtl` puts the adapter's own handles of the CQs there.
    let send_cq = unsafe { behind::<CqRecord<P>, _>(attributes.qp_opaque1) }.ok_or(Status::CQ_HDL_INVALID)?;
    // SAFETY: as above.
    let receive_cq =
        unsafe { behind::<CqRecord<P>, _>(attributes.qp_opaque2) }.ok_or(Status::CQ_HDL_INVALID)?;
    // SAFETY: a client's handle of a protection domain is the adapter's own.
    let pd = unsafe { share::<P::Pd, _>(attributes.qp_pd_hdl) }.ok_or(Status::PD_HDL_INVALID)?;
    let room = kernel::Vacant::new()?;
    let client = KArc::new(ClientQp::new(adapter.client.load(Ordering::Acquire), client))?;
    let wanted = &attributes.qp_sizes;
    let request = QpRequest {
        purpose,
        send_cq: &send_cq.cq,
        receive_cq: &receive_cq.cq,
        pd: &pd,
        sizes: QueueSizes {
            send: wanted.cs_sq,
            receive: wanted.cs_rq,
            send_segments: wanted.cs_sq_sgl,
            receive_segments: wanted.cs_rq_sgl,
        },
        all_signaled: attributes.qp_flags.0 & sys::IBT_WR_SIGNALED.0 == 0,
        client: client.clone(),
    };
    let qp = P::alloc_qp(&adapter.provider, request)?;
    let query = adapter.provider.query_qp(&qp);
    let real = sys::ibt_chan_sizes_t {
        cs_sq: query.sizes.send,
        cs_rq: query.sizes.receive,
        cs_sq_sgl: query.sizes.send_segments,
        cs_rq_sgl: query.sizes.receive_segments,
        cs_inline: 0,
    };
    client.open();
    let (send_cq, receive_cq) = (attributes.qp_scq_hdl, attributes.qp_rcq_hdl);
    let record = room.fill(QpRecord::<P> { qp, client, send_cq, receive_cq, flags: attributes.qp_flags });
    // SAFETY: NULL or the caller's.
    unsafe { store(sizes, real) };
    // SAFETY: as above.
    unsafe { store(qpn, query.qpn) };
    // SAFETY: as above.
    unsafe { store(handle, record.into_raw().as_ptr().cast()) };
    Ok(())
}

/// The handle of a kept number is the number itself, with a bit that makes it no NULL.
const KEPT_NUMBER: usize = 1 << 31;

unsafe extern "C" fn free_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    flags: sys::ibc_free_qp_flags_t,
    number: *mut sys::ibc_qpn_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    let qpn = provider.query_qp(&record.qp).qpn;
    provider.free_qp(&record.qp, flags == sys::IBC_FREE_QP_ONLY);
    record.client.shut();
    // SAFETY: NULL or the caller's.
    unsafe { store(number, core::ptr::without_provenance_mut(qpn as usize | KEPT_NUMBER)) };
    // SAFETY: freed: the client does not use it any more.
    unsafe { take::<QpRecord<P>, _>(qp) };
    sys::IBT_SUCCESS
}

unsafe extern "C" fn release_qpn<P: Provider>(hca: sys::ibc_hca_hdl_t, number: sys::ibc_qpn_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    provider.release_qpn((number.addr() & 0xff_ffff) as u32);
    sys::IBT_SUCCESS
}

unsafe extern "C" fn query_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    attributes: *mut sys::ibt_qp_query_attr_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    // SAFETY: the contract of the operation; what is there is overwritten, and any bytes are a value of it.
    let Some(attributes) = (unsafe { attributes.as_mut() }) else { return sys::IBT_INVALID_PARAM };
    provider.query_qp(&record.qp).fill(attributes);
    attributes.qp_sq_cq = record.send_cq;
    attributes.qp_rq_cq = record.receive_cq;
    attributes.qp_flags = record.flags;
    sys::IBT_SUCCESS
}

unsafe extern "C" fn modify_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    flags: sys::ibt_cep_modify_flags_t,
    info: *mut sys::ibt_qp_info_t,
    sizes: *mut sys::ibt_queue_sizes_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(info) = (unsafe { info.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    let changed =
        QpChange::from_raw(flags.0, info).and_then(|change| provider.modify_qp(&record.qp, &change));
    answer(changed.map(|real| {
        // SAFETY: NULL or the caller's.
        unsafe { store(sizes, sys::ibt_queue_sizes_t { qs_sq: real.send, qs_rq: real.receive }) }
    }))
}

unsafe extern "C" fn alloc_cq<P: Provider>(
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
    let room = kernel::Vacant::new()?;
    let client = ArcRoom::new()?.fill(ClientCq::new(adapter.client.load(Ordering::Acquire), client));
    let (cq, entries) = adapter.provider.alloc_cq(entries, client.clone())?;
    // No queue pair has it yet, so nothing completes before this operation has returned.
    client.open();
    Ok((room.fill(CqRecord { cq, client }), entries))
}

unsafe extern "C" fn free_cq<P: Provider>(hca: sys::ibc_hca_hdl_t, cq: sys::ibc_cq_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<CqRecord<P>, _>(cq) }) else { return sys::IBT_CQ_HDL_INVALID };
    answer(provider.free_cq(&record.cq).map(|()| {
        record.client.shut();
        // SAFETY: freed, and no handler is running: the client does not use it any more.
        unsafe { take::<CqRecord<P>, _>(cq) }
    }))
}

unsafe extern "C" fn query_cq<P: Provider>(
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

unsafe extern "C" fn modify_cq<P: Provider>(
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

unsafe extern "C" fn register_mr<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    pd: sys::ibc_pd_hdl_t,
    attributes: *mut sys::ibt_mr_attr_t,
    _reserved: *mut core::ffi::c_void,
    mr: *mut sys::ibt_mr_hdl_t,
    description: *mut sys::ibt_mr_desc_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(pd) = (unsafe { share::<P::Pd, _>(pd) }) else { return sys::IBT_PD_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    let made = kernel_memory(attributes).and_then(|access| {
        let room = kernel::Vacant::new()?;
        // SAFETY: the client keeps the memory mapped until it has deregistered it.
        let region = KArc::new(unsafe { Region::new(attributes.mr_vaddr, attributes.mr_len, access) })?;
        let (made, keys) = provider.register(&pd, region.clone())?;
        Ok((room.fill(MrRecord::<P> { mr: made, region }), keys))
    });
    answer(made.map(|(record, keys)| {
        let described = sys::ibt_mr_desc_t {
            md_vaddr: attributes.mr_vaddr,
            md_lkey: keys.local,
            md_rkey: keys.remote,
            md_sync_required: sys::B_FALSE,
        };
        // SAFETY: NULL or the caller's.
        unsafe { store(description, described) };
        // SAFETY: as above.
        unsafe { store(mr, record.into_raw().as_ptr().cast()) };
    }))
}

/// Whether it is a registration of kernel memory that makes sense.
fn kernel_memory(attributes: &sys::ibt_mr_attr_t) -> Result<Access, Status> {
    let has = |flag: sys::ibt_mr_flags_t| attributes.mr_flags.0 & flag.0 != 0;
    if !attributes.mr_as.is_null()
        || has(sys::IBT_MR_USER_BUF)
        || has(sys::IBT_MR_ZBVA)
        || has(sys::IBT_MR_PHYS_IOVA)
    {
        return Err(Status::NOT_SUPPORTED);
    }
    let end = attributes.mr_vaddr.checked_add(attributes.mr_len);
    if attributes.mr_len == 0 || end.is_none() {
        return Err(Status::MR_LEN_INVALID);
    }
    if attributes.mr_vaddr < KERNEL_BASE {
        return Err(Status::MR_VA_INVALID);
    }
    let access = Access {
        local_write: has(sys::IBT_MR_ENABLE_LOCAL_WRITE),
        remote_write: has(sys::IBT_MR_ENABLE_REMOTE_WRITE) || has(sys::IBT_MR_ENABLE_REMOTE_ATOMIC),
        remote_read: has(sys::IBT_MR_ENABLE_REMOTE_READ),
    };
    if access.remote_write && !access.local_write {
        return Err(Status::MR_ACCESS_REQ_INVALID);
    }
    Ok(access)
}

unsafe extern "C" fn deregister_mr<P: Provider>(hca: sys::ibc_hca_hdl_t, mr: sys::ibt_mr_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<MrRecord<P>, _>(mr) }) else { return sys::IBT_MR_HDL_INVALID };
    answer(provider.deregister(&record.mr).map(|()| {
        // Nobody takes it up any more; a copy that is under way ends soon.
        while !KArc::is_unique(&record.region) {
            sleep(Duration::from_millis(1));
        }
        // SAFETY: freed: the client does not use it any more.
        unsafe { take::<MrRecord<P>, _>(mr) }
    }))
}

/// Memory of this machine is always in step.
unsafe extern "C" fn sync_mr(_: sys::ibc_hca_hdl_t, _: *mut sys::ibt_mr_sync_t, _: usize) -> Raw {
    sys::IBT_SUCCESS
}

unsafe extern "C" fn attach_mcg<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    gid: sys::ib_gid_t,
    lid: sys::ib_lid_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    answer(provider.attach_group(&record.qp, Gid::from_raw(&gid), lid))
}

unsafe extern "C" fn detach_mcg<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    gid: sys::ib_gid_t,
    lid: sys::ib_lid_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    answer(provider.detach_group(&record.qp, Gid::from_raw(&gid), lid))
}

unsafe extern "C" fn post_send<P: Provider>(
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

unsafe extern "C" fn post_recv<P: Provider>(
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

unsafe extern "C" fn poll_cq<P: Provider>(
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

unsafe extern "C" fn notify_cq<P: Provider>(
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
