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
 * Parameters of the running kernel.
 */

#ifndef	_SYS_PARAM_H
#define	_SYS_PARAM_H

#include <sys/types.h>

extern const unsigned long _pagesize;

/* The kernel's addresses begin here. */
extern uintptr_t _kernelbase;

/* A data link's name, with its NUL. */
#define	MAXLINKNAMELEN	32

#endif	/* _SYS_PARAM_H */
