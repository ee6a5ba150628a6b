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
 * Kernel threads, opaque to drivers.
 */

#ifndef	_SYS_THREAD_H
#define	_SYS_THREAD_H

#include <sys/types.h>

#define	TS_FREE	0
#define	TS_SLEEP	1
#define	TS_RUN	2
#define	TS_ONPROC	4
#define	TS_ZOMB	8
#define	TS_STOPPED	16
#define	TS_WAIT	32

typedef struct _kthread kthread_t;
typedef uint64_t kt_did_t;

#endif	/* _SYS_THREAD_H */
