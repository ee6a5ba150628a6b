//! Memory regions and I/O mappings.

use super::objects::{Kind, Mapping, Opaque, OpenHca, Region, drop_hold, hold};
use super::{Ibtl, arg, hdl, out, take};
use crate::adapter::driver::Mapped;
use crate::adapter::{Adapter, Driver};
use crate::os;
use crate::status::*;
use fabric::Arithmetic;
use fakekernel::{Cx, Export, FaultKind, Rule, cx, export};
use illumos_sys_hdrs::{
    B_FALSE, IBT_IOV_ALT_LKEY, IBT_IOV_BUF, IBT_IOV_NOSLEEP, IBT_IOV_RECV, IBT_IOV_USER_BUF,
    IBT_MR_ENABLE_REMOTE_ATOMIC, IBT_MR_ENABLE_REMOTE_READ, IBT_MR_ENABLE_REMOTE_WRITE, IBT_MR_NOSLEEP,
    ibt_all_wr_t, ibt_dmr_attr_t, ibt_hca_hdl_t, ibt_iov_attr_t, ibt_mi_hdl_t, ibt_mr_attr_t, ibt_mr_desc_t,
    ibt_mr_hdl_t, ibt_mr_query_attr_t, ibt_mr_sync_t, ibt_pd_hdl_t, ibt_status_t, ibt_wr_ds_t,
};

/// Others may reach a region that has any of these.
const REMOTE: u32 =
    IBT_MR_ENABLE_REMOTE_READ.0 | IBT_MR_ENABLE_REMOTE_WRITE.0 | IBT_MR_ENABLE_REMOTE_ATOMIC.0;
/// Bytes of a page, where pieces of memory end.
const PAGE: u64 = 4096;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_deregister_mr, ibt_query_mr, ibt_register_dma_mr;
        UKS: ibt_register_mr, ibt_map_mem_iov, ibt_unmap_mem_iov, ibt_sync_mr;
    }
}

unsafe extern "C" fn ibt_register_mr(
    hca_hdl: ibt_hca_hdl_t,
    pd: ibt_pd_hdl_t,
    mem_attr: *mut ibt_mr_attr_t,
    mr_hdl_p: *mut ibt_mr_hdl_t,
    mem_desc: *mut ibt_mr_desc_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let domain = hdl!(cx, ibtl.pds, pd, IBT_PD_HDL_INVALID);
    let attr = arg!(cx, mem_attr, "the ibt_mr_attr_t of ibt_register_mr");
    if attr.mr_flags.0 & IBT_MR_NOSLEEP.0 == 0 {
        super::command(&cx);
    }
    // An address space other than the kernel's would be a process's.
    if !attr.mr_as.is_null() {
        return IBT_NOT_SUPPORTED;
    }
    if cx.fault(FaultKind("ibt_register_mr")) {
        return IBT_INSUFF_RESOURCE;
    }
    let mr = match open.adapter().register_mr(&domain.pd, &attr) {
        Ok(mr) => mr,
        Err(e) => return e,
    };
    open.gained(Kind::Mr);
    let remote = attr.mr_flags.0 & REMOTE != 0;
    let desc = ibt_mr_desc_t {
        md_vaddr: mr.base(),
        md_lkey: mr.lkey(),
        md_rkey: if remote { mr.lkey() } else { 0 },
        md_sync_required: B_FALSE,
    };
    let detail = format!("{} bytes at {:#x}", mr.len(), mr.base());
    let handle = ibtl.regions.insert(Region { mr, open, pd: Opaque::of(pd) });
    hold(cx.kernel(), "ibt_mr_hdl_t", handle, detail);
    out!(mr_hdl_p, handle.cast());
    out!(mem_desc, desc);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_deregister_mr(_hca_hdl: ibt_hca_hdl_t, mr_hdl: ibt_mr_hdl_t) -> ibt_status_t {
    let cx = cx();
    super::command(&cx);
    let ibtl = Ibtl::of(cx.kernel());
    let region = hdl!(cx, ibtl.regions, mr_hdl, IBT_MR_HDL_INVALID);
    ibtl.posted.unregistered(&cx, region.mr.base(), region.mr.len(), region.mr.lkey());
    if let Err(e) = region.open.adapter().deregister_mr(&region.mr) {
        return e;
    }
    let _ = take(&cx, &ibtl.regions, mr_hdl);
    region.open.lost(Kind::Mr);
    drop_hold(cx.kernel(), "ibt_mr_hdl_t", mr_hdl);
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_query_mr(
    _hca_hdl: ibt_hca_hdl_t,
    mr_hdl: ibt_mr_hdl_t,
    attr: *mut ibt_mr_query_attr_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let region = hdl!(cx, ibtl.regions, mr_hdl, IBT_MR_HDL_INVALID);
    let mut answer = ibt_mr_query_attr_t {
        mr_lkey: region.mr.lkey(),
        mr_pd: region.pd.get().cast(),
        mr_sync_required: B_FALSE,
        ..Default::default()
    };
    answer.mr_lbounds.pb_addr = region.mr.base();
    answer.mr_lbounds.pb_len = region.mr.len() as usize;
    out!(attr, answer);
    IBT_SUCCESS
}

/// The HCA does not claim `IBT_HCA2_DMA_MR`.
unsafe extern "C" fn ibt_register_dma_mr(
    _hca_hdl: ibt_hca_hdl_t,
    _pd: ibt_pd_hdl_t,
    _mem_attr: *mut ibt_dmr_attr_t,
    _mr_hdl_p: *mut ibt_mr_hdl_t,
    _mem_desc: *mut ibt_mr_desc_t,
) -> ibt_status_t {
    cx().may_block();
    IBT_NOT_SUPPORTED
}

/// Nothing to do: the memory of one process is coherent.
unsafe extern "C" fn ibt_sync_mr(
    _hca_hdl: ibt_hca_hdl_t,
    _mr_segments: *mut ibt_mr_sync_t,
    _num_segments: usize,
) -> ibt_status_t {
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_map_mem_iov(
    hca_hdl: ibt_hca_hdl_t,
    iov_attr: *mut ibt_iov_attr_t,
    wr: *mut ibt_all_wr_t,
    mi_hdl: *mut ibt_mi_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    let attr = arg!(cx, iov_attr, "the ibt_iov_attr_t of ibt_map_mem_iov");
    let flag = |f: illumos_sys_hdrs::ibt_iov_flags_t| attr.iov_flags.0 & f.0 != 0;
    if !flag(IBT_IOV_NOSLEEP) {
        cx.may_block();
    }
    if let Adapter::Driver(driver) = open.adapter() {
        return map_by_driver(&cx, &ibtl, &open, driver, &attr, wr, mi_hdl);
    }
    let Some(hca) = open.adapter().model().map(|hca| &hca.config().attr) else { return IBT_NOT_SUPPORTED };
    if !hca.res_lkey || flag(IBT_IOV_BUF) || flag(IBT_IOV_USER_BUF) || !attr.iov_as.is_null() {
        return IBT_NOT_SUPPORTED;
    }
    if flag(IBT_IOV_NOSLEEP) && cx.fault(FaultKind("ibt_map_mem_iov")) {
        return IBT_INSUFF_RESOURCE;
    }
    let blocks = blocks(&attr);
    if !all_memory(&cx, &blocks) {
        return illumos_sys_hdrs::ibt_status_e(fabric::Error::CiFailure.status());
    }
    let pieces = match broken_at_pages(&blocks, usable_sgl(&cx, &attr)) {
        Ok(pieces) => pieces,
        Err(one_too_many) => {
            refuse(&cx, &ibtl, &open, &attr, one_too_many);
            return IBT_SGL_TOO_SMALL;
        }
    };
    let key = if flag(IBT_IOV_ALT_LKEY) { attr.iov_alt_lkey } else { hca.reserved_lkey };
    fill_request(wr, flag(IBT_IOV_RECV), &pieces, key);
    bind(&cx, &ibtl, &open, pieces, None, mi_hdl);
    IBT_SUCCESS
}

/// Address and length of the blocks that are not empty.
fn blocks(attr: &ibt_iov_attr_t) -> Vec<(u64, u64)> {
    // SAFETY: the interface wants an array of that many blocks.
    let iov = unsafe { crate::ptr::elements(attr.iov, attr.iov_list_len as usize) };
    iov.iter().filter(|p| p.iov_len > 0).map(|p| (p.iov_addr.addr() as u64, p.iov_len as u64)).collect()
}

/// The pieces that the adapter is given: a block ends at each page, as if no two pages of it lay side by side in physical memory. The
/// first block that exceeds `most`, if one does.
fn broken_at_pages(blocks: &[(u64, u64)], most: usize) -> Result<Vec<(u64, u64)>, (u64, u64)> {
    let mut pieces = Vec::new();
    for &(start, len) in blocks {
        let (mut at, end) = (start, start + len);
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            pieces.push((at, next - at));
            at = next;
        }
        if pieces.len() > most {
            return Err((start, len));
        }
    }
    Ok(pieces)
}

/// What `hermon` does with a list that is too short (`hermon_ci.c`, `hermon_ci_map_mem_iov`): it gives back what it had bound for the
/// blocks before and forgets the one it has just bound for this one. It frees its record of them with the size for all blocks, and has
/// allocated that for those that are not empty.
fn refuse(cx: &Cx, ibtl: &Ibtl, open: &OpenHca, attr: &ibt_iov_attr_t, block: (u64, u64)) {
    let arithmetic = open.adapter().model().map(|hca| hca.config().attr.arithmetic);
    if arithmetic != Some(Arithmetic::Hermon) {
        return;
    }
    cx.check(blocks(attr).len() == attr.iov_list_len as usize, Rule::HeapCorruption, || {
        "ibt_map_mem_iov refuses a list with empty blocks, and frees more memory than it has allocated".into()
    });
    let lost = Mapping { device: open.device.clone(), pieces: vec![block], mapped: None };
    let detail = format!("lost by ibt_map_mem_iov at IBT_SGL_TOO_SMALL, bound to {} bytes", block.1);
    hold(cx.kernel(), "ddi_dma_handle_t", ibtl.mappings.insert(lost), detail);
}

/// An LSO header takes room from the scatter/gather list: 16 bytes per entry, 4 bytes of its own length.
fn usable_sgl(cx: &Cx, attr: &ibt_iov_attr_t) -> usize {
    let header = match attr.iov_lso_hdr_sz {
        0 => 0,
        size => (size as usize + 4).div_ceil(16),
    };
    let list = attr.iov_wr_nds as usize;
    cx.check(header <= list, Rule::AbsurdArgument, || {
        format!("ibt_map_mem_iov with a list of {list} and a header that takes {header}: no bound is left")
    });
    list.saturating_sub(header)
}

fn all_memory(cx: &Cx, pieces: &[(u64, u64)]) -> bool {
    let bad = pieces.iter().find(|&&(at, len)| !os::is_live(cx.kernel(), at, len));
    if let Some((at, len)) = bad {
        let what = os::explain(cx.kernel(), *at);
        cx.violate(
            Rule::HeapCorruption,
            format!("ibt_map_mem_iov of {len} bytes that are not live memory: {what}"),
        );
    }
    bad.is_none()
}

/// The software HCA reaches memory by its virtual address, so the pieces go through as they are.
fn fill_request(wr: *mut ibt_all_wr_t, receive: bool, pieces: &[(u64, u64)], key: u32) {
    // SAFETY: the caller's request holds a list for `iov_wr_nds` entries, which the pieces were checked to fit; both members
    // of the union are reached by raw pointers.
    let (sgl, nds) = unsafe { request_list(wr, receive) };
    for (n, &(at, len)) in pieces.iter().enumerate() {
        let entry = ibt_wr_ds_t { ds_va: at, ds_key: key, ds_len: len as u32 };
        // SAFETY: `n` is below the number of usable entries.
        unsafe { crate::ptr::set_element(sgl, n, entry) };
    }
    out!(nds, pieces.len() as u32);
}

/// Where a work request keeps its list, and how many entries it has.
///
/// # Safety
///
/// `wr` points to a work request of that kind.
unsafe fn request_list(wr: *mut ibt_all_wr_t, receive: bool) -> (*mut ibt_wr_ds_t, *mut u32) {
    if receive {
        let recv: *mut illumos_sys_hdrs::ibt_recv_wr_t = wr.cast();
        // SAFETY: by this function's contract; a union begins where its members begin.
        let value = unsafe { recv.read_unaligned() };
        let nds = recv.wrapping_byte_add(std::mem::offset_of!(illumos_sys_hdrs::ibt_recv_wr_t, wr_nds));
        return (value.wr_sgl, nds.cast());
    }
    let send: *mut illumos_sys_hdrs::ibt_send_wr_t = wr.cast();
    // SAFETY: as above.
    let value = unsafe { send.read_unaligned() };
    let nds = send.wrapping_byte_add(std::mem::offset_of!(illumos_sys_hdrs::ibt_send_wr_t, wr_nds));
    (value.wr_sgl, nds.cast())
}

/// A loaded adapter makes the list itself; what it is of is bound all the same, and has to be memory.
fn map_by_driver(
    cx: &Cx,
    ibtl: &Ibtl,
    open: &OpenHca,
    driver: &Driver,
    attr: &ibt_iov_attr_t,
    wr: *mut ibt_all_wr_t,
    mi_hdl: *mut ibt_mi_hdl_t,
) -> ibt_status_t {
    let blocks = blocks(attr);
    if cx.fault(FaultKind("ibt_map_mem_iov")) {
        return IBT_INSUFF_RESOURCE;
    }
    if !all_memory(cx, &blocks) {
        return IBT_NOT_SUPPORTED;
    }
    match driver.map_mem_iov(*attr, wr) {
        Ok(mapped) => {
            bind(cx, ibtl, open, blocks, Some(mapped), mi_hdl);
            IBT_SUCCESS
        }
        Err(status) => status,
    }
}

fn bind(
    cx: &Cx,
    ibtl: &Ibtl,
    open: &OpenHca,
    pieces: Vec<(u64, u64)>,
    mapped: Option<Mapped>,
    mi_hdl: *mut ibt_mi_hdl_t,
) {
    for &(at, len) in &pieces {
        open.device.map(at, at + len);
    }
    let detail = format!("{} pieces", pieces.len());
    let handle = ibtl.mappings.insert(Mapping { device: open.device.clone(), pieces, mapped });
    hold(cx.kernel(), "ibt_mi_hdl_t", handle, detail);
    out!(mi_hdl, handle.cast());
}

unsafe extern "C" fn ibt_unmap_mem_iov(_hca_hdl: ibt_hca_hdl_t, mi_hdl: ibt_mi_hdl_t) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let Some(mapping) = take(&cx, &ibtl.mappings, mi_hdl) else { return IBT_MI_HDL_INVALID };
    for &(at, len) in &mapping.pieces {
        mapping.device.unmap(at, at + len);
    }
    check_unmapped(&cx, &ibtl, &mapping);
    drop_hold(cx.kernel(), "ibt_mi_hdl_t", mi_hdl);
    if let (Some(driver), Some(mapped)) = (mapping.device.adapter.driver(), mapping.mapped) {
        return of(driver.unmap_mem_iov(mapped));
    }
    IBT_SUCCESS
}

/// What is mapped once more an adapter may still have.
fn check_unmapped(cx: &Cx, ibtl: &Ibtl, mapping: &Mapping) {
    let Some(attr) = mapping.device.adapter.model().map(|hca| &hca.config().attr) else { return };
    for &(at, len) in mapping.pieces.iter().filter(|(at, len)| !mapping.device.is_mapped(*at, at + len)) {
        ibtl.posted.unregistered(cx, at, len, attr.reserved_lkey);
    }
}
