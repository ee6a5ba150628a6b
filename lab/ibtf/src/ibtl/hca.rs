//! What an HCA is: `ibt_query_hca` and the list of HCAs.

use super::{Device, Ibtl, hdl, out};
use crate::adapter::Adapter;
use crate::os;
use crate::status::*;
use fakekernel::{Export, cx, export};
use illumos_sys_hdrs::{
    IBT_HCA_AH_PORT_CHECK, IBT_HCA_CKSUM_FULL, IBT_HCA_CURRENT_QP_STATE, IBT_HCA_PKEY_CNTR, IBT_HCA_PORT_UP,
    IBT_HCA_QKEY_CNTR, IBT_HCA_SRQ, IBT_HCA_UD_MULTICAST, IBT_HCA_UD_SRQ, IBT_HCA_WQE_SIZE_INFO,
    IBT_HCA2_IP_CLASS, IBT_HCA2_PORT_CHANGE, IBT_HCA2_RES_LKEY, IBT_PAGE_4K, ib_guid_t, ibt_hca_attr_t,
    ibt_hca_flags_e, ibt_hca_flags2_e, ibt_hca_hdl_t, ibt_status_t, uint_t,
};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UKS: ibt_query_hca;
        UK: ibt_query_hca_byguid, ibt_get_hca_list, ibt_free_hca_list, ibt_hw_is_present;
    }
}

unsafe extern "C" fn ibt_query_hca(hca_hdl: ibt_hca_hdl_t, hca_attrs: *mut ibt_hca_attr_t) -> ibt_status_t {
    let cx = cx();
    let ibtl = Ibtl::of(cx.kernel());
    let open = hdl!(cx, ibtl.opens, hca_hdl, IBT_HCA_HDL_INVALID);
    out!(hca_attrs, attributes(&open.device));
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_query_hca_byguid(
    hca_guid: ib_guid_t,
    hca_attrs: *mut ibt_hca_attr_t,
) -> ibt_status_t {
    let cx = cx();
    let Some(device) = Ibtl::of(cx.kernel()).device(hca_guid) else { return IBT_HCA_INVALID };
    out!(hca_attrs, attributes(&device));
    IBT_SUCCESS
}

/// RDMA operations under way that the HCA claims for a channel. It has none, and clients that ask for some never use them.
pub(crate) const RDMA_DEPTH: u8 = 4;

fn flags(attr: &fabric::HcaAttr) -> (ibt_hca_flags_e, ibt_hca_flags2_e) {
    let mut flags = IBT_HCA_UD_MULTICAST.0
        | IBT_HCA_PORT_UP.0
        | IBT_HCA_CURRENT_QP_STATE.0
        | IBT_HCA_PKEY_CNTR.0
        | IBT_HCA_QKEY_CNTR.0
        | IBT_HCA_AH_PORT_CHECK.0
        | IBT_HCA_WQE_SIZE_INFO.0;
    let mut flags2 = IBT_HCA2_PORT_CHANGE.0;
    if attr.max_srq != 0 {
        flags |= IBT_HCA_SRQ.0 | IBT_HCA_UD_SRQ.0;
    }
    if attr.cksum_full {
        flags |= IBT_HCA_CKSUM_FULL.0;
        flags2 |= IBT_HCA2_IP_CLASS.0;
    }
    if attr.res_lkey {
        flags2 |= IBT_HCA2_RES_LKEY.0;
    }
    (ibt_hca_flags_e(flags), ibt_hca_flags2_e(flags2))
}

/// The attributes an HCA driver hands in when it attaches. What the software HCA has none of is zero.
fn attributes(device: &Device) -> ibt_hca_attr_t {
    match &device.adapter {
        Adapter::Model(hca) => attributes_of_model(device, hca),
        Adapter::Driver(driver) => driver.attributes(),
    }
}

fn attributes_of_model(device: &Device, hca: &fabric::Hca) -> ibt_hca_attr_t {
    let config = hca.config();
    let attr = &config.attr;
    let (hca_flags, hca_flags2) = flags(attr);
    let tables = config.ports.iter().map(|p| (p.pkeys, p.gids));
    let (pkeys, gids) = tables.fold((0, 0), |(a, b), (c, d)| (a.max(c), b.max(d)));
    let mut out = ibt_hca_attr_t {
        hca_flags,
        hca_flags2,
        hca_device_id: attr.device_id,
        hca_version_id: attr.version_id,
        hca_max_chans: attr.max_qp,
        hca_max_chan_sz: attr.max_chan_sz,
        hca_max_sgl: attr.max_sgl,
        hca_max_cq: attr.max_cq,
        hca_max_cq_sz: attr.max_cq_sz,
        hca_page_sz: IBT_PAGE_4K,
        hca_max_memr: attr.max_mr,
        hca_max_memr_len: attr.max_mr_len,
        hca_max_mcg_chans: attr.max_mcg * attr.max_qp_per_mcg,
        hca_max_mcg: attr.max_mcg,
        hca_max_chan_per_mcg: attr.max_qp_per_mcg,
        hca_max_partitions: pkeys,
        hca_nports: device.nports(),
        hca_node_guid: device.guid,
        hca_si_guid: device.guid,
        hca_max_port_sgid_tbl_sz: u32::from(gids),
        hca_max_port_pkey_tbl_sz: pkeys,
        hca_max_pd: attr.max_pd,
        hca_max_ud_dest: attr.max_ah,
        hca_max_srqs: attr.max_srq,
        hca_max_srqs_sz: attr.max_srq_sz,
        hca_max_srq_sgl: attr.max_srq_sgl,
        hca_max_cq_handlers: attr.max_cq_handlers,
        hca_reserved_lkey: if attr.res_lkey { attr.reserved_lkey } else { 0 },
        hca_max_lso_size: attr.max_lso_size,
        hca_max_lso_hdr_size: attr.max_lso_hdr_size,
        hca_max_inline_size: attr.max_inline,
        hca_max_cq_mod_count: 0xffff,
        hca_max_cq_mod_usec: 0xffff,
        hca_ud_send_inline_sz: attr.max_inline,
        hca_recv_sgl_sz: attr.recv_sgl,
        hca_ud_send_sgl_sz: attr.ud_send_sgl,
        hca_conn_send_sgl_sz: attr.conn_send_sgl,
        hca_local_ack_delay: crate::ibcm::ACK_DELAY,
        hca_max_rdma_in_chan: RDMA_DEPTH,
        hca_max_rdma_out_chan: RDMA_DEPTH,
        hca_dip: device.dip.get().cast(),
        ..Default::default()
    };
    out.set_hca_vendor_id(attr.vendor_id);
    out
}

unsafe extern "C" fn ibt_get_hca_list(hca_list_p: *mut *mut ib_guid_t) -> uint_t {
    let cx = cx();
    cx.may_block();
    let guids: Vec<u64> = Ibtl::of(cx.kernel()).all_devices().iter().map(|d| d.guid).collect();
    if guids.is_empty() || hca_list_p.is_null() {
        return guids.len() as uint_t;
    }
    let bytes: Vec<u8> = guids.iter().flat_map(|g| g.to_ne_bytes()).collect();
    out!(hca_list_p, os::give(&cx, &bytes).cast());
    guids.len() as uint_t
}

unsafe extern "C" fn ibt_free_hca_list(hca_list: *mut ib_guid_t, entries: uint_t) {
    let cx = cx();
    os::take_back(&cx, hca_list.cast(), entries as usize * size_of::<ib_guid_t>());
}

unsafe extern "C" fn ibt_hw_is_present() -> std::ffi::c_int {
    let cx = cx();
    i32::from(!Ibtl::of(cx.kernel()).all_devices().is_empty())
}
