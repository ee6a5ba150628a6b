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
 * Timeouts (timeout(9F), untimeout(9F)) and other services of genunix.
 */

#ifndef	_SYS_SYSTM_H
#define	_SYS_SYSTM_H

#include <sys/types.h>

extern int copyin(const void *, void *, size_t);
extern int copyout(const void *, void *, size_t);
extern int hz;
extern int kcopy(const void *, void *, size_t);
extern int nodev();
extern int nulldev();
extern void ovbcopy(const void *, void *, size_t);
extern int strcasecmp(const char *, const char *);
extern int strncasecmp(const char *, const char *, size_t);
extern char *strrchr(const char *, int);
extern char *strstr(const char *, const char *);
extern timeout_id_t timeout(void (*)(void *), void *, clock_t);
extern clock_t untimeout(timeout_id_t);

#endif	/* _SYS_SYSTM_H */
