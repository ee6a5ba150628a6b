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
 * Module linkage of the IP over InfiniBand driver.  Everything else about
 * the module is Rust (rust/ibd).  One Rust object becomes two modules, ibd
 * and ibp; they differ in KMOD_NAME, which the build defines and the driver
 * registers under.
 */

#include <sys/types.h>
#include <sys/conf.h>
#include <sys/devops.h>
#include <sys/modctl.h>
#include <sys/ddi.h>
#include <sys/sunddi.h>

extern int kmod_attach(dev_info_t *, ddi_attach_cmd_t);
extern int kmod_detach(dev_info_t *, ddi_detach_cmd_t);

const char kmod_name[] = KMOD_NAME;

/*
 * DDI_DEFINE_STREAM_OPS spelled out: that macro makes the dev_ops static, and
 * the Rust side has to name them for mac_init_ops(9F).  mac_init_ops() fills
 * in cb_str and devo_getinfo, and the framework counts holds in devo_refcnt,
 * so both objects are written to at run time.
 */
static struct cb_ops kmod_cb_ops = {
	.cb_open = nulldev,
	.cb_close = nulldev,
	.cb_strategy = nodev,
	.cb_print = nodev,
	.cb_dump = nodev,
	.cb_read = nodev,
	.cb_write = nodev,
	.cb_ioctl = nodev,
	.cb_devmap = nodev,
	.cb_mmap = nodev,
	.cb_segmap = nodev,
	.cb_chpoll = nochpoll,
	.cb_prop_op = ddi_prop_op,
	.cb_str = NULL,
	.cb_flag = D_MP,
	.cb_rev = CB_REV,
	.cb_aread = nodev,
	.cb_awrite = nodev
};

struct dev_ops kmod_dev_ops = {
	.devo_rev = DEVO_REV,
	.devo_refcnt = 0,
	.devo_getinfo = NULL,
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

static struct modldrv ibd_modldrv = {
	&mod_driverops,
	"InfiniBand GLDv3 Driver",
	&kmod_dev_ops
};

struct modlinkage kmod_linkage = {
	MODREV_1,
	{ &ibd_modldrv, NULL }
};

/*
 * krtld searches these for our undefined symbols, in this order, and reads
 * st_size bytes, of which it wants the last to be NUL.  A gate's linker writes
 * the same into a dynamic section (ld -N).
 */
#ifndef	KMOD_NEEDED_BY_LD
char _depends_on[] =
    "misc/mac misc/ibtl misc/ibcm misc/dls drv/dld";
#endif
