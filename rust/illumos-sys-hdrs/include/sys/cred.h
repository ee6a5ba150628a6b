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
 * Credentials, opaque to drivers: ddi_cred(9F).
 */

#ifndef	_SYS_CRED_H
#define	_SYS_CRED_H

#include <sys/types.h>

typedef struct cred cred_t;

extern void crfree(cred_t *);
extern gid_t crgetgid(const cred_t *);
extern uid_t crgetuid(const cred_t *);
extern zoneid_t crgetzoneid(const cred_t *);
extern void crhold(cred_t *);

#endif	/* _SYS_CRED_H */
