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
 * Data-link services: a MAC gets a link of its own (module dls).
 */

#ifndef	_SYS_DLS_H
#define	_SYS_DLS_H

#include <sys/dls_mgmt.h>
#include <sys/mac.h>
#include <sys/types.h>

#define	DLS_SAP_LLC	0
#define	DLS_SAP_PROMISC	0x10000

extern int dls_devnet_create(mac_handle_t, datalink_id_t, zoneid_t);
extern int dls_devnet_destroy(mac_handle_t, datalink_id_t *, boolean_t);
extern boolean_t dls_devnet_islinkvisible(datalink_id_t, zoneid_t);
extern int dls_devnet_macname2linkid(const char *, datalink_id_t *);
extern int dls_mgmt_get_linkid(const char *, datalink_id_t *);
extern int dls_mgmt_get_linkinfo(datalink_id_t, char *, datalink_class_t *,
    uint32_t *, uint32_t *);

#endif	/* _SYS_DLS_H */
