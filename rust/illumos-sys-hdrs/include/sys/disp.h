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
 * Priorities of kernel threads.
 */

#ifndef	_SYS_DISP_H
#define	_SYS_DISP_H

#include <sys/types.h>

#define	MAXCLSYSPRI	99

#define	MINCLSYSPRI	60

extern pri_t minclsyspri;

#endif	/* _SYS_DISP_H */
