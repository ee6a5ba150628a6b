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
 * What a MAC client may ask of a MAC; a plugin uses mac_stat_get().
 */

#ifndef	_SYS_MAC_CLIENT_H
#define	_SYS_MAC_CLIENT_H

#include <sys/mac.h>
#include <sys/types.h>

typedef struct __mac_perim_handle *mac_perim_handle_t;

extern uint64_t mac_stat_get(mac_handle_t, uint_t);

#endif	/* _SYS_MAC_CLIENT_H */
