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
 * A client of the communication manager: it attaches, opens one HCA and knows
 * the GID of its first port.  Every probe of this directory is such a client.
 *
 * A probe returns what the call under test answered (a status), 0 if all its
 * checks hold, or the number of the line of the first that does not.
 */

#ifndef	_MANAGER_H
#define	_MANAGER_H

#include <sys/types.h>
#include <sys/condvar.h>
#include <sys/ddi.h>
#include <sys/kmem.h>
#include <sys/modctl.h>
#include <sys/mutex.h>
#include <sys/sunddi.h>
#include <sys/systm.h>
#include <sys/ib/ibtl/ibti.h>

#define	PROBE(name)			\
	long probe_##name(long);	\
	long probe_##name(long arg __attribute__((unused)))

#define	WANT(cond)			\
	do {				\
		if (!(cond))		\
			return (__LINE__);	\
	} while (0)

#define	MANAGER_MODULE(text)						\
static struct modlmisc manager_modlmisc = { &mod_miscops, text };	\
static struct modlinkage manager_linkage = {				\
	MODREV_1, { &manager_modlmisc, NULL }				\
};									\
int									\
_init(void)								\
{									\
	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);			\
	cv_init(&cv, NULL, CV_DRIVER, NULL);				\
	return (mod_install(&manager_linkage));				\
}									\
int									\
_fini(void)								\
{									\
	int error = mod_remove(&manager_linkage);			\
	if (error == 0) {						\
		cv_destroy(&cv);					\
		mutex_destroy(&lock);					\
	}								\
	return (error);							\
}									\
int									\
_info(struct modinfo *info)						\
{									\
	return (mod_info(&manager_linkage, info));			\
}

static kmutex_t lock;
static kcondvar_t cv;
static ibt_clnt_hdl_t clnt;
static ibt_hca_hdl_t hca;
static ib_gid_t port;

/* What a probe does when an asynchronous event comes; may be NULL. */
static void (*on_event)(ibt_async_code_t);

static void
manager_async(void *private, ibt_hca_hdl_t handle, ibt_async_code_t code,
    ibt_async_event_t *event)
{
	if (private == &clnt && handle == hca && event != NULL &&
	    on_event != NULL)
		on_event(code);
}

static ibt_clnt_modinfo_t manager_modinfo = {
	IBTI_V_CURR, IBT_GENERIC_MISC, manager_async, NULL, "PROBE"
};

/* arg is the HCA's GUID. */
PROBE(open)
{
	ibt_hca_portinfo_t *info;
	uint_t ports, size;

	WANT(ibt_attach(&manager_modinfo, NULL, &clnt, &clnt) == IBT_SUCCESS);
	WANT(ibt_open_hca(clnt, (ib_guid_t)arg, &hca) == IBT_SUCCESS);
	WANT(ibt_query_hca_ports(hca, 1, &info, &ports, &size) == IBT_SUCCESS);
	port = info->p_sgid_tbl[0];
	ibt_free_portinfo(info, size);
	return (0);
}

PROBE(close)
{
	WANT(ibt_close_hca(hca) == IBT_SUCCESS);
	WANT(ibt_detach(clnt) == IBT_SUCCESS);
	return (0);
}

/* GIDs that tests call by a number: 0 is the broadcast group. */
static inline ib_gid_t
group(long n)
{
	ib_gid_t gid;

	gid.gid_prefix = 0xff12401bffff0000ULL;
	gid.gid_guid = n == 0 ? 0xffffffffULL : 0x0e000000ULL + n;
	return (gid);
}

static inline ib_gid_t
no_gid(void)
{
	ib_gid_t gid;

	gid.gid_prefix = 0;
	gid.gid_guid = 0;
	return (gid);
}

/* What an IPoIB driver asks of a group: number, and join state << 16. */
static inline void
manager_attr(ibt_mcg_attr_t *attr, long arg)
{
	bzero(attr, sizeof (*attr));
	attr->mc_mgid = group(arg & 0xffff);
	attr->mc_qkey = 0x0b1b;
	attr->mc_pkey = 0xffff;
	attr->mc_scope = 2;
	attr->mc_join_state = (arg >> 16) & 0xf;
}

#endif	/* _MANAGER_H */
