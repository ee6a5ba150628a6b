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
 * Multicast groups: join, leave, query.
 */

#include "manager.h"

MANAGER_MODULE("groups")

static ibt_mcg_info_t info;

/* arg: group, join state << 16. */
PROBE(join)
{
	ibt_mcg_attr_t attr;

	manager_attr(&attr, arg);
	bzero(&info, sizeof (info));
	return (ibt_join_mcg(port, &attr, &info, NULL, NULL));
}

PROBE(join_mlid)
{
	return (info.mc_adds_vect.av_dlid);
}

/* The last join said all that an address handle and an attach need. */
PROBE(join_is_complete)
{
	ibt_adds_vect_t *av = &info.mc_adds_vect;
	ib_gid_t mgid = group(arg);
	uint16_t ix;

	WANT(av->av_dgid.gid_prefix == mgid.gid_prefix);
	WANT(av->av_dgid.gid_guid == mgid.gid_guid);
	WANT(av->av_sgid.gid_prefix == port.gid_prefix);
	WANT(av->av_sgid.gid_guid == port.gid_guid);
	WANT(av->av_send_grh == B_TRUE);
	WANT(av->av_dlid >= 0xc000);
	WANT(av->av_port_num == 1);
	WANT(av->av_sgid_ix == 0);
	WANT(av->av_src_path == 0);
	WANT(av->av_srate == IBT_SRATE_10);
	WANT(info.mc_qkey == 0x0b1b);
	WANT(info.mc_mtu == IB_MTU_2K);
	WANT(info.mc_scope == 2);
	WANT(ibt_pkey2index(hca, 1, 0xffff, &ix) == IBT_SUCCESS);
	WANT(info.mc_pkey_ix == ix);
	return (0);
}

/* What is wrong with the join is told by arg. */
PROBE(join_badly)
{
	ibt_mcg_attr_t attr;
	ib_gid_t from = port;

	manager_attr(&attr, 1 << 16);
	switch (arg) {
	case 0:
		attr.mc_join_state = 0;
		break;
	case 1:
		attr.mc_pkey = 0;
		break;
	case 2:
		attr.mc_pkey = 0x8000;
		break;
	case 3:
		from.gid_prefix = 0;
		break;
	case 4:
		from.gid_guid += 0x55;
		break;
	case 5:
		return (ibt_join_mcg(port, &attr, NULL, NULL, NULL));
	}
	return (ibt_join_mcg(from, &attr, &info, NULL, NULL));
}

/* A P_Key of arg, in the broadcast group of the partition. */
PROBE(join_partition)
{
	ibt_mcg_attr_t attr;

	manager_attr(&attr, 1 << 16);
	attr.mc_pkey = (ib_pkey_t)arg;
	attr.mc_mgid.gid_prefix =
	    0xff12401b80000000ULL | ((uint64_t)arg & 0x7fff) << 16;
	return (ibt_join_mcg(port, &attr, &info, NULL, NULL));
}

PROBE(join_pkey_ix)
{
	return (info.mc_pkey_ix);
}

PROBE(leave)
{
	return (ibt_leave_mcg(port, group(arg & 0xffff), no_gid(),
	    (arg >> 16) & 0xf));
}

PROBE(leave_a_port)
{
	return (ibt_leave_mcg(port, port, no_gid(), 1));
}

/* A group by its MGID, P_Key and scope; how many there are, or -status. */
PROBE(query)
{
	ibt_mcg_attr_t attr;
	ibt_mcg_info_t *found = NULL;
	uint_t entries = 77;
	ibt_status_t status;
	long n;

	manager_attr(&attr, arg);
	attr.mc_qkey = 0;
	status = ibt_query_mcg(port, &attr, 0, &found, &entries);
	if (status == IBT_MCG_RECORDS_NOT_FOUND && entries != 0)
		return (__LINE__);
	if (status != IBT_SUCCESS)
		return (-(long)status);
	if (found[0].mc_adds_vect.av_dgid.gid_guid !=
	    group(arg & 0xffff).gid_guid)
		return (-1);
	info = found[0];
	n = entries;
	ibt_free_mcg_info(found, entries);
	return (n);
}

/* All groups, but at most arg of them; 0 is no limit. */
PROBE(query_all)
{
	ibt_mcg_info_t *found;
	uint_t entries;
	ibt_status_t status;

	status = ibt_query_mcg(port, NULL, (uint_t)arg, &found, &entries);
	if (status != IBT_SUCCESS)
		return (-(long)status);
	ibt_free_mcg_info(found, entries);
	return (entries);
}

PROBE(query_badly)
{
	ibt_mcg_info_t *found;
	uint_t entries;

	if (arg == 0)
		return (ibt_query_mcg(port, NULL, 0, NULL, &entries));
	if (arg == 1)
		return (ibt_query_mcg(port, NULL, 0, &found, NULL));
	return (ibt_query_mcg(no_gid(), NULL, 0, &found, &entries));
}

PROBE(free_one_too_few)
{
	ibt_mcg_info_t *found;
	uint_t entries;

	WANT(ibt_query_mcg(port, NULL, 0, &found, &entries) == IBT_SUCCESS);
	ibt_free_mcg_info(found, entries - 1);
	return (-1);
}

static int called;
static ibt_status_t called_with;
static void *called_arg;
static ibt_mcg_info_t *called_info;

static void
joined(void *arg, ibt_status_t status, ibt_mcg_info_t *answer)
{
	mutex_enter(&lock);
	called++;
	called_with = status;
	called_arg = arg;
	called_info = answer;
	cv_broadcast(&cv);
	mutex_exit(&lock);
}

PROBE(join_later)
{
	ibt_mcg_attr_t attr;
	ibt_status_t status;

	manager_attr(&attr, arg);
	called = 0;
	bzero(&info, sizeof (info));
	status = ibt_join_mcg(port, &attr, &info, joined, &called);
	/* The attributes are the caller's again. */
	bzero(&attr, sizeof (attr));
	return (status);
}

PROBE(times_called)
{
	return (called);
}

/* Waits for the handler; what it was told. */
PROBE(await_join)
{
	mutex_enter(&lock);
	while (called == 0)
		cv_wait(&cv, &lock);
	mutex_exit(&lock);
	WANT(called == 1);
	WANT(called_arg == &called);
	WANT(called_info == &info);
	return (called_with);
}

/* Joins the broadcast group from within events. */
static ibt_status_t event_status[2];
static ib_lid_t event_mlid[2];

static void
rejoin(ibt_async_code_t code)
{
	int n = code == IBT_CLNT_REREG_EVENT;
	ibt_mcg_attr_t attr;
	ibt_mcg_info_t got;

	if (code != IBT_CLNT_REREG_EVENT && code != IBT_EVENT_PORT_UP)
		return;
	(void) ibt_leave_mcg(port, group(0), no_gid(), 1);
	manager_attr(&attr, 1 << 16);
	event_status[n] = ibt_join_mcg(port, &attr, &got, NULL, NULL);
	event_mlid[n] = got.mc_adds_vect.av_dlid;
}

PROBE(rejoin_in_events)
{
	event_status[0] = event_status[1] = IBT_FAILURE;
	on_event = arg ? rejoin : NULL;
	return (0);
}

/* 0: in PORT_UP; 1: in CLNT_REREG. */
PROBE(event_status)
{
	return (event_status[arg]);
}

PROBE(event_mlid)
{
	return (event_mlid[arg]);
}

PROBE(open_connection)
{
	ibt_chan_open_args_t args;
	ibt_rc_returns_t returns;

	bzero(&args, sizeof (args));
	return (ibt_open_rc_channel(NULL, 0, IBT_BLOCKING, &args, &returns));
}
