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
 * The interface between ibtl and HCA drivers: what a driver registers, the
 * operations that ibtl calls it by, and its calls into ibtl.
 */

#ifndef	_SYS_IB_IBTL_IBCI_H
#define	_SYS_IB_IBTL_IBCI_H

#include <sys/dditypes.h>
#include <sys/devops.h>
#include <sys/ib/ibtl/ibti_common.h>
#include <sys/ib/ibtl/ibtl_ci_types.h>
#include <sys/ib/ibtl/ibtl_types.h>
#include <sys/modctl.h>

#define	IBCI_V1	1
#define	IBCI_V2	2
#define	IBCI_V3	3
#define	IBCI_V4	4

typedef enum ibc_status_e {
	IBC_SUCCESS = 0,
	IBC_FAILURE = 1
} ibc_status_t;

typedef enum ibc_free_qp_flags_e {
	IBC_FREE_QP_AND_QPN = 0,
	IBC_FREE_QP_ONLY = 1
} ibc_free_qp_flags_t;

typedef enum ibc_rdd_flags_e {
	IBT_RDD_NO_FLAGS = 0x0,
	IBT_RDD_USER_MAP = 0x1,
	IBT_RDD_DEFER_ALLOC = 0x2
} ibc_rdd_flags_t;

typedef enum ibc_eec_flags_e {
	IBT_EEC_NO_FLAGS = 0x0,
	IBT_EEC_USER_MAP = 0x1,
	IBT_EEC_DEFER_ALLOC = 0x2
} ibc_eec_flags_t;

typedef int ibc_version_t;

typedef struct ibc_ah_s *ibc_ah_hdl_t;
typedef struct ibc_cq_s *ibc_cq_hdl_t;
typedef struct ibc_eec_s *ibc_eec_hdl_t;
typedef struct ibc_hca_s *ibc_hca_hdl_t;
typedef struct ibc_mem_alloc_s *ibc_mem_alloc_hdl_t;
typedef struct ibc_pd_s *ibc_pd_hdl_t;
typedef struct ibc_qp_s *ibc_qp_hdl_t;
typedef struct ibc_qpn_s *ibc_qpn_hdl_t;
typedef struct ibc_rdd_s *ibc_rdd_hdl_t;
typedef struct ibc_srq_s *ibc_srq_hdl_t;
typedef struct ibtl_eec_s *ibtl_eec_hdl_t;
typedef struct ibtl_hca_devinfo_s *ibc_clnt_hdl_t;
typedef struct ibtl_qp_s *ibtl_qp_hdl_t;

typedef struct ibc_async_event_s {
	uint64_t	ev_fma_ena;
	ibtl_qp_hdl_t	ev_qp_hdl;
	ibtl_eec_hdl_t	ev_eec_hdl;
	ibt_cq_hdl_t	ev_cq_hdl;
	ibt_srq_hdl_t	ev_srq_hdl;
	ibt_port_change_t	ev_port_flags;
	uint8_t	ev_port;
	ibt_fc_syndrome_t	ev_fc;
} ibc_async_event_t;

typedef struct ibc_operations_s {
	ibt_status_t (*ibc_query_hca_ports)(ibc_hca_hdl_t, uint8_t,
	    ibt_hca_portinfo_t *);
	ibt_status_t (*ibc_modify_ports)(ibc_hca_hdl_t, uint8_t,
	    ibt_port_modify_flags_t, uint8_t);
	ibt_status_t (*ibc_modify_system_image)(ibc_hca_hdl_t, ib_guid_t);
	ibt_status_t (*ibc_alloc_pd)(ibc_hca_hdl_t, ibt_pd_flags_t,
	    ibc_pd_hdl_t *);
	ibt_status_t (*ibc_free_pd)(ibc_hca_hdl_t, ibc_pd_hdl_t);
	ibt_status_t (*ibc_alloc_rdd)(ibc_hca_hdl_t, ibc_rdd_flags_t,
	    ibc_rdd_hdl_t *);
	ibt_status_t (*ibc_free_rdd)(ibc_hca_hdl_t, ibc_rdd_hdl_t);
	ibt_status_t (*ibc_alloc_ah)(ibc_hca_hdl_t, ibt_ud_dest_flags_t,
	    ibc_pd_hdl_t, ibt_adds_vect_t *, ibc_ah_hdl_t *);
	ibt_status_t (*ibc_free_ah)(ibc_hca_hdl_t, ibc_ah_hdl_t);
	ibt_status_t (*ibc_query_ah)(ibc_hca_hdl_t, ibc_ah_hdl_t,
	    ibc_pd_hdl_t *, ibt_adds_vect_t *);
	ibt_status_t (*ibc_modify_ah)(ibc_hca_hdl_t, ibc_ah_hdl_t,
	    ibt_adds_vect_t *);
	ibt_status_t (*ibc_alloc_qp)(ibc_hca_hdl_t, ibtl_qp_hdl_t,
	    ibt_qp_type_t, ibt_qp_alloc_attr_t *, ibt_chan_sizes_t *,
	    ib_qpn_t *, ibc_qp_hdl_t *);
	ibt_status_t (*ibc_alloc_special_qp)(ibc_hca_hdl_t, uint8_t,
	    ibtl_qp_hdl_t, ibt_sqp_type_t, ibt_qp_alloc_attr_t *,
	    ibt_chan_sizes_t *, ibc_qp_hdl_t *);
	ibt_status_t (*ibc_alloc_qp_range)(ibc_hca_hdl_t, uint_t,
	    ibtl_qp_hdl_t *, ibt_qp_type_t, ibt_qp_alloc_attr_t *,
	    ibt_chan_sizes_t *, ibc_cq_hdl_t *, ibc_cq_hdl_t *, ib_qpn_t *,
	    ibc_qp_hdl_t *);
	ibt_status_t (*ibc_free_qp)(ibc_hca_hdl_t, ibc_qp_hdl_t,
	    ibc_free_qp_flags_t, ibc_qpn_hdl_t *);
	ibt_status_t (*ibc_release_qpn)(ibc_hca_hdl_t, ibc_qpn_hdl_t);
	ibt_status_t (*ibc_query_qp)(ibc_hca_hdl_t, ibc_qp_hdl_t,
	    ibt_qp_query_attr_t *);
	ibt_status_t (*ibc_modify_qp)(ibc_hca_hdl_t, ibc_qp_hdl_t,
	    ibt_cep_modify_flags_t, ibt_qp_info_t *, ibt_queue_sizes_t *);
	ibt_status_t (*ibc_alloc_cq)(ibc_hca_hdl_t, ibt_cq_hdl_t,
	    ibt_cq_attr_t *, ibc_cq_hdl_t *, uint_t *);
	ibt_status_t (*ibc_free_cq)(ibc_hca_hdl_t, ibc_cq_hdl_t);
	ibt_status_t (*ibc_query_cq)(ibc_hca_hdl_t, ibc_cq_hdl_t, uint_t *,
	    uint_t *, uint_t *, ibt_cq_handler_id_t *);
	ibt_status_t (*ibc_resize_cq)(ibc_hca_hdl_t, ibc_cq_hdl_t, uint_t,
	    uint_t *);
	ibt_status_t (*ibc_modify_cq)(ibc_hca_hdl_t, ibc_cq_hdl_t, uint_t,
	    uint_t, ibt_cq_handler_id_t);
	ibt_status_t (*ibc_alloc_cq_sched)(ibc_hca_hdl_t,
	    ibt_cq_sched_attr_t *, ibt_sched_hdl_t *);
	ibt_status_t (*ibc_free_cq_sched)(ibc_hca_hdl_t, ibt_sched_hdl_t);
	ibt_status_t (*ibc_query_cq_handler_id)(ibc_hca_hdl_t,
	    ibt_cq_handler_id_t, ibt_cq_handler_attr_t *);
	ibt_status_t (*ibc_alloc_eec)(ibc_hca_hdl_t, ibc_eec_flags_t,
	    ibtl_eec_hdl_t, ibc_rdd_hdl_t, ibc_eec_hdl_t *);
	ibt_status_t (*ibc_free_eec)(ibc_hca_hdl_t, ibc_eec_hdl_t);
	ibt_status_t (*ibc_query_eec)(ibc_hca_hdl_t, ibc_eec_hdl_t,
	    ibt_eec_query_attr_t *);
	ibt_status_t (*ibc_modify_eec)(ibc_hca_hdl_t, ibc_eec_hdl_t,
	    ibt_cep_modify_flags_t, ibt_eec_info_t *);
	ibt_status_t (*ibc_register_mr)(ibc_hca_hdl_t, ibc_pd_hdl_t,
	    ibt_mr_attr_t *, void *, ibt_mr_hdl_t *, ibt_mr_desc_t *);
	ibt_status_t (*ibc_register_buf)(ibc_hca_hdl_t, ibc_pd_hdl_t,
	    ibt_smr_attr_t *, struct buf *, void *, ibt_mr_hdl_t *,
	    ibt_mr_desc_t *);
	ibt_status_t (*ibc_register_shared_mr)(ibc_hca_hdl_t, ibt_mr_hdl_t,
	    ibc_pd_hdl_t, ibt_smr_attr_t *, void *, ibt_mr_hdl_t *,
	    ibt_mr_desc_t *);
	ibt_status_t (*ibc_deregister_mr)(ibc_hca_hdl_t, ibt_mr_hdl_t);
	ibt_status_t (*ibc_query_mr)(ibc_hca_hdl_t, ibt_mr_hdl_t,
	    ibt_mr_query_attr_t *);
	ibt_status_t (*ibc_reregister_mr)(ibc_hca_hdl_t, ibt_mr_hdl_t,
	    ibc_pd_hdl_t, ibt_mr_attr_t *, void *, ibt_mr_hdl_t *,
	    ibt_mr_desc_t *);
	ibt_status_t (*ibc_reregister_buf)(ibc_hca_hdl_t, ibt_mr_hdl_t,
	    ibc_pd_hdl_t, ibt_smr_attr_t *, struct buf *, void *,
	    ibt_mr_hdl_t *, ibt_mr_desc_t *);
	ibt_status_t (*ibc_sync_mr)(ibc_hca_hdl_t, ibt_mr_sync_t *, size_t);
	ibt_status_t (*ibc_alloc_mw)(ibc_hca_hdl_t, ibc_pd_hdl_t,
	    ibt_mw_flags_t, ibt_mw_hdl_t *, ibt_rkey_t *);
	ibt_status_t (*ibc_free_mw)(ibc_hca_hdl_t, ibt_mw_hdl_t);
	ibt_status_t (*ibc_query_mw)(ibc_hca_hdl_t, ibt_mw_hdl_t,
	    ibt_mw_query_attr_t *);
	ibt_status_t (*ibc_attach_mcg)(ibc_hca_hdl_t, ibc_qp_hdl_t,
	    ib_gid_t, ib_lid_t);
	ibt_status_t (*ibc_detach_mcg)(ibc_hca_hdl_t, ibc_qp_hdl_t,
	    ib_gid_t, ib_lid_t);
	ibt_status_t (*ibc_post_send)(ibc_hca_hdl_t, ibc_qp_hdl_t,
	    ibt_send_wr_t *, uint_t, uint_t *);
	ibt_status_t (*ibc_post_recv)(ibc_hca_hdl_t, ibc_qp_hdl_t,
	    ibt_recv_wr_t *, uint_t, uint_t *);
	ibt_status_t (*ibc_poll_cq)(ibc_hca_hdl_t, ibc_cq_hdl_t, ibt_wc_t *,
	    uint_t, uint_t *);
	ibt_status_t (*ibc_notify_cq)(ibc_hca_hdl_t, ibc_cq_hdl_t,
	    ibt_cq_notify_flags_t);
	ibt_status_t (*ibc_ci_data_in)(ibc_hca_hdl_t, ibt_ci_data_flags_t,
	    ibt_object_type_t, void *, void *, size_t);
	ibt_status_t (*ibc_ci_data_out)(ibc_hca_hdl_t, ibt_ci_data_flags_t,
	    ibt_object_type_t, void *, void *, size_t);
	ibt_status_t (*ibc_alloc_srq)(ibc_hca_hdl_t, ibt_srq_flags_t,
	    ibt_srq_hdl_t, ibc_pd_hdl_t, ibt_srq_sizes_t *, ibc_srq_hdl_t *,
	    ibt_srq_sizes_t *);
	ibt_status_t (*ibc_free_srq)(ibc_hca_hdl_t, ibc_srq_hdl_t);
	ibt_status_t (*ibc_query_srq)(ibc_hca_hdl_t, ibc_srq_hdl_t,
	    ibc_pd_hdl_t *, ibt_srq_sizes_t *, uint_t *);
	ibt_status_t (*ibc_modify_srq)(ibc_hca_hdl_t, ibc_srq_hdl_t,
	    ibt_srq_modify_flags_t, uint_t, uint_t, uint_t *);
	ibt_status_t (*ibc_post_srq)(ibc_hca_hdl_t, ibc_srq_hdl_t,
	    ibt_recv_wr_t *, uint_t, uint_t *);
	ibt_status_t (*ibc_map_mem_area)(ibc_hca_hdl_t, ibt_va_attr_t *,
	    void *, uint_t, ibt_reg_req_t *, ibt_ma_hdl_t *);
	ibt_status_t (*ibc_unmap_mem_area)(ibc_hca_hdl_t, ibt_ma_hdl_t);
	ibt_status_t (*ibc_map_mem_iov)(ibc_hca_hdl_t, ibt_iov_attr_t *,
	    ibt_all_wr_t *, ibt_mi_hdl_t *);
	ibt_status_t (*ibc_unmap_mem_iov)(ibc_hca_hdl_t, ibt_mi_hdl_t);
	ibt_status_t (*ibc_alloc_lkey)(ibc_hca_hdl_t, ibc_pd_hdl_t,
	    ibt_lkey_flags_t, uint_t, ibt_mr_hdl_t *, ibt_pmr_desc_t *);
	ibt_status_t (*ibc_register_physical_mr)(ibc_hca_hdl_t,
	    ibc_pd_hdl_t, ibt_pmr_attr_t *, void *, ibt_mr_hdl_t *,
	    ibt_pmr_desc_t *);
	ibt_status_t (*ibc_reregister_physical_mr)(ibc_hca_hdl_t,
	    ibt_mr_hdl_t, ibc_pd_hdl_t, ibt_pmr_attr_t *, void *,
	    ibt_mr_hdl_t *, ibt_pmr_desc_t *);
	ibt_status_t (*ibc_create_fmr_pool)(ibc_hca_hdl_t, ibc_pd_hdl_t,
	    ibt_fmr_pool_attr_t *, ibt_fmr_pool_hdl_t *);
	ibt_status_t (*ibc_destroy_fmr_pool)(ibc_hca_hdl_t,
	    ibt_fmr_pool_hdl_t);
	ibt_status_t (*ibc_flush_fmr_pool)(ibc_hca_hdl_t, ibt_fmr_pool_hdl_t);
	ibt_status_t (*ibc_register_physical_fmr)(ibc_hca_hdl_t,
	    ibt_fmr_pool_hdl_t, ibt_pmr_attr_t *, void *, ibt_mr_hdl_t *,
	    ibt_pmr_desc_t *);
	ibt_status_t (*ibc_deregister_fmr)(ibc_hca_hdl_t, ibt_mr_hdl_t);
	ibt_status_t (*ibc_alloc_io_mem)(ibc_hca_hdl_t, size_t,
	    ibt_mr_flags_t, caddr_t *, ibc_mem_alloc_hdl_t *);
	ibt_status_t (*ibc_free_io_mem)(ibc_hca_hdl_t, ibc_mem_alloc_hdl_t);
	ibt_status_t (*ibc_alloc_xrc_domain)();
	ibt_status_t (*ibc_free_xrc_domain)();
	ibt_status_t (*ibc_alloc_xrc_srq)();
	ibt_status_t (*ibc_free_xrc_srq)();
	ibt_status_t (*ibc_query_xrc_srq)();
	ibt_status_t (*ibc_modify_xrc_srq)();
	ibt_status_t (*ibc_alloc_xrc_tgt_qp)();
	ibt_status_t (*ibc_free_xrc_tgt_qp)();
	ibt_status_t (*ibc_query_xrc_tgt_qp)();
	ibt_status_t (*ibc_modify_xrc_tgt_qp)();
	ibt_status_t (*ibc_register_dma_mr)(ibc_hca_hdl_t, ibc_pd_hdl_t,
	    ibt_dmr_attr_t *, void *, ibt_mr_hdl_t *, ibt_mr_desc_t *);
	ibt_status_t (*ibc_enhancement1)();
	ibt_status_t (*ibc_enhancement2)();
	ibt_status_t (*ibc_enhancement3)();
	ibt_status_t (*ibc_enhancement4)();
} ibc_operations_t;

typedef struct ibc_hca_info_s {
	ibc_version_t	hca_ci_vers;
	ibc_hca_hdl_t	hca_handle;
	ibc_operations_t *hca_ops;
	ibt_hca_attr_t *hca_attr;
} ibc_hca_info_t;

void ibc_async_handler(ibc_clnt_hdl_t, ibt_async_code_t, ibc_async_event_t *);
ibc_status_t ibc_attach(ibc_clnt_hdl_t *, ibc_hca_info_t *);
void ibc_cq_handler(ibc_clnt_hdl_t, ibt_cq_hdl_t);
void ibc_detach(ibc_clnt_hdl_t);
void ibc_fini(struct modlinkage *);
ibt_status_t ibc_get_ci_failure(uint64_t);
int ibc_init(struct modlinkage *);
void ibc_post_attach(ibc_clnt_hdl_t);
ibc_status_t ibc_pre_detach(ibc_clnt_hdl_t, ddi_detach_cmd_t);

#endif	/* _SYS_IB_IBTL_IBCI_H */
