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
 * Entry points of a driver: dev_ops(9S), cb_ops(9S).  Both objects are
 * written at run time.
 */

#ifndef	_SYS_DEVOPS_H
#define	_SYS_DEVOPS_H

#include <sys/cred.h>
#include <sys/ddipropdefs.h>
#include <sys/dditypes.h>
#include <sys/types.h>

#define	CB_REV	1

#define	DDI_PROBE_DONTCARE	0
#define	DDI_PROBE_PARTIAL	1
#define	DDI_PROBE_SUCCESS	2
#define	DDI_PROBE_FAILURE	6

#define	DEVO_REV	4

struct aio_req;
struct as;
struct buf;
struct pollhead;
struct uio;

typedef enum ddi_attach_cmd_t {
	DDI_ATTACH = 0,
	DDI_RESUME = 1,
	DDI_PM_RESUME = 2
} ddi_attach_cmd_t;

typedef enum ddi_detach_cmd_t {
	DDI_DETACH = 0,
	DDI_SUSPEND = 1,
	DDI_PM_SUSPEND = 2,
	DDI_HOTPLUG_DETACH = 3
} ddi_detach_cmd_t;

typedef enum ddi_info_cmd_t {
	DDI_INFO_DEVT2DEVINFO = 0,
	DDI_INFO_DEVT2INSTANCE = 1
} ddi_info_cmd_t;

typedef enum ddi_reset_cmd_t {
	DDI_RESET_FORCE = 0
} ddi_reset_cmd_t;

struct cb_ops {
	int (*cb_open)(dev_t *, int, int, cred_t *);
	int (*cb_close)(dev_t, int, int, cred_t *);
	int (*cb_strategy)(struct buf *);
	int (*cb_print)(dev_t, char *);
	int (*cb_dump)(dev_t, caddr_t, daddr_t, int);
	int (*cb_read)(dev_t, struct uio *, cred_t *);
	int (*cb_write)(dev_t, struct uio *, cred_t *);
	int (*cb_ioctl)(dev_t, int, intptr_t, int, cred_t *, int *);
	int (*cb_devmap)(dev_t, devmap_cookie_t, offset_t, size_t, size_t *, uint_t);
	int (*cb_mmap)(dev_t, off_t, int);
	int (*cb_segmap)(dev_t, off_t, struct as *, caddr_t *, off_t, unsigned int,
	    unsigned int, unsigned int, cred_t *);
	int (*cb_chpoll)(dev_t, short, int, short *, struct pollhead **);
	int (*cb_prop_op)(dev_t, dev_info_t *, ddi_prop_op_t, int, char *, caddr_t,
	    int *);
	struct streamtab	*cb_str;
	int	cb_flag;
	int	cb_rev;
	int (*cb_aread)(dev_t, struct aio_req *, cred_t *);
	int (*cb_awrite)(dev_t, struct aio_req *, cred_t *);
};

struct dev_ops {
	int	devo_rev;
	int	devo_refcnt;
	int (*devo_getinfo)(dev_info_t *, ddi_info_cmd_t, void *, void **);
	int (*devo_identify)(dev_info_t *);
	int (*devo_probe)(dev_info_t *);
	int (*devo_attach)(dev_info_t *, ddi_attach_cmd_t);
	int (*devo_detach)(dev_info_t *, ddi_detach_cmd_t);
	int (*devo_reset)(dev_info_t *, ddi_reset_cmd_t);
	struct cb_ops	*devo_cb_ops;
	struct bus_ops	*devo_bus_ops;
	int (*devo_power)(dev_info_t *, int, int);
	int (*devo_quiesce)(dev_info_t *);
};

#endif	/* _SYS_DEVOPS_H */
