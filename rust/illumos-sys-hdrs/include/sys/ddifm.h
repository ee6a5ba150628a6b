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
 * Fault management: results, and what a driver says of a node.  Names, types
 * and values follow the flag of ndi_fm_ereport_post, and NULL ends them.
 */

#ifndef	_SYS_DDIFM_H
#define	_SYS_DDIFM_H

#include <sys/dditypes.h>
#include <sys/types.h>

#define	DDI_FM_NOT_CAPABLE	0
#define	DDI_FM_OK	0
#define	DDI_FM_FATAL	(-1)

extern void ddi_fm_service_impact(dev_info_t *, int);
extern void ndi_fm_ereport_post(dev_info_t *, const char *, uint64_t, int,
    ...);

#endif	/* _SYS_DDIFM_H */
