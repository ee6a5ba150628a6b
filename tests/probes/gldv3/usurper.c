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
 * A plugin that takes the name of the InfiniBand MAC type before it does.
 */

#include <sys/errno.h>
#include <sys/mac_provider.h>
#include "../rules/probe.h"

static struct modlmisc usurper_modlmisc = { &mod_miscops, "A plugin" };
static struct modlinkage usurper_linkage = {
	MODREV_1, { &usurper_modlmisc, NULL }
};

static int
verify(const void *addr, void *pdata)
{
	return (0);
}

static boolean_t
sap_verify(uint32_t sap, uint32_t *bind_sap, void *pdata)
{
	return (B_FALSE);
}

static mblk_t *
header(const void *saddr, const void *daddr, uint32_t sap, void *pdata,
    mblk_t *payload, size_t extra)
{
	return (NULL);
}

static int
header_info(mblk_t *mp, void *pdata, mac_header_info_t *info)
{
	return (EINVAL);
}

static mactype_ops_t ops = {
	.mtops_unicst_verify = verify,
	.mtops_multicst_verify = verify,
	.mtops_sap_verify = sap_verify,
	.mtops_header = header,
	.mtops_header_info = header_info
};

static int
claim(const char *ident, mactype_ops_t *which)
{
	mactype_register_t *reg = mactype_alloc(MACTYPE_VERSION);
	int error;

	if (reg == NULL)
		return (ENOTSUP);
	reg->mtr_ident = ident;
	reg->mtr_ops = which;
	error = mactype_register(reg);
	mactype_free(reg);
	return (error);
}

int
_init(void)
{
	int error = claim("mac_ib", &ops);

	if (error == 0 && (error = mod_install(&usurper_linkage)) != 0)
		(void) mactype_unregister("mac_ib");
	return (error);
}

int
_fini(void)
{
	int error = mactype_unregister("mac_ib");

	return (error != 0 ? error : mod_remove(&usurper_linkage));
}

int
_info(struct modinfo *info)
{
	return (mod_info(&usurper_linkage, info));
}

/* Errors of the registry: which, by the argument. */
PROBE(registry)
{
	mactype_ops_t incomplete = ops;

	switch (arg) {
	case 0:
		return (mactype_alloc(MACTYPE_VERSION + 1) != NULL);
	case 1:
		return (claim(NULL, &ops));
	case 2:
		return (claim("other", NULL));
	case 3:
		incomplete.mtops_header_info = NULL;
		return (claim("other", &incomplete));
	case 4:
		return (claim("mac_ib", &ops));
	default:
		return (mactype_unregister("other"));
	}
}
