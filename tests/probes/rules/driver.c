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
 * A driver: rules 26 and 46, the instance part of rule 19, and what rule 41
 * says of fault management.  What its attach takes and its detach leaves
 * behind is chosen by `probe_mode`.
 */

#include <sys/conf.h>
#include <sys/ddi_intr.h>
#include <sys/ddifm.h>
#include <sys/devops.h>
#include "probe.h"

#define	MODE_GOOD		0
#define	MODE_LEAVE_MEMORY	1
#define	MODE_FAIL_AND_LEAVE	2
#define	MODE_FAIL		3

static long mode;
static dev_info_t *node;
static void *memory;
static ddi_softintr_t softintr;
static ddi_iblock_cookie_t cookie;
static kmutex_t lock;
static int handled;

static uint_t
handler(caddr_t arg)
{
	mutex_enter(&lock);
	handled++;
	mutex_exit(&lock);
	return (DDI_INTR_CLAIMED);
}

static int
probe_attach(dev_info_t *dip, ddi_attach_cmd_t cmd)
{
	if (cmd != DDI_ATTACH)
		return (DDI_FAILURE);
	memory = kmem_alloc(64, KM_SLEEP);
	if (mode == MODE_FAIL_AND_LEAVE)
		return (DDI_FAILURE);
	if (mode == MODE_FAIL) {
		kmem_free(memory, 64);
		return (DDI_FAILURE);
	}
	node = dip;
	if (ddi_add_softintr(dip, DDI_SOFTINT_MED, &softintr, &cookie, NULL,
	    handler, NULL) != DDI_SUCCESS) {
		kmem_free(memory, 64);
		return (DDI_FAILURE);
	}
	mutex_init(&lock, NULL, MUTEX_DRIVER, (void *)cookie);
	return (DDI_SUCCESS);
}

static int
probe_detach(dev_info_t *dip, ddi_detach_cmd_t cmd)
{
	if (cmd != DDI_DETACH)
		return (DDI_FAILURE);
	if (softintr != NULL) {
		ddi_remove_softintr(softintr);
		softintr = NULL;
	}
	mutex_destroy(&lock);
	if (mode != MODE_LEAVE_MEMORY)
		kmem_free(memory, 64);
	return (DDI_SUCCESS);
}

DDI_DEFINE_STREAM_OPS(probe_ops, nulldev, nulldev, probe_attach, probe_detach,
    nodev, NULL, D_MP, NULL, ddi_quiesce_not_needed);

static struct modldrv probe_modldrv = {
	&mod_driverops, "rules about drivers", &probe_ops
};

static struct modlinkage probe_linkage = {
	MODREV_1, { &probe_modldrv, NULL }
};

int
_init(void)
{
	return (mod_install(&probe_linkage));
}

int
_fini(void)
{
	return (mod_remove(&probe_linkage));
}

int
_info(struct modinfo *info)
{
	return (mod_info(&probe_linkage, info));
}

PROBE(mode)
{
	mode = arg;
	return (0);
}

/* How often the handler ran. */
PROBE(trigger)
{
	ddi_trigger_softintr(softintr);
	delay(10);
	return (handled);
}

PROBE(trigger_after_removal)
{
	ddi_softintr_t stale = softintr;

	ddi_remove_softintr(softintr);
	softintr = NULL;
	ddi_trigger_softintr(stale);
	return (-1);
}

PROBE(removal_under_the_handlers_mutex)
{
	mutex_enter(&lock);
	ddi_trigger_softintr(softintr);
	ddi_remove_softintr(softintr);
	return (-1);
}

/* The node attached last, whether or not it still is. */
PROBE(use_of_node)
{
	return (ddi_get_instance(node));
}

/* Enumerators of data_type_t (sys/nvpair.h). */
#define	UINT32	6
#define	UINT8	23

PROBE(report)
{
	ndi_fm_ereport_post(node, "device.stall", 0, DDI_SLEEP,
	    "version", UINT8, 0, "port", UINT32, 7, NULL);
	ddi_fm_service_impact(node, DDI_SERVICE_DEGRADED);
	return (0);
}

PROBE(report_without_its_version)
{
	ndi_fm_ereport_post(node, "device.stall", 0, DDI_SLEEP,
	    "port", UINT32, 7, NULL);
	return (-1);
}

PROBE(report_that_may_not_sleep)
{
	ndi_fm_ereport_post(node, "device.stall", 0, DDI_NOSLEEP,
	    "version", UINT8, 0, NULL);
	return (-1);
}

PROBE(impact_of_no_kind)
{
	ddi_fm_service_impact(node, 1);
	return (-1);
}
