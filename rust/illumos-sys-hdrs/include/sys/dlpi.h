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
 * Media types of DLPI, as far as MAC-type plugins name them.
 */

#ifndef	_SYS_DLPI_H
#define	_SYS_DLPI_H

#define	DL_CSMACD	0
#define	DL_ETHER	4
#define	DL_OTHER	9
#define	DL_IB	26

#define	HCKSUM_CURRENT_VERSION	1
#define	HCKSUM_ENABLE	1
#define	HCKSUM_IPHDRCKSUM	16

#define	HCKSUM_VERSION_1	1
#define	HCKSUM_INET_PARTIAL	2
#define	HCKSUM_INET_FULL_V4	4
#define	HCKSUM_INET_FULL_V6	8

#endif	/* _SYS_DLPI_H */
