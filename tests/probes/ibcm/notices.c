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
 * Subnet notices.
 */

#include "manager.h"

MANAGER_MODULE("notices")

#define	MAX_NOTICES	32

static int heard;
static int running;
static struct {
	ibt_subnet_event_code_t	code;
	ib_gid_t		port;
	ib_gid_t		subject;
} notice[MAX_NOTICES];

static void
listen(void *private, ib_gid_t gid0, ibt_subnet_event_code_t code,
    ibt_subnet_event_t *event)
{
	mutex_enter(&lock);
	if (private == &heard && heard < MAX_NOTICES) {
		notice[heard].code = code;
		notice[heard].port = gid0;
		notice[heard].subject = event->sm_notice_gid;
		heard++;
	}
	mutex_exit(&lock);
}

static void
listen_slowly(void *private, ib_gid_t gid0, ibt_subnet_event_code_t code,
    ibt_subnet_event_t *event)
{
	mutex_enter(&lock);
	running++;
	mutex_exit(&lock);
	delay(drv_usectohz(500000));
	listen(private, gid0, code, event);
	mutex_enter(&lock);
	running--;
	mutex_exit(&lock);
}

/* 0 cancels, 1 listens, 2 listens slowly. */
PROBE(listen)
{
	ibt_sm_notice_handler_t handler[] = { NULL, listen, listen_slowly };

	ibt_register_subnet_notices(clnt, handler[arg], &heard);
	return (0);
}

PROBE(forget)
{
	mutex_enter(&lock);
	heard = 0;
	mutex_exit(&lock);
	return (0);
}

PROBE(heard)
{
	return (heard);
}

PROBE(running)
{
	return (running);
}

PROBE(code)
{
	return (notice[arg].code);
}

PROBE(subject_guid)
{
	return ((long)notice[arg].subject.gid_guid);
}

PROBE(is_from_own_port)
{
	WANT(notice[arg].port.gid_prefix == port.gid_prefix);
	WANT(notice[arg].port.gid_guid == port.gid_guid);
	return (0);
}

PROBE(join)
{
	ibt_mcg_attr_t attr;
	ibt_mcg_info_t info;

	manager_attr(&attr, arg | 1 << 16);
	return (ibt_join_mcg(port, &attr, &info, NULL, NULL));
}

PROBE(leave)
{
	return (ibt_leave_mcg(port, group(arg), no_gid(), 1));
}

/* Detach returns only when no notice is out. */
PROBE(close_hca)
{
	return (ibt_close_hca(hca));
}

PROBE(detach)
{
	WANT(ibt_detach(clnt) == IBT_SUCCESS);
	WANT(running == 0);
	return (0);
}
