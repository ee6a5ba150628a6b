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
 * What GLDv3 drivers, MAC-type plugins and their clients share.
 */

#ifndef	_SYS_MAC_H
#define	_SYS_MAC_H

#include <sys/ddi_intr.h>
#include <sys/stream.h>
#include <sys/types.h>

#define	DATALINK_ALL_LINKID	0
#define	DATALINK_INVALID_LINKID	0
#define	DATALINK_MAX_LINKID	0xffffffffU

#define	MACTYPE_VERSION	1
#define	MACTYPE_STAT_MIN	2000

#define	MAC_PROP_PERM_READ	1
#define	MAC_PROP_PERM_WRITE	16
#define	MAC_PROP_PERM_RW	17
#define	MAC_PROP_MAP_KSTAT	0x100
#define	MAC_PROP_FLAGS_RK	0x101
#define	MAC_STAT_MIN	1000

#define	MAXMACADDRLEN	20

#define	MTOPS_PDATA_VERIFY	1
#define	MTOPS_HEADER_COOK	2
#define	MTOPS_HEADER_UNCOOK	4
#define	MTOPS_LINK_DETAILS	8

typedef enum link_duplex_t {
	LINK_DUPLEX_UNKNOWN = 0,
	LINK_DUPLEX_HALF = 1,
	LINK_DUPLEX_FULL = 2
} link_duplex_t;

typedef enum link_flowctrl_t {
	LINK_FLOWCTRL_NONE = 0,
	LINK_FLOWCTRL_RX = 1,
	LINK_FLOWCTRL_TX = 2,
	LINK_FLOWCTRL_BI = 3
} link_flowctrl_t;

typedef enum link_state_t {
	LINK_STATE_UNKNOWN = -1,
	LINK_STATE_DOWN = 0,
	LINK_STATE_UP = 1
} link_state_t;

typedef enum link_tagmode_t {
	LINK_TAGMODE_VLANONLY = 0,
	LINK_TAGMODE_NORMAL = 1
} link_tagmode_t;

enum mac_address_type_t {
	MAC_ADDRESS_TYPE_UNICAST_CLASSIFIED = 1,
	MAC_ADDRESS_TYPE_UNICAST_PROMISC = 2
};

typedef enum mac_addrtype_t {
	MAC_ADDRTYPE_UNICAST = 0,
	MAC_ADDRTYPE_MULTICAST = 1,
	MAC_ADDRTYPE_BROADCAST = 2
} mac_addrtype_t;

typedef enum mac_led_mode {
	MAC_LED_DEFAULT = 0x1,
	MAC_LED_OFF = 0x2,
	MAC_LED_IDENT = 0x4,
	MAC_LED_ON = 0x8
} mac_led_mode_t;

typedef enum mac_logtype_t {
	MAC_LOGTYPE_LINK = 1,
	MAC_LOGTYPE_FLOW = 2
} mac_logtype_t;

enum mac_mod_stat {
	MAC_STAT_LINK_STATE = 0,
	MAC_STAT_LINK_UP = 1,
	MAC_STAT_PROMISC = 2,
	MAC_STAT_LOWLINK_STATE = 3,
	MAC_STAT_HDROPS = 4
};

typedef enum mac_notify_type_t {
	MAC_NOTE_LINK = 0,
	MAC_NOTE_UNICST = 1,
	MAC_NOTE_TX = 2,
	MAC_NOTE_DEVPROMISC = 3,
	MAC_NOTE_FASTPATH_FLUSH = 4,
	MAC_NOTE_SDU_SIZE = 5,
	MAC_NOTE_DEST = 6,
	MAC_NOTE_MARGIN = 7,
	MAC_NOTE_CAPAB_CHG = 8,
	MAC_NOTE_LOWLINK = 9,
	MAC_NOTE_ALLOWED_IPS = 10,
	MAC_NNOTE = 11
} mac_notify_type_t;

typedef enum mac_prop_id_t {
	MAC_PROP_DUPLEX = 1,
	MAC_PROP_SPEED = 2,
	MAC_PROP_STATUS = 3,
	MAC_PROP_AUTONEG = 4,
	MAC_PROP_EN_AUTONEG = 5,
	MAC_PROP_MTU = 6,
	MAC_PROP_ZONE = 7,
	MAC_PROP_AUTOPUSH = 8,
	MAC_PROP_FLOWCTRL = 9,
	MAC_PROP_ADV_1000FDX_CAP = 10,
	MAC_PROP_EN_1000FDX_CAP = 11,
	MAC_PROP_ADV_1000HDX_CAP = 12,
	MAC_PROP_EN_1000HDX_CAP = 13,
	MAC_PROP_ADV_100FDX_CAP = 14,
	MAC_PROP_EN_100FDX_CAP = 15,
	MAC_PROP_ADV_100HDX_CAP = 16,
	MAC_PROP_EN_100HDX_CAP = 17,
	MAC_PROP_ADV_10FDX_CAP = 18,
	MAC_PROP_EN_10FDX_CAP = 19,
	MAC_PROP_ADV_10HDX_CAP = 20,
	MAC_PROP_EN_10HDX_CAP = 21,
	MAC_PROP_ADV_100T4_CAP = 22,
	MAC_PROP_EN_100T4_CAP = 23,
	MAC_PROP_IPTUN_HOPLIMIT = 24,
	MAC_PROP_IPTUN_ENCAPLIMIT = 25,
	MAC_PROP_WL_ESSID = 26,
	MAC_PROP_WL_BSSID = 27,
	MAC_PROP_WL_BSSTYPE = 28,
	MAC_PROP_WL_LINKSTATUS = 29,
	MAC_PROP_WL_DESIRED_RATES = 30,
	MAC_PROP_WL_SUPPORTED_RATES = 31,
	MAC_PROP_WL_AUTH_MODE = 32,
	MAC_PROP_WL_ENCRYPTION = 33,
	MAC_PROP_WL_RSSI = 34,
	MAC_PROP_WL_PHY_CONFIG = 35,
	MAC_PROP_WL_CAPABILITY = 36,
	MAC_PROP_WL_WPA = 37,
	MAC_PROP_WL_SCANRESULTS = 38,
	MAC_PROP_WL_POWER_MODE = 39,
	MAC_PROP_WL_RADIO = 40,
	MAC_PROP_WL_ESS_LIST = 41,
	MAC_PROP_WL_KEY_TAB = 42,
	MAC_PROP_WL_CREATE_IBSS = 43,
	MAC_PROP_WL_SETOPTIE = 44,
	MAC_PROP_WL_DELKEY = 45,
	MAC_PROP_WL_KEY = 46,
	MAC_PROP_WL_MLME = 47,
	MAC_PROP_TAGMODE = 48,
	MAC_PROP_ADV_10GFDX_CAP = 49,
	MAC_PROP_EN_10GFDX_CAP = 50,
	MAC_PROP_PVID = 51,
	MAC_PROP_LLIMIT = 52,
	MAC_PROP_LDECAY = 53,
	MAC_PROP_RESOURCE = 54,
	MAC_PROP_RESOURCE_EFF = 55,
	MAC_PROP_RXRINGSRANGE = 56,
	MAC_PROP_TXRINGSRANGE = 57,
	MAC_PROP_MAX_TX_RINGS_AVAIL = 58,
	MAC_PROP_MAX_RX_RINGS_AVAIL = 59,
	MAC_PROP_MAX_RXHWCLNT_AVAIL = 60,
	MAC_PROP_MAX_TXHWCLNT_AVAIL = 61,
	MAC_PROP_IB_LINKMODE = 62,
	MAC_PROP_VN_PROMISC_FILTERED = 63,
	MAC_PROP_SECONDARY_ADDRS = 64,
	MAC_PROP_ADV_40GFDX_CAP = 65,
	MAC_PROP_EN_40GFDX_CAP = 66,
	MAC_PROP_ADV_100GFDX_CAP = 67,
	MAC_PROP_EN_100GFDX_CAP = 68,
	MAC_PROP_ADV_2500FDX_CAP = 69,
	MAC_PROP_EN_2500FDX_CAP = 70,
	MAC_PROP_ADV_5000FDX_CAP = 71,
	MAC_PROP_EN_5000FDX_CAP = 72,
	MAC_PROP_ADV_25GFDX_CAP = 73,
	MAC_PROP_EN_25GFDX_CAP = 74,
	MAC_PROP_ADV_50GFDX_CAP = 75,
	MAC_PROP_EN_50GFDX_CAP = 76,
	MAC_PROP_PRIVATE = -1
} mac_prop_id_t;

typedef enum mac_propval_type_t {
	MAC_PROPVAL_UINT8 = 0,
	MAC_PROPVAL_UINT32 = 1,
	MAC_PROPVAL_STR = 2
} mac_propval_type_t;

typedef struct __mac_group_handle *mac_group_handle_t;
typedef struct __mac_handle *mac_handle_t;
typedef struct mac_header_info_s mac_header_info_t;
typedef struct __mac_intr_handle *mac_intr_handle_t;
typedef struct mac_intr_s mac_intr_t;
typedef struct mac_ndd_mapping_s mac_ndd_mapping_t;
typedef struct __mac_notify_handle *mac_notify_handle_t;
typedef struct mac_propval_range_s mac_propval_range_t;
typedef struct mac_propval_uint32_range_s mac_propval_uint32_range_t;
typedef struct mac_protect_s mac_protect_t;
typedef struct __mac_resource_handle *mac_resource_handle_t;
typedef struct __mac_ring_handle *mac_ring_handle_t;
typedef struct mac_stat_info_s mac_stat_info_t;
typedef struct __mac_tx_notify_handle *mac_tx_notify_handle_t;
typedef struct mactype_ops_s mactype_ops_t;
typedef struct mactype_register_s mactype_register_t;
typedef void (*mac_direct_rx_t)(void *, mac_resource_handle_t, mblk_t *,
    mac_header_info_t *);
typedef void (*mac_change_upcall_t)(void *, mac_direct_rx_t, void *);
typedef int (*mac_intr_disable_t)(mac_intr_handle_t);
typedef int (*mac_intr_enable_t)(mac_intr_handle_t);
typedef void (*mac_notify_t)(void *, mac_notify_type_t);
typedef mblk_t *(*mac_receive_t)(void *, size_t);
typedef void (*mac_rename_fn_t)(const char *, void *);
typedef void (*mac_rx_t)(void *, mac_resource_handle_t, mblk_t *, boolean_t);
typedef mblk_t *(*mac_tx_ring_fn_t)(void *, mblk_t *, uintptr_t,
    mac_ring_handle_t *);
typedef int (*mtops_addr_verify_t)(const void *, void *);
typedef int (*mtops_header_info_t)(mblk_t *, void *, mac_header_info_t *);
typedef mblk_t *(*mtops_header_modify_t)(mblk_t *, void *);
typedef mblk_t *(*mtops_header_t)(const void *, const void *, uint32_t, void
    *, mblk_t *, size_t);
typedef void (*mtops_link_details_t)(char *, size_t, mac_handle_t, void *);
typedef boolean_t (*mtops_pdata_verify_t)(void *, size_t);
typedef boolean_t (*mtops_sap_verify_t)(uint32_t, uint32_t *, void *);

struct mac_header_info_s {
	size_t	mhi_hdrsize;
	size_t	mhi_pktsize;
	const uint8_t	*mhi_daddr;
	const uint8_t	*mhi_saddr;
	uint32_t	mhi_origsap;
	uint32_t	mhi_bindsap;
	mac_addrtype_t	mhi_dsttype;
	uint16_t	mhi_tci;
	boolean_t	mhi_istagged;
	boolean_t	mhi_ispvid;
};

struct mac_intr_s {
	mac_intr_handle_t	mi_handle;
	mac_intr_enable_t	mi_enable;
	mac_intr_disable_t	mi_disable;
	ddi_intr_handle_t	mi_ddi_handle;
	boolean_t	mi_ddi_shared;
};

struct mac_ndd_mapping_s {
	char	*mp_name;
	union {
		mac_prop_id_t	mp_prop_id;
		uint_t		mp_kstat;
	} u_mp_id;
	long	mp_minval;
	long	mp_maxval;
	size_t	mp_valsize;
	int	mp_flags;
};
#define	mp_prop_id	u_mp_id.mp_prop_id
#define	mp_kstat	u_mp_id.mp_kstat

struct mac_propval_uint32_range_s {
	uint32_t	mpur_min;
	uint32_t	mpur_max;
};

struct mac_propval_range_s {
	uint_t	mpr_count;
	mac_propval_type_t	mpr_type;
	union {
		mac_propval_uint32_range_t	mpr_uint32[1];
	} u;
};
#define	mpr_range_uint32	u.mpr_uint32

struct mac_stat_info_s {
	uint_t	msi_stat;
	char	*msi_name;
	uint_t	msi_type;
	uint64_t	msi_default;
};

struct mactype_ops_s {
	uint_t	mtops_ops;
	mtops_addr_verify_t	mtops_unicst_verify;
	mtops_addr_verify_t	mtops_multicst_verify;
	mtops_sap_verify_t	mtops_sap_verify;
	mtops_header_t	mtops_header;
	mtops_header_info_t	mtops_header_info;
	mtops_pdata_verify_t	mtops_pdata_verify;
	mtops_header_modify_t	mtops_header_cook;
	mtops_header_modify_t	mtops_header_uncook;
	mtops_link_details_t	mtops_link_details;
};

struct mactype_register_s {
	uint_t	mtr_version;
	const char	*mtr_ident;
	mactype_ops_t	*mtr_ops;
	uint_t	mtr_mactype;
	uint_t	mtr_nativetype;
	uint_t	mtr_addrlen;
	uint8_t	*mtr_brdcst_addr;
	mac_stat_info_t	*mtr_stats;
	size_t	mtr_statcount;
	mac_ndd_mapping_t	*mtr_mapping;
	size_t	mtr_mappingcount;
};

extern uint_t mac_addr_len(mac_handle_t);
extern const char *mac_name(mac_handle_t);
extern int mac_nativetype(mac_handle_t);
extern int mac_type(mac_handle_t);

#endif	/* _SYS_MAC_H */
