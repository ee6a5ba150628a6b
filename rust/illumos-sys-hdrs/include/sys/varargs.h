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
 * Variable argument lists of the amd64 calling convention.
 */

#ifndef	_SYS_VARARGS_H
#define	_SYS_VARARGS_H

typedef __builtin_va_list __va_list;
typedef __va_list va_list;

#define	va_start(list, name)	__builtin_va_start(list, name)
#define	va_arg(list, type)	__builtin_va_arg(list, type)
#define	va_end(list)		__builtin_va_end(list)

#endif	/* _SYS_VARARGS_H */
