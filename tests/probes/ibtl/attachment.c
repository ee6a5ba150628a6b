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
 * Clients, HCAs, ports: attach, open, query, close, detach, and asynchronous
 * events.
 */

#include "client.h"

CLIENT_MODULE("attachment")

PROBE(attach_checks)
{
	ibt_clnt_modinfo_t info = client_modinfo;
	ibt_clnt_hdl_t one, two;

	info.mi_ibt_version = IBTI_V3;
	WANT_STATUS(ibt_attach(&info, NULL, NULL, &one), IBT_NOT_SUPPORTED);
	info = client_modinfo;
	info.mi_clnt_name = NULL;
	WANT_STATUS(ibt_attach(&info, NULL, NULL, &one), IBT_INVALID_PARAM);
	info = client_modinfo;
	info.mi_clnt_class = IBT_NETWORK;
	WANT_STATUS(ibt_attach(&info, NULL, NULL, &one), IBT_INVALID_PARAM);
	info.mi_clnt_class = IBT_DM;
	OK(ibt_attach(&info, NULL, NULL, &one));
	WANT_STATUS(ibt_attach(&info, NULL, NULL, &two), IBT_INVALID_PARAM);
	OK(ibt_detach(one));
	OK(ibt_attach(&info, NULL, NULL, &two));
	OK(ibt_detach(two));
	/* Several attaches of one module are several clients. */
	OK(ibt_attach(&client_modinfo, NULL, NULL, &one));
	OK(ibt_attach(&client_modinfo, NULL, NULL, &two));
	WANT(one != two);
	OK(ibt_detach(one));
	OK(ibt_detach(two));
	return (0);
}

/* arg is the HCA's GUID. */
PROBE(open_and_close)
{
	ibt_hca_hdl_t hca, again = NULL, none = (ibt_hca_hdl_t)1;
	ibt_pd_hdl_t pd;
	ibt_clnt_hdl_t clnt;
	ib_guid_t guid = (ib_guid_t)arg;

	OK(ibt_attach(&client_modinfo, NULL, &client, &clnt));
	WANT_STATUS(ibt_open_hca(clnt, guid + 0x5555, &none), IBT_HCA_INVALID);
	WANT(none == NULL);
	OK(ibt_open_hca(clnt, guid, &hca));
	WANT_STATUS(ibt_open_hca(clnt, guid, &again), IBT_HCA_IN_USE);
	WANT(again == hca);
	WANT(ibt_hca_handle_to_guid(hca) == guid);
	WANT_STATUS(ibt_detach(clnt), IBT_HCA_RESOURCES_NOT_FREED);
	OK(ibt_alloc_pd(hca, IBT_PD_NO_FLAGS, &pd));
	WANT_STATUS(ibt_close_hca(hca), IBT_HCA_RESOURCES_NOT_FREED);
	OK(ibt_free_pd(hca, pd));
	OK(ibt_close_hca(hca));
	OK(ibt_open_hca(clnt, guid, &again));
	OK(ibt_close_hca(again));
	OK(ibt_detach(clnt));
	return (0);
}

/* arg is what the attributes shall say: 1 checksum, 2 reserved key, 4 LSO. */
PROBE(attributes)
{
	ibt_hca_attr_t attr;

	OK(ibt_query_hca(client.c_hca, &attr));
	WANT(attr.hca_node_guid == client.c_guid);
	WANT(attr.hca_flags & IBT_HCA_UD_MULTICAST);
	WANT(attr.hca_flags & IBT_HCA_PORT_UP);
	WANT(attr.hca_flags & IBT_HCA_CURRENT_QP_STATE);
	WANT(attr.hca_flags & IBT_HCA_SRQ);
	WANT(attr.hca_flags & IBT_HCA_WQE_SIZE_INFO);
	WANT(attr.hca_flags2 & IBT_HCA2_PORT_CHANGE);
	WANT(!(attr.hca_flags & IBT_HCA_CKSUM_FULL) == !(arg & 1));
	WANT(!(attr.hca_flags2 & IBT_HCA2_RES_LKEY) == !(arg & 2));
	WANT((attr.hca_max_lso_size == 0) == !(arg & 4));
	WANT(attr.hca_nports == 1);
	WANT(attr.hca_max_cq_mod_count == 0xffff);
	return (0);
}

/* The port is ACTIVE; its default P_Key is the only one. */
PROBE(ports)
{
	ibt_hca_portinfo_t *info, *first;
	uint_t n, size, i;
	char *end;

	WANT_STATUS(ibt_query_hca_ports(client.c_hca, 2, &info, &n, &size),
	    IBT_HCA_PORT_INVALID);
	OK(ibt_query_hca_ports(client.c_hca, 0, &first, &n, &size));
	WANT(n == 1);
	end = (char *)first + size;
	WANT((char *)first->p_pkey_tbl > (char *)first);
	WANT((char *)(first->p_pkey_tbl + first->p_pkey_tbl_sz) <= end);
	WANT((char *)first->p_sgid_tbl > (char *)first->p_pkey_tbl);
	WANT((char *)(first->p_sgid_tbl + first->p_sgid_tbl_sz) == end);
	WANT(first->p_port_num == 1);
	WANT(first->p_linkstate == IBT_PORT_ACTIVE);
	WANT(first->p_opaque1 != 0 && first->p_opaque1 < 0xc000);
	WANT(first->p_sm_lid != 0);
	/* Index 0: the subnet's prefix and the port's GUID. */
	WANT(first->p_sgid_tbl[0].gid_prefix == 0xfe80000000000000ULL);
	WANT(first->p_sgid_tbl[0].gid_guid == client.c_guid + 1);
	WANT(first->p_sgid_tbl[1].gid_guid == 0);
	WANT(first->p_pkey_tbl[0] == 0xffff);
	WANT(first->p_def_pkey_ix == 0);
	for (i = 1; i < first->p_pkey_tbl_sz; i++)
		WANT(first->p_pkey_tbl[i] == 0);
	/* The MTU is what the port can, not what the link does. */
	WANT(first->p_mtu == IB_MTU_4K);
	ibt_free_portinfo(first, size);
	ibt_free_portinfo(NULL, 0);
	return (0);
}

/* The port is not configured yet. */
PROBE(no_lid_yet)
{
	ibt_hca_portinfo_t *info;
	uint_t n, size;
	long lid;

	OK(ibt_query_hca_ports(client.c_hca, 1, &info, &n, &size));
	lid = info->p_opaque1;
	ibt_free_portinfo(info, size);
	WANT(lid == 0);
	return (0);
}

/* The port's state, 1 to 4. */
PROBE(port_state)
{
	ibt_hca_portinfo_t *info;
	uint_t n, size;
	long state;

	OK(ibt_query_hca_ports(client.c_hca, 1, &info, &n, &size));
	state = info->p_linkstate;
	ibt_free_portinfo(info, size);
	return (state);
}

/* arg: a P_Key; the index, or the status as a negative number. */
PROBE(pkey_index)
{
	uint16_t ix = 0xffff;
	ibt_status_t status;

	status = ibt_pkey2index(client.c_hca, 1, (ib_pkey_t)arg, &ix);
	return (status == IBT_SUCCESS ? ix : -(long)status);
}

PROBE(pkey_of_no_port)
{
	uint16_t ix;

	WANT_STATUS(ibt_pkey2index(client.c_hca, 2, 0xffff, &ix),
	    IBT_HCA_PORT_INVALID);
	WANT_STATUS(ibt_pkey2index(client.c_hca, 0, 0xffff, &ix),
	    IBT_HCA_PORT_INVALID);
	return (0);
}

PROBE(open)
{
	return (client_open((ib_guid_t)arg));
}

PROBE(close)
{
	return (client_close());
}

PROBE(attach_only)
{
	OK(ibt_attach(&client_modinfo, NULL, &client, &client.c_clnt));
	return (0);
}

PROBE(detach_only)
{
	OK(ibt_detach(client.c_clnt));
	return (0);
}

/* How many events came. */
PROBE(events)
{
	long n;

	mutex_enter(&seen.s_lock);
	n = seen.s_async;
	mutex_exit(&seen.s_lock);
	return (n);
}

/* The code of event arg. */
PROBE(event_code)
{
	return (seen.s_code[arg]);
}

/* The port of event arg. */
PROBE(event_port)
{
	return (seen.s_event[arg].ev_port);
}

/* The change flags of event arg. */
PROBE(event_flags)
{
	return (seen.s_event[arg].ev_port_flags);
}

/* Every event names the HCA by the client's own handle and by its GUID. */
PROBE(events_name_the_handle)
{
	int i;

	for (i = 0; i < seen.s_async; i++) {
		WANT(seen.s_hca[i] == client.c_hca);
		WANT(seen.s_event[i].ev_hca_guid == client.c_guid);
	}
	return (0);
}

/* The event names no handle. */
PROBE(event_without_handle)
{
	WANT(seen.s_hca[arg] == NULL);
	return (0);
}

PROBE(forget_events)
{
	mutex_enter(&seen.s_lock);
	seen.s_async = 0;
	mutex_exit(&seen.s_lock);
	return (0);
}

/*
 * A second client whose handler looks at the port, and one that lets go of its
 * HCA when it is told to.
 */
static ibt_clnt_hdl_t looker;
static ibt_hca_hdl_t looker_hca;
static volatile long looked_state;
static volatile long looked_pkey;

static void
look(void *private, ibt_hca_hdl_t hca, ibt_async_code_t code,
    ibt_async_event_t *event)
{
	ibt_hca_portinfo_t *info;
	uint_t n, size;
	uint16_t ix;

	if (code == IBT_HCA_DETACH_EVENT) {
		(void) ibt_close_hca(hca);
		return;
	}
	looked_pkey = ibt_pkey2index(hca, event->ev_port, (ib_pkey_t)
	    (uintptr_t)private, &ix) == IBT_SUCCESS ? ix : -1;
	if (ibt_query_hca_ports(hca, event->ev_port, &info, &n, &size) ==
	    IBT_SUCCESS) {
		looked_state = info->p_linkstate;
		ibt_free_portinfo(info, size);
	}
}

static ibt_clnt_modinfo_t looker_modinfo = {
	IBTI_V_CURR, IBT_GENERIC_MISC, look, NULL, "LOOKER"
};

PROBE(start_looking)
{
	looked_state = looked_pkey = -2;
	OK(ibt_attach(&looker_modinfo, NULL, (void *)(uintptr_t)0x8001,
	    &looker));
	OK(ibt_open_hca(looker, (ib_guid_t)arg, &looker_hca));
	return (0);
}

PROBE(looked_state)
{
	return (looked_state);
}

PROBE(looked_pkey)
{
	return (looked_pkey);
}

PROBE(stop_looking)
{
	OK(ibt_close_hca(looker_hca));
	OK(ibt_detach(looker));
	return (0);
}

PROBE(detach_looker)
{
	OK(ibt_detach(looker));
	return (0);
}

/* A client whose handler takes its time. */
static ibt_clnt_hdl_t sleeper;
static ibt_hca_hdl_t sleeper_hca;
static volatile long sleeper_in, sleeper_out;

static void
nap(void *private __attribute__((unused)),
    ibt_hca_hdl_t hca __attribute__((unused)),
    ibt_async_code_t code __attribute__((unused)),
    ibt_async_event_t *event __attribute__((unused)))
{
	sleeper_in++;
	delay(drv_usectohz(500000));
	sleeper_out++;
}

static ibt_clnt_modinfo_t sleeper_modinfo = {
	IBTI_V_CURR, IBT_GENERIC_MISC, nap, NULL, "SLEEPER"
};

PROBE(start_sleeper)
{
	sleeper_in = sleeper_out = 0;
	OK(ibt_attach(&sleeper_modinfo, NULL, NULL, &sleeper));
	OK(ibt_open_hca(sleeper, (ib_guid_t)arg, &sleeper_hca));
	return (0);
}

/* Called while a handler sleeps: detaching ends after it. */
PROBE(detach_during_callback)
{
	WANT(sleeper_in == 1 && sleeper_out == 0);
	OK(ibt_close_hca(sleeper_hca));
	OK(ibt_detach(sleeper));
	WANT(sleeper_out == 1);
	return (0);
}

PROBE(open_while_detaching)
{
	ibt_hca_hdl_t hca;

	WANT_STATUS(ibt_open_hca(client.c_clnt, (ib_guid_t)arg, &hca),
	    IBT_HCA_BUSY_DETACHING);
	return (0);
}

/* Subnet notices: the GIDs come by value. */
static volatile long notices;
static ibt_subnet_event_code_t notice_code[MAX_EVENTS];
static ib_gid_t notice_port[MAX_EVENTS];
static ib_gid_t notice_subject[MAX_EVENTS];

static void
notice(void *private, ib_gid_t port, ibt_subnet_event_code_t code,
    ibt_subnet_event_t *event)
{
	mutex_enter(&seen.s_lock);
	if (private == &notices && notices < MAX_EVENTS) {
		notice_code[notices] = code;
		notice_port[notices] = port;
		notice_subject[notices] = event->sm_notice_gid;
		notices++;
	}
	mutex_exit(&seen.s_lock);
}

PROBE(listen)
{
	ibt_register_subnet_notices(client.c_clnt, notice, (void *)&notices);
	return (0);
}

PROBE(listen_no_more)
{
	ibt_register_subnet_notices(client.c_clnt, NULL, NULL);
	return (0);
}

/* How often code (arg >> 56) came for the port GUID in the lower bits. */
PROBE(heard)
{
	long i, n = 0;

	for (i = 0; i < notices; i++) {
		WANT(notice_port[i].gid_guid == client.c_guid + 1);
		WANT(notice_port[i].gid_prefix == 0xfe80000000000000ULL);
		if (notice_code[i] == (ibt_subnet_event_code_t)(arg >> 56) &&
		    notice_subject[i].gid_guid ==
		    (ib_guid_t)(arg & 0xffffffffffffffL) &&
		    notice_subject[i].gid_prefix == 0xfe80000000000000ULL)
			n++;
	}
	return (n);
}
