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
 * Paths, waiting for them and by callback.
 */

#include "manager.h"

MANAGER_MODULE("paths")

static ibt_path_info_t path;
static ib_gid_t to;
static ibt_path_attr_t attr;

/* One path in the default partition. */
static void
ask_for(ib_gid_t gid)
{
	to = gid;
	bzero(&attr, sizeof (attr));
	attr.pa_dgids = &to;
	attr.pa_num_dgids = 1;
	attr.pa_sgid = port;
	attr.pa_pkey = 0xffff;
}

static ib_gid_t
port_of(long guid)
{
	ib_gid_t gid = port;

	gid.gid_guid = (ib_guid_t)guid;
	return (gid);
}

static long
get(void)
{
	ibt_status_t status;
	uint8_t n = 77;

	status = ibt_get_paths(clnt, IBT_PATH_PKEY, &attr, 1, &path, &n);
	WANT(n == (status == IBT_SUCCESS ? 1 : 0));
	return (status);
}

/* arg is the GUID of a port. */
PROBE(path_to_port)
{
	ask_for(port_of(arg));
	return (get());
}

PROBE(path_to_group)
{
	ask_for(group(arg));
	return (get());
}

PROBE(path_to_another_subnet)
{
	ib_gid_t gid = port_of(arg);

	gid.gid_prefix = 0xfec0000000000000ULL;
	ask_for(gid);
	return (get());
}

PROBE(path_from_nowhere)
{
	ask_for(port_of(arg));
	attr.pa_sgid.gid_guid += 0x55;
	return (get());
}

PROBE(path_in_partition)
{
	ask_for(port);
	attr.pa_pkey = (ib_pkey_t)arg;
	return (get());
}

PROBE(path_dlid)
{
	return (path.pi_prim_cep_path.cep_adds_vect.av_dlid);
}

/* The last path leads to another port of the subnet; arg is the GUID. */
PROBE(path_is_complete)
{
	ibt_adds_vect_t *av = &path.pi_prim_cep_path.cep_adds_vect;

	WANT(av->av_dgid.gid_guid == (ib_guid_t)arg);
	WANT(av->av_sgid.gid_guid == port.gid_guid);
	WANT(av->av_send_grh == B_FALSE);
	WANT(av->av_port_num == 1);
	WANT(av->av_sgid_ix == 0);
	WANT(av->av_src_path == 0);
	WANT(path.pi_prim_cep_path.cep_hca_port_num == 1);
	WANT(path.pi_prim_cep_path.cep_pkey_ix == 0);
	WANT(path.pi_alt_cep_path.cep_hca_port_num == 0);
	WANT(path.pi_path_mtu == IB_MTU_4K);
	WANT(path.pi_prim_pkt_lt == 18);
	return (0);
}

PROBE(path_to_group_needs_a_grh)
{
	WANT(path.pi_prim_cep_path.cep_adds_vect.av_send_grh == B_TRUE);
	return (0);
}

PROBE(ask_badly)
{
	ib_gid_t zero = no_gid();
	uint8_t n;

	ask_for(port);
	switch (arg) {
	case 0:
		return (ibt_get_paths(clnt, 0, &attr, 0, &path, &n));
	case 1:
		return (ibt_get_paths(clnt, 0, NULL, 1, &path, &n));
	case 2:
		return (ibt_get_paths(clnt, 0, &attr, 1, NULL, &n));
	case 3:
		return (ibt_get_paths(clnt, IBT_PATH_AVAIL | IBT_PATH_PERF,
		    &attr, 1, &path, &n));
	case 4:
		attr.pa_num_dgids = 0;
		break;
	case 5:
		attr.pa_dgids = &zero;
		break;
	case 6:
		attr.pa_pkey = 0x8000;
		return (ibt_get_paths(clnt, IBT_PATH_PKEY, &attr, 1, &path,
		    &n));
	case 7:
		return (ibt_aget_paths(clnt, 0, &attr, 1, NULL, NULL));
	}
	return (ibt_get_paths(clnt, 0, &attr, 1, &path, &n));
}

/* Two are asked for where there is one. */
PROBE(ask_for_two)
{
	ibt_path_info_t two[2];
	ibt_status_t status;
	uint8_t n;

	ask_for(port_of(arg));
	status = ibt_get_paths(clnt, IBT_PATH_PKEY, &attr, 2, two, &n);
	WANT(n == 1);
	path = two[0];
	return (status);
}

static int called;
static ibt_status_t called_with;
static uint8_t called_n;

static void
answered(void *arg, ibt_status_t status, ibt_path_info_t *paths, uint8_t n)
{
	mutex_enter(&lock);
	called += arg == &called;
	called_with = status;
	called_n = n;
	if (n > 0) {
		path = paths[0];
		kmem_free(paths, n * sizeof (*paths));
	}
	cv_broadcast(&cv);
	mutex_exit(&lock);
}

PROBE(ask_later)
{
	ibt_status_t status;

	ask_for(port_of(arg));
	called = 0;
	bzero(&path, sizeof (path));
	status = ibt_aget_paths(clnt, IBT_PATH_PKEY, &attr, 1, answered,
	    &called);
	/* Attributes and GIDs are the caller's again. */
	bzero(&attr, sizeof (attr));
	to = no_gid();
	return (status);
}

PROBE(times_called)
{
	return (called);
}

PROBE(await_path)
{
	mutex_enter(&lock);
	while (called == 0)
		cv_wait(&cv, &lock);
	mutex_exit(&lock);
	WANT(called == 1);
	WANT(called_n == (called_with == IBT_SUCCESS ? 1 : 0));
	return (called_with);
}

/* Sixteen at once, to the port whose GUID is arg. */
#define	MANY	16

static int many_answered;

static void
one_of_many(void *arg, ibt_status_t status, ibt_path_info_t *paths, uint8_t n)
{
	if (n > 0)
		kmem_free(paths, n * sizeof (*paths));
	mutex_enter(&lock);
	if (arg == &many_answered && status == IBT_SUCCESS && n == 1)
		many_answered++;
	cv_broadcast(&cv);
	mutex_exit(&lock);
}

PROBE(ask_for_many)
{
	int i;

	many_answered = 0;
	for (i = 0; i < MANY; i++) {
		ask_for(port_of(arg));
		attr.pa_tclass = 0;
		WANT(ibt_aget_paths(clnt, IBT_PATH_PKEY, &attr, 1, one_of_many,
		    &many_answered) == IBT_SUCCESS);
	}
	mutex_enter(&lock);
	while (many_answered < MANY)
		cv_wait(&cv, &lock);
	mutex_exit(&lock);
	return (0);
}

PROBE(join)
{
	ibt_mcg_attr_t mcg;
	ibt_mcg_info_t info;

	manager_attr(&mcg, arg | 1 << 16);
	return (ibt_join_mcg(port, &mcg, &info, NULL, NULL));
}

PROBE(leave)
{
	return (ibt_leave_mcg(port, group(arg), no_gid(), 1));
}

/* Asks for a path from within CLNT_REREG; arg is the port's GUID. */
static long event_guid;
static ibt_status_t event_status;

static void
ask_in_event(ibt_async_code_t code)
{
	if (code == IBT_CLNT_REREG_EVENT) {
		ask_for(port_of(event_guid));
		event_status = (ibt_status_t)get();
	}
}

PROBE(ask_in_events)
{
	event_guid = arg;
	event_status = IBT_FAILURE;
	on_event = arg != 0 ? ask_in_event : NULL;
	return (0);
}

PROBE(event_status)
{
	return (event_status);
}
