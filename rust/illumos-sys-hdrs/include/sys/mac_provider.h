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
 * GLDv3: what a driver registers and calls (mac(9E), mac_register(9F)), and
 * what a MAC-type plugin registers.
 */

#ifndef	_SYS_MAC_PROVIDER_H
#define	_SYS_MAC_PROVIDER_H

#include <sys/ddi_intr.h>
#include <sys/dditypes.h>
#include <sys/mac.h>
#include <sys/pattr.h>
#include <sys/stream.h>
#include <sys/types.h>

#define	LSO_TX_BASIC_TCP_IPV4	1

#define	MAC_RING_TX_SERIALIZE	1
#define	MAC_VERSION	1
#define	MAC_VERSION_V1	1
#define	MAC_RING_RX_ENQUEUE	2

#define	MAC_VIRT_NONE	0
#define	MAC_VIRT_LEVEL1	1
#define	MAC_VIRT_HIO	2

#define	MC_RESERVED	1
#define	MC_IOCTL	2
#define	MC_GETCAPAB	4
#define	MC_OPEN	8
#define	MC_CLOSE	16
#define	MC_SETPROP	32
#define	MC_GETPROP	0x40
#define	MC_PROPINFO	0x80
#define	MC_PROPERTIES	224

struct dev_ops;

typedef enum mac_capab_t {
	MAC_CAPAB_HCKSUM = 0x1,
	MAC_CAPAB_LSO = 0x8,
	MAC_CAPAB_RESERVED1 = 0x2,
	MAC_CAPAB_RESERVED2 = 0x4,
	MAC_CAPAB_RINGS = 0x10,
	MAC_CAPAB_SHARES = 0x20,
	MAC_CAPAB_MULTIFACTADDR = 0x40,
	MAC_CAPAB_VNIC = 0x10000,
	MAC_CAPAB_ANCHOR_VNIC = 0x20000,
	MAC_CAPAB_AGGR = 0x40000,
	MAC_CAPAB_NO_NATIVEVLAN = 0x80000,
	MAC_CAPAB_NO_ZCOPY = 0x100000,
	MAC_CAPAB_LEGACY = 0x200000,
	MAC_CAPAB_VRRP = 0x400000,
	MAC_CAPAB_TRANSCEIVER = 0x1000000,
	MAC_CAPAB_LED = 0x2000000
} mac_capab_t;

typedef enum mac_classify_type_t {
	MAC_NO_CLASSIFIER = 0,
	MAC_SW_CLASSIFIER = 1,
	MAC_HW_CLASSIFIER = 2
} mac_classify_type_t;

enum mac_driver_stat {
	MAC_STAT_IFSPEED = 1000,
	MAC_STAT_MULTIRCV = 1001,
	MAC_STAT_BRDCSTRCV = 1002,
	MAC_STAT_MULTIXMT = 1003,
	MAC_STAT_BRDCSTXMT = 1004,
	MAC_STAT_NORCVBUF = 1005,
	MAC_STAT_IERRORS = 1006,
	MAC_STAT_UNKNOWNS = 1007,
	MAC_STAT_NOXMTBUF = 1008,
	MAC_STAT_OERRORS = 1009,
	MAC_STAT_COLLISIONS = 1010,
	MAC_STAT_RBYTES = 1011,
	MAC_STAT_IPACKETS = 1012,
	MAC_STAT_OBYTES = 1013,
	MAC_STAT_OPACKETS = 1014,
	MAC_STAT_UNDERFLOWS = 1015,
	MAC_STAT_OVERFLOWS = 1016
};

typedef enum mac_group_type_t {
	MAC_GROUP_TYPE_STATIC = 1,
	MAC_GROUP_TYPE_DYNAMIC = 2
} mac_group_type_t;

typedef enum mac_ring_type_t {
	MAC_RING_TYPE_RX = 1,
	MAC_RING_TYPE_TX = 2
} mac_ring_type_t;

typedef struct lso_basic_tcp_ipv4_s lso_basic_tcp_ipv4_t;
typedef struct mac_callbacks_s mac_callbacks_t;
typedef struct mac_capab_led mac_capab_led_t;
typedef struct mac_capab_lso_s mac_capab_lso_t;
typedef struct mac_capab_multifactaddr_s mac_capab_multifactaddr_t;
typedef struct mac_capab_rings_s mac_capab_rings_t;
typedef struct mac_capab_share_s mac_capab_share_t;
typedef struct mac_capab_transceiver mac_capab_transceiver_t;
typedef struct mac_capab_vrrp_s mac_capab_vrrp_t;
typedef struct __mac_group_driver *mac_group_driver_t;
typedef struct mac_group_info_s mac_group_info_t;
typedef struct __mac_prop_info_handle *mac_prop_info_handle_t;
typedef struct mac_register_s mac_register_t;
typedef struct __mac_ring_driver *mac_ring_driver_t;
typedef struct mac_ring_info_s mac_ring_info_s;
typedef struct mac_ring_info_s mac_ring_info_t;
typedef struct mac_transceiver_info mac_transceiver_info_t;
typedef int (*mac_add_mac_addr_t)(void *, const uint8_t *);
typedef uint64_t mac_share_handle_t;
typedef int (*mac_alloc_share_t)(void *, mac_share_handle_t *);
typedef int (*mac_bind_share_t)(mac_share_handle_t, uint64_t, uint64_t *);
typedef void (*mac_close_t)(void *);
typedef void (*mac_free_share_t)(mac_share_handle_t);
typedef void (*mac_get_group_t)(void *, mac_ring_type_t, const int,
    mac_group_info_t *, mac_group_handle_t);
typedef int (*mac_get_prop_t)(void *, const char *, mac_prop_id_t, uint_t,
    void *);
typedef void (*mac_get_ring_t)(void *, mac_ring_type_t, const int, const int,
    mac_ring_info_t *, mac_ring_handle_t);
typedef boolean_t (*mac_getcapab_t)(void *, mac_capab_t, void *);
typedef int (*mac_getstat_t)(void *, uint_t, uint64_t *);
typedef void (*mac_group_add_ring_t)(mac_group_driver_t, mac_ring_driver_t,
    mac_ring_type_t);
typedef void (*mac_group_rem_ring_t)(mac_group_driver_t, mac_ring_driver_t,
    mac_ring_type_t);
typedef int (*mac_group_start_t)(mac_group_driver_t);
typedef void (*mac_group_stop_t)(mac_group_driver_t);
typedef void (*mac_ioctl_t)(void *, queue_t *, mblk_t *);
typedef int (*mac_multicst_t)(void *, boolean_t, const uint8_t *);
typedef int (*mac_open_t)(void *);
typedef void (*mac_prop_info_t)(void *, const char *, mac_prop_id_t,
    mac_prop_info_handle_t);
typedef int (*mac_rem_mac_addr_t)(void *, const uint8_t *);
typedef mblk_t *(*mac_ring_poll_t)(void *, int);
typedef mblk_t *(*mac_ring_send_t)(void *, mblk_t *);
typedef int (*mac_ring_start_t)(mac_ring_driver_t, uint64_t);
typedef int (*mac_ring_stat_t)(mac_ring_driver_t, uint_t, uint64_t *);
typedef void (*mac_ring_stop_t)(mac_ring_driver_t);
typedef void (*mac_rx_func_t)(void *, mac_resource_handle_t, mblk_t *,
    boolean_t);
typedef int (*mac_set_prop_t)(void *, const char *, mac_prop_id_t, uint_t,
    const void *);
typedef int (*mac_setpromisc_t)(void *, boolean_t);
typedef int (*mac_share_add_group_t)(mac_share_handle_t, mac_group_driver_t);
typedef void (*mac_share_query_t)(mac_share_handle_t, mac_ring_type_t,
    mac_ring_handle_t *, uint_t *);
typedef int (*mac_share_rem_group_t)(mac_share_handle_t, mac_group_driver_t);
typedef int (*mac_start_t)(void *);
typedef void (*mac_stop_t)(void *);
typedef mblk_t *(*mac_tx_t)(void *, mblk_t *);
typedef void (*mac_unbind_share_t)(mac_share_handle_t);
typedef int (*mac_unicst_t)(void *, const uint8_t *);

struct lso_basic_tcp_ipv4_s {
	t_uscalar_t	lso_max;
};

struct mac_callbacks_s {
	uint_t	mc_callbacks;
	mac_getstat_t	mc_getstat;
	mac_start_t	mc_start;
	mac_stop_t	mc_stop;
	mac_setpromisc_t	mc_setpromisc;
	mac_multicst_t	mc_multicst;
	mac_unicst_t	mc_unicst;
	mac_tx_t	mc_tx;
	void	*mc_reserved;
	mac_ioctl_t	mc_ioctl;
	mac_getcapab_t	mc_getcapab;
	mac_open_t	mc_open;
	mac_close_t	mc_close;
	mac_set_prop_t	mc_setprop;
	mac_get_prop_t	mc_getprop;
	mac_prop_info_t	mc_propinfo;
};

struct mac_capab_led {
	uint_t	mcl_flags;
	mac_led_mode_t	mcl_modes;
	int (*mcl_set)(void *, mac_led_mode_t, uint_t);
};

struct mac_capab_lso_s {
	t_uscalar_t	lso_flags;
	lso_basic_tcp_ipv4_t	lso_basic_tcp_ipv4;
};

struct mac_capab_multifactaddr_s {
	uint_t	mcm_naddr;
	void (*mcm_getaddr)(void *, uint_t, uint8_t *);
};

struct mac_capab_rings_s {
	mac_ring_type_t	mr_type;
	mac_group_type_t	mr_group_type;
	uint_t	mr_rnum;
	uint_t	mr_gnum;
	mac_get_ring_t	mr_rget;
	mac_get_group_t	mr_gget;
	mac_group_add_ring_t	mr_gaddring;
	mac_group_rem_ring_t	mr_gremring;
};

struct mac_capab_share_s {
	uint_t	ms_snum;
	void	*ms_handle;
	mac_alloc_share_t	ms_salloc;
	mac_free_share_t	ms_sfree;
	mac_share_add_group_t	ms_sadd;
	mac_share_rem_group_t	ms_sremove;
	mac_share_query_t	ms_squery;
	mac_bind_share_t	ms_sbind;
	mac_unbind_share_t	ms_sunbind;
};

struct mac_capab_transceiver {
	uint_t	mct_flags;
	uint_t	mct_ntransceivers;
	int (*mct_info)(void *, uint_t, mac_transceiver_info_t *);
	int (*mct_read)(void *, uint_t, uint_t, void *, size_t, off_t, size_t *);
};

struct mac_capab_vrrp_s {
	int	mcv_af;
};

struct mac_group_info_s {
	mac_group_driver_t	mgi_driver;
	mac_group_start_t	mgi_start;
	mac_group_stop_t	mgi_stop;
	uint_t	mgi_count;
	mac_intr_t	mgi_intr;
	mac_add_mac_addr_t	mgi_addmac;
	mac_rem_mac_addr_t	mgi_remmac;
};

struct mac_register_s {
	uint_t	m_version;
	const char	*m_type_ident;
	void	*m_driver;
	dev_info_t	*m_dip;
	uint_t	m_instance;
	uint8_t	*m_src_addr;
	uint8_t	*m_dst_addr;
	mac_callbacks_t	*m_callbacks;
	uint_t	m_min_sdu;
	uint_t	m_max_sdu;
	void	*m_pdata;
	size_t	m_pdata_size;
	char	**m_priv_props;
	uint32_t	m_margin;
	uint32_t	m_v12n;
	uint_t	m_multicast_sdu;
};

struct mac_ring_info_s {
	mac_ring_driver_t	mri_driver;
	mac_ring_start_t	mri_start;
	mac_ring_stop_t	mri_stop;
	mac_intr_t	mri_intr;
	union {
		mac_ring_send_t	send;
		mac_ring_poll_t	poll;
	} mrfunion;
	mac_ring_stat_t	mri_stat;
	uint_t	mri_flags;
};
#define	mri_tx	mrfunion.send
#define	mri_poll	mrfunion.poll

extern mac_register_t *mac_alloc(uint_t);
extern void mac_capab_update(mac_handle_t);
extern int mac_devt_to_instance(dev_t);
extern int mac_disable(mac_handle_t);
extern int mac_disable_nowait(mac_handle_t);
extern void mac_dst_update(mac_handle_t, const uint8_t *);
extern mac_ring_handle_t mac_find_ring(mac_group_handle_t, int);
extern void mac_fini_ops(struct dev_ops *);
extern void mac_free(mac_register_t *);
extern int mac_group_add_ring(mac_group_handle_t, int);
extern void mac_group_rem_ring(mac_group_handle_t, mac_ring_handle_t);
extern void mac_hcksum_get(mblk_t *, uint32_t *, uint32_t *, uint32_t *,
    uint32_t *, uint32_t *);
extern void mac_hcksum_set(mblk_t *, uint32_t, uint32_t, uint32_t, uint32_t,
    uint32_t);
extern void mac_init_ops(struct dev_ops *, const char *);
extern void mac_link_redo(mac_handle_t, link_state_t);
extern void mac_link_update(mac_handle_t, link_state_t);
extern void mac_lso_get(mblk_t *, uint32_t *, uint32_t *);
extern int mac_margin_add(mac_handle_t, uint32_t *, boolean_t);
extern void mac_margin_get(mac_handle_t, uint32_t *);
extern int mac_margin_remove(mac_handle_t, uint32_t);
extern boolean_t mac_margin_update(mac_handle_t, uint32_t);
extern int mac_maxsdu_update(mac_handle_t, uint_t);
extern int mac_maxsdu_update2(mac_handle_t, uint_t, uint_t);
extern void mac_multicast_refresh(mac_handle_t, mac_multicst_t, void *,
    boolean_t);
extern int mac_pdata_update(mac_handle_t, void *, size_t);
extern minor_t mac_private_minor(void);
extern void mac_promisc_refresh(mac_handle_t, mac_setpromisc_t, void *);
extern void mac_prop_info_set_default_link_flowctrl(mac_prop_info_handle_t,
    link_flowctrl_t);
extern void mac_prop_info_set_default_str(mac_prop_info_handle_t, const char *);
extern void mac_prop_info_set_default_uint32(mac_prop_info_handle_t, uint32_t);
extern void mac_prop_info_set_default_uint64(mac_prop_info_handle_t, uint64_t);
extern void mac_prop_info_set_default_uint8(mac_prop_info_handle_t, uint8_t);
extern void mac_prop_info_set_perm(mac_prop_info_handle_t, uint8_t);
extern void mac_prop_info_set_range_uint32(mac_prop_info_handle_t, uint32_t,
    uint32_t);
extern mac_protect_t *mac_protect_get(mac_handle_t);
extern int mac_register(mac_register_t *, mac_handle_t *);
extern void mac_ring_intr_set(mac_ring_handle_t, ddi_intr_handle_t);
extern void mac_rx(mac_handle_t, mac_resource_handle_t, mblk_t *);
extern void mac_rx_ring(mac_handle_t, mac_ring_handle_t, mblk_t *, uint64_t);
extern void mac_sdu_get(mac_handle_t, uint_t *, uint_t *);
extern void mac_sdu_get2(mac_handle_t, uint_t *, uint_t *, uint_t *);
extern void mac_transceiver_info_set_present(mac_transceiver_info_t *,
    boolean_t);
extern void mac_transceiver_info_set_usable(mac_transceiver_info_t *,
    boolean_t);
extern void mac_tx_ring_update(mac_handle_t, mac_ring_handle_t);
extern void mac_tx_update(mac_handle_t);
extern void mac_unicst_refresh(mac_handle_t, mac_unicst_t, void *);
extern void mac_unicst_update(mac_handle_t, const uint8_t *);
extern boolean_t mac_unicst_verify(mac_handle_t, const uint8_t *, uint_t);
extern int mac_unregister(mac_handle_t);
extern mactype_register_t *mactype_alloc(uint_t);
extern void mactype_free(mactype_register_t *);
extern int mactype_register(mactype_register_t *);
extern int mactype_unregister(const char *);

#endif	/* _SYS_MAC_PROVIDER_H */
