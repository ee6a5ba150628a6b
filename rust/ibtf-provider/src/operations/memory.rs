//! Memory regions.

use illumos_sys_hdrs as sys;
use kernel::time::{Duration, sleep};
use kernel::{KArc, Vacant, kernel_base};

use super::{Raw, provider, store};
use crate::memory::{Access, Region};
use crate::objects::{MrRecord, behind, share, take};
use crate::provider::Provider;
use crate::status::{Status, answer};

pub(super) unsafe extern "C" fn register_mr<P: Provider>(
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
        let room = Vacant::new()?;
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
    if attributes.mr_vaddr < kernel_base() as u64 {
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

pub(super) unsafe extern "C" fn deregister_mr<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    mr: sys::ibt_mr_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(record) = (unsafe { behind::<MrRecord<P>, _>(mr) }) else { return sys::IBT_MR_HDL_INVALID };
    if let Err(status) = provider.deregister(&record.mr) {
        return status.raw();
    }
    // Nobody takes it up any more; a copy that is under way ends soon.
    while !KArc::is_unique(&record.region) {
        sleep(Duration::from_millis(1));
    }
    // SAFETY: freed: the client does not use it any more, and `record` ends here.
    unsafe { take::<MrRecord<P>, _>(mr) };
    sys::IBT_SUCCESS
}

/// Memory of this machine is always in step.
pub(super) unsafe extern "C" fn sync_mr(_: sys::ibc_hca_hdl_t, _: *mut sys::ibt_mr_sync_t, _: usize) -> Raw {
    sys::IBT_SUCCESS
}
