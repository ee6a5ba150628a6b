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
 * IBTF client interface: what the communication manager hands to a handler.
 */

#ifndef	_SYS_IB_IBTL_IBTI_CM_H
#define	_SYS_IB_IBTL_IBTI_CM_H

#include <sys/ib/ib_types.h>
#include <sys/ib/ibtl/ibtl_types.h>
#include <sys/types.h>

#define	IBT_APR_PRIV_DATA_SZ	148

#define	IBT_ARI_IP_UNSPECIFIED	0
#define	IBT_ARI_IP_MAJOR_VERSION	1
#define	IBT_ARI_IP_MINOR_VERSION	2
#define	IBT_ARI_IP_IPV	3
#define	IBT_ARI_IP_SRC_ADDR	4
#define	IBT_ARI_IP_DST_ADDR	5
#define	IBT_ARI_IP_UNKNOWN_ADDR	6

#define	IBT_CM_FAILOVER_ACCEPT	0
#define	IBT_CM_FAILURE_REJ_SENT	0
#define	IBT_CM_FAILURE_REQ	0
#define	IBT_CM_IP_MAJ_VER	0
#define	IBT_CM_IP_MIN_VER	0
#define	IBT_CM_MRA_TYPE_REQ	0
#define	IBT_CM_NO_FLAGS	0
#define	IBT_CM_CLOSED_DREP_RCVD	1
#define	IBT_CM_FAILOVER_REJ_NOTSUPP	1
#define	IBT_CM_FAILURE_REJ_RCV	1
#define	IBT_CM_FAILURE_REP	1
#define	IBT_CM_FLOW_CONTROL	1
#define	IBT_CM_MRA_TYPE_REP	1
#define	IBT_CM_CLOSED_DREQ_RCVD	2
#define	IBT_CM_FAILOVER_REJ	2
#define	IBT_CM_FAILURE_TIMEOUT	2
#define	IBT_CM_FAILURE_UNKNOWN	2
#define	IBT_CM_MRA_TYPE_LAP	2
#define	IBT_CM_SRQ_EXISTS	2
#define	IBT_CM_CLOSED_REJ_RCVD	3
#define	IBT_CM_FAILURE_DUP	3
#define	IBT_CM_FAILURE_LAP	3
#define	IBT_CM_CLOSED_DREQ_TIMEOUT	4
#define	IBT_CM_FAILURE_STALE	4
#define	IBT_CM_IP_IPV_V4	4
#define	IBT_CM_CLOSED_DUP	5
#define	IBT_CM_CLOSED_ABORT	6
#define	IBT_CM_IP_IPV_V6	6
#define	IBT_CM_CLOSED_STALE	7
#define	IBT_CM_CLOSED_ALREADY	8
#define	IBT_IP_HDR_PRIV_DATA_SZ	0x24
#define	IBT_CM_ADDL_REJ_LEN	0x48
#define	IBT_CM_APR_ADDL_LEN	0x48
#define	IBT_CM_SIDR_CP_LEN	0x48
#define	IBT_REQ_PRIV_DATA_SZ	92
#define	IBT_SIDR_REP_PRIV_DATA_SZ	0x88
#define	IBT_REJ_PRIV_DATA_SZ	148
#define	IBT_LAP_PRIV_DATA_SZ	168
#define	IBT_REP_PRIV_DATA_SZ	196
#define	IBT_SIDR_REQ_PRIV_DATA_SZ	216
#define	IBT_DREQ_PRIV_DATA_SZ	220
#define	IBT_MRA_PRIV_DATA_SZ	222
#define	IBT_DREP_PRIV_DATA_SZ	224
#define	IBT_MAX_PRIV_DATA_SZ	224
#define	IBT_RTU_PRIV_DATA_SZ	224

typedef enum ibt_ap_status_e {
	IBT_CM_AP_LOADED = 0,
	IBT_CM_AP_INVALID_COMMID = 1,
	IBT_CM_AP_NOT_SUPPORTED = 2,
	IBT_CM_AP_REJECT = 3,
	IBT_CM_AP_REDIRECT = 4,
	IBT_CM_AP_MATCH_PRIM = 5,
	IBT_CM_AP_QPNEECN_INVALID = 6,
	IBT_CM_AP_RLID_REJECTED = 7,
	IBT_CM_AP_RGID_REJECTED = 8,
	IBT_CM_AP_FLOW_REJECTED = 9,
	IBT_CM_AP_TCLASS_REJECTED = 10,
	IBT_CM_AP_HOP_REJECTED = 11,
	IBT_CM_AP_RATE_REJECTED = 12,
	IBT_CM_AP_SL_REJECTED = 13,
	IBT_CM_AP_TIMEOUT = 1000,
	IBT_CM_AP_ABORT = 1001
} ibt_ap_status_t;

typedef enum ibt_cm_event_type_e {
	IBT_CM_EVENT_REQ_RCV = 1,
	IBT_CM_EVENT_REP_RCV = 2,
	IBT_CM_EVENT_MRA_RCV = 3,
	IBT_CM_EVENT_LAP_RCV = 4,
	IBT_CM_EVENT_APR_RCV = 5,
	IBT_CM_EVENT_CONN_EST = 6,
	IBT_CM_EVENT_CONN_CLOSED = 7,
	IBT_CM_EVENT_FAILURE = 8
} ibt_cm_event_type_t;

typedef enum ibt_cm_reason_e {
	IBT_CM_SUCCESS = 0,
	IBT_CM_NO_CHAN = 1,
	IBT_CM_NO_EEC = 2,
	IBT_CM_NO_RESC = 3,
	IBT_CM_TIMEOUT = 4,
	IBT_CM_NOT_SUPPORTED = 5,
	IBT_CM_INVALID_CID = 6,
	IBT_CM_INVALID_COMM_INS = 7,
	IBT_CM_INVALID_SID = 8,
	IBT_CM_INVALID_SRV_TYPE = 9,
	IBT_CM_CONN_STALE = 10,
	IBT_CM_INVALID_RDC = 11,
	IBT_CM_PRIM_GID = 12,
	IBT_CM_PRIM_LID = 13,
	IBT_CM_INVALID_PRIM_SL = 14,
	IBT_CM_INVALID_PRIM_TC = 15,
	IBT_CM_INVALID_PRIM_HOP = 16,
	IBT_CM_INVALID_PRIM_RATE = 17,
	IBT_CM_ALT_GID = 18,
	IBT_CM_ALT_LID = 19,
	IBT_CM_INVALID_ALT_SL = 20,
	IBT_CM_INVALID_ALT_TC = 21,
	IBT_CM_INVALID_ALT_HOP = 22,
	IBT_CM_INVALID_ALT_RATE = 23,
	IBT_CM_REDIRECT_CM = 24,
	IBT_CM_PORT_REDIRECT = 25,
	IBT_CM_INVALID_MTU = 26,
	IBT_CM_INSUFF_RESOURCE = 27,
	IBT_CM_CONSUMER = 28,
	IBT_CM_RNR_RETRY_CNT_REJ = 29,
	IBT_CM_DUP_COM_ID = 30,
	IBT_CM_CLASS_NO_SUPPORT = 31,
	IBT_CM_INVALID_PRIM_FLOW = 32,
	IBT_CM_INVALID_ALT_FLOW = 33,
	IBT_CM_DUP_CONN_REQ = 1000,
	IBT_CM_ABORT = 1001,
	IBT_CM_CI_FAILURE = 1002,
	IBT_CM_CHAN_INVALID_STATE = 1003,
	IBT_CM_RDMA_IP = 1004
} ibt_cm_reason_t;

typedef enum ibt_cm_status_e {
	IBT_CM_ACCEPT = 0,
	IBT_CM_REJECT = 1,
	IBT_CM_REDIRECT_PORT = 2,
	IBT_CM_REDIRECT = 3,
	IBT_CM_NO_CHANNEL = 4,
	IBT_CM_NO_RESOURCE = 5,
	IBT_CM_DEFAULT = 6,
	IBT_CM_DEFER = 7
} ibt_cm_status_t;

typedef enum ibt_cm_ud_event_type_e {
	IBT_CM_UD_EVENT_SIDR_REQ = 1,
	IBT_CM_UD_EVENT_SIDR_REP = 2
} ibt_cm_ud_event_type_t;

typedef enum ibt_sidr_status_e {
	IBT_CM_SREP_CHAN_VALID = 0,
	IBT_CM_SREP_SID_INVALID = 1,
	IBT_CM_SREP_REJ = 2,
	IBT_CM_SREP_NO_CHAN = 3,
	IBT_CM_SREP_REDIRECT = 4,
	IBT_CM_SREP_CL_INVALID = 5,
	IBT_CM_SREP_TIMEOUT = 1000
} ibt_sidr_status_t;

typedef union ibt_arej_info_u ibt_arej_info_t;
typedef struct ibt_ari_con_s ibt_ari_con_t;
typedef struct ibt_ari_ip_s ibt_ari_ip_t;
typedef struct ibt_cm_apr_rcv_s ibt_cm_apr_rcv_t;
typedef struct ibt_cm_conn_failed_s ibt_cm_conn_failed_t;
typedef struct ibt_cm_event_s ibt_cm_event_t;
typedef struct ibt_cm_lap_rcv_s ibt_cm_lap_rcv_t;
typedef struct ibt_cm_mra_rcv_s ibt_cm_mra_rcv_t;
typedef union ibt_cm_proceed_reply_s ibt_cm_proceed_reply_t;
typedef struct ibt_cm_rep_rcv_s ibt_cm_rep_rcv_t;
typedef struct ibt_cm_req_rcv_s ibt_cm_req_rcv_t;
typedef struct ibt_cm_ret_rep_s ibt_cm_ret_rep_t;
typedef struct ibt_cm_return_args_s ibt_cm_return_args_t;
typedef struct ibt_cm_sidr_rep_s ibt_cm_sidr_rep_t;
typedef struct ibt_cm_sidr_req_s ibt_cm_sidr_req_t;
typedef struct ibt_cm_ud_event_s ibt_cm_ud_event_t;
typedef struct ibt_cm_ud_return_args_s ibt_cm_ud_return_args_t;
typedef struct ibt_ofuvcm_req_data_s ibt_ofuvcm_req_data_t;
typedef struct ibt_redirect_info_s ibt_redirect_info_t;
typedef uint8_t ibt_ari_ip_reason_t;
typedef uint8_t ibt_cm_flags_t;
typedef uint8_t ibt_priv_data_len_t;
typedef ibt_cm_status_t (*ibt_cm_handler_t)(void *, ibt_cm_event_t *,
    ibt_cm_return_args_t *, void *, ibt_priv_data_len_t);
typedef ibt_cm_status_t (*ibt_cm_ud_handler_t)(void *, ibt_cm_ud_event_t *,
    ibt_cm_ud_return_args_t *, void *, ibt_priv_data_len_t);
struct ibt_ari_con_s {
	uint8_t	rej_ari_len;
	uint8_t	rej_ari[72];
};

struct ibt_ari_ip_s {
	ibt_ip_addr_t	ip_suggested_addr;
	boolean_t	ip_suggested;
	ibt_ari_ip_reason_t	ip_reason;
	uint8_t	ip_suggested_version:4;
};

struct ibt_redirect_info_s {
	ib_gid_t	rdi_gid;
	uint8_t	rdi_tclass;
	uint8_t	rdi_sl:4;
	uint_t	rdi_flow:20;
	ib_lid_t	rdi_dlid;
	ib_qpn_t	rdi_qpn;
	ib_qkey_t	rdi_qkey;
	ib_pkey_t	rdi_pkey;
};

union ibt_arej_info_u {
	ibt_ari_con_t	ari_consumer;
	ib_gid_t	ari_gid;
	ib_lid_t	ari_lid;
	uint8_t	ari_sl:4;
	uint8_t	ari_tclass;
	uint8_t	ari_hop;
	uint_t	ari_flow:20;
	ibt_srate_t	ari_rate;
	ib_mtu_t	ari_mtu;
	ibt_redirect_info_t	ari_redirect;
	ibt_ari_ip_t	ari_ip;
};

struct ibt_cm_apr_rcv_s {
	ibt_ap_status_t	apr_status;
	boolean_t	apr_arej_info_valid;
	ibt_arej_info_t	apr_arej_info;
};

struct ibt_cm_conn_failed_s {
	uint8_t	cf_code;
	uint8_t	cf_msg;
	boolean_t	cf_arej_info_valid;
	ibt_cm_reason_t	cf_reason;
	ibt_arej_info_t	cf_additional;
};

struct ibt_cm_lap_rcv_s {
	ibt_adds_vect_t	lap_alternate_path;
	clock_t	lap_timeout;
};

struct ibt_cm_mra_rcv_s {
	uint8_t	mra_msg_type;
	clock_t	mra_service_time;
};

struct ibt_cm_rep_rcv_s {
	uint8_t	rep_rdma_ra_in;
	uint8_t	rep_rdma_ra_out;
	clock_t	rep_service_time;
	uint8_t	rep_failover_status;
	ibt_cm_flags_t	rep_flags;
};

struct ibt_cm_req_rcv_s {
	ib_svc_id_t	req_service_id;
	ibt_tran_srv_t	req_transport;
	ib_guid_t	req_hca_guid;
	uint8_t	req_prim_hca_port;
	uint8_t	req_alt_hca_port;
	ibt_adds_vect_t	req_prim_addr;
	ibt_adds_vect_t	req_alt_addr;
	uint8_t	req_rdma_ra_in;
	uint8_t	req_rdma_ra_out;
	clock_t	req_timeout;
	ib_qpn_t	req_remote_qpn;
	ib_qkey_t	req_remote_qkey;
	ib_pkey_t	req_pkey;
	ibt_cm_flags_t	req_flags;
	uint8_t	req_retry_cnt:3;
	ibt_rnr_retry_cnt_t	req_rnr_retry_cnt;
	ib_eecn_t	req_opaque1;
	ib_eecn_t	req_opaque2;
};

struct ibt_cm_event_s {
	ibt_cm_event_type_t	cm_type;
	void	*cm_session_id;
	ibt_channel_hdl_t	cm_channel;
	ibt_eec_hdl_t	cm_opaque;
	ibt_priv_data_len_t	cm_priv_data_len;
	void	*cm_priv_data;
	union {
		ibt_cm_req_rcv_t	req;
		ibt_cm_rep_rcv_t	rep;
		ibt_cm_mra_rcv_t	mra;
		ibt_cm_conn_failed_t	failed;
		ibt_cm_lap_rcv_t	lap;
		ibt_cm_apr_rcv_t	apr;
		uint8_t			closed;
	} cm_event;
};

struct ibt_cm_ret_rep_s {
	ibt_channel_hdl_t	cm_channel;
	uint8_t	cm_rdma_ra_out;
	uint8_t	cm_rdma_ra_in;
	ibt_rnr_retry_cnt_t	cm_rnr_retry_cnt;
};

struct ibt_cm_return_args_s {
	ibt_priv_data_len_t	cm_ret_len;
	union {
		ibt_cm_ret_rep_t	rep;
		ibt_arej_info_t		rej;
		ibt_redirect_info_t	apr;
	} cm_ret;
};

struct ibt_cm_sidr_rep_s {
	ibt_sidr_status_t	srep_status;
	ib_svc_id_t	srep_service_id;
	ib_qkey_t	srep_remote_qkey;
	ib_qpn_t	srep_remote_qpn;
	ibt_redirect_info_t	srep_redirect;
};

struct ibt_cm_sidr_req_s {
	ib_guid_t	sreq_hca_guid;
	uint8_t	sreq_hca_port;
	ib_pkey_t	sreq_pkey;
	ib_svc_id_t	sreq_service_id;
};

struct ibt_cm_ud_event_s {
	ibt_cm_ud_event_type_t	cm_type;
	void	*cm_session_id;
	ibt_priv_data_len_t	cm_priv_data_len;
	void	*cm_priv_data;
	union {
		ibt_cm_sidr_req_t	sidr_req;
		ibt_cm_sidr_rep_t	sidr_rep;
	} cm_event;
};

struct ibt_cm_ud_return_args_s {
	ibt_priv_data_len_t	ud_ret_len;
	ibt_channel_hdl_t	ud_channel;
	ibt_redirect_info_t	ud_redirect;
};

union ibt_cm_proceed_reply_s {
	ibt_cm_ret_rep_t	rep;
	ibt_arej_info_t	rej;
	ibt_redirect_info_t	apr;
};

#endif	/* _SYS_IB_IBTL_IBTI_CM_H */
