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
 * How the IPoIB driver gets to a neighbour: the way a packet takes through the
 * InfiniBand fabric, for administrators and for other InfiniBand clients.
 *
 * One record is question and answer.  It has no pointer and no 64-bit field, so
 * it is the same for 32-bit and 64-bit programs.  There are three ways to ask:
 *
 *   /dev/dld	IBD_PATH_INFO; ibp only.  ibp_link names the partition's link.
 *   the link	IBD_PATH_INFO in an I_STR on the link's own node (/dev/net/...);
 *		ibd and ibp.  ibp_link is not looked at.
 *   the kernel	ibd_path_lookup(); ibd and ibp.
 *
 * The first two ask for the privilege to configure data links, and never wait.
 * Errors, whichever way:
 *
 *   EAGAIN	not known yet; the subnet administrator is being asked, so ask
 *		again in a while
 *   ENXIO	the last lookup failed, ibp_status says how; it is repeated when
 *		somebody asks after its back-off, 1 to 30 seconds.  By the
 *		link's own node ibp_status does not come back: the stream head
 *		copies nothing out with an error
 *   ENOENT	no such link; or an IP address for which no ARP or ND has passed
 *		the link within 20 minutes
 *   ENETDOWN	the link is not up
 *   EINVAL	another version, kind or flag, or an address nobody can have
 */

#ifndef	_SYS_IBD_PATH_H
#define	_SYS_IBD_PATH_H

#include <sys/types.h>

#ifdef	__cplusplus
extern "C" {
#endif

#define	IBD_PATH_INFO		0x61710004
#define	IBD_PATH_VERSION	1

/* ibp_kind: what the first bytes of ibp_address are, in network order. */
#define	IBD_PATH_LINK_ADDRESS	1	/* 20 bytes: queue pair number and GID */
#define	IBD_PATH_IPV4		2	/* 4 bytes */
#define	IBD_PATH_IPV6		3	/* 16 bytes */

/* ibp_flags of an answer; 0 in a question. */
#define	IBD_PATH_GROUP		0x1	/* a multicast group */
#define	IBD_PATH_GRH		0x2	/* packets carry a global route header */

/* ibp_status, with ENXIO. */
#define	IBD_PATH_UNREACHABLE	1	/* there is no path: so the SA says */
#define	IBD_PATH_UNANSWERED	2	/* nobody answered */

/* ibp_lifetime of a group. */
#define	IBD_PATH_NO_LIFETIME	0xff

#define	IBD_PATH_ADDRL		20

typedef struct ibd_path_info {
	/* The question. */
	uint32_t	ibp_version;	/* IBD_PATH_VERSION */
	uint32_t	ibp_link;	/* data-link id; in ibd, the instance */
	uint32_t	ibp_kind;
	uint8_t		ibp_address[IBD_PATH_ADDRL];	/* the rest is zero */

	/* The answer. */
	uint32_t	ibp_flags;
	uint32_t	ibp_status;
	uint8_t		ibp_neighbour[IBD_PATH_ADDRL];	/* as on the wire */
	uint8_t		ibp_sgid[16];	/* network order */
	uint8_t		ibp_dgid[16];	/* network order */
	uint16_t	ibp_slid;
	uint16_t	ibp_dlid;
	uint16_t	ibp_pkey;
	uint8_t		ibp_sl;		/* service level, 0 to 15 */
	uint8_t		ibp_tclass;	/* traffic class */
	uint32_t	ibp_flow;	/* flow label, 20 bits */
	uint32_t	ibp_mtu;	/* bytes; the link may carry less */
	uint8_t		ibp_hop_limit;
	uint8_t		ibp_rate;	/* PathRecord's code */
	uint8_t		ibp_lifetime;	/* 4.096 us times 2 to this power */
	uint8_t		ibp_pad;
	uint32_t	ibp_age;	/* seconds since the SA said so */
} ibd_path_info_t;

#ifdef	_KERNEL

/*
 * Receives the answer: 0 and the record, or an errno of the list above (never
 * EAGAIN, unless too much is being looked up) and the record as far as it goes.
 * The record is valid during the call.  Runs on a thread of the driver, with no
 * lock of the driver's held; it may ask again, and must not block.
 */
typedef void (*ibd_path_cb_t)(void *arg, int error,
    const ibd_path_info_t *path);

/*
 * Asks.  0: the callback will be made, once, whatever happens, and never from
 * within this call.  Otherwise it will not be made.  Besides the errors above:
 * ENOMEM, and EBUSY when 64 questions to one link are open.  May be called from
 * any context but above LOCK_LEVEL; does not block.  The question is copied.
 *
 * A link that goes down, is stopped or is detached answers what is open with
 * ENETDOWN; it is not detached before it has.  A lookup takes as long as the SA
 * needs, a few minutes if it is silent.  Whoever asked must stay loaded until
 * its callback has returned.
 */
extern int ibd_path_lookup(const ibd_path_info_t *question,
    ibd_path_cb_t callback, void *arg);

#endif	/* _KERNEL */

#ifdef	__cplusplus
}
#endif

#endif	/* _SYS_IBD_PATH_H */
