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
 * The partition ioctls of the IPoIB driver, as dladm(8) issues them.
 */

#ifndef	_SYS_IBPART_H
#define	_SYS_IBPART_H

#include <sys/dld_ioc.h>
#include <sys/ib/ib_types.h>
#include <sys/types.h>

#define	IBD_CREATE_IBPART	1634795521
#define	IBD_DELETE_IBPART	1634795522

#define	IBD_INFO_CMD_IBPART	1
#define	IBD_INFO_CMD_IBPORT	2
#define	IBD_INFO_CMD_PKEYTBLSZ	3
#define	IBD_INFO_IBPART	1634795523

enum ibd_part_err_e {
	IBD_INVALID_PORT_INST = 1,
	IBD_PORT_IS_DOWN = 2,
	IBD_PKEY_NOT_PRESENT = 3,
	IBD_INVALID_PKEY = 4,
	IBD_PARTITION_EXISTS = 5,
	IBD_NO_HW_RESOURCE = 6,
	IBD_INVALID_PKEY_TBL_SIZE = 7
};

typedef struct ibpart_ioctl_s ibd_create_ioctl_t;
typedef struct ibpart_ioctl_s ibd_delete_ioctl_t;
typedef struct ibd_ioctl_s ibd_ioctl_t;
typedef struct ibpart_ioctl_s ibpart_ioctl_t;
typedef struct ibport_ioctl_s ibport_ioctl_t;

struct ibd_ioctl_s {
	int	ioc_info_cmd;
	datalink_id_t	ioc_linkid;
	int	ioc_port_inst;
	uint_t	ioc_portnum;
	ib_guid_t	ioc_hcaguid;
	ib_guid_t	ioc_portguid;
	int	ioc_status;
	uint32_t	align1;
};

struct ibpart_ioctl_s {
	ibd_ioctl_t	ibdioc;
	datalink_id_t	ioc_partid;
	boolean_t	ioc_force_create;
	ib_pkey_t	ioc_pkey;
	uint16_t	align1;
	uint32_t	align2;
};

struct ibport_ioctl_s {
	ibd_ioctl_t	ibdioc;
	uint_t	ioc_pkey_tbl_sz;
	ib_pkey_t	*ioc_pkeys;
};

#endif	/* _SYS_IBPART_H */
