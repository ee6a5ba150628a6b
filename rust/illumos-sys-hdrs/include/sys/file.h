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
 * Modes of an open file, as far as ioctls see them.
 */

#ifndef	_SYS_FILE_H
#define	_SYS_FILE_H

/* The caller of an ioctl is the kernel; its pointers are kernel pointers. */
#define	FKIOCTL	0x80000000

#endif	/* _SYS_FILE_H */
