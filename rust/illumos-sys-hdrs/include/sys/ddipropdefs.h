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
 * Device properties: ddi_prop_op(9F).
 */

#ifndef	_SYS_DDIPROPDEFS_H
#define	_SYS_DDIPROPDEFS_H

#include <sys/types.h>

#define	DDI_MAJOR_T_UNKNOWN	((major_t)0)
#define	DDI_MAJOR_T_NONE	((major_t)-1)
#define	DDI_DEV_T_ANY	((dev_t)-2)
#define	DDI_DEV_T_NONE	((dev_t)-1)

#define	DDI_PROP_SUCCESS	0
#define	DDI_PROP_DONTPASS	1
#define	DDI_PROP_NOT_FOUND	1
#define	DDI_PROP_CANSLEEP	2
#define	DDI_PROP_UNDEFINED	2
#define	DDI_PROP_NO_MEMORY	3
#define	DDI_PROP_INVAL_ARG	4
#define	DDI_PROP_SYSTEM_DEF	4
#define	DDI_PROP_BUF_TOO_SMALL	5
#define	DDI_PROP_CANNOT_DECODE	6
#define	DDI_PROP_CANNOT_ENCODE	7
#define	DDI_PROP_END_OF_DATA	8
#define	DDI_PROP_NOTPROM	8
#define	DDI_PROP_DONTSLEEP	16
#define	DDI_PROP_STACK_CREATE	32
#define	DDI_PROP_UNDEF_IT	0x40
#define	DDI_PROP_HW_DEF	0x80
#define	DDI_PROP_FOUND_1275	0xff
#define	DDI_PROP_TYPE_INT	0x100
#define	DDI_PROP_TYPE_STRING	0x200
#define	DDI_PROP_TYPE_BYTE	0x400
#define	DDI_PROP_TYPE_COMPOSITE	0x800
#define	DDI_PROP_TYPE_ANY	3840
#define	DDI_PROP_TYPE_INT64	0x1000
#define	DDI_PROP_TYPE_MASK	7936
#define	DDI_PROP_CONSUMER_TYPED	0x8000
#define	DDI_PROP_DYNAMIC	0x10000
#define	DDI_PROP_ROOTNEX_GLOBAL	0x20000

typedef enum ddi_prop_op_t {
	PROP_LEN = 0,
	PROP_LEN_AND_VAL_BUF = 1,
	PROP_LEN_AND_VAL_ALLOC = 2,
	PROP_EXISTS = 3
} ddi_prop_op_t;

#endif	/* _SYS_DDIPROPDEFS_H */
