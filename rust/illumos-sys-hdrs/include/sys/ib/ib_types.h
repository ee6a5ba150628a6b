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
 * Numbers and addresses of the InfiniBand architecture.  In memory a GID is
 * two host-endian words.
 */

#ifndef	_SYS_IB_IB_TYPES_H
#define	_SYS_IB_IB_TYPES_H

#include <sys/types.h>

#define	IB_EUI64_COMPANYID_SHIFT	0x28
#define	IB_EUI64_COMPANYID_MASK	0xffffff
#define	IB_EUI64_IDENTIFIER_MASK	0xffffffffffULL

#define	IB_GID_SITE_LOCAL_SUBNET_MASK	0xffff
#define	IB_GSI_QKEY	0x80010000U
#define	IB_GID_DEFAULT_PREFIX	0xfe80000000000000ULL
#define	IB_GID_SUBNET_LOCAL_PREFIX	0xfe80000000000000ULL
#define	IB_GID_SITE_LOCAL_PREFIX	0xfec0000000000000ULL

#define	IB_LID_UC_FIRST	1
#define	IB_LID_UC_LAST	0xbfff
#define	IB_LID_MC_FIRST	0xc000
#define	IB_LID_MC_LAST	65534
#define	IB_LID_PERMISSIVE	0xffff

#define	IB_MCGID_TRANSIENT_FLAG	0x100000
#define	IB_MCGID_PREFIX	0xff000000U
#define	IB_MCGID_IPV4_PREFIX	0xff10401bU
#define	IB_MCGID_IPV6_PREFIX	0xff10601bU
#define	IB_MCGID_SA_PREFIX	0xff10a01bU

#define	IB_MC_JSTATE_FULL	1
#define	IB_MC_JSTATE_NON	2
#define	IB_MC_SCOPE_SUBNET_LOCAL	2
#define	IB_MC_JSTATE_SEND_ONLY_NON	4
#define	IB_MC_SCOPE_SITE_LOCAL	5
#define	IB_MC_SCOPE_ORG_LOCAL	8
#define	IB_MC_SCOPE_GLOBAL	14
#define	IB_MC_QPN	0xffffff

#define	IB_PKEY_INVALID_LIMITED	0
#define	IB_PKEY_DEFAULT_LIMITED	0x7fff
#define	IB_PKEY_INVALID_FULL	0x8000
#define	IB_PKEY_DEFAULT_FULL	0xffff
#define	IB_QPN_MASK	0xffffff
#define	IB_PRIVILEGED_QKEY_BIT	0x80000000U

#define	IB_SID_AGN_IBTA	0
#define	IB_TIME_EXP_MASK	63
#define	IB_SVC_DATA_LEN	0x40
#define	IB_SVC_NAME_LEN	0x40
#define	IB_SID_IPADDR_PORTNUM_MASK	0xffff
#define	IB_SID_IPADDR_IPNUM_MASK	16711680
#define	IB_SID_IPADDR_PREFIX	0x1000000
#define	IB_SID_MASK	0xffffffffffffffULL
#define	IB_SID_AGN_IETF	0x100000000000000ULL
#define	IB_SID_AGN_LOCAL	0x200000000000000ULL
#define	IB_SID_AGN_MASK	0xff00000000000000ULL
#define	IB_SID_IPADDR_PREFIX_MASK	(-33554432)

typedef enum ib_mtu_t {
	IB_MTU_NOT_SPECIFIED = 0,
	IB_MTU_256 = 1,
	IB_MTU_512 = 2,
	IB_MTU_1K = 3,
	IB_MTU_2K = 4,
	IB_MTU_4K = 5
} ib_mtu_t;

typedef struct ib_gid_s ib_gid_t;
typedef struct ib_mcast_gid_s ib_mcast_gid_t;
typedef struct ib_ucast_gid_s ib_ucast_gid_t;
typedef uint32_t ib_eecn_t;
typedef uint16_t ib_ethertype_t;
typedef uint64_t ib_guid_t;
typedef uint16_t ib_lid_t;
typedef uint64_t ib_memlen_t;
typedef uint32_t ib_msglen_t;
typedef uint8_t ib_path_bits_t;
typedef uint16_t ib_pkey_cntr_t;
typedef uint16_t ib_pkey_t;
typedef uint16_t ib_qkey_cntr_t;
typedef uint32_t ib_qkey_t;
typedef uint32_t ib_qpn_t;
typedef uint64_t ib_smkey_t;
typedef uint64_t ib_sn_prefix_t;
typedef uint64_t ib_svc_id_t;
typedef uint8_t ib_time_t;
typedef uint64_t ib_vaddr_t;

struct ib_mcast_gid_s {
	uint32_t	mcast_gid_prefix;
	uint8_t	mcast_gid_bytes[12];
};

struct ib_ucast_gid_s {
	ib_sn_prefix_t	ugid_prefix;
	ib_guid_t	ugid_guid;
};

struct ib_gid_s {
	union {
		ib_ucast_gid_t	ucast_gid;
		ib_mcast_gid_t	mcast_gid;
	} gid;
};
#define	gid_prefix	gid.ucast_gid.ugid_prefix
#define	gid_guid	gid.ucast_gid.ugid_guid

#endif	/* _SYS_IB_IB_TYPES_H */
