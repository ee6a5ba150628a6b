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
 * Random numbers: random_get_pseudo_bytes, which misc/kcf implements.
 */

#ifndef	_SYS_RANDOM_H
#define	_SYS_RANDOM_H

#include <sys/types.h>

extern int random_get_pseudo_bytes(uint8_t *, size_t);

#endif	/* _SYS_RANDOM_H */
