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
 * Zones.
 */

#ifndef	_SYS_ZONE_H
#define	_SYS_ZONE_H

#define	GLOBAL_ZONEID	0

#endif	/* _SYS_ZONE_H */
