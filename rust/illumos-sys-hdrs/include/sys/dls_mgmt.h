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
 * Classes and flags of data links, as the management daemon keeps them.
 */

#ifndef	_SYS_DLS_MGMT_H
#define	_SYS_DLS_MGMT_H

#define	DATALINK_CLASS_ALL	0x1ff
#define	DATALINK_ANY_MEDIATYPE	0x100000000ULL

#define	MAXLINKATTRLEN	32

#define	MAXLINKATTRVALLEN	0x400

typedef enum datalink_class_t {
	DATALINK_CLASS_PHYS = 0x1,
	DATALINK_CLASS_VLAN = 0x2,
	DATALINK_CLASS_AGGR = 0x4,
	DATALINK_CLASS_VNIC = 0x8,
	DATALINK_CLASS_ETHERSTUB = 0x10,
	DATALINK_CLASS_SIMNET = 0x20,
	DATALINK_CLASS_BRIDGE = 0x40,
	DATALINK_CLASS_IPTUN = 0x80,
	DATALINK_CLASS_PART = 0x100
} datalink_class_t;

#endif	/* _SYS_DLS_MGMT_H */
