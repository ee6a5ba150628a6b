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
 * Ioctls on /dev/dld.  A module registers a list under its identifier;
 * the list is kept by reference.
 */

#ifndef	_SYS_DLD_IOC_H
#define	_SYS_DLD_IOC_H

#include <sys/cred.h>
#include <sys/types.h>

#define	AGGR_IOC	2662

#define	BRIDGE_IOC	47133

#define	DLDCOPYIN	1

#define	DLDCOPYINOUT	3

#define	DLDCOPYOUT	2

#define	DLD_IOC	3357

#define	IBPART_IOC	24945

#define	IPTUN_IOC	17738

#define	SIMNET_IOC	20786

#define	VNIC_IOC	369

typedef struct dld_ioc_info dld_ioc_info_t;
typedef int dld_ioc_func_t(void *, intptr_t, int, cred_t *, int *);
typedef int dld_ioc_priv_func_t(const cred_t *);

struct dld_ioc_info {
	uint_t	di_cmd;
	uint_t	di_flags;
	size_t	di_argsize;
	dld_ioc_func_t	*di_func;
	dld_ioc_priv_func_t	*di_priv_func;
};

extern int dld_ioc_register(uint16_t, dld_ioc_info_t *, uint_t);
extern void dld_ioc_unregister(uint16_t);

#endif	/* _SYS_DLD_IOC_H */
