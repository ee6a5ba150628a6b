//! Queue pairs, and the groups they hear.

use core::sync::atomic::Ordering;

use illumos_sys_hdrs as sys;
use kernel::{KArc, Vacant};

use super::{Raw, adapter, provider, store};
use crate::address::Gid;
use crate::change::QpChange;
use crate::event::ClientQp;
use crate::objects::{CqRecord, QpRecord, SrqRecord, behind, share, take};
use crate::provider::Provider;
use crate::qp::{Purpose, QpRequest, QueueSizes};
use crate::status::{Status, answer};

pub(super) unsafe extern "C" fn alloc_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    client: sys::ibtl_qp_hdl_t,
    kind: sys::ibt_qp_type_t,
    attributes: *mut sys::ibt_qp_alloc_attr_t,
    sizes: *mut sys::ibt_chan_sizes_t,
    qpn: *mut sys::ib_qpn_t,
    qp: *mut sys::ibc_qp_hdl_t,
) -> Raw {
    let purpose = match kind {
        sys::IBT_UD_RQP => Purpose::Datagram,
        sys::IBT_RC_RQP => Purpose::Connection,
        _ => return sys::IBT_NOT_SUPPORTED,
    };
    // SAFETY: the contract of the operation.
    answer(unsafe { make_qp::<P>(hca, client, purpose, attributes, sizes, qpn, qp) })
}

pub(super) unsafe extern "C" fn alloc_special_qp<P: Provider>(
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

/// What a queue pair may not ask for: user memory, later allocation, receive side scaling, Fibre Channel.
const NOT_OFFERED: u32 = 0x7f & !sys::IBT_QP_USES_SRQ.0;

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
    if attributes.qp_alloc_flags.0 & NOT_OFFERED != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    // SAFETY: `ibtl` puts the adapter's own handles of the CQs there.
    let send_cq = unsafe { behind::<CqRecord<P>, _>(attributes.qp_opaque1) }.ok_or(Status::CQ_HDL_INVALID)?;
    // SAFETY: as above.
    let receive_cq =
        unsafe { behind::<CqRecord<P>, _>(attributes.qp_opaque2) }.ok_or(Status::CQ_HDL_INVALID)?;
    // SAFETY: a client's handle of a protection domain is the adapter's own.
    let pd = unsafe { share::<P::Pd, _>(attributes.qp_pd_hdl) }.ok_or(Status::PD_HDL_INVALID)?;
    let shares = attributes.qp_alloc_flags.0 & sys::IBT_QP_USES_SRQ.0 != 0;
    let srq = if shares {
        // SAFETY: with that flag, `ibtl` puts the adapter's own handle there.
        let record = unsafe { behind::<SrqRecord<P>, _>(attributes.qp_opaque3) };
        Some(record.ok_or(Status::SRQ_HDL_INVALID)?)
    } else {
        None
    };
    let room = Vacant::new()?;
    let client = KArc::new(ClientQp::new(adapter.client.load(Ordering::Acquire), client))?;
    let wanted = &attributes.qp_sizes;
    let request = QpRequest {
        purpose,
        send_cq: &send_cq.cq,
        receive_cq: &receive_cq.cq,
        pd: &pd,
        srq: srq.map(|record| &record.srq),
        sizes: QueueSizes {
            send: wanted.cs_sq,
            receive: wanted.cs_rq,
            send_segments: wanted.cs_sq_sgl,
            receive_segments: wanted.cs_rq_sgl,
        },
        all_signaled: attributes.qp_flags.0 & sys::IBT_WR_SIGNALED.0 == 0,
        large_sends: attributes.qp_flags.0 & sys::IBT_USES_LSO.0 != 0,
        reserved_key: attributes.qp_flags.0 & sys::IBT_FAST_REG_RES_LKEY.0 != 0,
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
    let srq = if shares { attributes.qp_srq_hdl } else { core::ptr::null_mut() };
    let flags = attributes.qp_flags;
    let is_connection = purpose == Purpose::Connection;
    let record = room.fill(QpRecord::<P> { qp, client, send_cq, receive_cq, srq, flags, is_connection });
    // SAFETY: NULL or the caller's.
    unsafe { store(sizes, real) };
    // SAFETY: as above.
    unsafe { store(qpn, query.qpn) };
    // SAFETY: as above.
    unsafe { store(handle, record.into_raw().as_ptr().cast()) };
    Ok(())
}

/// With `IBC_FREE_QP_ONLY` the number is kept, and the record with it, whose handle is the number's, too: `ibcm` may be about to move the queue
/// pair to the error state when its client, which `ibcm` has told that it may, frees it.
pub(super) unsafe extern "C" fn free_qp<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    qp: sys::ibc_qp_hdl_t,
    flags: sys::ibc_free_qp_flags_t,
    number: *mut sys::ibc_qpn_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(qp) }) else { return sys::IBT_CHAN_HDL_INVALID };
    let keeps = flags == sys::IBC_FREE_QP_ONLY;
    provider.free_qp(&record.qp, keeps);
    record.client.shut();
    // SAFETY: NULL or the caller's.
    unsafe { store(number, if keeps { qp.cast() } else { core::ptr::null_mut() }) };
    if !keeps {
        // SAFETY: freed with its number: nobody uses it any more.
        unsafe { take::<QpRecord<P>, _>(qp) };
    }
    sys::IBT_SUCCESS
}

pub(super) unsafe extern "C" fn release_qpn<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    number: sys::ibc_qpn_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: what `free_qp` has stored, once.
    let Some(record) = (unsafe { behind::<QpRecord<P>, _>(number) }) else { return sys::IBT_INVALID_PARAM };
    provider.release_qpn(&record.qp);
    // SAFETY: `ibcm` has forgotten the connection: nobody uses it any more.
    unsafe { take::<QpRecord<P>, _>(number) };
    sys::IBT_SUCCESS
}

pub(super) unsafe extern "C" fn query_qp<P: Provider>(
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
    attributes.qp_srq = record.srq;
    attributes.qp_flags = record.flags;
    sys::IBT_SUCCESS
}

pub(super) unsafe extern "C" fn modify_qp<P: Provider>(
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
    let change = QpChange::from_raw(flags.0, info, record.is_connection);
    let changed = change.and_then(|change| provider.modify_qp(&record.qp, &change));
    answer(changed.map(|real| {
        // SAFETY: NULL or the caller's.
        unsafe { store(sizes, sys::ibt_queue_sizes_t { qs_sq: real.send, qs_rq: real.receive }) }
    }))
}

pub(super) unsafe extern "C" fn attach_mcg<P: Provider>(
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

pub(super) unsafe extern "C" fn detach_mcg<P: Provider>(
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
