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
 * Condition variables: rules 10 to 13.
 */

#include "probe.h"

PROBE_MODULE("rules about condition variables")

static kmutex_t lock, other_lock;
static kcondvar_t cv;
static int ready;
static meeting_t other;

static void
init_all(void)
{
	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	mutex_init(&other_lock, NULL, MUTEX_DRIVER, NULL);
	cv_init(&cv, NULL, CV_DRIVER, NULL);
	ready = 0;
}

static void
destroy_all(void)
{
	cv_destroy(&cv);
	mutex_destroy(&other_lock);
	mutex_destroy(&lock);
}

PROBE(wait_without_mutex)
{
	init_all();
	cv_wait(&cv, &lock);
	return (-1);
}

PROBE(wait_with_spin_mutex)
{
	mutex_init(&lock, NULL, MUTEX_DRIVER, HIGH_LEVEL_COOKIE(12));
	cv_init(&cv, NULL, CV_DRIVER, NULL);
	mutex_enter(&lock);
	cv_wait(&cv, &lock);
	return (-1);
}

/* Waits for `ready` with the mutex it was given, as one should. */
static void
wait_for_ready(meeting_t *m)
{
	mutex_enter(&lock);
	meeting_reach(m, 1);
	while (ready == 0)
		cv_wait(&cv, &lock);
	mutex_exit(&lock);
	meeting_reach(m, 2);
}

/* As above without the loop: an `if` where a `while` belongs. */
static void
wait_for_ready_once(meeting_t *m)
{
	mutex_enter(&lock);
	meeting_reach(m, 1);
	if (ready == 0)
		cv_wait(&cv, &lock);
	if (ready == 0)
		panic("went on though nobody was ready");
	mutex_exit(&lock);
	meeting_reach(m, 2);
}

static void
make_ready(void)
{
	mutex_enter(&lock);
	ready = 1;
	cv_signal(&cv);
	mutex_exit(&lock);
}

static long
wait_and_wake(void (*body)(meeting_t *))
{
	init_all();
	meeting_start(&other, body);
	meeting_await(&other, 1);
	/* Long enough for a waiter to be woken for no reason. */
	delay(hz);
	make_ready();
	meeting_await(&other, 2);
	meeting_end(&other);
	destroy_all();
	return (0);
}

PROBE(wait_in_loop)
{
	return (wait_and_wake(wait_for_ready));
}

PROBE(wait_once)
{
	return (wait_and_wake(wait_for_ready_once));
}

PROBE(destroy_with_waiter)
{
	init_all();
	meeting_start(&other, wait_for_ready);
	meeting_await(&other, 1);
	/* It has the mutex until it waits. */
	mutex_enter(&lock);
	cv_destroy(&cv);
	return (-1);
}

PROBE(signal_of_garbage)
{
	kcondvar_t garbage = { 0xcafe };

	cv_signal(&garbage);
	return (-1);
}

PROBE(wait_on_destroyed)
{
	init_all();
	cv_destroy(&cv);
	mutex_enter(&lock);
	cv_wait(&cv, &lock);
	return (-1);
}

PROBE(broadcast_to_destroyed)
{
	init_all();
	cv_destroy(&cv);
	cv_broadcast(&cv);
	return (-1);
}

PROBE(destroy_after_last_waiter)
{
	init_all();
	meeting_start(&other, wait_for_ready);
	meeting_await(&other, 1);
	make_ready();
	meeting_end(&other);
	destroy_all();
	return (0);
}

PROBE(two_mutexes)
{
	init_all();
	meeting_start(&other, wait_for_ready);
	meeting_await(&other, 1);
	mutex_enter(&lock);
	mutex_exit(&lock);
	mutex_enter(&other_lock);
	cv_wait(&cv, &other_lock);
	return (-1);
}

/* Nobody waits with the first mutex when the second one is used. */
PROBE(two_mutexes_one_after_the_other)
{
	clock_t now;

	init_all();
	mutex_enter(&lock);
	now = cv_reltimedwait(&cv, &lock, 2, TR_CLOCK_TICK);
	mutex_exit(&lock);
	mutex_enter(&other_lock);
	now += cv_reltimedwait(&cv, &other_lock, 2, TR_CLOCK_TICK);
	mutex_exit(&other_lock);
	destroy_all();
	return (0);
}
