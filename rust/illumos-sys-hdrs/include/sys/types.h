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
 * Basic types of the amd64 kernel (LP64).
 */

#ifndef	_SYS_TYPES_H
#define	_SYS_TYPES_H

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;

#ifndef NULL
#define	NULL	((void *)0)
#endif

typedef enum boolean_t {
	_B_FALSE = 0,
	_B_TRUE = 1
} boolean_t;

typedef void *bufcall_id_t;
typedef char *caddr_t;
typedef long clock_t;
typedef long daddr_t;
typedef uint32_t datalink_id_t;
typedef unsigned long ulong_t;
typedef ulong_t dev_t;
typedef unsigned long long u_longlong_t;
typedef u_longlong_t diskaddr_t;
typedef unsigned int uid_t;
typedef uid_t gid_t;
typedef int id_t;
typedef long long longlong_t;
typedef unsigned int uint_t;
typedef uint_t major_t;
typedef uint_t minor_t;
typedef uint_t model_t;
typedef long off_t;
typedef longlong_t offset_t;
typedef int pid_t;
typedef short pri_t;
typedef ulong_t size_t;
typedef long ssize_t;
typedef uint32_t t_uscalar_t;
typedef long time_t;
typedef void *timeout_id_t;
typedef unsigned char uchar_t;
typedef ulong_t uintmax_t;
typedef unsigned short ushort_t;
typedef id_t zoneid_t;

#define	B_FALSE	_B_FALSE
#define	B_TRUE	_B_TRUE

#ifndef offsetof
#define	offsetof(s, m)	__builtin_offsetof(s, m)
#endif

#endif	/* _SYS_TYPES_H */
