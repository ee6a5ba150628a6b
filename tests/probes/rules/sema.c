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
 * Semaphores: what they do, and the rules about them.
 */

#include <sys/semaphore.h>
#include "probe.h"

PROBE_MODULE("rules about semaphores")

static ksema_t sema;
static int passed;
static meeting_t other;

/* Every answer as it should be: 0, or the number of the first that is not. */
PROBE(units_are_counted)
{
	long wrong = 0;

	sema_init(&sema, 2, NULL, SEMA_DRIVER, NULL);
	if (sema_held(&sema))
		wrong = 1;
	sema_p(&sema);
	if (sema_tryp(&sema) == 0)
		wrong = 2;
	if (!sema_held(&sema) || sema_tryp(&sema) != 0)
		wrong = 3;
	sema_v(&sema);
	if (sema_held(&sema) || sema_p_sig(&sema) != 0)
		wrong = 4;
	sema_v(&sema);
	sema_v(&sema);
	sema_destroy(&sema);
	return (wrong);
}

static void
pass(meeting_t *m)
{
	meeting_reach(m, 1);
	sema_p(&sema);
	passed = 1;
}

/* The waiter gets the unit, not who comes later. */
PROBE(waiter_gets_the_unit)
{
	long wrong = 0;

	sema_init(&sema, 0, NULL, SEMA_DRIVER, NULL);
	passed = 0;
	meeting_start(&other, pass);
	meeting_await(&other, 1);
	delay(10);
	if (passed)
		wrong = 1;
	sema_v(&sema);
	if (sema_tryp(&sema) != 0)
		wrong = 2;
	meeting_end(&other);
	if (!passed)
		wrong = 3;
	sema_destroy(&sema);
	return (wrong);
}

PROBE(destroy_with_waiter)
{
	sema_init(&sema, 0, NULL, SEMA_DRIVER, NULL);
	meeting_start(&other, pass);
	meeting_await(&other, 1);
	delay(10);
	sema_destroy(&sema);
	return (-1);
}

PROBE(never_initialised)
{
	sema_v(&sema);
	return (-1);
}

PROBE(wait_on_destroyed)
{
	sema_init(&sema, 1, NULL, SEMA_DRIVER, NULL);
	sema_destroy(&sema);
	sema_p(&sema);
	return (-1);
}

PROBE(left_behind)
{
	sema_init(&sema, 1, NULL, SEMA_DRIVER, NULL);
	return (0);
}

PROBE(freed_with_it)
{
	ksema_t *own = kmem_alloc(sizeof (*own), KM_SLEEP);

	sema_init(own, 1, NULL, SEMA_DRIVER, NULL);
	kmem_free(own, sizeof (*own));
	return (-1);
}

PROBE(wait_here)
{
	sema_init(&sema, 1, NULL, SEMA_DRIVER, NULL);
	sema_p(&sema);
	sema_destroy(&sema);
	return (-1);
}
