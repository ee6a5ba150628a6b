//! The operations as `ibtl` calls them (`ibc_operations_t`).
//!
//! Every function here has the contract of the operation of its name: handles are the adapter's own and not freed, records are
//! there for the time of the call, and results that may be NULL are looked at. `ibtl` and its clients leave fields that an operation
//! does not use uninitialised; they are integers and pointers that are not followed.

mod completion;
mod domain;
mod mapping;
mod memory;
mod post;
mod queue_pair;
mod shared;
#[cfg(test)]
mod tests;

use core::marker::PhantomData;
use core::slice;

use illumos_sys_hdrs as sys;

use crate::attributes::Attributes;
use crate::objects::{Adapter, behind};
use crate::port::PortReport;
use crate::provider::Provider;
use crate::refuse::{refuse0, refuse2, refuse3, refuse4, refuse5, refuse6, refuse7, refuse8, refuse10};
use crate::status::{Status, answer};
use completion::{alloc_cq, free_cq, modify_cq, notify_cq, poll_cq, query_cq};
use domain::{alloc_ah, alloc_pd, free_ah, free_pd, modify_ah, query_ah};
use mapping::{map_mem_iov, unmap_mem_iov};
use memory::{deregister_mr, register_mr, sync_mr};
use post::{post_recv, post_send};
use queue_pair::{
    alloc_qp, alloc_special_qp, attach_mcg, detach_mcg, free_qp, modify_qp, query_qp, release_qpn,
};
use shared::{alloc_srq, free_srq, modify_srq, post_srq, query_srq};

type Raw = sys::ibt_status_t;

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
        ibc_alloc_srq: Some(alloc_srq::<P>),
        ibc_free_srq: Some(free_srq::<P>),
        ibc_query_srq: Some(query_srq::<P>),
        ibc_modify_srq: Some(modify_srq::<P>),
        ibc_post_srq: Some(post_srq::<P>),
        ibc_map_mem_area: Some(refuse6),
        ibc_unmap_mem_area: Some(refuse2),
        ibc_map_mem_iov: Some(map_mem_iov::<P>),
        ibc_unmap_mem_iov: Some(unmap_mem_iov),
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

/// Capabilities of a port that nothing here depends on are accepted: `ibdma` gives an adapter up that refuses. A port is not shut down by
/// this, and takes no type of initialisation.
unsafe extern "C" fn modify_ports<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    port: u8,
    flags: sys::ibt_port_modify_flags_t,
    _init_type: u8,
) -> Raw {
    // SAFETY: the contract of the operation.
    let there =
        unsafe { adapter::<P>(hca) }.is_some_and(|adapter| (1..=adapter.attributes.ports).contains(&port));
    let refused = sys::IBT_PORT_SHUTDOWN.0 | sys::IBT_PORT_SET_INIT_TYPE.0;
    answer(match (there, flags.0 & refused) {
        (true, 0) => Ok(()),
        (true, _) => Err(Status::NOT_SUPPORTED),
        (false, _) => Err(Status::HCA_PORT_INVALID),
    })
}
