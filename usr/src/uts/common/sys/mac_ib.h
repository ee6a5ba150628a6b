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

#ifndef	_SYS_MAC_IB_H
#define	_SYS_MAC_IB_H

#include <sys/types.h>

#define	IPOIB_HDRSIZE	4
#define	IPOIB_ADDRL	20

#define	IPOIB_GRH_SIZE	0x28

#define	MAC_IB_GID_SIZE	10
#define	MAC_IB_MAX_802_SAP	0xff
#define	MAC_IB_ETHERTYPE_MAX	0xffff
#define	MAC_IB_BROADCAST_GID	0xffffffffU

typedef struct ib_addrs ib_addrs_t;
typedef struct ib_header_info ib_header_info_t;
typedef struct ipoib_header ipoib_hdr_t;
typedef struct ipoib_mac ipoib_mac_t;
typedef struct ipoib_pgrh ipoib_pgrh_t;
typedef struct ipoib_ptxhdr ipoib_ptxhdr_t;

struct ipoib_mac {
	uint32_t	ipoib_qpn;
	uint32_t	ipoib_gidpref[2];
	uint32_t	ipoib_gidsuff[2];
};

struct ib_addrs {
	ipoib_mac_t	ipib_src;
	ipoib_mac_t	ipib_dst;
};

struct ipoib_header {
	ushort_t	ipoib_type;
	ushort_t	ipoib_mbz;
};

struct ipoib_pgrh {
	uint32_t	ipoib_vertcflow;
	uint32_t	ipoib_sqpn;
	uint32_t	ipoib_sgid_pref[2];
	uint32_t	ipoib_sgid_suff[2];
	uint32_t	ipoib_dgid_pref[2];
	uint32_t	ipoib_dgid_suff[2];
};

struct ib_header_info {
	union {
		ipoib_pgrh_t	ipib_grh;
		ib_addrs_t	ipib_addrs;
	} ipib_prefix;
	ipoib_hdr_t	ipib_rhdr;
};
#define	ib_grh	ipib_prefix.ipib_grh
#define	ib_src	ipib_prefix.ipib_addrs.ipib_src
#define	ib_dst	ipib_prefix.ipib_addrs.ipib_dst

struct ipoib_ptxhdr {
	ipoib_mac_t	ipoib_dest;
	ipoib_hdr_t	ipoib_rhdr;
};

#define	MAC_PLUGIN_IDENT_IB	"mac_ib"

#endif	/* _SYS_MAC_IB_H */
