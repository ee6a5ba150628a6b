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
 * Module linkage of the software InfiniBand adapter.  Everything else about
 * the module is Rust (rust/swhca).
 */

#include <sys/types.h>
#include <sys/conf.h>
#include <sys/cred.h>
#include <sys/devops.h>
#include <sys/modctl.h>
#include <sys/ddi.h>
#include <sys/sunddi.h>

extern int kmod_attach(dev_info_t *, ddi_attach_cmd_t);
extern int kmod_detach(dev_info_t *, ddi_detach_cmd_t);
extern int kmod_ioctl(dev_t, int, intptr_t, int, cred_t *, int *);

const char kmod_name[] = "swhca";

/*
 * Nothing but ioctls: opening needs what the permissions of the device file
 * say, and whoever has it open keeps the adapter attached.
 */
static struct cb_ops kmod_cb_ops = {
	.cb_open = nulldev,
	.cb_close = nulldev,
	.cb_strategy = nodev,
	.cb_print = nodev,
	.cb_dump = nodev,
	.cb_read = nodev,
	.cb_write = nodev,
	.cb_ioctl = kmod_ioctl,
	.cb_devmap = nodev,
	.cb_mmap = nodev,
	.cb_segmap = nodev,
	.cb_chpoll = nochpoll,
	.cb_prop_op = ddi_prop_op,
	.cb_str = NULL,
	.cb_flag = D_NEW | D_MP | D_64BIT,
	.cb_rev = CB_REV,
	.cb_aread = nodev,
	.cb_awrite = nodev
};

/*
 * The IB nexus puts its bus operations in here (ibc_init), so that the
 * adapter can have children: it is written to, and devo_bus_ops is NULL.
 */
struct dev_ops kmod_dev_ops = {
	.devo_rev = DEVO_REV,
	.devo_refcnt = 0,
	.devo_getinfo = ddi_getinfo_1to1,
	.devo_identify = nulldev,
	.devo_probe = nulldev,
	.devo_attach = kmod_attach,
	.devo_detach = kmod_detach,
	.devo_reset = nodev,
	.devo_cb_ops = &kmod_cb_ops,
	.devo_bus_ops = NULL,
	.devo_power = NULL,
	.devo_quiesce = ddi_quiesce_not_needed
};

static struct modldrv swhca_modldrv = {
	&mod_driverops,
	"Software InfiniBand Adapter",
	&kmod_dev_ops
};

struct modlinkage kmod_linkage = {
	MODREV_1,
	{ &swhca_modldrv, NULL }
};

/*
 * krtld searches these for our undefined symbols, in this order, and reads
 * st_size bytes, of which it wants the last to be NUL.  A gate's linker writes
 * the same into a dynamic section (ld -N).
 *
 * The nexus comes first: it has to be installed before ibc_init().
 */
#ifndef	KMOD_NEEDED_BY_LD
char _depends_on[] = "drv/ib misc/ibtl";
#endif
