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
 * Checksum and large-send attributes of a packet, kept in its data block:
 * mac_hcksum_get(9F).
 */

#ifndef	_SYS_PATTR_H
#define	_SYS_PATTR_H

#define	HCK_IPV4_HDRCKSUM	1
#define	HCK_IPV4_HDRCKSUM_OK	1
#define	HCK_PARTIALCKSUM	2
#define	HCK_FULLCKSUM	4
#define	HCK_FULLCKSUM_OK	8
#define	HCK_FLAGS	15

#define	HW_LSO	16
#define	HW_LSO_FLAGS	16

#endif	/* _SYS_PATTR_H */
