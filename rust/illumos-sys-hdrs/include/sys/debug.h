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
 * ASSERT(9F) and VERIFY(9F).
 */

#ifndef	_SYS_DEBUG_H
#define	_SYS_DEBUG_H

#include <sys/types.h>

extern int assfail(const char *, const char *, int);
extern void assfail3(const char *, uintmax_t, const char *, uintmax_t, const
    char *, int);

#define	VERIFY(EX)	((void)((EX) || assfail(#EX, __FILE__, __LINE__)))
#ifdef DEBUG
#define	ASSERT(EX)	VERIFY(EX)
#else
#define	ASSERT(x)	((void)0)
#endif

#endif	/* _SYS_DEBUG_H */
