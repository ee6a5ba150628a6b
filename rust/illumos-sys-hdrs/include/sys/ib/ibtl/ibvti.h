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

#ifndef _SYS_IB_IBTL_IBVTI_H
#define	_SYS_IB_IBTL_IBVTI_H

#include <sys/ib/ibtl/ibti_common.h>
#include <sys/ib/ibtl/ibtl_ci_types.h>

#ifdef __cplusplus
extern "C" {
#endif

extern ibt_status_t ibt_query_qp(ibt_channel_hdl_t ibt_qp,
    ibt_qp_query_attr_t *qp_attrp);

#ifdef __cplusplus
}
#endif

#endif	/* _SYS_IB_IBTL_IBVTI_H */
