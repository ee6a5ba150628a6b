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
 * Host and network byte order: byteorder(9F).
 */

#ifndef	_SYS_BYTEORDER_H
#define	_SYS_BYTEORDER_H

#include <sys/types.h>

typedef uint16_t in_port_t;

extern uint32_t htonl(uint32_t);
extern uint64_t htonll(uint64_t);
extern uint16_t htons(uint16_t);
extern uint32_t ntohl(uint32_t);
extern uint64_t ntohll(uint64_t);
extern uint16_t ntohs(uint16_t);

#endif	/* _SYS_BYTEORDER_H */
