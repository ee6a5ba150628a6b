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
 * The IPv6 header, and the length of its extension headers (module ip).
 */

#ifndef	_NETINET_IP6_H
#define	_NETINET_IP6_H

#include <netinet/in.h>
#include <sys/stream.h>
#include <sys/types.h>

typedef struct ip6_hdr ip6_t;

struct ip6_hdr {
	union {
		struct {
			uint32_t	ip6_un1_flow;
			uint16_t	ip6_un1_plen;
			uint8_t		ip6_un1_nxt;
			uint8_t		ip6_un1_hlim;
		} ip6_un1;
		uint8_t	ip6_un2_vfc;
	} ip6_ctlun;
	struct in6_addr	ip6_src;
	struct in6_addr	ip6_dst;
};

extern int ip_hdr_length_v6(mblk_t *, ip6_t *);

#endif	/* _NETINET_IP6_H */
