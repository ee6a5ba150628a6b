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
 * Internet addresses, as far as the interfaces here carry them.
 */

#ifndef	_NETINET_IN_H
#define	_NETINET_IN_H

#include <sys/types.h>

typedef struct in6_addr in6_addr_t;
typedef uint32_t ipaddr_t;
typedef uint16_t sa_family_t;

struct in6_addr {
	union {
		uint8_t		_S6_u8[16];
		uint32_t	_S6_u32[4];
	} _S6_un;
};
#define	s6_addr	_S6_un._S6_u8

struct in_addr {
	union {
		struct {
			uint8_t	s_b1, s_b2, s_b3, s_b4;
		} S_un_b;
		struct {
			uint16_t	s_w1, s_w2;
		} S_un_w;
		uint32_t	S_addr;
	} S_un;
};
#define	s_addr	S_un.S_addr

#endif	/* _NETINET_IN_H */
