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
 * STREAMS messages: rules 20 to 22.
 */

#include <sys/stream.h>
#include <sys/strsubr.h>
#include "probe.h"

PROBE_MODULE("rules about messages")

static mblk_t *
message(size_t size)
{
	mblk_t *mp = allocb(size, BPRI_MED);

	if (mp == NULL)
		panic("no message, though no fault was asked for");
	bzero(mp->b_rptr, size);
	mp->b_wptr = mp->b_rptr + size;
	return (mp);
}

PROBE(free_twice)
{
	mblk_t *mp = message(64);

	freemsg(mp);
	freemsg(mp);
	return (-1);
}

PROBE(use_after_free)
{
	mblk_t *mp = message(64);

	freemsg(mp);
	return (msgdsize(mp));
}

PROBE(free_while_linked)
{
	mblk_t *mp = message(64);

	mp->b_next = message(64);
	freemsg(mp);
	return (-1);
}

PROBE(free_of_a_chain)
{
	mblk_t *mp = message(64);

	mp->b_next = message(64);
	mp->b_cont = message(8);
	freemsgchain(mp);
	freemsg(NULL);
	return (0);
}

PROBE(write_pointer_behind_the_buffer)
{
	mblk_t *mp = message(64);

	mp->b_wptr = mp->b_datap->db_lim + 1;
	return (adjmsg(mp, 4));
}

PROBE(read_pointer_before_the_buffer)
{
	mblk_t *mp = message(64);

	mp->b_rptr = mp->b_datap->db_base - 8;
	return (pullupmsg(mp, -1));
}

PROBE(pointers_crossed)
{
	mblk_t *mp = message(64);

	mp->b_rptr = mp->b_wptr + 1;
	freemsg(mp);
	return (-1);
}

PROBE(reference_count_overwritten)
{
	mblk_t *mp = message(64);

	mp->b_datap->db_ref = 3;
	freemsg(mp);
	return (-1);
}

PROBE(pointers_at_the_ends)
{
	mblk_t *mp = message(64);

	mp->b_rptr = mp->b_datap->db_base;
	mp->b_wptr = mp->b_datap->db_lim;
	if (adjmsg(mp, 4) != 1)
		return (-1);
	mp->b_rptr = mp->b_wptr;
	freemsg(mp);
	return (0);
}

/* The test keeps one duplicate and compares it when this one comes back. */
PROBE(write_to_shared)
{
	mblk_t *mp = message(64);
	mblk_t *dup = dupmsg(mp);

	if (dup == NULL)
		return (-1);
	*mp->b_rptr = 0xff;
	freemsg(mp);
	freemsg(dup);
	return (0);
}

PROBE(write_to_copy)
{
	mblk_t *mp = message(64);
	mblk_t *dup = dupmsg(mp);
	mblk_t *copy;

	if (dup == NULL)
		return (-1);
	copy = copymsg(mp);
	if (copy == NULL)
		return (-2);
	freemsg(mp);
	*copy->b_rptr = 0xff;
	freemsg(copy);
	/* Nobody shares it any more. */
	*dup->b_rptr = 0xff;
	freemsg(dup);
	return (0);
}
