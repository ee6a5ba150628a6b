//! The reserved key: all of the kernel's memory by its addresses (`ibc_map_mem_iov`).
//!
//! There is nothing to undo: an adapter that copies by itself needs no mapping. The key is given out for what a client says that it keeps
//! mapped until it has unmapped it.

use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};

use illumos_sys_hdrs as sys;
use kernel::kernel_base;

use super::{Raw, adapter, store};
use crate::provider::Provider;
use crate::status::{Status, answer};

/// Handles are numbers, none of them twice in a long time, and no memory is taken for one.
static NEXT: AtomicUsize = AtomicUsize::new(1);

pub(super) unsafe extern "C" fn map_mem_iov<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    attributes: *mut sys::ibt_iov_attr_t,
    request: *mut sys::ibt_all_wr_t,
    handle: *mut sys::ibt_mi_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(adapter) = (unsafe { adapter::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    let Some(key) = adapter.attributes.reserved_key else { return sys::IBT_NOT_SUPPORTED };
    // SAFETY: the contract of the operation.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    if request.is_null() {
        return sys::IBT_INVALID_PARAM;
    }
    // SAFETY: the request is the caller's, with room for as many entries as the attributes say.
    let filled = unsafe { fill(key, attributes, request) };
    answer(filled.map(|()| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) << 4 | 1;
        // SAFETY: NULL or the caller's.
        unsafe { store(handle, core::ptr::without_provenance_mut(number)) }
    }))
}

/// # Safety
///
/// `request` is a work request, of receives if the flags say so, whose list has room for `iov_wr_nds` entries; the blocks are there.
unsafe fn fill(
    key: u32,
    attributes: &sys::ibt_iov_attr_t,
    request: *mut sys::ibt_all_wr_t,
) -> Result<(), Status> {
    let has = |flag: sys::ibt_iov_flags_t| attributes.iov_flags.0 & flag.0 != 0;
    if has(sys::IBT_IOV_BUF) || has(sys::IBT_IOV_USER_BUF) || !attributes.iov_as.is_null() {
        return Err(Status::NOT_SUPPORTED);
    }
    let key = if has(sys::IBT_IOV_ALT_LKEY) { attributes.iov_alt_lkey } else { key };
    // SAFETY: by this function's contract; both members are plain integers and pointers.
    let request = unsafe { &mut *request };
    let (list, count): (*mut sys::ibt_wr_ds_t, &mut u32) = if has(sys::IBT_IOV_RECV) {
        // SAFETY: as above; the flag says which it is.
        let receive = unsafe { &mut request.recv };
        (receive.wr_sgl, &mut receive.wr_nds)
    } else {
        // SAFETY: as above.
        let send = unsafe { &mut request.send };
        (send.wr_sgl, &mut send.wr_nds)
    };
    let room = attributes.iov_wr_nds.saturating_sub(of_header(attributes.iov_lso_hdr_sz)) as usize;
    if list.is_null() || attributes.iov.is_null() {
        return Err(Status::INVALID_PARAM);
    }
    // SAFETY: by this function's contract; any bytes are a value of an entry.
    let list = unsafe { slice::from_raw_parts_mut(list, room) };
    // SAFETY: by this function's contract.
    let blocks = unsafe { slice::from_raw_parts(attributes.iov, attributes.iov_list_len as usize) };
    let mut filled = 0;
    for block in blocks.iter().filter(|block| block.iov_len != 0) {
        let entry = list.get_mut(filled as usize).ok_or(Status::SGL_TOO_SMALL)?;
        let address = block.iov_addr.addr();
        if address < kernel_base() {
            return Err(Status::MR_VA_INVALID);
        }
        let len = u32::try_from(block.iov_len).map_err(|_| Status::MR_LEN_INVALID)?;
        *entry = sys::ibt_wr_ds_t { ds_va: address as u64, ds_key: key, ds_len: len };
        filled += 1;
    }
    *count = filled;
    Ok(())
}

/// Entries that the header of a large send takes, which is in the same request: 16 bytes each, and 4 for its length.
fn of_header(bytes: u32) -> u32 {
    if bytes == 0 { 0 } else { (bytes + 4).div_ceil(16) }
}

pub(super) unsafe extern "C" fn unmap_mem_iov(_: sys::ibc_hca_hdl_t, handle: sys::ibt_mi_hdl_t) -> Raw {
    if handle.is_null() { sys::IBT_MI_HDL_INVALID } else { sys::IBT_SUCCESS }
}
