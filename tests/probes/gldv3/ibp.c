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
 * A driver called ibp that answers ioctls on /dev/dld, as far as the
 * dispatcher can tell.
 */

#include <sys/conf.h>
#include <sys/devops.h>
#include <sys/dld_ioc.h>
#include <sys/errno.h>
#include "../rules/probe.h"

#define	CMD_FAIL	((IBPART_IOC << 16) | 1)
#define	CMD_IN_ONLY	((IBPART_IOC << 16) | 2)
#define	CMD_OUT_ONLY	((IBPART_IOC << 16) | 3)
#define	CMD_REFUSED	((IBPART_IOC << 16) | 4)

typedef struct answer {
	uint32_t	a_in;
	uint32_t	a_status;
} answer_t;

/* Fails with a status that says why. */
static int
fail(void *arg, intptr_t user, int mode, cred_t *cred, int *rvalp)
{
	answer_t *answer = arg;

	answer->a_status = answer->a_in + 1;
	return (ENETDOWN);
}

static int
answer(void *arg, intptr_t user, int mode, cred_t *cred, int *rvalp)
{
	answer_t *answer = arg;

	answer->a_status = answer->a_in + 1;
	*rvalp = 5;
	return (0);
}

static int
nobody(const cred_t *cred)
{
	return (EPERM);
}

static dld_ioc_info_t ioctls[] = {
	{ CMD_FAIL, DLDCOPYINOUT, sizeof (answer_t), fail, NULL },
	{ CMD_IN_ONLY, DLDCOPYIN, sizeof (answer_t), answer, NULL },
	{ CMD_OUT_ONLY, DLDCOPYOUT, sizeof (answer_t), answer, NULL },
	{ CMD_REFUSED, DLDCOPYINOUT, sizeof (answer_t), answer, nobody }
};

static int
no_attach(dev_info_t *dip, ddi_attach_cmd_t cmd)
{
	return (DDI_FAILURE);
}

static int
no_detach(dev_info_t *dip, ddi_detach_cmd_t cmd)
{
	return (DDI_FAILURE);
}

DDI_DEFINE_STREAM_OPS(ibp_ops, nulldev, nulldev, no_attach, no_detach, nodev,
    NULL, D_MP, NULL, ddi_quiesce_not_needed);

static struct modldrv ibp_modldrv = {
	&mod_driverops, "A driver that answers ioctls", &ibp_ops
};

static struct modlinkage ibp_linkage = {
	MODREV_1, { &ibp_modldrv, NULL }
};

int
_init(void)
{
	int error = mod_install(&ibp_linkage);

	if (error != 0)
		return (error);
	error = dld_ioc_register(IBPART_IOC, ioctls,
	    sizeof (ioctls) / sizeof (ioctls[0]));
	if (error != 0)
		(void) mod_remove(&ibp_linkage);
	return (error);
}

int
_fini(void)
{
	int error = mod_remove(&ibp_linkage);

#ifndef	NO_UNREGISTER
	if (error == 0)
		dld_ioc_unregister(IBPART_IOC);
#endif
	return (error);
}

int
_info(struct modinfo *info)
{
	return (mod_info(&ibp_linkage, info));
}

/* The module's own identifier is the only one of its kind. */
PROBE(register_unknown)
{
	return (dld_ioc_register(0x1234, ioctls, 1));
}
