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
 * IBTF client interface: channels and address handles.
 */

#ifndef	_SYS_IB_IBTL_IBTI_H
#define	_SYS_IB_IBTL_IBTI_H

#include <sys/ib/ib_types.h>
#include <sys/ib/ibtl/ibti_common.h>
#include <sys/ib/ibtl/ibtl_status.h>
#include <sys/ib/ibtl/ibtl_types.h>
#include <sys/types.h>

typedef enum ibt_chan_alloc_flags_e {
	IBT_ACHAN_NO_FLAGS = 0x0,
	IBT_ACHAN_CLONE = 0x1,
	IBT_ACHAN_USER_MAP = 0x2,
	IBT_ACHAN_DEFER_ALLOC = 0x4,
	IBT_ACHAN_USES_SRQ = 0x8,
	IBT_ACHAN_USES_RSS = 0x10,
	IBT_ACHAN_USES_RFCI = 0x20,
	IBT_ACHAN_USES_FCMD = 0x40,
	IBT_ACHAN_USES_FEXCH = 0x80
} ibt_chan_alloc_flags_t;

typedef struct ibt_rc_chan_alloc_args_s ibt_rc_chan_alloc_args_t;
typedef struct ibt_rc_chan_modify_attr_s ibt_rc_chan_modify_attr_t;
typedef struct ibt_rc_chan_query_attr_s ibt_rc_chan_query_attr_t;
typedef struct ibt_ud_chan_alloc_args_s ibt_ud_chan_alloc_args_t;
typedef struct ibt_ud_chan_modify_attr_s ibt_ud_chan_modify_attr_t;
typedef struct ibt_ud_chan_query_attr_s ibt_ud_chan_query_attr_t;
typedef struct ibt_ud_dest_query_attr_s ibt_ud_dest_query_attr_t;
struct ibt_rc_chan_alloc_args_s {
	ibt_attr_flags_t	rc_flags;
	ibt_cep_flags_t	rc_control;
	uint8_t	rc_hca_port_num;
	ibt_chan_sizes_t	rc_sizes;
	ibt_cq_hdl_t	rc_scq;
	ibt_cq_hdl_t	rc_rcq;
	ibt_pd_hdl_t	rc_pd;
	ibt_channel_hdl_t	rc_clone_chan;
	ibt_srq_hdl_t	rc_srq;
};

struct ibt_rc_chan_modify_attr_s {
	ibt_cep_flags_t	rc_control;
	uint_t	rc_sq_sz;
	uint_t	rc_rq_sz;
	ibt_adds_vect_t	rc_prim_adds_vect;
	ibt_adds_vect_t	rc_alt_adds_vect;
	uint8_t	rc_path_retry_cnt:3;
	ibt_rnr_retry_cnt_t	rc_path_rnr_retry_cnt;
	ibt_rnr_nak_time_t	rc_min_rnr_nak;
	uint8_t	rc_prim_port_num;
	uint8_t	rc_alt_port_num;
	uint8_t	rc_rdma_ra_out;
	uint8_t	rc_rdma_ra_in;
};

struct ibt_rc_chan_query_attr_s {
	ib_guid_t	rc_hca_guid;
	ibt_cq_hdl_t	rc_scq;
	ibt_cq_hdl_t	rc_rcq;
	ibt_pd_hdl_t	rc_pd;
	ibt_cep_state_t	rc_state;
	ib_mtu_t	rc_path_mtu;
	uint8_t	rc_path_retry_cnt:3;
	ibt_rnr_retry_cnt_t	rc_path_rnr_retry_cnt;
	ibt_rnr_nak_time_t	rc_min_rnr_nak;
	ibt_cep_path_t	rc_prim_path;
	ibt_cep_path_t	rc_alt_path;
	ibt_chan_sizes_t	rc_chan_sizes;
	uint8_t	rc_rdma_ra_out;
	uint8_t	rc_rdma_ra_in;
	ibt_attr_flags_t	rc_flags;
	ibt_cep_flags_t	rc_control;
	ibt_cep_cmstate_t	rc_mig_state;
	ib_qpn_t	rc_qpn;
	ib_qpn_t	rc_dst_qpn;
	ibt_srq_hdl_t	rc_srq;
};

struct ibt_ud_chan_alloc_args_s {
	ibt_attr_flags_t	ud_flags;
	uint8_t	ud_hca_port_num;
	uint16_t	ud_pkey_ix;
	ibt_chan_sizes_t	ud_sizes;
	ib_qkey_t	ud_qkey;
	ibt_cq_hdl_t	ud_scq;
	ibt_cq_hdl_t	ud_rcq;
	ibt_pd_hdl_t	ud_pd;
	ibt_channel_hdl_t	ud_clone_chan;
	ibt_srq_hdl_t	ud_srq;
	ibt_rss_attr_t	ud_rss;
	ibt_fc_attr_t	ud_fc;
};

struct ibt_ud_chan_modify_attr_s {
	uint_t	ud_sq_sz;
	uint_t	ud_rq_sz;
	ib_qkey_t	ud_qkey;
	ibt_rss_attr_t	ud_rss;
	ibt_fc_attr_t	ud_fc;
};

struct ibt_ud_chan_query_attr_s {
	ib_qpn_t	ud_qpn;
	ib_guid_t	ud_hca_guid;
	ibt_cq_hdl_t	ud_scq;
	ibt_cq_hdl_t	ud_rcq;
	ibt_pd_hdl_t	ud_pd;
	uint8_t	ud_hca_port_num;
	ibt_cep_state_t	ud_state;
	uint16_t	ud_pkey_ix;
	ib_qkey_t	ud_qkey;
	ibt_chan_sizes_t	ud_chan_sizes;
	ibt_attr_flags_t	ud_flags;
	ibt_srq_hdl_t	ud_srq;
	ibt_rss_attr_t	ud_rss;
	ibt_fc_attr_t	ud_fc;
	ibt_fexch_query_attr_t	ud_query_fc;
};

struct ibt_ud_dest_query_attr_s {
	ibt_hca_hdl_t	ud_hca_hdl;
	ib_qpn_t	ud_dst_qpn;
	ib_qkey_t	ud_qkey;
	ibt_adds_vect_t	ud_addr_vect;
	ibt_pd_hdl_t	ud_pd;
};

extern ibt_status_t ibt_alloc_rc_channel(ibt_hca_hdl_t hca_hdl,
    ibt_chan_alloc_flags_t flags, ibt_rc_chan_alloc_args_t *args,
    ibt_channel_hdl_t *rc_chan_p, ibt_chan_sizes_t *sizes);
extern ibt_status_t ibt_alloc_ud_channel(ibt_hca_hdl_t hca_hdl,
    ibt_chan_alloc_flags_t flags, ibt_ud_chan_alloc_args_t *args,
    ibt_channel_hdl_t *ud_chan_p, ibt_chan_sizes_t *sizes);
extern ibt_status_t ibt_alloc_ud_channel_range(ibt_hca_hdl_t hca_hdl, uint_t
    log2, ibt_chan_alloc_flags_t flags, ibt_ud_chan_alloc_args_t *args,
    ibt_cq_hdl_t *send_cq_p, ibt_cq_hdl_t *recv_cq_p, ib_qpn_t *base_qpn_p,
    ibt_channel_hdl_t *ud_chan_p, ibt_chan_sizes_t *sizes);
extern ibt_status_t ibt_alloc_ud_dest(ibt_hca_hdl_t hca_hdl,
    ibt_ud_dest_flags_t flags, ibt_pd_hdl_t pd, ibt_ud_dest_hdl_t *ud_dest_p);
extern ib_guid_t ibt_channel_to_hca_guid(ibt_channel_hdl_t chan);
extern ibt_status_t ibt_flush_channel(ibt_channel_hdl_t chan);
extern ibt_status_t ibt_free_channel(ibt_channel_hdl_t chan);
extern ibt_status_t ibt_free_ud_dest(ibt_ud_dest_hdl_t ud_dest);
extern void *ibt_get_chan_private(ibt_channel_hdl_t chan);
extern boolean_t ibt_is_privileged_ud_dest(ibt_ud_dest_hdl_t ud_dest);
extern ibt_status_t ibt_modify_rc_channel(ibt_channel_hdl_t rc_chan,
    ibt_cep_modify_flags_t flags, ibt_rc_chan_modify_attr_t *attrs,
    ibt_queue_sizes_t *actual_sz);
extern ibt_status_t ibt_modify_reply_ud_dest(ibt_channel_hdl_t ud_chan,
    ibt_ud_dest_hdl_t ud_dest, ib_qkey_t qkey, ibt_wc_t *wc, ib_vaddr_t
    recv_buf);
extern ibt_status_t ibt_modify_ud_channel(ibt_channel_hdl_t ud_chan,
    ibt_cep_modify_flags_t flags, ibt_ud_chan_modify_attr_t *attrs,
    ibt_queue_sizes_t *actual_sz);
extern ibt_status_t ibt_modify_ud_dest(ibt_ud_dest_hdl_t ud_dest, ib_qkey_t
    qkey, ib_qpn_t dest_qpn, ibt_adds_vect_t *adds_vect);
extern ibt_status_t ibt_query_rc_channel(ibt_channel_hdl_t rc_chan,
    ibt_rc_chan_query_attr_t *chan_attrs);
extern ibt_status_t ibt_query_ud_channel(ibt_channel_hdl_t ud_chan,
    ibt_ud_chan_query_attr_t *ud_chan_attrs);
extern ibt_status_t ibt_query_ud_dest(ibt_ud_dest_hdl_t ud_dest,
    ibt_ud_dest_query_attr_t *dest_attrs);
extern ibt_status_t ibt_recover_ud_channel(ibt_channel_hdl_t ud_chan);
extern ibt_status_t ibt_request_ud_dest(ibt_ud_dest_hdl_t ud_dest,
    ibt_execution_mode_t mode, ibt_ud_dest_attr_t *dest_attrs,
    ibt_ud_returns_t *ud_ret_args);
extern void ibt_set_chan_private(ibt_channel_hdl_t chan, void *clnt_private);
extern ibt_status_t ibt_update_channel_qkey(ibt_channel_hdl_t ud_chan,
    ibt_ud_dest_hdl_t ud_dest);

#endif	/* _SYS_IB_IBTL_IBTI_H */
