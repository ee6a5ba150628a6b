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
 * Interrupts; for a driver without a device of its own, soft interrupts:
 * ddi_add_softintr(9F), ddi_intr_add_softint(9F).
 */

#ifndef	_SYS_DDI_INTR_H
#define	_SYS_DDI_INTR_H

#include <sys/dditypes.h>
#include <sys/types.h>

#define	DDI_INTR_UNCLAIMED	0
#define	DDI_INTR_CLAIMED	1
#define	DDI_INTR_NOTFOUND	1
#define	DDI_INTR_SOFTPRI_DEFAULT	1
#define	DDI_INTR_SOFTPRI_MIN	1
#define	DDI_INTR_SOFTPRI_MAX	9

#define	DDI_SOFTINT_FIXED	0
#define	DDI_SOFTINT_LOW	8
#define	DDI_SOFTINT_MED	0x80
#define	DDI_SOFTINT_HIGH	0x100

typedef struct __ddi_intr_handle *ddi_intr_handle_t;
typedef struct __ddi_softint_handle *ddi_softint_handle_t;
typedef uint_t ddi_intr_handler_t(caddr_t, caddr_t);

extern int ddi_add_softintr(dev_info_t *dip, int preference, ddi_softintr_t
    *idp, ddi_iblock_cookie_t *iblock_cookiep, ddi_idevice_cookie_t
    *idevice_cookiep, uint_t (*int_handler)(caddr_t), caddr_t
    int_handler_arg);
extern int ddi_get_soft_iblock_cookie(dev_info_t *dip, int preference,
    ddi_iblock_cookie_t *iblock_cookiep);
extern int ddi_intr_add_softint(dev_info_t *dip, ddi_softint_handle_t *h, int
    soft_pri, ddi_intr_handler_t handler, void *arg1);
extern int ddi_intr_get_softint_pri(ddi_softint_handle_t h, uint_t *soft_prip);
extern int ddi_intr_remove_softint(ddi_softint_handle_t h);
extern int ddi_intr_trigger_softint(ddi_softint_handle_t h, void *arg2);
extern void ddi_remove_softintr(ddi_softintr_t id);
extern void ddi_trigger_softintr(ddi_softintr_t id);

#endif	/* _SYS_DDI_INTR_H */
