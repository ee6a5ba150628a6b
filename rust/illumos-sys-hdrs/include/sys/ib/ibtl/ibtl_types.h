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
 * Types that IBTF clients and HCA drivers share: attributes, work requests,
 * work completions.
 */

#ifndef	_SYS_IB_IBTL_IBTL_TYPES_H
#define	_SYS_IB_IBTL_IBTL_TYPES_H

#include <netinet/in.h>
#include <sys/dditypes.h>
#include <sys/ib/ib_types.h>
#include <sys/ib/ibtl/ibtl_status.h>
#include <sys/types.h>

#define	IBT_FCMD_SRV	7

#define	IBT_FC_BAD_IU	0
#define	IBT_FC_BROKEN_SEQ	1
#define	IBT_FC_INFO_SOL_DATA	1
#define	IBT_FC_INFO_DATA_DESC	5
#define	IBT_FC_INFO_UNSOL_CMD	6
#define	IBT_FC_INFO_CMD_STAT	7
#define	IBT_FEXCH_SRV	8

#define	IBT_IS_OP_NO_IO	0
#define	IBT_IS_OP_TARGET	0
#define	IBT_IS_OP_IO_READ	1
#define	IBT_IS_OP_IO_WRITE	2
#define	IBT_IS_OP_BIDIR	3

#define	IBT_LINK_SPEED_SDR	1
#define	IBT_LINK_WIDTH_1X	1
#define	IBT_MR_DATA_IN_IF_VERSION	1
#define	IBT_LINK_SPEED_DDR	2
#define	IBT_LINK_WIDTH_4X	2
#define	IBT_LINK_SPEED_QDR	4
#define	IBT_LINK_WIDTH_8X	4
#define	IBT_LINK_WIDTH_12X	8

#define	IBT_PINIT_NO_LOAD	1
#define	IBT_PINIT_PRESERVE_CONTENT	2
#define	IBT_PINIT_PRESERVE_PRESENCE	4
#define	IBT_PINIT_NO_RESUSCITATE	8

#define	IBT_RC_SRV	0
#define	IBT_PORT_PHYS_STATE_SLEEP	1
#define	IBT_PORT_PHYS_STATE_POLLING	2
#define	IBT_RD_SRV	2
#define	IBT_PORT_PHYS_STATE_DISABLED	3
#define	IBT_PORT_PHYS_STATE_TRAINING	4
#define	IBT_RAWIP_SRV	4
#define	IBT_PORT_PHYS_STATE_UP	5
#define	IBT_RAWETHER_SRV	5
#define	IBT_PORT_PHYS_STATE_RECOVERY	6
#define	IBT_RFCI_SRV	6
#define	IBT_PORT_PHYS_STATE_TEST	7
#define	IBT_PORT_EVENTS	3146496

#define	IBT_SYNC_READ	1
#define	IBT_UC_SRV	1
#define	IBT_SRATE_1X	2
#define	IBT_SYNC_WRITE	2
#define	IBT_SRATE_4X	3
#define	IBT_UD_SRV	3
#define	IBT_SRATE_12X	4

#define	IBT_WC_NO_FLAGS	0
#define	IBT_WC_GRH_PRESENT	1
#define	IBT_WC_IMMED_DATA_PRESENT	2
#define	IBT_WC_RKEY_INVALIDATED	4
#define	IBT_WC_CKSUM_OK	8
#define	IBT_WC_FEXCH_FMT	16
#define	IBT_WC_DIF_ERROR	32
#define	IBT_WC_DETAIL_RSS_TCP_IPV6	0x40000
#define	IBT_WC_DETAIL_RSS_IPV6	0x80000
#define	IBT_WC_DETAIL_RSS_TCP_IPV4	0x100000
#define	IBT_WC_DETAIL_RSS_IPV4	0x200000
#define	IBT_WC_DETAIL_RSS_MATCH_MASK	4128768
#define	IBT_WC_DETAIL_IPV4	0x400000
#define	IBT_WC_DETAIL_IPV4_FRAG	0x800000
#define	IBT_WC_DETAIL_IPV6	0x1000000
#define	IBT_WC_DETAIL_FEXCH_INIT_XFER	0x2000000
#define	IBT_WC_DETAIL_IPV4_OPT	0x2000000
#define	IBT_WC_DETAIL_FEXCH_LAST	0x4000000
#define	IBT_WC_DETAIL_TCP	0x4000000
#define	IBT_WC_DETAIL_RFCI_CRC_OK	0x8000000
#define	IBT_WC_DETAIL_UDP	0x8000000
#define	IBT_WC_DETAIL_FC_MATCH_MASK	234881024
#define	IBT_WC_DETAIL_ALL_FLAGS_MASK	264241152

#define	IBT_WRC_SEND	1
#define	IBT_WRC_RDMAR	2
#define	IBT_WRC_RDMAW	3
#define	IBT_WRC_CSWAP	4
#define	IBT_WRC_FADD	5
#define	IBT_WRC_BIND	6
#define	IBT_WRC_RECV	7
#define	IBT_WRC_RECV_RDMAWI	8
#define	IBT_WRC_FAST_REG_PMR	9
#define	IBT_WRC_LOCAL_INVALIDATE	10
#define	IBT_WRC_SEND_LSO	11
#define	IBT_WRC_INIT_SEND_FCMD	12
#define	IBT_WRC_INIT_FEXCH	13

#define	IBT_WR_NO_FLAGS	0
#define	IBT_WR_SEND_IMMED	1
#define	IBT_WR_SEND_SIGNAL	2
#define	IBT_WR_SEND_FENCE	4
#define	IBT_WR_SEND_SOLICIT	8
#define	IBT_WR_SEND_REMOTE_INVAL	16
#define	IBT_WR_SEND_CKSUM	32
#define	IBT_WR_SEND_FC_CRC	32
#define	IBT_WR_SEND_INLINE	0x40

#define	IBT_AH_NO_FLAGS	0
#define	IBT_AH_USER_MAP	1
#define	IBT_AH_DEFER_ALLOC	2
#define	IBT_AH_HDL_INVALID	300
#define	IBT_MC_MLID_INVALID	900

#define	IBT_QP_HDL_INVALID	400
#define	IBT_QP_ATTR_RO	401
#define	IBT_QP_STATE_INVALID	402
#define	IBT_QP_SRV_TYPE_INVALID	403
#define	IBT_QP_IN_USE	404
#define	IBT_QP_ATOMICS_NOT_SUPPORTED	405
#define	IBT_QP_OP_TYPE_INVALID	408
#define	IBT_QP_SGL_FORMAT_INVALID	409
#define	IBT_QP_SGL_LEN_INVALID	410
#define	IBT_QP_APM_STATE_INVALID	411
#define	IBT_QP_SPECIAL_TYPE_INVALID	412
#define	IBT_QP_SZ_INSUFFICIENT	413
#define	IBT_QP_FULL	414
#define	IBT_QP_SRQ	415
#define	IBT_QP_TYPE_2A_MW_BOUND	416
#define	IBT_QP_WQE_SZ_INSUFF	417

typedef enum ibt_async_code_e {
	IBT_EVENT_PATH_MIGRATED = 0x1,
	IBT_EVENT_SQD = 0x2,
	IBT_EVENT_COM_EST = 0x4,
	IBT_ERROR_CATASTROPHIC_CHAN = 0x8,
	IBT_ERROR_INVALID_REQUEST_CHAN = 0x10,
	IBT_ERROR_ACCESS_VIOLATION_CHAN = 0x20,
	IBT_ERROR_PATH_MIGRATE_REQ = 0x40,
	IBT_ERROR_CQ = 0x80,
	IBT_EVENT_PORT_UP = 0x100,
	IBT_ERROR_PORT_DOWN = 0x200,
	IBT_ERROR_LOCAL_CATASTROPHIC = 0x400,
	IBT_HCA_ATTACH_EVENT = 0x800,
	IBT_HCA_DETACH_EVENT = 0x1000,
	IBT_ASYNC_OPAQUE1 = 0x2000,
	IBT_ASYNC_OPAQUE2 = 0x4000,
	IBT_ASYNC_OPAQUE3 = 0x8000,
	IBT_ASYNC_OPAQUE4 = 0x10000,
	IBT_EVENT_LIMIT_REACHED_SRQ = 0x20000,
	IBT_EVENT_EMPTY_CHAN = 0x40000,
	IBT_ERROR_CATASTROPHIC_SRQ = 0x80000,
	IBT_PORT_CHANGE_EVENT = 0x100000,
	IBT_CLNT_REREG_EVENT = 0x200000,
	IBT_FEXCH_ERROR = 0x400000
} ibt_async_code_t;

typedef enum ibt_attr_flags_e {
	IBT_ALL_SIGNALED = 0,
	IBT_WR_SIGNALED = 1,
	IBT_FAST_REG_RES_LKEY = 2,
	IBT_USES_LSO = 4
} ibt_attr_flags_t;

typedef enum ibt_bind_flags_e {
	IBT_WR_BIND_READ = 0x1,
	IBT_WR_BIND_WRITE = 0x2,
	IBT_WR_BIND_ATOMIC = 0x4,
	IBT_WR_BIND_ZBVA = 0x8
} ibt_bind_flags_t;

typedef enum ibt_cep_cmstate_e {
	IBT_STATE_NOT_SUPPORTED = 0,
	IBT_STATE_MIGRATED = 1,
	IBT_STATE_REARMED = 2,
	IBT_STATE_ARMED = 3
} ibt_cep_cmstate_t;

typedef enum ibt_cep_flags_e {
	IBT_CEP_NO_FLAGS = 0,
	IBT_CEP_RDMA_RD = 1,
	IBT_CEP_RDMA_WR = 2,
	IBT_CEP_ATOMIC = 4
} ibt_cep_flags_t;

typedef enum ibt_cep_modify_flags_e {
	IBT_CEP_SET_NOTHING = 0x0,
	IBT_CEP_SET_SQ_SIZE = 0x2,
	IBT_CEP_SET_RQ_SIZE = 0x4,
	IBT_CEP_SET_RDMA_R = 0x8,
	IBT_CEP_SET_RDMA_W = 0x10,
	IBT_CEP_SET_ATOMIC = 0x20,
	IBT_CEP_SET_ALT_PATH = 0x40,
	IBT_CEP_SET_ADDS_VECT = 0x80,
	IBT_CEP_SET_PORT = 0x100,
	IBT_CEP_SET_OPAQUE5 = 0x200,
	IBT_CEP_SET_RETRY = 0x400,
	IBT_CEP_SET_RNR_NAK_RETRY = 0x800,
	IBT_CEP_SET_MIN_RNR_NAK = 0x1000,
	IBT_CEP_SET_QKEY = 0x2000,
	IBT_CEP_SET_RDMARA_OUT = 0x4000,
	IBT_CEP_SET_RDMARA_IN = 0x8000,
	IBT_CEP_SET_OPAQUE1 = 0x10000,
	IBT_CEP_SET_OPAQUE2 = 0x20000,
	IBT_CEP_SET_OPAQUE3 = 0x40000,
	IBT_CEP_SET_OPAQUE4 = 0x80000,
	IBT_CEP_SET_SQD_EVENT = 0x100000,
	IBT_CEP_SET_OPAQUE6 = 0x200000,
	IBT_CEP_SET_OPAQUE7 = 0x400000,
	IBT_CEP_SET_OPAQUE8 = 0x800000,
	IBT_CEP_SET_RSS = 0x1000000,
	IBT_CEP_SET_FEXCH_RANGE = 0x2000000
} ibt_cep_modify_flags_t;

typedef enum ibt_cep_state_e {
	IBT_STATE_RESET = 0,
	IBT_STATE_INIT = 1,
	IBT_STATE_RTR = 2,
	IBT_STATE_RTS = 3,
	IBT_STATE_SQD = 4,
	IBT_STATE_SQE = 5,
	IBT_STATE_ERROR = 6,
	IBT_STATE_SQDRAIN = 7,
	IBT_STATE_NUM = 8
} ibt_cep_state_t;

typedef enum ibt_ci_data_flags_e {
	IBT_CI_NO_FLAGS = 0,
	IBT_CI_COMPLETE_ALLOC = 1
} ibt_ci_data_flags_t;

typedef enum ibt_cq_flags_e {
	IBT_CQ_NO_FLAGS = 0x0,
	IBT_CQ_HANDLER_IN_THREAD = 0x1,
	IBT_CQ_USER_MAP = 0x2,
	IBT_CQ_DEFER_ALLOC = 0x4,
	IBT_CQ_HID = 0x8
} ibt_cq_flags_t;

typedef enum ibt_cq_notify_flags_e {
	IBT_NEXT_COMPLETION = 1,
	IBT_NEXT_SOLICITED = 2
} ibt_cq_notify_flags_t;

typedef enum ibt_cq_sched_flags_e {
	IBT_CQS_NO_FLAGS = 0x0,
	IBT_CQS_WARM_CACHE = 0x1,
	IBT_CQS_EXACT_SCHED_GROUP = 0x2,
	IBT_CQS_SCHED_GROUP = 0x4,
	IBT_CQS_USER_MAP = 0x8,
	IBT_CQS_DEFER_ALLOC = 0x10
} ibt_cq_sched_flags_t;

typedef enum ibt_execution_mode_e {
	IBT_BLOCKING = 0,
	IBT_NONBLOCKING = 1,
	IBT_NOCALLBACKS = 2
} ibt_execution_mode_t;

typedef enum ibt_failure_type_e {
	IBT_FAILURE_STANDARD = 0,
	IBT_FAILURE_CI = 1,
	IBT_FAILURE_IBMF = 2,
	IBT_FAILURE_IBTL = 3,
	IBT_FAILURE_IBCM = 4,
	IBT_FAILURE_IBDM = 5,
	IBT_FAILURE_IBSM = 6
} ibt_failure_type_t;

typedef enum ibt_fctl_flags_e {
	IBT_FCTL_NO_FLAGS = 0x0,
	IBT_FCTL_SIT = 0x10000,
	IBT_FCTL_PRIO = 0x20000,
	IBT_FCTL_LAST_SEQ = 0x100000,
	IBT_FCTL_ORIG_INIT = 0x800000
} ibt_fctl_flags_t;

typedef enum ibt_fexch_query_flags_e {
	IBT_FEXCH_NO_FLAGS = 0,
	IBT_FEXCH_HEART_BEAT_OK = 1
} ibt_fexch_query_flags_t;

typedef enum ibt_hca_flags2_e {
	IBT_HCA2_NO_FLAGS = 0x0,
	IBT_HCA2_UC = 0x2,
	IBT_HCA2_UC_SRQ = 0x4,
	IBT_HCA2_RES_LKEY = 0x8,
	IBT_HCA2_PORT_CHANGE = 0x10,
	IBT_HCA2_IP_CLASS = 0x20,
	IBT_HCA2_RSS_TPL_ALG = 0x40,
	IBT_HCA2_RSS_XOR_ALG = 0x80,
	IBT_HCA2_XRC = 0x100,
	IBT_HCA2_XRC_SRQ_RESIZE = 0x200,
	IBT_HCA2_MEM_MGT_EXT = 0x400,
	IBT_HCA2_DMA_MR = 0x800,
	IBT_HCA2_FC = 0x1000
} ibt_hca_flags2_t;

typedef enum ibt_hca_flags_e {
	IBT_HCA_NO_FLAGS = 0x0,
	IBT_HCA_RD = 0x1,
	IBT_HCA_UD_MULTICAST = 0x2,
	IBT_HCA_RAW_MULTICAST = 0x4,
	IBT_HCA_ATOMICS_HCA = 0x8,
	IBT_HCA_ATOMICS_GLOBAL = 0x10,
	IBT_HCA_RESIZE_CHAN = 0x20,
	IBT_HCA_AUTO_PATH_MIG = 0x40,
	IBT_HCA_SQD_SQD_PORT = 0x80,
	IBT_HCA_PKEY_CNTR = 0x100,
	IBT_HCA_QKEY_CNTR = 0x200,
	IBT_HCA_AH_PORT_CHECK = 0x400,
	IBT_HCA_PORT_UP = 0x800,
	IBT_HCA_INIT_TYPE = 0x1000,
	IBT_HCA_SI_GUID = 0x2000,
	IBT_HCA_SHUTDOWN_PORT = 0x4000,
	IBT_HCA_RNR_NAK = 0x8000,
	IBT_HCA_CURRENT_QP_STATE = 0x10000,
	IBT_HCA_SRQ = 0x20000,
	IBT_HCA_RC_SRQ = 0x20000,
	IBT_HCA_RESIZE_SRQ = 0x40000,
	IBT_HCA_UD_SRQ = 0x80000,
	IBT_HCA_MULT_PAGE_SZ_MR = 0x100000,
	IBT_HCA_BLOCK_LIST = 0x200000,
	IBT_HCA_ZERO_BASED_VA = 0x400000,
	IBT_HCA_LOCAL_INVAL_FENCE = 0x800000,
	IBT_HCA_BASE_QUEUE_MGT = 0x1000000,
	IBT_HCA_CKSUM_FULL = 0x2000000,
	IBT_HCA_MEM_WIN_TYPE_2B = 0x4000000,
	IBT_HCA_PHYS_BUF_BLOCK = 0x8000000,
	IBT_HCA_FMR = 0x10000000,
	IBT_HCA_WQE_SIZE_INFO = 0x20000000,
	IBT_HCA_SQD_STATE = 0x40000000
} ibt_hca_flags_t;

typedef enum ibt_iov_flags_e {
	IBT_IOV_SLEEP = 0x0,
	IBT_IOV_NOSLEEP = 0x1,
	IBT_IOV_BUF = 0x2,
	IBT_IOV_RECV = 0x4,
	IBT_IOV_USER_BUF = 0x8,
	IBT_IOV_ALT_LKEY = 0x10
} ibt_iov_flags_t;

typedef enum ibt_key_state_e {
	IBT_KEY_INVALID = 0,
	IBT_KEY_FREE = 1,
	IBT_KEY_VALID = 2
} ibt_key_state_t;

typedef enum ibt_lkey_flags_e {
	IBT_KEY_SLEEP = 0,
	IBT_KEY_NOSLEEP = 1,
	IBT_KEY_REMOTE = 2
} ibt_lkey_flags_t;

typedef enum ibt_mem_code_s {
	IBT_MEM_AREA = 1,
	IBT_MEM_REGION = 2
} ibt_mem_code_t;

typedef enum ibt_mem_win_type_e {
	IBT_MEM_WIN_TYPE_NOT_DEFINED = 0,
	IBT_MEM_WIN_TYPE_1 = 1,
	IBT_MEM_WIN_TYPE_2 = 2
} ibt_mem_win_type_t;

typedef enum ibt_mr_attr_flags_e {
	IBT_MR_WINDOW_BIND = 0x1,
	IBT_MR_LOCAL_WRITE = 0x2,
	IBT_MR_REMOTE_READ = 0x4,
	IBT_MR_REMOTE_WRITE = 0x8,
	IBT_MR_REMOTE_ATOMIC = 0x10,
	IBT_MR_ZERO_BASED_VA = 0x20,
	IBT_MR_CONSUMER_OWNED_KEY = 0x40,
	IBT_MR_SHARED = 0x80,
	IBT_MR_FMR = 0x100,
	IBT_MR_RO_DISABLED = 0x200
} ibt_mr_attr_flags_t;

typedef enum ibt_mr_flags_e {
	IBT_MR_SLEEP = 0x0,
	IBT_MR_NOSLEEP = 0x2,
	IBT_MR_NONCOHERENT = 0x4,
	IBT_MR_PHYS_IOVA = 0x8,
	IBT_MR_ENABLE_WINDOW_BIND = 0x10,
	IBT_MR_ENABLE_LOCAL_WRITE = 0x20,
	IBT_MR_ENABLE_REMOTE_READ = 0x40,
	IBT_MR_ENABLE_REMOTE_WRITE = 0x80,
	IBT_MR_ENABLE_REMOTE_ATOMIC = 0x100,
	IBT_MR_CHANGE_TRANSLATION = 0x200,
	IBT_MR_CHANGE_ACCESS = 0x400,
	IBT_MR_CHANGE_PD = 0x800,
	IBT_MR_ZBVA = 0x1000,
	IBT_MR_CONSUMER_KEY = 0x2000,
	IBT_MR_DISABLE_RO = 0x4000,
	IBT_MR_USER_BUF = 0x8000
} ibt_mr_flags_t;

typedef enum ibt_mw_flags_e {
	IBT_MW_SLEEP = 0x0,
	IBT_MW_NOSLEEP = 0x1,
	IBT_MW_USER_MAP = 0x2,
	IBT_MW_DEFER_ALLOC = 0x4,
	IBT_MW_TYPE_1 = 0x8,
	IBT_MW_TYPE_2 = 0x10
} ibt_mw_flags_t;

typedef enum ibt_object_type_e {
	IBT_HDL_HCA = 1,
	IBT_HDL_CHANNEL = 2,
	IBT_HDL_CQ = 3,
	IBT_HDL_PD = 4,
	IBT_HDL_MR = 5,
	IBT_HDL_MW = 6,
	IBT_HDL_UD_DEST = 7,
	IBT_HDL_SCHED = 8,
	IBT_HDL_OPAQUE1 = 9,
	IBT_HDL_OPAQUE2 = 10,
	IBT_HDL_SRQ = 11
} ibt_object_type_t;

typedef enum ibt_page_sizes_e {
	IBT_PAGE_4K = 0x4,
	IBT_PAGE_8K = 0x8,
	IBT_PAGE_16K = 0x10,
	IBT_PAGE_32K = 0x20,
	IBT_PAGE_64K = 0x40,
	IBT_PAGE_128K = 0x80,
	IBT_PAGE_256K = 0x100,
	IBT_PAGE_512K = 0x200,
	IBT_PAGE_1M = 0x400,
	IBT_PAGE_2M = 0x800,
	IBT_PAGE_4M = 0x1000,
	IBT_PAGE_8M = 0x2000,
	IBT_PAGE_16M = 0x4000,
	IBT_PAGE_32M = 0x8000,
	IBT_PAGE_64M = 0x10000,
	IBT_PAGE_128M = 0x20000,
	IBT_PAGE_256M = 0x40000,
	IBT_PAGE_512M = 0x80000,
	IBT_PAGE_1G = 0x100000,
	IBT_PAGE_2G = 0x200000,
	IBT_PAGE_4G = 0x400000,
	IBT_PAGE_8G = 0x800000,
	IBT_PAGE_16G = 0x1000000
} ibt_page_sizes_t;

typedef enum ibt_pd_flags_e {
	IBT_PD_NO_FLAGS = 0,
	IBT_PD_USER_MAP = 1,
	IBT_PD_DEFER_ALLOC = 2
} ibt_pd_flags_t;

typedef enum ibt_port_caps_e {
	IBT_PORT_CAP_NO_FLAGS = 0x0,
	IBT_PORT_CAP_SM = 0x1,
	IBT_PORT_CAP_SM_DISABLED = 0x2,
	IBT_PORT_CAP_SNMP_TUNNEL = 0x4,
	IBT_PORT_CAP_DM = 0x8,
	IBT_PORT_CAP_VENDOR = 0x10,
	IBT_PORT_CAP_CLNT_REREG = 0x20
} ibt_port_caps_t;

typedef enum ibt_port_change_e {
	IBT_PORT_CHANGE_SGID = 0x1,
	IBT_PORT_CHANGE_PKEY = 0x2,
	IBT_PORT_CHANGE_SM_LID = 0x4,
	IBT_PORT_CHANGE_SM_SL = 0x8,
	IBT_PORT_CHANGE_SUB_TIMEOUT = 0x10,
	IBT_PORT_CHANGE_SM_FLAG = 0x20,
	IBT_PORT_CHANGE_REREG = 0x40
} ibt_port_change_t;

typedef enum ibt_port_modify_flags_e {
	IBT_PORT_NO_FLAGS = 0x0,
	IBT_PORT_RESET_QKEY = 0x1,
	IBT_PORT_RESET_SM = 0x2,
	IBT_PORT_SET_SM = 0x4,
	IBT_PORT_RESET_SNMP = 0x8,
	IBT_PORT_SET_SNMP = 0x10,
	IBT_PORT_RESET_DEVMGT = 0x20,
	IBT_PORT_SET_DEVMGT = 0x40,
	IBT_PORT_RESET_VENDOR = 0x80,
	IBT_PORT_SET_VENDOR = 0x100,
	IBT_PORT_SHUTDOWN = 0x200,
	IBT_PORT_SET_INIT_TYPE = 0x400
} ibt_port_modify_flags_t;

typedef enum ibt_port_state_e {
	IBT_PORT_DOWN = 1,
	IBT_PORT_INIT = 2,
	IBT_PORT_ARM = 3,
	IBT_PORT_ACTIVE = 4
} ibt_port_state_t;

enum ibt_qp_alloc_flags_e {
	IBT_QP_NO_FLAGS = 0x0,
	IBT_QP_USER_MAP = 0x1,
	IBT_QP_DEFER_ALLOC = 0x2,
	IBT_QP_USES_SRQ = 0x4,
	IBT_QP_USES_RSS = 0x8,
	IBT_QP_USES_RFCI = 0x10,
	IBT_QP_USES_FCMD = 0x20,
	IBT_QP_USES_FEXCH = 0x40
};

enum ibt_qp_type_e {
	IBT_RC_RQP = 0,
	IBT_RD_RQP = 1,
	IBT_UC_RQP = 2,
	IBT_UD_RQP = 3
};

typedef enum ibt_rnr_nak_time_e {
	IBT_RNR_NAK_655ms = 0,
	IBT_RNR_NAK_10us = 1,
	IBT_RNR_NAK_20us = 2,
	IBT_RNR_NAK_30us = 3,
	IBT_RNR_NAK_40us = 4,
	IBT_RNR_NAK_60us = 5,
	IBT_RNR_NAK_80us = 6,
	IBT_RNR_NAK_120us = 7,
	IBT_RNR_NAK_160us = 8,
	IBT_RNR_NAK_240us = 9,
	IBT_RNR_NAK_320us = 10,
	IBT_RNR_NAK_480us = 11,
	IBT_RNR_NAK_640us = 12,
	IBT_RNR_NAK_960us = 13,
	IBT_RNR_NAK_1280us = 14,
	IBT_RNR_NAK_1920us = 15,
	IBT_RNR_NAK_2560us = 16,
	IBT_RNR_NAK_3840us = 17,
	IBT_RNR_NAK_5120us = 18,
	IBT_RNR_NAK_7680us = 19,
	IBT_RNR_NAK_10ms = 20,
	IBT_RNR_NAK_15ms = 21,
	IBT_RNR_NAK_20ms = 22,
	IBT_RNR_NAK_31ms = 23,
	IBT_RNR_NAK_41ms = 24,
	IBT_RNR_NAK_61ms = 25,
	IBT_RNR_NAK_82ms = 26,
	IBT_RNR_NAK_123ms = 27,
	IBT_RNR_NAK_164ms = 28,
	IBT_RNR_NAK_246ms = 29,
	IBT_RNR_NAK_328ms = 30,
	IBT_RNR_NAK_492ms = 31
} ibt_rnr_nak_time_t;

typedef enum ibt_rnr_retry_cnt_e {
	IBT_RNR_NO_RETRY = 0,
	IBT_RNR_RETRY_1 = 1,
	IBT_RNR_RETRY_2 = 2,
	IBT_RNR_RETRY_3 = 3,
	IBT_RNR_RETRY_4 = 4,
	IBT_RNR_RETRY_5 = 5,
	IBT_RNR_RETRY_6 = 6,
	IBT_RNR_INFINITE_RETRY = 7
} ibt_rnr_retry_cnt_t;

typedef enum ibt_rss_flags_e {
	IBT_RSS_ALG_TPL = 0x1,
	IBT_RSS_ALG_XOR = 0x2,
	IBT_RSS_HASH_IPV4 = 0x4,
	IBT_RSS_HASH_IPV6 = 0x8,
	IBT_RSS_HASH_TCP_IPV4 = 0x10,
	IBT_RSS_HASH_TCP_IPV6 = 0x20
} ibt_rss_flags_t;

typedef enum ibt_selector_e {
	IBT_GT = 0,
	IBT_LT = 1,
	IBT_EQU = 2,
	IBT_BEST = 3
} ibt_selector_t;

enum ibt_sqp_type_e {
	IBT_SMI_SQP = 0,
	IBT_GSI_SQP = 1,
	IBT_RAWIP_SQP = 2,
	IBT_RAWETHER_SQP = 3
};

typedef enum ibt_srate_e {
	IBT_SRATE_NOT_SPECIFIED = 0,
	IBT_SRATE_2 = 2,
	IBT_SRATE_10 = 3,
	IBT_SRATE_30 = 4,
	IBT_SRATE_5 = 5,
	IBT_SRATE_20 = 6,
	IBT_SRATE_40 = 7,
	IBT_SRATE_60 = 8,
	IBT_SRATE_80 = 9,
	IBT_SRATE_120 = 10
} ibt_srate_t;

typedef enum ibt_srq_flags_e {
	IBT_SRQ_NO_FLAGS = 0,
	IBT_SRQ_USER_MAP = 1,
	IBT_SRQ_DEFER_ALLOC = 2
} ibt_srq_flags_t;

typedef enum ibt_srq_modify_flags_e {
	IBT_SRQ_SET_NOTHING = 0,
	IBT_SRQ_SET_SIZE = 2,
	IBT_SRQ_SET_LIMIT = 4
} ibt_srq_modify_flags_t;

typedef enum ibt_ud_dest_flags_e {
	IBT_UD_DEST_NO_FLAGS = 0,
	IBT_UD_DEST_USER_MAP = 1,
	IBT_UD_DEST_DEFER_ALLOC = 2
} ibt_ud_dest_flags_t;

typedef enum ibt_va_flags_e {
	IBT_VA_SLEEP = 0x0,
	IBT_VA_NOSLEEP = 0x1,
	IBT_VA_NONCOHERENT = 0x2,
	IBT_VA_FMR = 0x4,
	IBT_VA_BLOCK_MODE = 0x8,
	IBT_VA_BUF = 0x10,
	IBT_VA_REG_FN = 0x20,
	IBT_VA_USER_BUF = 0x40
} ibt_va_flags_t;

typedef struct ibt_adds_vect_s ibt_adds_vect_t;
typedef struct ibc_ah_s *ibt_ah_hdl_t;
typedef union ibt_all_wr_u ibt_all_wr_t;
typedef struct ibt_cep_path_s ibt_cep_path_t;
typedef struct ibt_chan_sizes_s ibt_chan_sizes_t;
typedef struct ibtl_channel_s *ibt_channel_hdl_t;
typedef struct ibtl_clnt_s *ibt_clnt_hdl_t;
typedef struct ibt_cq_attr_s ibt_cq_attr_t;
typedef struct ibt_cq_handler_attr_s ibt_cq_handler_attr_t;
typedef struct ibtl_cq_s *ibt_cq_hdl_t;
typedef struct ibt_cq_sched_attr_s ibt_cq_sched_attr_t;
typedef struct ibt_dmr_attr_s ibt_dmr_attr_t;
typedef struct ibtl_eec_s *ibt_eec_hdl_t;
typedef struct ibt_fc_attr_s ibt_fc_attr_t;
typedef struct ibt_fc_ctl_s ibt_fc_ctl_t;
typedef struct ibt_fexch_query_attr_s ibt_fexch_query_attr_t;
typedef struct ibt_fmr_pool_attr_s ibt_fmr_pool_attr_t;
typedef struct ibc_fmr_pool_s *ibt_fmr_pool_hdl_t;
typedef struct ibt_hca_attr_s ibt_hca_attr_t;
typedef struct ibtl_hca_s *ibt_hca_hdl_t;
typedef struct ibt_hca_portinfo_s ibt_hca_portinfo_t;
typedef struct ibt_iov_attr_s ibt_iov_attr_t;
typedef struct ibt_iov_s ibt_iov_t;
typedef struct ibt_ip_addr_s ibt_ip_addr_t;
typedef struct ibc_ma_s *ibt_ma_hdl_t;
typedef struct ibc_mem_alloc_s *ibt_mem_alloc_hdl_t;
typedef struct ibt_mem_data_s ibt_mem_data_t;
typedef struct ibc_mi_s *ibt_mi_hdl_t;
typedef struct ibt_mr_attr_s ibt_mr_attr_t;
typedef struct ibt_mr_data_in_s ibt_mr_data_in_t;
typedef struct ibt_mr_desc_s ibt_mr_desc_t;
typedef struct ibc_mr_s *ibt_mr_hdl_t;
typedef struct ibt_mr_prot_bounds_s ibt_mr_prot_bounds_t;
typedef struct ibt_mr_query_attr_s ibt_mr_query_attr_t;
typedef struct ibt_mr_sync_s ibt_mr_sync_t;
typedef struct ibc_mw_s *ibt_mw_hdl_t;
typedef struct ibt_mw_query_attr_s ibt_mw_query_attr_t;
typedef struct ibc_pd_s *ibt_pd_hdl_t;
typedef struct ib_phys_addr_t ibt_phys_addr_t;
typedef struct ibt_phys_buf_s ibt_phys_buf_t;
typedef struct ibt_pkt_lt_req_s ibt_pkt_lt_req_t;
typedef struct ibt_pmr_attr_s ibt_pmr_attr_t;
typedef struct ibt_pmr_desc_s ibt_pmr_desc_t;
typedef struct ibt_queue_sizes_s ibt_queue_sizes_t;
typedef struct ibt_rd_dest_s *ibt_rd_dest_hdl_t;
typedef struct ibt_recv_wr_s ibt_recv_wr_t;
typedef union ibt_reg_req_u ibt_reg_req_t;
typedef struct ibt_rss_attr_s ibt_rss_attr_t;
typedef struct ibcm_svc_bind_s *ibt_sbind_hdl_t;
typedef struct ibc_sched_s *ibt_sched_hdl_t;
typedef struct ibt_send_wr_s ibt_send_wr_t;
typedef struct ibt_smr_attr_s ibt_smr_attr_t;
typedef struct ibt_srate_req_s ibt_srate_req_t;
typedef struct ibtl_srq_s *ibt_srq_hdl_t;
typedef struct ibt_srq_sizes_s ibt_srq_sizes_t;
typedef struct ibcm_svc_info_s *ibt_srv_hdl_t;
typedef struct ibt_ud_dest_s *ibt_ud_dest_hdl_t;
typedef struct ibt_ud_dest_s ibt_ud_dest_t;
typedef struct ibt_va_attr_s ibt_va_attr_t;
typedef struct ibt_wc_s ibt_wc_t;
typedef struct ibt_wr_atomic_s ibt_wr_atomic_t;
typedef struct ibt_wr_bind_s ibt_wr_bind_t;
typedef struct ibt_wr_ds_s ibt_wr_ds_t;
typedef union ibt_wr_fc_u ibt_wr_fc_t;
typedef struct ibt_wr_init_send_s ibt_wr_init_send_t;
typedef struct ibt_wr_li_s ibt_wr_li_t;
typedef struct ibt_wr_lso_s ibt_wr_lso_t;
typedef struct ibt_wr_rc_s ibt_wr_rc_t;
typedef struct ibt_wr_rd_s ibt_wr_rd_t;
typedef struct ibt_wr_rdma_s ibt_wr_rdma_t;
typedef struct ibt_wr_reg_pmr_s ibt_wr_reg_pmr_t;
typedef struct ibt_wr_reth_s ibt_wr_reth_t;
typedef struct ibt_wr_rfci_send_s ibt_wr_rfci_send_t;
typedef struct ibt_wr_ripv6_s ibt_wr_ripv6_t;
typedef struct ibt_wr_uc_s ibt_wr_uc_t;
typedef struct ibt_wr_ud_s ibt_wr_ud_t;
typedef uint8_t ib_link_speed_t;
typedef uint8_t ib_link_width_t;
typedef uint8_t ib_port_phys_state_t;
typedef uint64_t ibt_atom_arg_t;
typedef uint_t ibt_cq_handler_id_t;
typedef uint8_t ibt_fc_syndrome_t;
typedef void (*ibt_fmr_flush_handler_t)(ibt_fmr_pool_hdl_t, void *);
typedef uint32_t ibt_immed_t;
typedef uint8_t ibt_init_send_op_t;
typedef void *ibt_intr_handle_t;
typedef uint32_t ibt_lkey_t;
typedef uint32_t ibt_rkey_t;
typedef uint8_t ibt_tran_srv_t;
typedef uint8_t ibt_wc_flags_t;
typedef uint8_t ibt_wr_flags_t;
typedef uint8_t ibt_wrc_opcode_t;
typedef uint64_t ibt_wrid_t;

struct ibt_adds_vect_s {
	ib_gid_t	av_dgid;
	ib_gid_t	av_sgid;
	ibt_srate_t	av_srate;
	uint8_t	av_srvl:4;
	uint_t	av_flow:20;
	uint8_t	av_tclass;
	uint8_t	av_hop;
	uint8_t	av_port_num;
	boolean_t	av_opaque1;
	ib_lid_t	av_opaque2;
	ib_path_bits_t	av_opaque3;
	uint32_t	av_opaque4;
};
#define	av_send_grh	av_opaque1
#define	av_dlid	av_opaque2
#define	av_src_path	av_opaque3
#define	av_sgid_ix	av_opaque4

struct ibt_cep_path_s {
	ibt_adds_vect_t	cep_adds_vect;
	uint16_t	cep_pkey_ix;
	uint8_t	cep_hca_port_num;
	ib_time_t	cep_cm_opaque1;
};

struct ibt_chan_sizes_s {
	uint_t	cs_sq;
	uint_t	cs_rq;
	uint_t	cs_sq_sgl;
	uint_t	cs_rq_sgl;
	uint_t	cs_inline;
};

struct ibt_cq_attr_s {
	uint_t	cq_size;
	ibt_sched_hdl_t	cq_sched;
	ibt_cq_flags_t	cq_flags;
	ibt_cq_handler_id_t	cq_hid;
};

struct ibt_cq_handler_attr_s {
	dev_info_t	*cha_dip;
	ibt_intr_handle_t	cha_ih;
};

struct ibt_cq_sched_attr_s {
	ibt_cq_sched_flags_t	cqs_flags;
	char	*cqs_pool_name;
};

struct ibt_dmr_attr_s {
	uint64_t	dmr_paddr;
	ib_memlen_t	dmr_len;
	ibt_mr_flags_t	dmr_flags;
};

struct ibt_fc_attr_s {
	uint32_t	fc_src_id;
	ib_qpn_t	fc_rfci_qpn;
	uint16_t	fc_exch_base_off;
	uint8_t	fc_exch_log2_sz;
	uint8_t	fc_hca_port;
};

struct ibt_fc_ctl_s {
	ibt_ud_dest_hdl_t	fc_dest;
	ibt_fctl_flags_t	fc_frame_ctrl;
	uint32_t	fc_parameter;
	uint8_t	fc_seq_id;
	uint8_t	fc_routing_ctrl;
};

struct ibt_pmr_desc_s {
	ib_vaddr_t	pmd_iova;
	ibt_lkey_t	pmd_lkey;
	ibt_rkey_t	pmd_rkey;
	uint_t	pmd_phys_buf_list_sz;
	boolean_t	pmd_sync_required;
};

struct ibt_fexch_query_attr_s {
	ibt_pmr_desc_t	fq_uni_mem_desc;
	ibt_pmr_desc_t	fq_bi_mem_desc;
	ibt_fexch_query_flags_t	fq_flags;
};

struct ibt_fmr_pool_attr_s {
	uint_t	fmr_max_pages_per_fmr;
	uint_t	fmr_pool_size;
	uint_t	fmr_dirty_watermark;
	size_t	fmr_page_sz;
	boolean_t	fmr_cache;
	ibt_mr_flags_t	fmr_flags;
	ibt_fmr_flush_handler_t	fmr_func_hdlr;
	void	*fmr_func_arg;
};

struct ibt_hca_attr_s {
	ibt_hca_flags_t	hca_flags;
	ibt_hca_flags2_t	hca_flags2;
	uint32_t	hca_vendor_id:24;
	uint16_t	hca_device_id;
	uint32_t	hca_version_id;
	uint_t	hca_max_chans;
	uint_t	hca_max_chan_sz;
	uint_t	hca_max_sgl;
	uint_t	hca_max_cq;
	uint_t	hca_max_cq_sz;
	ibt_page_sizes_t	hca_page_sz;
	uint_t	hca_max_memr;
	ib_memlen_t	hca_max_memr_len;
	uint_t	hca_max_mem_win;
	uint_t	hca_max_rsc;
	uint8_t	hca_max_rdma_in_chan;
	uint8_t	hca_max_rdma_out_chan;
	uint_t	hca_max_ipv6_chan;
	uint_t	hca_max_ether_chan;
	uint_t	hca_max_mcg_chans;
	uint_t	hca_max_mcg;
	uint_t	hca_max_chan_per_mcg;
	uint16_t	hca_max_partitions;
	uint8_t	hca_nports;
	ib_guid_t	hca_node_guid;
	ib_time_t	hca_local_ack_delay;
	uint_t	hca_max_port_sgid_tbl_sz;
	uint16_t	hca_max_port_pkey_tbl_sz;
	uint_t	hca_max_pd;
	ib_guid_t	hca_si_guid;
	uint_t	hca_hca_max_ci_priv_sz;
	uint_t	hca_chan_max_ci_priv_sz;
	uint_t	hca_cq_max_ci_priv_sz;
	uint_t	hca_pd_max_ci_priv_sz;
	uint_t	hca_mr_max_ci_priv_sz;
	uint_t	hca_mw_max_ci_priv_sz;
	uint_t	hca_ud_dest_max_ci_priv_sz;
	uint_t	hca_cq_sched_max_ci_priv_sz;
	uint_t	hca_max_ud_dest;
	uint_t	hca_opaque2;
	uint_t	hca_opaque3;
	uint_t	hca_opaque4;
	uint8_t	hca_opaque5;
	uint8_t	hca_opaque6;
	uint8_t	hca_rss_max_log2_table;
	uint_t	hca_opaque7;
	uint_t	hca_opaque8;
	uint_t	hca_max_srqs;
	uint_t	hca_max_srqs_sz;
	uint_t	hca_max_srq_sgl;
	uint_t	hca_max_phys_buf_list_sz;
	size_t	hca_block_sz_lo;
	size_t	hca_block_sz_hi;
	uint_t	hca_max_cq_handlers;
	ibt_lkey_t	hca_reserved_lkey;
	uint_t	hca_max_fmrs;
	uint_t	hca_opaque9;
	uint_t	hca_max_lso_size;
	uint_t	hca_max_lso_hdr_size;
	uint_t	hca_max_inline_size;
	uint_t	hca_max_cq_mod_count;
	uint_t	hca_max_cq_mod_usec;
	uint32_t	hca_fw_major_version;
	uint16_t	hca_fw_minor_version;
	uint16_t	hca_fw_micro_version;
	uint_t	hca_max_xrc_domains;
	uint_t	hca_max_xrc_srqs;
	uint_t	hca_max_xrc_srq_size;
	uint_t	hca_max_xrc_srq_sgl;
	uint_t	hca_ud_send_inline_sz;
	uint_t	hca_conn_send_inline_sz;
	uint_t	hca_conn_rdmaw_inline_overhead;
	uint_t	hca_recv_sgl_sz;
	uint_t	hca_ud_send_sgl_sz;
	uint_t	hca_conn_send_sgl_sz;
	uint_t	hca_conn_rdma_read_sgl_sz;
	uint_t	hca_conn_rdma_write_sgl_sz;
	uint_t	hca_conn_rdma_sgl_overhead;
	uint8_t	hca_rfci_max_log2_qp;
	uint8_t	hca_fexch_max_log2_qp;
	uint8_t	hca_fexch_max_log2_mem;
	dev_info_t	*hca_dip;
};

struct ibt_hca_portinfo_s {
	ib_lid_t	p_opaque1;
	ib_qkey_cntr_t	p_qkey_violations;
	ib_pkey_cntr_t	p_pkey_violations;
	uint8_t	p_sm_sl:4;
	ib_port_phys_state_t	p_phys_state;
	ib_lid_t	p_sm_lid;
	ibt_port_state_t	p_linkstate;
	uint8_t	p_port_num;
	ib_link_width_t	p_width_supported;
	ib_link_width_t	p_width_enabled;
	ib_link_width_t	p_width_active;
	ib_mtu_t	p_mtu;
	uint8_t	p_lmc:3;
	ib_link_speed_t	p_speed_supported;
	ib_link_speed_t	p_speed_enabled;
	ib_link_speed_t	p_speed_active;
	ib_gid_t	*p_sgid_tbl;
	uint_t	p_sgid_tbl_sz;
	uint16_t	p_pkey_tbl_sz;
	uint16_t	p_def_pkey_ix;
	ib_pkey_t	*p_pkey_tbl;
	uint8_t	p_max_vl;
	uint8_t	p_init_type_reply;
	ib_time_t	p_subnet_timeout;
	ibt_port_caps_t	p_capabilities;
	uint32_t	p_msg_sz;
};

struct ibt_iov_attr_s {
	struct as	*iov_as;
	ibt_iov_t	*iov;
	struct buf	*iov_buf;
	uint32_t	iov_list_len;
	uint32_t	iov_wr_nds;
	ib_msglen_t	iov_lso_hdr_sz;
	ibt_lkey_t	iov_alt_lkey;
	ibt_iov_flags_t	iov_flags;
};

struct ibt_iov_s {
	caddr_t	iov_addr;
	size_t	iov_len;
};

struct ibt_ip_addr_s {
	sa_family_t	family;
	union {
		uint32_t	ip4addr;
		in6_addr_t	ip6addr;
	} un;
	uint32_t	ip6_scope_id;
};

struct ibt_mem_data_s {
	uint64_t	ev_fma_ena;
	ibt_mr_hdl_t	ev_mr_hdl;
	ibt_ma_hdl_t	ev_ma_hdl;
};

struct ibt_mr_attr_s {
	ib_vaddr_t	mr_vaddr;
	ib_memlen_t	mr_len;
	struct as	*mr_as;
	ibt_mr_flags_t	mr_flags;
};

struct ibt_mr_data_in_s {
	uint_t	mr_rev;
	void (*mr_func)(void *, void *);
	void	*mr_arg1;
	void	*mr_arg2;
};

struct ibt_mr_desc_s {
	ib_vaddr_t	md_vaddr;
	ibt_lkey_t	md_lkey;
	ibt_rkey_t	md_rkey;
	boolean_t	md_sync_required;
};

struct ibt_mr_prot_bounds_s {
	ib_vaddr_t	pb_addr;
	size_t	pb_len;
};

struct ibt_mr_query_attr_s {
	ibt_lkey_t	mr_lkey;
	ibt_rkey_t	mr_rkey;
	ibt_mr_prot_bounds_t	mr_lbounds;
	ibt_mr_prot_bounds_t	mr_rbounds;
	ibt_mr_attr_flags_t	mr_attr_flags;
	ibt_pd_hdl_t	mr_pd;
	boolean_t	mr_sync_required;
	ibt_key_state_t	mr_lkey_state;
	uint_t	mr_phys_buf_list_sz;
};

struct ibt_mr_sync_s {
	ibt_mr_hdl_t	ms_handle;
	ib_vaddr_t	ms_vaddr;
	ib_memlen_t	ms_len;
	uint32_t	ms_flags;
};

struct ibt_mw_query_attr_s {
	ibt_pd_hdl_t	mw_pd;
	ibt_mem_win_type_t	mw_type;
	ibt_rkey_t	mw_rkey;
	ibt_key_state_t	mw_state;
};

struct ibt_phys_buf_s {
	union {
		uint64_t	_p_ll;
		uint32_t	_p_la[2];
	} _phys_buf;
	size_t	p_size;
};
#define	p_laddr	_phys_buf._p_ll

struct ibt_pkt_lt_req_s {
	clock_t	p_pkt_lt;
	ibt_selector_t	p_selector;
};

struct ibt_pmr_attr_s {
	ib_vaddr_t	pmr_iova;
	ib_memlen_t	pmr_len;
	ib_memlen_t	pmr_offset;
	ibt_ma_hdl_t	pmr_ma;
	ibt_phys_addr_t	*pmr_addr_list;
	size_t	pmr_buf_sz;
	uint_t	pmr_num_buf;
	ibt_lkey_t	pmr_lkey;
	ibt_rkey_t	pmr_rkey;
	ibt_mr_flags_t	pmr_flags;
	uint8_t	pmr_key;
};

struct ibt_queue_sizes_s {
	uint_t	qs_sq;
	uint_t	qs_rq;
};

struct ibt_recv_wr_s {
	ibt_wrid_t	wr_id;
	uint32_t	wr_nds;
	ibt_wr_ds_t	*wr_sgl;
};

struct ibt_rss_attr_s {
	ibt_rss_flags_t	rss_flags;
	uint_t	rss_log2_table;
	ib_qpn_t	rss_base_qpn;
	ib_qpn_t	rss_def_qpn;
	uint8_t	rss_toe_key[40];
};

struct ibt_wr_li_s {
	ibt_mr_hdl_t	li_mr_hdl;
	ibt_mw_hdl_t	li_mw_hdl;
	ibt_lkey_t	li_lkey;
	ibt_rkey_t	li_rkey;
};

struct ibt_wr_lso_s {
	ibt_ud_dest_hdl_t	lso_ud_dest;
	uint8_t	*lso_hdr;
	ib_msglen_t	lso_hdr_sz;
	ib_msglen_t	lso_mss;
};

struct ibt_wr_rdma_s {
	ib_vaddr_t	rdma_raddr;
	ibt_rkey_t	rdma_rkey;
	ibt_immed_t	rdma_immed;
};

struct ibt_wr_rc_s {
	union {
		ibt_immed_t	send_immed;
		ibt_rkey_t	send_inval;
		ibt_wr_rdma_t	rdma;
		ibt_wr_li_t	*li;
		ibt_wr_atomic_t	*atomic;
		ibt_wr_bind_t	*bind;
		ibt_wr_reg_pmr_t *reg_pmr;
	} rcwr;
};

struct ibt_wr_rd_s {
	ibt_rd_dest_hdl_t	rdwr_dest_hdl;
	union {
		ibt_immed_t	send_immed;
		ibt_rkey_t	send_inval;
		ibt_wr_rdma_t	rdma;
		ibt_wr_li_t	*li;
		ibt_wr_atomic_t	*atomic;
		ibt_wr_bind_t	*bind;
		ibt_wr_reg_pmr_t *reg_pmr;
	} rdwr;
};

struct ibt_wr_reth_s {
	ib_ethertype_t	reth_type;
	ib_lid_t	reth_dlid;
	ib_path_bits_t	reth_slid_bits;
	uint8_t	reth_sl:4;
	ibt_srate_t	reth_rate;
};

struct ibt_wr_ripv6_s {
	ib_lid_t	rip_dlid;
	ib_path_bits_t	rip_slid_bits;
	uint8_t	rip_sl:4;
	ibt_srate_t	rip_rate;
};

struct ibt_wr_uc_s {
	union {
		ibt_immed_t	send_immed;
		ibt_rkey_t	send_inval;
		ibt_wr_rdma_t	rdma;
		ibt_wr_li_t	*li;
		ibt_wr_bind_t	*bind;
		ibt_wr_reg_pmr_t *reg_pmr;
	} ucwr;
};

struct ibt_wr_ud_s {
	ibt_immed_t	udwr_immed;
	ibt_ud_dest_hdl_t	udwr_dest;
};

struct ibt_wr_rfci_send_s {
	ibt_ud_dest_hdl_t	rfci_dest;
	uint8_t	rfci_eof;
};

union ibt_wr_fc_u {
	ibt_wr_rfci_send_t	rfci_send;
	ibt_wr_init_send_t	*fc_is;
	ibt_wr_reg_pmr_t	*reg_pmr;
};

struct ibt_send_wr_s {
	ibt_wrid_t	wr_id;
	ibt_wr_flags_t	wr_flags;
	ibt_tran_srv_t	wr_trans;
	ibt_wrc_opcode_t	wr_opcode;
	uint8_t	wr_rsvd;
	uint32_t	wr_nds;
	ibt_wr_ds_t	*wr_sgl;
	union {
		ibt_wr_ud_t	ud;
		ibt_wr_rc_t	rc;
		ibt_wr_rd_t	rd;
		ibt_wr_uc_t	uc;
		ibt_wr_li_t	li;
		ibt_wr_reth_t	reth;
		ibt_wr_ripv6_t	ripv6;
		ibt_wr_lso_t	ud_lso;
		ibt_wr_fc_t	fc;
	} wr;
};

struct ibt_smr_attr_s {
	ib_vaddr_t	mr_vaddr;
	ibt_mr_flags_t	mr_flags;
	uint8_t	mr_key;
	ibt_lkey_t	mr_lkey;
	ibt_rkey_t	mr_rkey;
};

struct ibt_srate_req_s {
	ibt_srate_t	r_srate;
	ibt_selector_t	r_selector;
};

struct ibt_srq_sizes_s {
	uint_t	srq_wr_sz;
	uint_t	srq_sgl_sz;
};

struct ibt_ud_dest_s {
	ibt_ah_hdl_t	ud_ah;
	ib_qpn_t	ud_dst_qpn;
	ib_qkey_t	ud_qkey;
	struct ibtl_hca_s	*ud_dest_opaque1;
};

struct ibt_va_attr_s {
	ib_vaddr_t	va_vaddr;
	ib_memlen_t	va_len;
	struct as	*va_as;
	size_t	va_phys_buf_min;
	size_t	va_phys_buf_max;
	ibt_va_flags_t	va_flags;
	struct buf	*va_buf;
};

struct ibt_wc_s {
	ibt_wrid_t	wc_id;
	uint64_t	wc_fma_ena;
	ib_msglen_t	wc_bytes_xfer;
	ibt_wc_flags_t	wc_flags;
	ibt_wrc_opcode_t	wc_type;
	uint16_t	wc_cksum;
	ibt_immed_t	wc_immed_data;
	uint32_t	wc_res_hash;
	ibt_wc_status_t	wc_status;
	uint8_t	wc_sl:4;
	uint16_t	wc_ethertype;
	ib_lid_t	wc_opaque1;
	uint16_t	wc_opaque2;
	ib_qpn_t	wc_qpn;
	uint32_t	wc_detail;
	ib_qpn_t	wc_local_qpn;
	ibt_rkey_t	wc_rkey;
	ib_path_bits_t	wc_opaque4;
};
#define	wc_slid	wc_opaque1
#define	wc_pkey_ix	wc_opaque2
#define	wc_path_bits	wc_opaque4

struct ibt_wr_atomic_s {
	ib_vaddr_t	atom_raddr;
	ibt_atom_arg_t	atom_arg1;
	ibt_atom_arg_t	atom_arg2;
	ibt_rkey_t	atom_rkey;
};

struct ibt_wr_bind_s {
	ibt_bind_flags_t	bind_flags;
	ibt_rkey_t	bind_rkey;
	ibt_lkey_t	bind_lkey;
	ibt_rkey_t	bind_rkey_out;
	ibt_mr_hdl_t	bind_ibt_mr_hdl;
	ibt_mw_hdl_t	bind_ibt_mw_hdl;
	ib_vaddr_t	bind_va;
	ib_memlen_t	bind_len;
};

struct ibt_wr_ds_s {
	ib_vaddr_t	ds_va;
	ibt_lkey_t	ds_key;
	ib_msglen_t	ds_len;
};

struct ibt_wr_init_send_s {
	ibt_fc_ctl_t	is_ctl;
	uint32_t	is_dest_id;
	uint16_t	is_fc_mtu;
	uint16_t	is_rem_exch;
	uint16_t	is_exch_qp_idx;
	uint8_t	is_cs_priority;
	uint8_t	is_tx_seq_id;
	ibt_init_send_op_t	is_op;
};

struct ibt_wr_reg_pmr_s {
	ib_vaddr_t	pmr_iova;
	ib_memlen_t	pmr_len;
	ib_memlen_t	pmr_offset;
	ibt_mr_hdl_t	pmr_mr_hdl;
	ibt_phys_addr_t	*pmr_addr_list;
	size_t	pmr_buf_sz;
	uint_t	pmr_num_buf;
	ibt_lkey_t	pmr_lkey;
	ibt_rkey_t	pmr_rkey;
	ibt_mr_flags_t	pmr_flags;
	uint8_t	pmr_key;
};

union ibt_all_wr_u {
	ibt_send_wr_t	send;
	ibt_recv_wr_t	recv;
};

union ibt_reg_req_u {
	ibt_pmr_attr_t	fn_arg;
	ibt_wr_reg_pmr_t	wr;
};

#endif	/* _SYS_IB_IBTL_IBTL_TYPES_H */
