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
 * Services of the driver-kernel interface that System V defined.
 */

#ifndef	_SYS_DDI_H
#define	_SYS_DDI_H

#include <sys/types.h>

struct cred;

extern void delay(clock_t);
extern int drv_getparm(uint_t, void *);
extern clock_t drv_hztousec(clock_t);
extern int drv_priv(struct cred *);
extern clock_t drv_usectohz(clock_t);
extern void drv_usecwait(clock_t);
extern major_t getmajor(dev_t);
extern minor_t getminor(dev_t);
extern dev_t makedevice(major_t, minor_t);

#endif	/* _SYS_DDI_H */
