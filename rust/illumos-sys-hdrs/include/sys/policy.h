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
 * Privilege checks: 0 or an errno.
 */

#ifndef	_SYS_POLICY_H
#define	_SYS_POLICY_H

#include <sys/cred.h>
#include <sys/types.h>

extern int secpolicy_dl_config(const cred_t *);
extern int secpolicy_net_config(const cred_t *, boolean_t);

#endif	/* _SYS_POLICY_H */
