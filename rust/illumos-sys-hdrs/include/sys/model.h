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
 * Data models.
 */

#ifndef	_SYS_MODEL_H
#define	_SYS_MODEL_H

/* The data model of the caller, in the mode of an ioctl: ddi_model_convert_from(9F). */
#define	DATAMODEL_ILP32	0x00100000
#define	DATAMODEL_LP64	0x00200000
#define	FMODELS		0x0ff00000

#endif	/* _SYS_MODEL_H */
