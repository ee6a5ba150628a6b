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
 * Linkage: rules 19, 31 and 43.  Which of them is broken is chosen when this is
 * compiled, because _init and _fini do it.
 */

#include <sys/errno.h>
#include "probe.h"

static struct modlmisc probe_modlmisc = { &mod_miscops, "linkage" };
static struct modlinkage probe_linkage = {
	MODREV_1, { &probe_modlmisc, NULL }
};

int
_init(void)
{
	int error;

#ifdef	FAIL_AND_LEAK
	(void) kmem_alloc(64, KM_SLEEP);
	return (ENOMEM);
#endif
	error = mod_install(&probe_linkage);
#ifdef	INSTALL_TWICE
	error = mod_install(&probe_linkage);
#endif
	return (error);
}

int
_fini(void)
{
#ifdef	NO_MOD_REMOVE
	return (0);
#else
	return (mod_remove(&probe_linkage));
#endif
}

int
_info(struct modinfo *info)
{
	return (mod_info(&probe_linkage, info));
}

/* For those who depend on this module. */
long
linkage_answer(void)
{
	return (42);
}
