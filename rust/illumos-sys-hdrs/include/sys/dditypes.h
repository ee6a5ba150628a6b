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
 * Handles and command words of the DDI.
 */

#ifndef	_SYS_DDITYPES_H
#define	_SYS_DDITYPES_H

#include <sys/types.h>

typedef struct __ddi_iblock_cookie *ddi_iblock_cookie_t;
typedef union ddi_idevice_cookie_t ddi_idevice_cookie_t;
typedef struct __ddi_periodic *ddi_periodic_t;
typedef struct __ddi_softintr *ddi_softintr_t;
typedef struct __dev_info *dev_info_t;
typedef void *devmap_cookie_t;

union ddi_idevice_cookie_t {
	struct {
		ushort_t	idev_vector;
		ushort_t	idev_priority;
	} idu;
	uint_t	idev_softint;
};

#endif	/* _SYS_DDITYPES_H */
