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
 * The DDI of Solaris: nodes, properties, soft state, user memory, task
 * queues, strings.
 */

#ifndef	_SYS_SUNDDI_H
#define	_SYS_SUNDDI_H

#include <sys/cmn_err.h>
#include <sys/conf.h>
#include <sys/cred.h>
#include <sys/ddi_intr.h>
#include <sys/ddipropdefs.h>
#include <sys/dditypes.h>
#include <sys/devops.h>
#include <sys/kmem.h>
#include <sys/systm.h>
#include <sys/thread.h>
#include <sys/time.h>
#include <sys/types.h>

#define	CLONE_DEV	1

#define	DDI_SLEEP	0
#define	DDI_SUCCESS	0
#define	DDI_ENOMEM	1
#define	DDI_NOSLEEP	1
#define	DDI_EBUSY	2
#define	DDI_ETRANSPORT	3
#define	DDI_ECONTEXT	4
#define	DDI_EALREADY	(-7)
#define	DDI_EPENDING	(-6)
#define	DDI_ENOTSUP	(-5)
#define	DDI_EINVAL	(-4)
#define	DDI_EAGAIN	(-3)
#define	DDI_FAILURE	(-1)

#define	DDI_IPL_0	0
#define	DDI_IPL_1	1
#define	DDI_IPL_2	2
#define	DDI_IPL_3	3
#define	DDI_IPL_4	4
#define	DDI_IPL_5	5
#define	DDI_IPL_6	6
#define	DDI_IPL_7	7
#define	DDI_IPL_8	8
#define	DDI_IPL_9	9
#define	DDI_IPL_10	10

#define	DDI_MODEL_NONE	0
#define	DDI_MODEL_ILP32	0x100000
#define	DDI_MODEL_LP64	0x200000
#define	DDI_MODEL_NATIVE	0x200000
#define	DDI_MODEL_MASK	267386880
#define	DDI_NOT_WELL_FORMED	(-2)

#define	DDI_WALK_CONTINUE	0
#define	DDI_WALK_ERROR	(-4)
#define	DDI_WALK_TERMINATE	(-3)
#define	DDI_WALK_PRUNESIB	(-2)
#define	DDI_WALK_PRUNECHILD	(-1)

#define	TASKQ_DEFAULTPRI	(-1)

struct pollhead;

typedef enum ddi_devstate_t {
	DDI_DEVSTATE_OFFLINE = -32,
	DDI_DEVSTATE_DOWN = -16,
	DDI_DEVSTATE_QUIESCED = 0,
	DDI_DEVSTATE_DEGRADED = 16,
	DDI_DEVSTATE_UP = 32
} ddi_devstate_t;

typedef enum ddi_fault_impact_t {
	DDI_SERVICE_LOST = -32,
	DDI_SERVICE_DEGRADED = -16,
	DDI_SERVICE_UNAFFECTED = 0,
	DDI_SERVICE_RESTORED = 16
} ddi_fault_impact_t;

typedef enum ddi_fault_location_t {
	DDI_DATAPATH_FAULT = -32,
	DDI_DEVICE_FAULT = -16,
	DDI_EXTERNAL_FAULT = 0
} ddi_fault_location_t;

typedef struct ddi_taskq ddi_taskq_t;
extern int bcmp(const void *, const void *, size_t);
extern void bcopy(const void *, void *, size_t);
extern void bzero(void *, size_t);
extern char *ddi_binding_name(dev_info_t *dip);
extern boolean_t ddi_can_receive_sig(void);
extern int ddi_copyin(const void *, void *, size_t, int);
extern int ddi_copyout(const void *, void *, size_t, int);
extern int ddi_create_minor_node(dev_info_t *dip, char *name, int spec_type,
    minor_t minor_num, char *node_type, int flag);
extern void ddi_dev_report_fault(dev_info_t *, ddi_fault_impact_t,
    ddi_fault_location_t, const char *);
extern major_t ddi_driver_major(dev_info_t *dip);
extern const char *ddi_driver_name(dev_info_t *dip);
extern int ddi_ffs(long mask);
extern int ddi_fls(long mask);
extern cred_t *ddi_get_cred(void);
extern ddi_devstate_t ddi_get_devstate(dev_info_t *);
extern void *ddi_get_driver_private(dev_info_t *dip);
extern int ddi_get_instance(dev_info_t *dip);
extern kt_did_t ddi_get_kt_did(void);
extern char *ddi_get_name(dev_info_t *dip);
extern char *ddi_get_name_addr(dev_info_t *dip);
extern dev_info_t *ddi_get_parent(dev_info_t *dip);
extern pid_t ddi_get_pid(void);
extern void *ddi_get_soft_state(void *state, int item);
extern time_t ddi_get_time(void);
extern int ddi_getinfo_1to1(dev_info_t *dip, ddi_info_cmd_t infocmd, void
    *arg, void **result);
extern int ddi_in_panic(void);
extern char *ddi_major_to_name(major_t major);
extern model_t ddi_model_convert_from(model_t);
extern major_t ddi_name_to_major(char *name);
extern char *ddi_node_name(dev_info_t *dip);
extern char *ddi_pathname(dev_info_t *dip, char *path);
extern ddi_periodic_t ddi_periodic_add(void (*)(void *), void *, hrtime_t, int);
extern void ddi_periodic_delete(ddi_periodic_t);
extern int ddi_prop_exists(dev_t match_dev, dev_info_t *dip, uint_t flags,
    char *name);
extern void ddi_prop_free(void *data);
extern int ddi_prop_get_int(dev_t match_dev, dev_info_t *dip, uint_t flags,
    char *name, int defvalue);
extern int64_t ddi_prop_get_int64(dev_t match_dev, dev_info_t *dip, uint_t
    flags, char *name, int64_t defvalue);
extern int ddi_prop_lookup_byte_array(dev_t match_dev, dev_info_t *dip, uint_t
    flags, char *name, uchar_t **data, uint_t *nelements);
extern int ddi_prop_lookup_int64_array(dev_t match_dev, dev_info_t *dip,
    uint_t flags, char *name, int64_t **data, uint_t *nelements);
extern int ddi_prop_lookup_int_array(dev_t match_dev, dev_info_t *dip, uint_t
    flags, char *name, int **data, uint_t *nelements);
extern int ddi_prop_lookup_string(dev_t match_dev, dev_info_t *dip, uint_t
    flags, char *name, char **data);
extern int ddi_prop_lookup_string_array(dev_t match_dev, dev_info_t *dip,
    uint_t flags, char *name, char ***data, uint_t *nelements);
extern int ddi_prop_op(dev_t dev, dev_info_t *dip, ddi_prop_op_t prop_op, int
    mod_flags, char *name, caddr_t valuep, int *lengthp);
extern int ddi_prop_remove(dev_t dev, dev_info_t *dip, char *name);
extern void ddi_prop_remove_all(dev_info_t *dip);
extern int ddi_prop_update_byte_array(dev_t match_dev, dev_info_t *dip, char
    *name, uchar_t *data, uint_t nelements);
extern int ddi_prop_update_int(dev_t match_dev, dev_info_t *dip, char *name,
    int data);
extern int ddi_prop_update_int64(dev_t match_dev, dev_info_t *dip, char *name,
    int64_t data);
extern int ddi_prop_update_int_array(dev_t match_dev, dev_info_t *dip, char
    *name, int *data, uint_t nelements);
extern int ddi_prop_update_string(dev_t match_dev, dev_info_t *dip, char
    *name, char *data);
extern int ddi_prop_update_string_array(dev_t match_dev, dev_info_t *dip, char
    *name, char **data, uint_t nelements);
extern int ddi_quiesce_not_needed(dev_info_t *);
extern int ddi_quiesce_not_supported(dev_info_t *);
extern void ddi_remove_minor_node(dev_info_t *dip, char *name);
extern void ddi_report_dev(dev_info_t *dev);
extern dev_info_t *ddi_root_node(void);
extern void ddi_set_driver_private(dev_info_t *dip, void *data);
extern void ddi_soft_state_fini(void **state_p);
extern void ddi_soft_state_free(void *state, int item);
extern int ddi_soft_state_init(void **state_p, size_t size, size_t n_items);
extern int ddi_soft_state_zalloc(void *state, int item);
extern int ddi_strtol(const char *, char **, int, long *);
extern int ddi_strtoll(const char *, char **, int, longlong_t *);
extern int ddi_strtoul(const char *, char **, int, unsigned long *);
extern int ddi_strtoull(const char *, char **, int, u_longlong_t *);
extern ddi_taskq_t *ddi_taskq_create(dev_info_t *dip, const char *name, int
    nthreads, pri_t pri, uint_t cflags);
extern void ddi_taskq_destroy(ddi_taskq_t *tq);
extern int ddi_taskq_dispatch(ddi_taskq_t *tq, void (*func)(void *), void
    *arg, uint_t dflags);
extern void ddi_taskq_resume(ddi_taskq_t *tq);
extern void ddi_taskq_suspend(ddi_taskq_t *tq);
extern boolean_t ddi_taskq_suspended(ddi_taskq_t *tq);
extern void ddi_taskq_wait(ddi_taskq_t *tq);
extern void *memchr(const void *, int, size_t);
extern int memcmp(const void *, const void *, size_t);
extern void *memcpy(void *, const void *, size_t);
extern void *memmove(void *, const void *, size_t);
extern void *memset(void *, int, size_t);
extern int nochpoll(dev_t dev, short events, int anyyet, short *reventsp,
    struct pollhead **phpp);
extern char *strchr(const char *, int);
extern int strcmp(const char *, const char *);
extern char *strcpy(char *, const char *);
extern char *strdup(const char *str);
extern void strfree(char *str);
extern size_t strlcat(char *, const char *, size_t);
extern size_t strlcpy(char *, const char *, size_t);
extern size_t strlen(const char *);
extern int strncmp(const char *, const char *, size_t);
extern char *strncpy(char *, const char *, size_t);
extern size_t strnlen(const char *, size_t);

/*
 * The device operations of a GLDv3 driver.  mac_init_ops() fills in cb_str and,
 * where it is NULL, devo_getinfo, so neither object may be const.
 */
#define	DDI_DEFINE_STREAM_OPS(XXname, XXidentify, XXprobe, XXattach,	\
    XXdetach, XXreset, XXgetinfo, XXflag, XXstream_tab, XXquiesce)	\
static struct cb_ops cb_##XXname = {					\
	.cb_open = nulldev, .cb_close = nulldev,			\
	.cb_strategy = nodev, .cb_print = nodev, .cb_dump = nodev,	\
	.cb_read = nodev, .cb_write = nodev, .cb_ioctl = nodev,		\
	.cb_devmap = nodev, .cb_mmap = nodev, .cb_segmap = nodev,	\
	.cb_chpoll = nochpoll, .cb_prop_op = ddi_prop_op,		\
	.cb_str = (XXstream_tab), .cb_flag = (XXflag),			\
	.cb_rev = CB_REV, .cb_aread = nodev, .cb_awrite = nodev,	\
};									\
static struct dev_ops XXname = {					\
	.devo_rev = DEVO_REV, .devo_refcnt = 0,				\
	.devo_getinfo = (XXgetinfo), .devo_identify = (XXidentify),	\
	.devo_probe = (XXprobe), .devo_attach = (XXattach),		\
	.devo_detach = (XXdetach), .devo_reset = (XXreset),		\
	.devo_cb_ops = &cb_##XXname, .devo_bus_ops = NULL,		\
	.devo_power = NULL, .devo_quiesce = (XXquiesce),		\
}

/* Type of a network device's minor node. */
#define	DDI_NT_NET	"ddi_network"

#endif	/* _SYS_SUNDDI_H */
