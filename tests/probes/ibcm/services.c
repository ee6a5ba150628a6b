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
 * Services: ranges of identifiers, bindings, records.
 */

#include "manager.h"

MANAGER_MODULE("services")

static ibt_srv_desc_t desc;
static ibt_srv_hdl_t srv;
static ibt_sbind_hdl_t bind;
static ib_svc_id_t sid;

#define	SID	0x0100000000000042ULL

static ibt_status_t
register_at(ib_svc_id_t first, int n, ibt_srv_hdl_t *hdl)
{
	return (ibt_register_service(clnt, &desc, first, n, hdl, &sid));
}

PROBE(ranges)
{
	ibt_srv_hdl_t one, two;

	WANT(register_at(SID, 0, &one) == IBT_INVALID_PARAM);
	WANT(register_at(0x0200000000000001ULL, 1, &one) == IBT_INVALID_PARAM);
	WANT(register_at(SID, 4, &one) == IBT_SUCCESS);
	WANT(sid == SID);
	WANT(register_at(SID + 3, 1, &two) == IBT_CM_SERVICE_EXISTS);
	WANT(register_at(SID - 1, 2, &two) == IBT_CM_SERVICE_EXISTS);
	WANT(register_at(SID + 4, 1, &two) == IBT_SUCCESS);
	WANT(ibt_deregister_service(clnt, two) == IBT_SUCCESS);
	WANT(register_at(0, 1, &two) == IBT_SUCCESS);
	WANT(sid >> 56 == 2);
	WANT(ibt_detach(clnt) == IBT_HCA_RESOURCES_NOT_FREED);
	WANT(ibt_deregister_service(clnt, two) == IBT_SUCCESS);
	WANT(ibt_deregister_service(clnt, one) == IBT_SUCCESS);
	return (0);
}

PROBE(bindings)
{
	ibt_sbind_hdl_t one, two;
	ibt_srv_bind_t how;
	ib_gid_t elsewhere = port;

	bzero(&how, sizeof (how));
	elsewhere.gid_guid++;
	WANT(register_at(SID, 1, &srv) == IBT_SUCCESS);
	WANT(ibt_bind_service(srv, elsewhere, NULL, NULL, &one) ==
	    IBT_INVALID_PARAM);
	WANT(ibt_bind_service(srv, port, &how, NULL, &one) ==
	    IBT_INVALID_PARAM);
	WANT(ibt_bind_service(srv, port, NULL, NULL, &one) == IBT_SUCCESS);
	WANT(ibt_bind_service(srv, port, NULL, NULL, &two) ==
	    IBT_CM_SERVICE_EXISTS);
	WANT(ibt_deregister_service(clnt, srv) == IBT_CM_SERVICE_BUSY);
	WANT(ibt_unbind_service(srv, one) == IBT_SUCCESS);
	WANT(ibt_bind_service(srv, port, NULL, NULL, &one) == IBT_SUCCESS);
	WANT(ibt_unbind_all_services(srv) == IBT_SUCCESS);
	WANT(ibt_deregister_service(clnt, srv) == IBT_SUCCESS);
	return (0);
}

/* Offers a service under a name at the subnet administrator. */
PROBE(offer)
{
	ibt_srv_bind_t how;

	bzero(&how, sizeof (how));
	how.sb_name = "echo";
	how.sb_pkey = 0xffff;
	how.sb_data.s_data32[1] = 0x12345678;
	WANT(register_at(SID, 1, &srv) == IBT_SUCCESS);
	WANT(ibt_bind_service(srv, port, &how, NULL, &bind) == IBT_SUCCESS);
	return (0);
}

PROBE(withdraw)
{
	WANT(ibt_unbind_service(srv, bind) == IBT_SUCCESS);
	WANT(ibt_deregister_service(clnt, srv) == IBT_SUCCESS);
	return (0);
}

/* Looks for the service by name; arg is the GUID of the port that has it. */
PROBE(look_for)
{
	ibt_path_attr_t attr;
	ibt_path_info_t path;
	ibt_status_t status;
	uint8_t n;

	bzero(&attr, sizeof (attr));
	attr.pa_sgid = port;
	attr.pa_sname = "echo";
	attr.pa_pkey = 0xffff;
	status = ibt_get_paths(clnt, IBT_PATH_PKEY, &attr, 1, &path, &n);
	if (status != IBT_SUCCESS)
		return (status);
	WANT(path.pi_sid == SID);
	WANT(path.pi_sdata.s_data32[1] == 0x12345678);
	WANT(path.pi_prim_cep_path.cep_adds_vect.av_dgid.gid_guid ==
	    (ib_guid_t)arg);
	return (0);
}
