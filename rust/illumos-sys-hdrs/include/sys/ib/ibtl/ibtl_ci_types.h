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
 * What IBTF and HCA drivers share beside ibtl_types.h: a queue pair's
 * attributes and how it is moved from state to state.
 */

#ifndef	_SYS_IB_IBTL_IBTL_CI_TYPES_H
#define	_SYS_IB_IBTL_IBTL_CI_TYPES_H

#include <sys/ib/ibtl/ibtl_types.h>

#define	IBT_CEP_SET_MTU	0x200
#define	IBT_CEP_SET_RESET_INIT	0x10000
#define	IBT_CEP_SET_INIT_RTR	0x20000
#define	IBT_CEP_SET_RTR_RTS	0x40000
#define	IBT_CEP_SET_STATE	0x80000
#define	IBT_CEP_SET_TIMEOUT	0x200000
#define	IBT_CEP_SET_PKEY_IX	0x400000
#define	IBT_CEP_SET_MIG	0x800000

typedef enum ibt_qp_alloc_flags_e ibt_qp_alloc_flags_t;
typedef enum ibt_qp_type_e ibt_qp_type_t;
typedef enum ibt_sqp_type_e ibt_sqp_type_t;

typedef struct ibc_cq_s *ibt_opaque1_t;
typedef struct ibc_srq_s *ibt_opaque2_t;
typedef struct ibc_rdd_s *ibt_rdd_hdl_t;

typedef struct ibt_qp_alloc_attr_s {
	ibt_qp_alloc_flags_t	qp_alloc_flags;
	ibt_cq_hdl_t	qp_scq_hdl;
	ibt_cq_hdl_t	qp_rcq_hdl;
	ibt_rdd_hdl_t	qp_rdd_hdl;
	ibt_pd_hdl_t	qp_pd_hdl;
	ibt_chan_sizes_t	qp_sizes;
	ibt_attr_flags_t	qp_flags;
	ibt_opaque1_t	qp_opaque1;
	ibt_opaque1_t	qp_opaque2;
	ibt_srq_hdl_t	qp_srq_hdl;
	ibt_opaque2_t	qp_opaque3;
	ibt_fc_attr_t	qp_fc;
} ibt_qp_alloc_attr_t;

typedef struct ibt_qp_rc_attr_s {
	uint32_t	rc_sq_psn:24;
	uint32_t	rc_rq_psn:24;
	ib_qpn_t	rc_dst_qpn;
	ibt_cep_cmstate_t	rc_mig_state;
	ibt_rnr_retry_cnt_t	rc_rnr_retry_cnt;
	uint8_t	rc_retry_cnt:3;
	uint8_t	rc_rdma_ra_out;
	uint8_t	rc_rdma_ra_in;
	ibt_rnr_nak_time_t	rc_min_rnr_nak;
	ib_mtu_t	rc_path_mtu;
	ibt_cep_path_t	rc_path;
	ibt_cep_path_t	rc_alt_path;
} ibt_qp_rc_attr_t;

typedef struct ibt_qp_uc_attr_s {
	uint32_t	uc_sq_psn:24;
	uint32_t	uc_rq_psn:24;
	ib_qpn_t	uc_dst_qpn;
	ibt_cep_cmstate_t	uc_mig_state;
	ib_mtu_t	uc_path_mtu;
	ibt_cep_path_t	uc_path;
	ibt_cep_path_t	uc_alt_path;
} ibt_qp_uc_attr_t;

typedef struct ibt_qp_rd_attr_s {
	ib_qkey_t	rd_qkey;
	ibt_rnr_nak_time_t	rd_min_rnr_nak;
} ibt_qp_rd_attr_t;

typedef struct ibt_qp_ud_attr_s {
	ib_qkey_t	ud_qkey;
	uint32_t	ud_sq_psn:24;
	uint16_t	ud_pkey_ix;
	uint8_t	ud_port;
	ibt_rss_attr_t	ud_rss;
	ibt_fc_attr_t	ud_fc;
} ibt_qp_ud_attr_t;

typedef struct ibt_qp_info_s {
	uint_t	qp_sq_sz;
	uint_t	qp_rq_sz;
	ibt_cep_state_t	qp_state;
	ibt_cep_state_t	qp_current_state;
	ibt_cep_flags_t	qp_flags;
	ibt_tran_srv_t	qp_trans;
	union {
		ibt_qp_rc_attr_t rc;
		ibt_qp_rd_attr_t rd;
		ibt_qp_uc_attr_t uc;
		ibt_qp_ud_attr_t ud;
	}	qp_transport;
} ibt_qp_info_t;

typedef struct ibt_qp_query_attr_s {
	ibt_cq_hdl_t	qp_sq_cq;
	ibt_cq_hdl_t	qp_rq_cq;
	ibt_rdd_hdl_t	qp_rdd_hdl;
	ib_qpn_t	qp_qpn;
	uint_t	qp_sq_sgl;
	uint_t	qp_rq_sgl;
	ibt_qp_info_t	qp_info;
	ibt_srq_hdl_t	qp_srq;
	ibt_attr_flags_t	qp_flags;
	ibt_fexch_query_attr_t	qp_query_fexch;
} ibt_qp_query_attr_t;

typedef struct ibt_eec_info_s {
	uint32_t	eec_sq_psn:24;
	uint32_t	eec_rq_psn:24;
	ib_eecn_t	eec_dst_eecn;
	ibt_cep_state_t	eec_state;
	ibt_cep_cmstate_t	eec_mig;
	uint8_t	eec_rdma_ra_out;
	uint8_t	eec_rdma_ra_in;
	uint8_t	eec_retry_cnt:3;
	ibt_rnr_retry_cnt_t	eec_rnr_retry_cnt;
	ib_mtu_t	eec_path_mtu;
	ibt_cep_path_t	eec_prim_path;
	ibt_cep_path_t	eec_alt_path;
} ibt_eec_info_t;

typedef struct ibt_eec_query_attr_s {
	ib_eecn_t	eec_eecn;
	ibt_rdd_hdl_t	eec_rdd_hdl;
	ibt_eec_info_t	eec_info;
} ibt_eec_query_attr_t;

#endif	/* _SYS_IB_IBTL_IBTL_CI_TYPES_H */
