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
 * Messages and formatted strings: cmn_err(9F), snprintf(9F).  The formatter
 * knows no %z, %j or %t.
 */

#ifndef	_SYS_CMN_ERR_H
#define	_SYS_CMN_ERR_H

#include <sys/dditypes.h>
#include <sys/types.h>
#include <sys/varargs.h>

#define	CE_CONT	0
#define	CE_NOTE	1
#define	CE_WARN	2
#define	CE_PANIC	3
#define	CE_IGNORE	4

struct __va_list_tag;

extern void cmn_err(int, const char *, ...);
extern void dev_err(dev_info_t *, int, char *, ...);
extern void printf(const char *, ...);
extern size_t snprintf(char *, size_t, const char *, ...);
extern char *sprintf(char *, const char *, ...);
extern void uprintf(const char *, ...);
extern void vcmn_err(int, const char *, __va_list);
extern void vdev_err(dev_info_t *, int, const char *, __va_list);
extern void vprintf(const char *, __va_list);
extern size_t vsnprintf(char *, size_t, const char *, __va_list);
extern char *vsprintf(char *, const char *, __va_list);
extern void vuprintf(const char *, __va_list);
extern void vzcmn_err(zoneid_t, int, const char *, __va_list);
extern void vzprintf(zoneid_t, const char *, __va_list);
extern void zcmn_err(zoneid_t, int, const char *, ...);
extern void zprintf(zoneid_t, const char *, ...);

extern void panic(const char *, ...) __attribute__((__noreturn__));

#endif	/* _SYS_CMN_ERR_H */
