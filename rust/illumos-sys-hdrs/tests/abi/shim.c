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
 * What a driver's C half does with the headers: linkage, device operations,
 * and the macros that no binding can carry.
 */

#include <sys/modctl.h>
#include <sys/sunddi.h>
#include <sys/callb.h>
#include <sys/debug.h>
#include <sys/strsun.h>
#include <sys/mac_provider.h>
#include <sys/ib/ibtl/ibti.h>
#include <sys/varargs.h>

static int
shim_attach(dev_info_t *dip, ddi_attach_cmd_t cmd)
{
	return (dip != NULL && cmd == DDI_ATTACH ? DDI_SUCCESS : DDI_FAILURE);
}

static int
shim_detach(dev_info_t *dip, ddi_detach_cmd_t cmd)
{
	return (dip != NULL && cmd == DDI_DETACH ? DDI_SUCCESS : DDI_FAILURE);
}

DDI_DEFINE_STREAM_OPS(shim_dev_ops, nulldev, nulldev, shim_attach, shim_detach,
    nodev, NULL, D_MP, NULL, ddi_quiesce_not_needed);

static struct modldrv shim_modldrv = {
	&mod_driverops, "a shim", &shim_dev_ops
};

struct modlinkage shim_linkage = {
	MODREV_1, { &shim_modldrv, NULL }
};

static kmutex_t shim_lock;
static kcondvar_t shim_cv;
static boolean_t shim_stop = B_FALSE;

void
shim_worker(void *arg)
{
	callb_cpr_t cpr;

	VERIFY(arg == NULL);
	CALLB_CPR_INIT(&cpr, &shim_lock, callb_generic_cpr, "shim");
	mutex_enter(&shim_lock);
	while (shim_stop == B_FALSE) {
		CALLB_CPR_SAFE_BEGIN(&cpr);
		cv_wait(&shim_cv, &shim_lock);
		CALLB_CPR_SAFE_END(&cpr, &shim_lock);
	}
	VERIFY(MUTEX_HELD(&shim_lock));
	CALLB_CPR_EXIT(&cpr);
}

/* The accessors of a message, a GID, an address vector and a completion. */
uint64_t
shim_members(mblk_t *mp, ib_gid_t *gid, ibt_adds_vect_t *av, ibt_wc_t *wc)
{
	DB_CKSUMFLAGS(mp) = HCK_FULLCKSUM;
	DB_CKSUM16(mp) = 0;
	av->av_send_grh = B_TRUE;
	av->av_dlid = wc->wc_slid;
	return (gid->gid_prefix + gid->gid_guid + (uint64_t)MBLKL(mp) +
	    DB_REF(mp) + wc->wc_pkey_ix);
}

void
shim_log(int level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcmn_err(level, fmt, ap);
	va_end(ap);
}
