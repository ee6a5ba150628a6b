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
 * Clocks: gethrtime(9F), ddi_get_lbolt(9F).
 */

#ifndef	_SYS_TIME_H
#define	_SYS_TIME_H

#include <sys/types.h>

#define	MICROSEC	1000000

#define	MILLISEC	1000

#define	NANOSEC	1000000000

#define	SEC	1

typedef longlong_t hrtime_t;

extern clock_t ddi_get_lbolt(void);
extern int64_t ddi_get_lbolt64(void);
extern time_t gethrestime_sec(void);
extern hrtime_t gethrtime(void);

#endif	/* _SYS_TIME_H */
