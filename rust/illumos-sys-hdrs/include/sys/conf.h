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
 * Flags of cb_ops: cb_ops(9S).
 */

#ifndef	_SYS_CONF_H
#define	_SYS_CONF_H

#include <sys/devops.h>
#include <sys/stream.h>

#define	D_NEW	0
#define	D_HOTPLUG	4
#define	D_TAPE	8
#define	D_MP	32
#define	D_MTSAFE	32
#define	D_DEVMAP	0x100
#define	D_64BIT	0x200
#define	D_SYNCSTR	0x400
#define	D_MTOCEXCL	0x800
#define	D_MTOUTER_MOD	0x800
#define	D_MTPUTSHARED	0x1000
#define	D_MTPERQ	0x2000
#define	D_MTQPAIR	0x4000
#define	D_MTPERMOD	0x6000
#define	D_MTINNER_MASK	24608
#define	D_MTOUTPERIM	0x8000
#define	D_MTINNER_MOD	200832
#define	D_MTSAFETY_MASK	260256
#define	D_U64BIT	0x40000
#define	D_OPEN_RETURNS_EINTR	0x100000

#endif	/* _SYS_CONF_H */
