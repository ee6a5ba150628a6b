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
 * An IB client that asks the IPoIB driver how neighbours are reached.
 */

#include <sys/atomic.h>
#include <sys/errno.h>
#include "../rules/probe.h"
#include <sys/ibd_path.h>

PROBE_MODULE("asks for paths")

#define	SLOTS	128

typedef struct asked {
	volatile uint32_t	a_calls;
	volatile int		a_error;
	/* Asks once more from within the callback. */
	int			a_chain;
	ibd_path_info_t		a_path;
} asked_t;

static asked_t asked[SLOTS];
static ibd_path_info_t question;
static volatile uint32_t open_questions;

static void
answered(void *arg, int error, const ibd_path_info_t *path)
{
	asked_t *a = arg;

	a->a_error = error;
	a->a_path = *path;
	if (a->a_chain) {
		a->a_chain = 0;
		atomic_inc_32(&open_questions);
		if (ibd_path_lookup(path, answered, &asked[0]) == 0)
			atomic_inc_32(&asked[1].a_calls);
		else
			atomic_dec_32(&open_questions);
	}
	atomic_inc_32(&a->a_calls);
	atomic_dec_32(&open_questions);
}

PROBE(link)
{
	bzero(&question, sizeof (question));
	bzero(asked, sizeof (asked));
	question.ibp_version = IBD_PATH_VERSION;
	question.ibp_link = (uint32_t)arg;
	return (0);
}

PROBE(kind)
{
	question.ibp_kind = (uint32_t)arg;
	bzero(question.ibp_address, sizeof (question.ibp_address));
	return (0);
}

/* Place and value of a byte of the address. */
PROBE(byte)
{
	question.ibp_address[arg >> 8] = arg & 0xff;
	return (0);
}

PROBE(ask)
{
	int error;

	atomic_inc_32(&open_questions);
	error = ibd_path_lookup(&question, answered, &asked[arg]);
	if (error != 0)
		atomic_dec_32(&open_questions);
	return (error);
}

PROBE(ask_with_chain)
{
	asked[arg].a_chain = 1;
	return (probe_ask(arg));
}

PROBE(ask_nothing)
{
	if (ibd_path_lookup(NULL, answered, &asked[0]) != EINVAL)
		return (1);
	return (ibd_path_lookup(&question, NULL, &asked[0]) != EINVAL);
}

PROBE(open)
{
	return (open_questions);
}

PROBE(calls)
{
	return (asked[arg].a_calls);
}

PROBE(error)
{
	return (asked[arg].a_error);
}

PROBE(record_size)
{
	return (sizeof (ibd_path_info_t));
}

/* Slot and place of a byte of its answer. */
PROBE(answer)
{
	return (((uint8_t *)&asked[arg >> 16].a_path)[arg & 0xffff]);
}
