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
 * The perimeter of a MAC, which a driver enters that does more than one thing
 * in it.
 */

#ifndef	_SYS_MAC_CLIENT_PRIV_H
#define	_SYS_MAC_CLIENT_PRIV_H

#include <sys/mac.h>
#include <sys/mac_client.h>

extern void mac_perim_enter_by_mh(mac_handle_t, mac_perim_handle_t *);
extern void mac_perim_exit(mac_perim_handle_t);

#endif	/* _SYS_MAC_CLIENT_PRIV_H */
