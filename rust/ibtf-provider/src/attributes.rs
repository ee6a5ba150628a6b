//! [`Attributes`]: what an adapter can do (`ibt_hca_attr_t`).

use illumos_sys_hdrs as sys;
use kernel::ddi::DevInfo;

/// Fixed from attach on: `ibtl` copies them, and clients keep their copies.
///
/// What is not here is not offered: of reliable connections no RDMA, no atomic operations, no alternate paths.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// Node GUID, unlike that of any other adapter of the fabric, the same after a reboot.
    pub node_guid: u64,
    /// 24 bits. Neither 0x15b3 nor 0x05ad, for which `ibmf` and `ibcm` have special cases.
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// Number of ports, from 1.
    pub ports: u8,
    /// Entries of each port's P_Key table: what [`Provider::query_port`](crate::Provider::query_port) is given room for.
    pub pkeys: u16,
    /// Entries of each port's GID table, the same way.
    pub gids: u16,
    /// Queue pairs. `ibmf` needs a queue of 512.
    pub max_qps: u32,
    /// Work requests in a queue.
    pub max_queue: u32,
    /// Scatter/gather entries of a send. IPoIB prints a warning for each port below 59.
    pub max_send_segments: u32,
    /// Scatter/gather entries of a receive.
    pub max_receive_segments: u32,
    /// Completion queues.
    pub max_cqs: u32,
    /// Completions in a CQ, at least 1024 for each port.
    pub max_cq: u32,
    /// Completions, and microseconds, that a CQ's handler can be told to wait for; 0 if it cannot.
    pub max_moderation: u32,
    /// Memory regions.
    pub max_regions: u32,
    /// Address handles; `ibmf` takes 512 of each adapter.
    pub max_address_handles: u32,
    /// Protection domains.
    pub max_pds: u32,
    /// Shared receive queues; 0 if there are none.
    pub max_srqs: u32,
    /// Work requests in one.
    pub max_srq: u32,
    /// Scatter/gather entries of a receive in one.
    pub max_srq_segments: u32,
    /// Groups that queue pairs can be attached to.
    pub max_groups: u32,
    /// Queue pairs in one group.
    pub max_qps_of_group: u32,
    /// Checksums of IPoIB frames are computed.
    pub checksums: bool,
    /// Bytes of a large send's data, and of its header; 0 if there are none. Needs checksums and the reserved key.
    pub large_send: u32,
    /// See above.
    pub large_send_header: u32,
    /// The key of all kernel memory, which `ibc_map_mem_iov` gives out; `None` if there is none.
    pub reserved_key: Option<u32>,
}

impl Attributes {
    pub(crate) fn raw(&self, dip: DevInfo) -> sys::ibt_hca_attr_t {
        let mut raw = sys::ibt_hca_attr_t {
            hca_flags: sys::IBT_HCA_UD_MULTICAST
                | sys::IBT_HCA_PORT_UP
                | sys::IBT_HCA_CURRENT_QP_STATE
                | sys::IBT_HCA_PKEY_CNTR
                | sys::IBT_HCA_QKEY_CNTR
                | sys::IBT_HCA_AH_PORT_CHECK
                | sys::IBT_HCA_SI_GUID
                | sys::IBT_HCA_RNR_NAK
                | sys::IBT_HCA_WQE_SIZE_INFO,
            hca_flags2: sys::IBT_HCA2_PORT_CHANGE,
            hca_device_id: self.device_id,
            hca_version_id: 1,
            hca_max_chans: self.max_qps,
            hca_max_chan_sz: self.max_queue,
            hca_max_sgl: self.max_send_segments.min(self.max_receive_segments),
            hca_ud_send_sgl_sz: self.max_send_segments,
            hca_conn_send_sgl_sz: self.max_send_segments,
            hca_recv_sgl_sz: self.max_receive_segments,
            hca_max_cq: self.max_cqs,
            hca_max_cq_sz: self.max_cq,
            hca_max_cq_mod_count: self.max_moderation,
            hca_max_cq_mod_usec: self.max_moderation,
            hca_page_sz: sys::IBT_PAGE_4K,
            hca_max_memr: self.max_regions,
            hca_max_memr_len: 1 << 40,
            hca_max_rdma_in_chan: 16,
            hca_max_rdma_out_chan: 16,
            hca_max_mcg_chans: self.max_groups.saturating_mul(self.max_qps_of_group),
            hca_max_mcg: self.max_groups,
            hca_max_chan_per_mcg: self.max_qps_of_group,
            hca_max_partitions: self.pkeys.saturating_mul(u16::from(self.ports)),
            hca_nports: self.ports,
            hca_node_guid: self.node_guid,
            hca_si_guid: self.node_guid,
            hca_max_port_sgid_tbl_sz: u32::from(self.gids),
            hca_max_port_pkey_tbl_sz: self.pkeys,
            hca_max_pd: self.max_pds,
            hca_max_ud_dest: self.max_address_handles,
            hca_max_srqs: self.max_srqs,
            hca_max_srqs_sz: self.max_srq,
            hca_max_srq_sgl: self.max_srq_segments,
            hca_max_cq_handlers: 1,
            hca_dip: dip.as_raw(),
            hca_max_lso_size: self.large_send,
            hca_max_lso_hdr_size: self.large_send_header,
            hca_reserved_lkey: self.reserved_key.unwrap_or(0),
            ..Default::default()
        };
        if self.checksums {
            raw.hca_flags |= sys::IBT_HCA_CKSUM_FULL;
            raw.hca_flags2 |= sys::IBT_HCA2_IP_CLASS;
        }
        if self.max_srqs != 0 {
            raw.hca_flags |= sys::IBT_HCA_SRQ | sys::IBT_HCA_UD_SRQ;
        }
        if self.reserved_key.is_some() {
            raw.hca_flags2 |= sys::IBT_HCA2_RES_LKEY;
        }
        raw.set_hca_vendor_id(self.vendor_id & 0xff_ffff);
        raw
    }
}
