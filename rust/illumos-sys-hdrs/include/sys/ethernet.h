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
 * Ethernet types that other media reuse.
 */

#ifndef	_SYS_ETHERNET_H
#define	_SYS_ETHERNET_H

#define	ETHERTYPE_IP	0x800
#define	ETHERTYPE_ARP	2054
#define	ETHERTYPE_REVARP	32821
#define	ETHERTYPE_IPV6	34525

#endif	/* _SYS_ETHERNET_H */
