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
 * The IPv4 header and the checksum helpers over it.
 */

#ifndef	_INET_IP_H
#define	_INET_IP_H

#include <netinet/in.h>
#include <sys/stream.h>
#include <sys/types.h>

typedef struct ipha_s ipha_t;

struct ipha_s {
	uint8_t	ipha_version_and_hdr_length;
	uint8_t	ipha_type_of_service;
	uint16_t	ipha_length;
	uint16_t	ipha_ident;
	uint16_t	ipha_fragment_offset_and_flags;
	uint8_t	ipha_ttl;
	uint8_t	ipha_protocol;
	uint16_t	ipha_hdr_checksum;
	ipaddr_t	ipha_src;
	ipaddr_t	ipha_dst;
};

extern uint_t ip_cksum(mblk_t *, int, uint32_t);
extern uint16_t ip_csum_hdr(ipha_t *);

#endif	/* _INET_IP_H */
