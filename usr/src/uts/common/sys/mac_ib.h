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
 * The InfiniBand MAC type: what the mac_ib plugin, drivers that register with
 * it, and consumers of their packets agree on.  RFC 4391 defines the link-layer
 * address and the 4-byte header; the rest is an agreement within the kernel.
 *
 * The include guard is this header's own, so that sys/mac_ether.h can be
 * included beside it.
 */

#ifndef	_SYS_MAC_IB_H
#define	_SYS_MAC_IB_H

#include <sys/types.h>
#include <sys/ib/ib_types.h>

#ifdef	__cplusplus
extern "C" {
#endif

/* The plugin's name: m_type_ident of a driver, mtr_ident of the plugin. */
#define	MAC_PLUGIN_IDENT_IB	"mac_ib"

/* Lengths in bytes: link-layer address, header on the wire, GRH. */
#define	IPOIB_ADDRL		20
#define	IPOIB_HDRSIZE		4
#define	IPOIB_GRH_SIZE		40

/*
 * A SAP up to MAX_802_SAP is an IEEE 802 one and binds as DLS_SAP_LLC; above
 * ETHERTYPE_MAX there is none.
 */
#define	MAC_IB_MAX_802_SAP	0xff
#define	MAC_IB_ETHERTYPE_MAX	0xffff

/*
 * The group id of a multicast address: its last GID_SIZE bytes.  Zeros followed
 * by BROADCAST_GID make it the broadcast group, whatever scope and P_Key say.
 */
#define	MAC_IB_GID_SIZE		10
#define	MAC_IB_BROADCAST_GID	0xffffffffU

/*
 * A link-layer address as on the wire: every word is big-endian.  The low 24
 * bits of ipoib_qpn are the queue pair number, the rest belongs to the sender.
 */
typedef struct ipoib_mac {
	uint32_t	ipoib_qpn;
	uint32_t	ipoib_gidpref[2];
	uint32_t	ipoib_gidsuff[2];
} ipoib_mac_t;

/* The header of every IPoIB packet; ipoib_mbz is sent as zero. */
typedef struct ipoib_header {
	ushort_t	ipoib_type;
	ushort_t	ipoib_mbz;
} ipoib_hdr_t;

/* What a raw-mode consumer puts in front of a packet it sends. */
typedef struct ipoib_ptxhdr {
	ipoib_mac_t	ipoib_dest;
	ipoib_hdr_t	ipoib_rhdr;
} ipoib_ptxhdr_t;

/*
 * The 40 bytes that an HCA writes in front of a received datagram, with the
 * sender's queue pair number in place of the GRH's length word.
 */
typedef struct ipoib_pgrh {
	uint32_t	ipoib_vertcflow;
	uint32_t	ipoib_sqpn;
	uint32_t	ipoib_sgid_pref[2];
	uint32_t	ipoib_sgid_suff[2];
	uint32_t	ipoib_dgid_pref[2];
	uint32_t	ipoib_dgid_suff[2];
} ipoib_pgrh_t;

typedef struct ib_addrs {
	ipoib_mac_t	ipib_src;
	ipoib_mac_t	ipib_dst;
} ib_addrs_t;

/*
 * The link-layer header inside the kernel, both ways.  The union overlays the
 * GRH with the two addresses, so that a receiver converts one to the other in
 * place: moving ipoib_sqpn and the source GID down by 4 bytes makes the source
 * address (the ranges overlap), and the destination GID is where it belongs.
 * A source of which the first word is zero means that there is none.
 */
typedef struct ib_header_info {
	union {
		ipoib_pgrh_t	ipib_grh;
		ib_addrs_t	ipib_addrs;
	} ipib_prefix;
	ipoib_hdr_t	ipib_rhdr;
} ib_header_info_t;

#define	ib_grh	ipib_prefix.ipib_grh
#define	ib_src	ipib_prefix.ipib_addrs.ipib_src
#define	ib_dst	ipib_prefix.ipib_addrs.ipib_dst

#ifdef	__cplusplus
}
#endif

#endif	/* _SYS_MAC_IB_H */
