/*
 * This file and its contents are supplied under the terms of the
 * Common Development and Distribution License ("CDDL"), version 1.0.
 * You may only use this file in accordance with the terms of version
 * 1.0 of the CDDL.
 *
 * A full copy of the text of the CDDL should have accompanied this
 * source.  A copy of the CDDL is also available via the Internet at
 * http://www.illumos.org/license/CDDL.
 */

/*
 * IBTF client interface: attachment, HCAs, completion queues, memory,
 * multicast groups, paths, services and partitions (modules ibtl and ibcm).
 */

#ifndef	_SYS_IB_IBTL_IBTI_COMMON_H
#define	_SYS_IB_IBTL_IBTI_COMMON_H

#include <netinet/in.h>
#include <sys/byteorder.h>
#include <sys/dditypes.h>
#include <sys/ib/ib_types.h>
#include <sys/ib/ibtl/ibti_cm.h>
#include <sys/ib/ibtl/ibtl_status.h>
#include <sys/ib/ibtl/ibtl_types.h>
#include <sys/types.h>

#define	IBTI_V1	1
#define	IBTI_V2	2
#define	IBTI_V3	3
#define	IBTI_V4	4
#define	IBTI_V_CURR	4

#define	IBT_IPADDR_NO_FLAGS	0
#define	IBT_CQ_HID_DEFAULT	1
#define	IBT_IPADDR_DUPLICATE	1
#define	IBT_MAX_SPECIAL_PATHS	2

#define	IBT_SBIND_NO_FLAGS	0
#define	IBT_NODE_TYPE_CHANNEL_ADAPTER	1
#define	IBT_SBIND_NO_CLEANUP	1
#define	IBT_NODE_TYPE_SWITCH	2
#define	IBT_NODE_TYPE_ROUTER	3
#define	IBT_TEST_DEV	999

struct buf;

typedef enum ibt_chan_open_flags_e {
	IBT_OCHAN_NO_FLAGS = 0x0,
	IBT_OCHAN_REDIRECTED = 0x1,
	IBT_OCHAN_PORT_REDIRECTED = 0x2,
	IBT_OCHAN_DUP = 0x4,
	IBT_OCHAN_PORT_FIXED = 0x8,
	IBT_OCHAN_OPAQUE1 = 0x10,
	IBT_OCHAN_OPAQUE2 = 0x20,
	IBT_OCHAN_OPAQUE3 = 0x40,
	IBT_OCHAN_OPAQUE4 = 0x80,
	IBT_OCHAN_OPAQUE5 = 0x100,
	IBT_OCHAN_OPAQUE6 = 0x200
} ibt_chan_open_flags_t;

typedef enum ibt_clnt_class_e {
	IBT_STORAGE_DEV = 1,
	IBT_NETWORK_DEV = 2,
	IBT_GENERIC_DEV = 3,
	IBT_NETWORK = 4,
	IBT_GENERIC = 5,
	IBT_USER = 6,
	IBT_IBMA = 7,
	IBT_CM = 8,
	IBT_DM = 9,
	IBT_DM_AGENT = 10,
	IBT_GENERIC_MISC = 11,
	IBT_CLASS_NUM = 12
} ibt_clnt_class_t;

typedef enum ibt_cmdelay_flags_e {
	IBT_CM_DELAY_REQ = 0,
	IBT_CM_DELAY_REP = 1,
	IBT_CM_DELAY_LAP = 2
} ibt_cmdelay_flags_t;

typedef enum ibt_path_flags_e {
	IBT_PATH_NO_FLAGS = 0x0,
	IBT_PATH_APM = 0x1,
	IBT_PATH_AVAIL = 0x4,
	IBT_PATH_PERF = 0x8,
	IBT_PATH_MULTI_SVC_DEST = 0x10,
	IBT_PATH_HOP = 0x20,
	IBT_PATH_PKEY = 0x40
} ibt_path_flags_t;

typedef enum ibt_qflags_e {
	IBT_SEND_Q = 1,
	IBT_RECV_Q = 2
} ibt_qflags_t;

typedef enum ibt_service_flags_e {
	IBT_SRV_NO_FLAGS = 0,
	IBT_SRV_PEER_TYPE_SID = 1
} ibt_service_flags_t;

typedef enum ibt_srv_data_flags_e {
	IBT_NO_SDATA = 0x0,
	IBT_SDATA8_0 = 0x1,
	IBT_SDATA8_1 = 0x2,
	IBT_SDATA8_2 = 0x4,
	IBT_SDATA8_3 = 0x8,
	IBT_SDATA8_4 = 0x10,
	IBT_SDATA8_5 = 0x20,
	IBT_SDATA8_6 = 0x40,
	IBT_SDATA8_7 = 0x80,
	IBT_SDATA8_8 = 0x100,
	IBT_SDATA8_9 = 0x200,
	IBT_SDATA8_10 = 0x400,
	IBT_SDATA8_11 = 0x800,
	IBT_SDATA8_12 = 0x1000,
	IBT_SDATA8_13 = 0x2000,
	IBT_SDATA8_14 = 0x4000,
	IBT_SDATA8_15 = 0x8000,
	IBT_SDATA16_0 = 0x10000,
	IBT_SDATA16_1 = 0x20000,
	IBT_SDATA16_2 = 0x40000,
	IBT_SDATA16_3 = 0x80000,
	IBT_SDATA16_4 = 0x100000,
	IBT_SDATA16_5 = 0x200000,
	IBT_SDATA16_6 = 0x400000,
	IBT_SDATA16_7 = 0x800000,
	IBT_SDATA32_0 = 0x1000000,
	IBT_SDATA32_1 = 0x2000000,
	IBT_SDATA32_2 = 0x4000000,
	IBT_SDATA32_3 = 0x8000000,
	IBT_SDATA64_0 = 0x10000000,
	IBT_SDATA64_1 = 0x20000000,
	IBT_SDATA_ALL = 0x3fffffff
} ibt_srv_data_flags_t;

typedef enum ibt_subnet_event_code_e {
	IBT_SM_EVENT_MCG_CREATED = 1,
	IBT_SM_EVENT_MCG_DELETED = 2,
	IBT_SM_EVENT_AVAILABLE = 3,
	IBT_SM_EVENT_UNAVAILABLE = 4,
	IBT_SM_EVENT_GID_AVAIL = 5,
	IBT_SM_EVENT_GID_UNAVAIL = 6
} ibt_subnet_event_code_t;

typedef struct ibt_alt_ip_path_attr_s ibt_alt_ip_path_attr_t;
typedef struct ibt_alt_path_attr_s ibt_alt_path_attr_t;
typedef struct ibt_alt_path_info_s ibt_alt_path_info_t;
typedef struct ibt_ap_returns_s ibt_ap_returns_t;
typedef struct ibt_ar_s ibt_ar_t;
typedef struct ibt_async_event_s ibt_async_event_t;
typedef struct ibt_chan_open_args_s ibt_chan_open_args_t;
typedef struct ibt_clnt_modinfo_s ibt_clnt_modinfo_t;
typedef struct ibt_ip_cm_info_s ibt_ip_cm_info_t;
typedef struct ibt_ip_path_attr_s ibt_ip_path_attr_t;
typedef struct ibt_mcg_attr_s ibt_mcg_attr_t;
typedef struct ibt_mcg_info_s ibt_mcg_info_t;
typedef struct ibt_mtu_req_s ibt_mtu_req_t;
typedef struct ibt_node_info_s ibt_node_info_t;
typedef struct ibt_part_attr_s ibt_part_attr_t;
typedef struct ibt_path_attr_s ibt_path_attr_t;
typedef struct ibt_path_info_s ibt_path_info_t;
typedef struct ibt_path_ip_src_s ibt_path_ip_src_t;
typedef struct ibt_prop_update_payload_s ibt_prop_update_payload_t;
typedef struct ibt_rc_returns_s ibt_rc_returns_t;
typedef struct ibt_srcip_attr_s ibt_srcip_attr_t;
typedef struct ibt_srcip_info_s ibt_srcip_info_t;
typedef struct ibt_srv_bind_s ibt_srv_bind_t;
typedef struct ibt_srv_data_s ibt_srv_data_t;
typedef struct ibt_srv_desc_s ibt_srv_desc_t;
typedef struct ibt_subnet_event_s ibt_subnet_event_t;
typedef struct ibt_ud_dest_attr_s ibt_ud_dest_attr_t;
typedef struct ibt_ud_returns_s ibt_ud_returns_t;
typedef void (*ibt_async_handler_t)(void *, ibt_hca_hdl_t, ibt_async_code_t,
    ibt_async_event_t *);
typedef void (*ibt_cq_handler_t)(ibt_cq_hdl_t, void *);
typedef void (*ibt_ip_path_handler_t)(void *, ibt_status_t, ibt_path_info_t *,
    uint8_t, ibt_path_ip_src_t *);
typedef void (*ibt_mcg_handler_t)(void *, ibt_status_t, ibt_mcg_info_t *);
typedef void (*ibt_memory_handler_t)(void *, ibt_hca_hdl_t, ibt_mem_code_t,
    ibt_mem_data_t *);
typedef void (*ibt_path_handler_t)(void *, ibt_status_t, ibt_path_info_t *,
    uint8_t);
typedef void (*ibt_recycle_handler_t)(ibt_status_t, void *);
typedef void (*ibt_sm_notice_handler_t)(void *, ib_gid_t,
    ibt_subnet_event_code_t, ibt_subnet_event_t *);
typedef int ibt_version_t;

struct ibt_alt_ip_path_attr_s {
	ibt_ip_addr_t	apa_dst_ip;
	ibt_ip_addr_t	apa_src_ip;
	ibt_srate_req_t	apa_srate;
	ibt_pkt_lt_req_t	apa_pkt_lt;
	uint_t	apa_flow:20;
	uint8_t	apa_sl:4;
	uint8_t	apa_hop;
	uint8_t	apa_tclass;
	zoneid_t	apa_zoneid;
};

struct ibt_alt_path_attr_s {
	ib_gid_t	apa_sgid;
	ib_gid_t	apa_dgid;
	ibt_srate_req_t	apa_srate;
	ibt_pkt_lt_req_t	apa_pkt_lt;
	uint_t	apa_flow:20;
	uint8_t	apa_sl:4;
	uint8_t	apa_hop;
	uint8_t	apa_tclass;
};

struct ibt_alt_path_info_s {
	ibt_cep_path_t	ap_alt_cep_path;
	ib_time_t	ap_alt_pkt_lt;
};

struct ibt_ap_returns_s {
	ibt_ap_status_t	ap_status;
	boolean_t	ap_arej_info_valid;
	ibt_arej_info_t	ap_arej_info;
	ibt_priv_data_len_t	ap_priv_data_len;
	void	*ap_priv_data;
};

struct ibt_ar_s {
	ib_gid_t	ar_gid;
	ib_pkey_t	ar_pkey;
	uint8_t	ar_data[16];
};

struct ibt_async_event_s {
	uint64_t	ev_fma_ena;
	ibt_channel_hdl_t	ev_chan_hdl;
	ibt_cq_hdl_t	ev_cq_hdl;
	ib_guid_t	ev_hca_guid;
	ibt_srq_hdl_t	ev_srq_hdl;
	ibt_port_change_t	ev_port_flags;
	uint8_t	ev_port;
	ibt_fc_syndrome_t	ev_fc;
};

struct ibt_chan_open_args_s {
	ibt_path_info_t	*oc_path;
	ibt_cm_handler_t	oc_cm_handler;
	void	*oc_cm_clnt_private;
	ibt_rnr_retry_cnt_t	oc_path_rnr_retry_cnt;
	uint8_t	oc_path_retry_cnt:3;
	uint8_t	oc_rdma_ra_out;
	uint8_t	oc_rdma_ra_in;
	ibt_priv_data_len_t	oc_priv_data_len;
	void	*oc_priv_data;
	ibt_channel_hdl_t	oc_dup_channel;
	ibt_redirect_info_t	*oc_cm_redirect_info;
	ibt_cep_path_t	*oc_cm_cep_path;
	ib_time_t	oc_cm_pkt_lt;
	uint32_t	oc_opaque1:4;
	uint32_t	oc_opaque2:24;
	uint32_t	oc_opaque3;
	uint32_t	oc_opaque4;
};

struct ibt_clnt_modinfo_s {
	ibt_version_t	mi_ibt_version;
	ibt_clnt_class_t	mi_clnt_class;
	ibt_async_handler_t	mi_async_handler;
	ibt_memory_handler_t	mi_reserved;
	char	*mi_clnt_name;
};

struct ibt_ip_cm_info_s {
	ibt_ip_addr_t	src_addr;
	ibt_ip_addr_t	dst_addr;
	in_port_t	src_port;
};

struct ibt_mtu_req_s {
	ib_mtu_t	r_mtu;
	ibt_selector_t	r_selector;
};

struct ibt_ip_path_attr_s {
	ibt_ip_addr_t	*ipa_dst_ip;
	ibt_ip_addr_t	ipa_src_ip;
	ib_guid_t	ipa_hca_guid;
	uint8_t	ipa_hca_port_num;
	uint8_t	ipa_max_paths;
	uint8_t	ipa_ndst;
	uint8_t	ipa_sl:4;
	ibt_mtu_req_t	ipa_mtu;
	ibt_srate_req_t	ipa_srate;
	ibt_pkt_lt_req_t	ipa_pkt_lt;
	uint_t	ipa_flow:20;
	uint8_t	ipa_hop;
	uint8_t	ipa_tclass;
	zoneid_t	ipa_zoneid;
};

struct ibt_mcg_attr_s {
	ib_gid_t	mc_mgid;
	ib_gid_t	mc_pgid;
	ib_qkey_t	mc_qkey;
	ib_pkey_t	mc_pkey;
	ibt_mtu_req_t	mc_mtu_req;
	ibt_srate_req_t	mc_rate_req;
	ibt_pkt_lt_req_t	mc_pkt_lt_req;
	uint_t	mc_flow:20;
	uint8_t	mc_hop;
	uint8_t	mc_tclass;
	uint8_t	mc_sl:4;
	uint8_t	mc_scope:4;
	uint8_t	mc_join_state:4;
	ib_lid_t	mc_opaque1;
};

struct ibt_mcg_info_s {
	ibt_adds_vect_t	mc_adds_vect;
	ib_mtu_t	mc_mtu;
	ib_qkey_t	mc_qkey;
	uint16_t	mc_pkey_ix;
	uint8_t	mc_scope:4;
	clock_t	mc_opaque2;
};

struct ibt_node_info_s {
	ib_guid_t	n_sys_img_guid;
	ib_guid_t	n_node_guid;
	ib_guid_t	n_port_guid;
	uint16_t	n_dev_id;
	uint32_t	n_revision;
	uint32_t	n_vendor_id:24;
	uint8_t	n_num_ports;
	uint8_t	n_port_num;
	uint8_t	n_node_type;
	char	n_description[64];
};

struct ibt_part_attr_s {
	datalink_id_t	pa_dlinkid;
	datalink_id_t	pa_plinkid;
	uint8_t	pa_port;
	ib_guid_t	pa_hca_guid;
	ib_guid_t	pa_port_guid;
	ib_pkey_t	pa_pkey;
};

struct ibt_srv_data_s {
	uint8_t	s_data8[16];
	uint16_t	s_data16[8];
	uint32_t	s_data32[4];
	uint64_t	s_data64[2];
};

struct ibt_path_attr_s {
	ib_gid_t	*pa_dgids;
	ib_gid_t	pa_sgid;
	ib_guid_t	pa_hca_guid;
	char	*pa_sname;
	ib_svc_id_t	pa_sid;
	ibt_srv_data_flags_t	pa_sd_flags;
	ibt_srv_data_t	pa_sdata;
	uint8_t	pa_hca_port_num;
	uint8_t	pa_num_dgids;
	uint8_t	pa_sl:4;
	ibt_mtu_req_t	pa_mtu;
	ibt_srate_req_t	pa_srate;
	ibt_pkt_lt_req_t	pa_pkt_lt;
	uint_t	pa_flow:20;
	uint8_t	pa_hop;
	uint8_t	pa_tclass;
	ib_pkey_t	pa_pkey;
};

struct ibt_path_info_s {
	ib_guid_t	pi_hca_guid;
	ib_svc_id_t	pi_sid;
	ibt_srv_data_t	pi_sdata;
	ibt_cep_path_t	pi_prim_cep_path;
	ibt_cep_path_t	pi_alt_cep_path;
	ib_mtu_t	pi_path_mtu;
	ib_time_t	pi_prim_pkt_lt;
	ib_time_t	pi_alt_pkt_lt;
};

struct ibt_path_ip_src_s {
	ibt_ip_addr_t	ip_primary;
	ibt_ip_addr_t	ip_alternate;
};

struct ibt_rc_returns_s {
	uint8_t	rc_rdma_ra_in;
	uint8_t	rc_rdma_ra_out;
	ibt_arej_info_t	rc_arej_info;
	ibt_cm_reason_t	rc_status;
	uint8_t	rc_failover_status;
	ibt_priv_data_len_t	rc_priv_data_len;
	void	*rc_priv_data;
};

struct ibt_srcip_attr_s {
	ib_gid_t	sip_gid;
	zoneid_t	sip_zoneid;
	ib_pkey_t	sip_pkey;
	sa_family_t	sip_family;
};

struct ibt_srcip_info_s {
	ibt_ip_addr_t	ip_addr;
	zoneid_t	ip_zoneid;
	uint_t	ip_flag;
};

struct ibt_srv_bind_s {
	uint64_t	sb_key[2];
	char	*sb_name;
	uint32_t	sb_lease;
	ib_pkey_t	sb_pkey;
	ibt_srv_data_t	sb_data;
	uint_t	sb_flag;
};

struct ibt_srv_desc_s {
	ibt_cm_ud_handler_t	sd_ud_handler;
	ibt_cm_handler_t	sd_handler;
	ibt_service_flags_t	sd_flags;
};

struct ibt_subnet_event_s {
	ib_gid_t	sm_notice_gid;
};

struct ibt_ud_dest_attr_s {
	ib_svc_id_t	ud_sid;
	ibt_adds_vect_t	*ud_addr;
	uint16_t	ud_pkey_ix;
	ib_time_t	ud_pkt_lt;
	ibt_cm_ud_handler_t	ud_cm_handler;
	void	*ud_cm_private;
	ibt_priv_data_len_t	ud_priv_data_len;
	void	*ud_priv_data;
};

struct ibt_ud_returns_s {
	ibt_sidr_status_t	ud_status;
	ibt_redirect_info_t	ud_redirect;
	ib_qpn_t	ud_dqpn;
	ib_qkey_t	ud_qkey;
	ibt_priv_data_len_t	ud_priv_data_len;
	void	*ud_priv_data;
};

extern ibt_status_t ibt_aget_ip_paths(ibt_clnt_hdl_t ibt_hdl, ibt_path_flags_t
    flags, ibt_ip_path_attr_t *attr, ibt_ip_path_handler_t func, void *arg);
extern ibt_status_t ibt_aget_paths(ibt_clnt_hdl_t ibt_hdl, ibt_path_flags_t
    flags, ibt_path_attr_t *attr, uint8_t max_paths, ibt_path_handler_t func,
    void *arg);
extern ibt_status_t ibt_alloc_cq(ibt_hca_hdl_t hca_hdl, ibt_cq_attr_t
    *cq_attr, ibt_cq_hdl_t *ibt_cq_p, uint_t *real_size);
extern ibt_status_t ibt_alloc_cq_sched(ibt_hca_hdl_t hca_hdl,
    ibt_cq_sched_attr_t *attr, ibt_sched_hdl_t *sched_hdl_p);
extern ibt_status_t ibt_alloc_io_mem(ibt_hca_hdl_t, size_t, ibt_mr_flags_t,
    caddr_t *, ibt_mem_alloc_hdl_t *);
extern ibt_status_t ibt_alloc_lkey(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t pd,
    ibt_lkey_flags_t flags, uint_t phys_buf_list_sz, ibt_mr_hdl_t *mr_p,
    ibt_pmr_desc_t *mem_desc_p);
extern ibt_status_t ibt_alloc_mw(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t pd,
    ibt_mw_flags_t flags, ibt_mw_hdl_t *mw_hdl_p, ibt_rkey_t *rkey);
extern ibt_status_t ibt_alloc_pd(ibt_hca_hdl_t hca_hdl, ibt_pd_flags_t flags,
    ibt_pd_hdl_t *pd);
extern ibt_status_t ibt_alloc_srq(ibt_hca_hdl_t hca_hdl, ibt_srq_flags_t
    flags, ibt_pd_hdl_t pd, ibt_srq_sizes_t *sizes, ibt_srq_hdl_t *ibt_srq_p,
    ibt_srq_sizes_t *real_size_p);
extern ibt_status_t ibt_attach(ibt_clnt_modinfo_t *mod_infop, dev_info_t *arg,
    void *clnt_private, ibt_clnt_hdl_t *ibt_hdl_p);
extern ibt_status_t ibt_attach_mcg(ibt_channel_hdl_t ud_chan, ibt_mcg_info_t
    *mcg_info);
extern ibt_status_t ibt_bind_service(ibt_srv_hdl_t srv_hdl, ib_gid_t gid,
    ibt_srv_bind_t *srv_bind, void *cm_private, ibt_sbind_hdl_t *sb_hdl_p);
extern ibt_status_t ibt_change_port(ibt_channel_hdl_t rc_chan, uint8_t
    port_num);
extern ibt_failure_type_t ibt_check_failure(ibt_status_t status, uint64_t
    *reserved_p);
extern ibt_status_t ibt_ci_data_in(ibt_hca_hdl_t hca, ibt_ci_data_flags_t
    flags, ibt_object_type_t object, void *ibt_object_handle, void *data_p,
    size_t data_sz);
extern ibt_status_t ibt_ci_data_out(ibt_hca_hdl_t hca, ibt_ci_data_flags_t
    flags, ibt_object_type_t object, void *ibt_object_handle, void *data_p,
    size_t data_sz);
extern ibt_status_t ibt_close_hca(ibt_hca_hdl_t hca_hdl);
extern ibt_status_t ibt_close_rc_channel(ibt_channel_hdl_t rc_chan,
    ibt_execution_mode_t mode, void *priv_data, ibt_priv_data_len_t
    priv_data_len, uint8_t *ret_status, void *ret_priv_data,
    ibt_priv_data_len_t *ret_priv_data_len_p);
extern ibt_status_t ibt_cm_delay(ibt_cmdelay_flags_t flags, void
    *cm_session_id, clock_t service_time, void *priv_data, ibt_priv_data_len_t
    priv_data_len);
extern ibt_status_t ibt_cm_proceed(ibt_cm_event_type_t event, void
    *session_id, ibt_cm_status_t status, ibt_cm_proceed_reply_t
    *cm_event_data, void *priv_data, ibt_priv_data_len_t priv_data_len);
extern ibt_status_t ibt_cm_ud_proceed(void *session_id, ibt_channel_hdl_t
    ud_channel, ibt_cm_status_t status, ibt_redirect_info_t *redirect_infop,
    void *priv_data, ibt_priv_data_len_t priv_data_len);
extern ibt_status_t ibt_create_fmr_pool(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t
    pd, ibt_fmr_pool_attr_t *fmr_params, ibt_fmr_pool_hdl_t *fmr_pool_p);
extern ibt_status_t ibt_deregister_ar(ibt_clnt_hdl_t ibt_hdl, ibt_ar_t *arp);
extern ibt_status_t ibt_deregister_fmr(ibt_hca_hdl_t hca, ibt_mr_hdl_t mr_hdl);
extern ibt_status_t ibt_deregister_mr(ibt_hca_hdl_t hca_hdl, ibt_mr_hdl_t
    mr_hdl);
extern ibt_status_t ibt_deregister_service(ibt_clnt_hdl_t ibt_hdl,
    ibt_srv_hdl_t srv_hdl);
extern ibt_status_t ibt_destroy_fmr_pool(ibt_hca_hdl_t hca_hdl,
    ibt_fmr_pool_hdl_t fmr_pool);
extern ibt_status_t ibt_detach(ibt_clnt_hdl_t ibt_hdl);
extern ibt_status_t ibt_detach_mcg(ibt_channel_hdl_t ud_chan, ibt_mcg_info_t
    *mcg_info);
extern ibt_status_t ibt_enable_cq_notify(ibt_cq_hdl_t ibt_cq,
    ibt_cq_notify_flags_t notify_type);
extern ibt_status_t ibt_flush_fmr_pool(ibt_hca_hdl_t hca_hdl,
    ibt_fmr_pool_hdl_t fmr_pool);
extern ibt_status_t ibt_format_ip_private_data(ibt_ip_cm_info_t *ip_cm_info,
    ibt_priv_data_len_t priv_data_len, void *priv_data_p);
extern ibt_status_t ibt_free_cq(ibt_cq_hdl_t ibt_cq);
extern ibt_status_t ibt_free_cq_sched(ibt_hca_hdl_t hca_hdl, ibt_sched_hdl_t
    sched_hdl);
extern void ibt_free_hca_list(ib_guid_t *hca_list, uint_t entries);
extern ibt_status_t ibt_free_io_mem(ibt_hca_hdl_t, ibt_mem_alloc_hdl_t);
extern void ibt_free_mcg_info(ibt_mcg_info_t *mcgs_info, uint_t entries);
extern ibt_status_t ibt_free_mw(ibt_hca_hdl_t hca_hdl, ibt_mw_hdl_t mw_hdl);
extern ibt_status_t ibt_free_part_attr(ibt_part_attr_t *, int);
extern ibt_status_t ibt_free_pd(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t pd);
extern void ibt_free_portinfo(ibt_hca_portinfo_t *port_info, uint_t size);
extern void ibt_free_srcip_info(ibt_srcip_info_t *src_info, uint_t entries);
extern ibt_status_t ibt_free_srq(ibt_srq_hdl_t ibt_srq);
extern ibt_status_t ibt_get_all_part_attr(ibt_part_attr_t **, int *);
extern ibt_status_t ibt_get_alt_path(ibt_channel_hdl_t rc_chan,
    ibt_path_flags_t flags, ibt_alt_path_attr_t *attr, ibt_alt_path_info_t
    *alt_pathp);
extern ibt_status_t ibt_get_companion_port_gids(ib_gid_t gid, ib_guid_t
    hca_guid, ib_guid_t sysimg_guid, ib_gid_t **gids_p, uint_t *num_gids_p);
extern void *ibt_get_cq_private(ibt_cq_hdl_t ibt_cq);
extern uint_t ibt_get_hca_list(ib_guid_t **hca_list_p);
extern void *ibt_get_hca_private(ibt_hca_hdl_t hca_hdl);
extern ibt_status_t ibt_get_ip_alt_path(ibt_channel_hdl_t rc_chan,
    ibt_path_flags_t flags, ibt_alt_ip_path_attr_t *attr, ibt_alt_path_info_t
    *alt_path);
extern ibt_status_t ibt_get_ip_data(ibt_priv_data_len_t priv_data_len, void
    *priv_data, ibt_ip_cm_info_t *ip_info_p);
extern in_port_t ibt_get_ip_dst_port(ib_svc_id_t sid);
extern ibt_status_t ibt_get_ip_paths(ibt_clnt_hdl_t ibt_hdl, ibt_path_flags_t
    flags, ibt_ip_path_attr_t *attr, ibt_path_info_t *paths_p, uint8_t
    *num_paths_p, ibt_path_ip_src_t *src_ip_p);
extern uint8_t ibt_get_ip_protocol_num(ib_svc_id_t sid);
extern ib_svc_id_t ibt_get_ip_sid(uint8_t protocol_num, in_port_t dst_port);
extern ibt_status_t ibt_get_module_failure(ibt_failure_type_t type, uint64_t
    ena);
extern ibt_status_t ibt_get_part_attr(datalink_id_t, ibt_part_attr_t *);
extern ibt_status_t ibt_get_paths(ibt_clnt_hdl_t ibt_hdl, ibt_path_flags_t
    flags, ibt_path_attr_t *attr, uint8_t max_paths, ibt_path_info_t *paths,
    uint8_t *num_paths_p);
extern ibt_status_t ibt_get_port_state(ibt_hca_hdl_t hca_hdl, uint8_t port,
    ib_gid_t *sgid_p, ib_lid_t *base_lid_p);
extern ibt_status_t ibt_get_port_state_byguid(ib_guid_t hca_guid, uint8_t
    port, ib_gid_t *sgid_p, ib_lid_t *base_lid_p);
extern ibt_status_t ibt_get_src_ip(ibt_srcip_attr_t *srcip_attr,
    ibt_srcip_info_t **src_info_p, uint_t *entries_p);
extern void *ibt_get_srq_private(ibt_srq_hdl_t ibt_srq);
extern ibt_status_t ibt_gid_to_node_info(ib_gid_t gid, ibt_node_info_t
    *node_info_p);
extern ibt_status_t ibt_hca_guid_to_handle(ibt_clnt_hdl_t ibt_hdl, ib_guid_t
    hca_guid, ibt_hca_hdl_t *hca_hdl);
extern ib_guid_t ibt_hca_handle_to_guid(ibt_hca_hdl_t hca);
extern int ibt_hw_is_present();
extern ibt_status_t ibt_index2pkey(ibt_hca_hdl_t hca_hdl, uint8_t port_num,
    uint16_t pkey_ix, ib_pkey_t *pkey);
extern ibt_status_t ibt_index2pkey_byguid(ib_guid_t hca_guid, uint8_t
    port_num, uint16_t pkey_ix, ib_pkey_t *pkey);
extern ibt_status_t ibt_join_mcg(ib_gid_t rgid, ibt_mcg_attr_t *mcg_attr,
    ibt_mcg_info_t *mcg_info_p, ibt_mcg_handler_t func, void *arg);
extern ibt_status_t ibt_leave_mcg(ib_gid_t rgid, ib_gid_t mc_gid, ib_gid_t
    port_gid, uint8_t mc_join_state);
extern ibt_status_t ibt_lid_to_node_info(ib_lid_t lid, ibt_node_info_t
    *node_info_p);
extern ibt_status_t ibt_map_mem_area(ibt_hca_hdl_t hca_hdl, ibt_va_attr_t
    *va_attrs, uint_t paddr_list_len, ibt_reg_req_t *reg_req, ibt_ma_hdl_t
    *ma_hdl_p);
extern ibt_status_t ibt_map_mem_iov(ibt_hca_hdl_t hca_hdl, ibt_iov_attr_t
    *iov_attr, ibt_all_wr_t *wr, ibt_mi_hdl_t *mi_hdl);
extern ibt_status_t ibt_migrate_path(ibt_channel_hdl_t rc_chan);
extern ibt_status_t ibt_modify_cq(ibt_cq_hdl_t ibt_cq, uint_t count, uint_t
    usec, ibt_cq_handler_id_t hid);
extern ibt_status_t ibt_modify_port(ibt_hca_hdl_t hca_hdl, uint8_t port,
    ibt_port_modify_flags_t flags, uint8_t init_type);
extern ibt_status_t ibt_modify_port_byguid(ib_guid_t hca_guid, uint8_t port,
    ibt_port_modify_flags_t flags, uint8_t init_type);
extern ibt_status_t ibt_modify_rdma(ibt_channel_hdl_t rc_chan,
    ibt_cep_modify_flags_t modify_flags, ibt_cep_flags_t flags);
extern ibt_status_t ibt_modify_srq(ibt_srq_hdl_t ibt_srq,
    ibt_srq_modify_flags_t flags, uint_t size, uint_t limit, uint_t
    *real_size_p);
extern ibt_status_t ibt_modify_system_image(ibt_hca_hdl_t hca_hdl, ib_guid_t
    sys_guid);
extern ibt_status_t ibt_modify_system_image_byguid(ib_guid_t hca_guid,
    ib_guid_t sys_guid);
extern ibt_status_t ibt_open_hca(ibt_clnt_hdl_t ibt_hdl, ib_guid_t hca_guid,
    ibt_hca_hdl_t *hca_hdl);
extern ibt_status_t ibt_open_rc_channel(ibt_channel_hdl_t rc_chan,
    ibt_chan_open_flags_t flags, ibt_execution_mode_t mode,
    ibt_chan_open_args_t *args, ibt_rc_returns_t *returns);
extern ibt_status_t ibt_pause_sendq(ibt_channel_hdl_t chan,
    ibt_cep_modify_flags_t modify_flags);
extern ibt_status_t ibt_pkey2index(ibt_hca_hdl_t hca_hdl, uint8_t port_num,
    ib_pkey_t pkey, uint16_t *pkey_ix);
extern ibt_status_t ibt_pkey2index_byguid(ib_guid_t hca_guid, uint8_t
    port_num, ib_pkey_t pkey, uint16_t *pkey_ix);
extern ibt_status_t ibt_poll_cq(ibt_cq_hdl_t ibt_cq, ibt_wc_t
    *work_completions, uint_t num_wc, uint_t *num_polled);
extern ibt_status_t ibt_post_recv(ibt_channel_hdl_t chan, ibt_recv_wr_t
    *wr_list, uint_t num_wr, uint_t *posted);
extern ibt_status_t ibt_post_send(ibt_channel_hdl_t chan, ibt_send_wr_t
    *wr_list, uint_t num_wr, uint_t *posted);
extern ibt_status_t ibt_post_srq(ibt_srq_hdl_t srq, ibt_recv_wr_t *wr_list,
    uint_t num_wr, uint_t *posted);
extern ibt_status_t ibt_prime_close_rc_channel(ibt_channel_hdl_t rc_chan);
extern ibt_status_t ibt_query_ar(ib_gid_t *sgid, ibt_ar_t *queryp, ibt_ar_t
    *resultp);
extern ibt_status_t ibt_query_cq(ibt_cq_hdl_t ibt_cq, uint_t *entries, uint_t
    *count_p, uint_t *usec_p, ibt_cq_handler_id_t *hid_p);
extern ibt_status_t ibt_query_cq_handler_id(ibt_hca_hdl_t hca_hdl,
    ibt_cq_handler_id_t hid, ibt_cq_handler_attr_t *attrs);
extern ibt_status_t ibt_query_hca(ibt_hca_hdl_t hca_hdl, ibt_hca_attr_t
    *hca_attrs);
extern ibt_status_t ibt_query_hca_byguid(ib_guid_t hca_guid, ibt_hca_attr_t
    *hca_attrs);
extern ibt_status_t ibt_query_hca_ports(ibt_hca_hdl_t hca_hdl, uint8_t port,
    ibt_hca_portinfo_t **port_info_p, uint_t *ports_p, uint_t *size_p);
extern ibt_status_t ibt_query_hca_ports_byguid(ib_guid_t hca_guid, uint8_t
    port, ibt_hca_portinfo_t **port_info_p, uint_t *ports_p, uint_t *size_p);
extern ibt_status_t ibt_query_mcg(ib_gid_t rgid, ibt_mcg_attr_t *mcg_attr,
    uint_t mcgs_max_num, ibt_mcg_info_t **mcgs_info_p, uint_t *entries_p);
extern ibt_status_t ibt_query_mr(ibt_hca_hdl_t hca_hdl, ibt_mr_hdl_t mr_hdl,
    ibt_mr_query_attr_t *attr);
extern ibt_status_t ibt_query_mw(ibt_hca_hdl_t hca_hdl, ibt_mw_hdl_t mw_hdl,
    ibt_mw_query_attr_t *mw_attr_p);
extern ibt_status_t ibt_query_queues(ibt_channel_hdl_t chan, ibt_queue_sizes_t
    *actual_sz);
extern ibt_status_t ibt_query_srq(ibt_srq_hdl_t ibt_srq, ibt_pd_hdl_t *pd_p,
    ibt_srq_sizes_t *sizes_p, uint_t *limit_p);
extern ibt_status_t ibt_recycle_rc(ibt_channel_hdl_t rc_chan, ibt_cep_flags_t
    control, uint8_t hca_port_num, ibt_recycle_handler_t func, void *arg);
extern ibt_status_t ibt_recycle_ud(ibt_channel_hdl_t ud_chan, uint8_t
    hca_port_num, uint16_t pkey_ix, ib_qkey_t qkey);
extern ibt_status_t ibt_register_ar(ibt_clnt_hdl_t ibt_hdl, ibt_ar_t *arp);
extern ibt_status_t ibt_register_buf(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t pd,
    ibt_smr_attr_t *mem_bpattr, struct buf *bp, ibt_mr_hdl_t *mr_hdl_p,
    ibt_mr_desc_t *mem_desc);
extern ibt_status_t ibt_register_dma_mr(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t
    pd, ibt_dmr_attr_t *mem_attr, ibt_mr_hdl_t *mr_hdl_p, ibt_mr_desc_t
    *mem_desc);
extern ibt_status_t ibt_register_mr(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t pd,
    ibt_mr_attr_t *mem_attr, ibt_mr_hdl_t *mr_hdl_p, ibt_mr_desc_t *mem_desc);
extern void ibt_register_part_attr_cb(ibt_status_t (*)(datalink_id_t,
    ibt_part_attr_t *), ibt_status_t (*)(ibt_part_attr_t **, int *));
extern ibt_status_t ibt_register_phys_mr(ibt_hca_hdl_t hca_hdl, ibt_pd_hdl_t
    pd, ibt_pmr_attr_t *mem_pattr, ibt_mr_hdl_t *mr_hdl_p, ibt_pmr_desc_t
    *mem_desc_p);
extern ibt_status_t ibt_register_physical_fmr(ibt_hca_hdl_t hca_hdl,
    ibt_fmr_pool_hdl_t fmr_pool, ibt_pmr_attr_t *mem_pattr, ibt_mr_hdl_t
    *mr_hdl_p, ibt_pmr_desc_t *mem_desc_p);
extern ibt_status_t ibt_register_service(ibt_clnt_hdl_t ibt_hdl,
    ibt_srv_desc_t *service, ib_svc_id_t sid, int num_sids, ibt_srv_hdl_t
    *srv_hdl_p, ib_svc_id_t *ret_sid_p);
extern ibt_status_t ibt_register_shared_mr(ibt_hca_hdl_t hca_hdl, ibt_mr_hdl_t
    mr_hdl, ibt_pd_hdl_t pd, ibt_smr_attr_t *mem_sattr, ibt_mr_hdl_t
    *mr_hdl_p, ibt_mr_desc_t *mem_desc);
extern void ibt_register_subnet_notices(ibt_clnt_hdl_t ibt_hdl,
    ibt_sm_notice_handler_t sm_notice_handler, void *private);
extern ibt_status_t ibt_release_ip_sid(ib_svc_id_t sid);
extern ibt_status_t ibt_reprobe_dev(dev_info_t *dip);
extern ibt_status_t ibt_reregister_buf(ibt_hca_hdl_t hca_hdl, ibt_mr_hdl_t
    mr_hdl, ibt_pd_hdl_t pd, ibt_smr_attr_t *mem_bpattr, struct buf *bp,
    ibt_mr_hdl_t *mr_hdl_p, ibt_mr_desc_t *mem_desc);
extern ibt_status_t ibt_reregister_mr(ibt_hca_hdl_t hca_hdl, ibt_mr_hdl_t
    mr_hdl, ibt_pd_hdl_t pd, ibt_mr_attr_t *mem_attr, ibt_mr_hdl_t *mr_hdl_p,
    ibt_mr_desc_t *mem_desc);
extern ibt_status_t ibt_reregister_phys_mr(ibt_hca_hdl_t hca_hdl, ibt_mr_hdl_t
    mr_hdl, ibt_pd_hdl_t pd, ibt_pmr_attr_t *mem_pattr, ibt_mr_hdl_t
    *mr_hdl_p, ibt_pmr_desc_t *mem_desc_p);
extern ibt_status_t ibt_resize_cq(ibt_cq_hdl_t ibt_cq, uint_t new_sz, uint_t
    *real_sz);
extern ibt_status_t ibt_resize_queues(ibt_channel_hdl_t chan, ibt_qflags_t
    flags, ibt_queue_sizes_t *request_sz, ibt_queue_sizes_t *actual_sz);
extern ibt_status_t ibt_set_alt_path(ibt_channel_hdl_t rc_chan,
    ibt_execution_mode_t mode, ibt_alt_path_info_t *alt_pinfo, void
    *priv_data, ibt_priv_data_len_t priv_data_len, ibt_ap_returns_t
    *ret_args);
extern void ibt_set_cq_handler(ibt_cq_hdl_t ibt_cq, ibt_cq_handler_t
    completion_handler, void *arg);
extern void ibt_set_cq_private(ibt_cq_hdl_t ibt_cq, void *clnt_private);
extern void ibt_set_hca_private(ibt_hca_hdl_t hca_hdl, void *clnt_private);
extern ibt_status_t ibt_set_rdma_resource(ibt_channel_hdl_t rc_chan,
    ibt_cep_modify_flags_t modify_flags, uint8_t rdma_ra_out, uint8_t
    rdma_ra_in);
extern void ibt_set_srq_private(ibt_srq_hdl_t ibt_srq, void *clnt_private);
extern ibt_status_t ibt_sync_mr(ibt_hca_hdl_t hca_hdl, ibt_mr_sync_t
    *mr_segments, size_t num_segments);
extern ibt_status_t ibt_unbind_all_services(ibt_srv_hdl_t srv_hdl);
extern ibt_status_t ibt_unbind_service(ibt_srv_hdl_t srv_hdl, ibt_sbind_hdl_t
    sb_hdl);
extern ibt_status_t ibt_unmap_mem_area(ibt_hca_hdl_t hca_hdl, ibt_ma_hdl_t
    ma_hdl);
extern ibt_status_t ibt_unmap_mem_iov(ibt_hca_hdl_t hca_hdl, ibt_mi_hdl_t
    mi_hdl);
extern ibt_status_t ibt_unpause_sendq(ibt_channel_hdl_t chan);
extern void ibt_unregister_part_attr_cb(void);

#endif	/* _SYS_IB_IBTL_IBTI_COMMON_H */
