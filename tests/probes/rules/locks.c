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
 * Mutexes, readers/writer locks and the levels they raise a processor to:
 * rules 2, 3, 5, 6, 7, 8, 14, 29, 34, 36 and 37.
 */

#include <sys/rwlock.h>
#include "probe.h"

PROBE_MODULE("rules about locks")

static kmutex_t a, b;
static krwlock_t rw;
static meeting_t other;

static void
init_both(void)
{
	mutex_init(&a, NULL, MUTEX_DRIVER, NULL);
	mutex_init(&b, NULL, MUTEX_DRIVER, NULL);
}

static void
destroy_both(void)
{
	mutex_destroy(&b);
	mutex_destroy(&a);
}

static void
init_spin(kmutex_t *lock, int pil)
{
	mutex_init(lock, NULL, MUTEX_DRIVER, HIGH_LEVEL_COOKIE(pil));
}

/* Holds `a` from stage 1 until stage 2 is reached. */
static void
holder(meeting_t *m)
{
	mutex_enter(&a);
	meeting_reach(m, 1);
	meeting_await(m, 2);
	mutex_exit(&a);
}

PROBE(delay_under_spin_mutex)
{
	init_spin(&a, 12);
	mutex_enter(&a);
	delay(1);
	return (-1);
}

PROBE(cv_wait_under_spin_mutex)
{
	kcondvar_t cv;

	init_spin(&a, 12);
	mutex_init(&b, NULL, MUTEX_DRIVER, NULL);
	cv_init(&cv, NULL, CV_DRIVER, NULL);
	mutex_enter(&b);
	mutex_enter(&a);
	cv_wait(&cv, &b);
	return (-1);
}

PROBE(delay_after_spin_mutex)
{
	init_spin(&a, 12);
	mutex_enter(&a);
	mutex_exit(&a);
	delay(1);
	mutex_destroy(&a);
	return (0);
}

PROBE(sleeping_allocation_under_mutex)
{
	void *p;

	init_both();
	mutex_enter(&a);
	p = kmem_alloc(64, KM_SLEEP);
	mutex_exit(&a);
	kmem_free(p, 64);
	destroy_both();
	return (0);
}

PROBE(nosleep_allocation_under_mutex)
{
	void *p;

	init_both();
	mutex_enter(&a);
	p = kmem_alloc(64, KM_NOSLEEP);
	mutex_exit(&a);
	if (p != NULL)
		kmem_free(p, 64);
	destroy_both();
	return (0);
}

PROBE(recursive_enter)
{
	init_both();
	mutex_enter(&a);
	mutex_enter(&a);
	return (-1);
}

PROBE(enter_again_after_exit)
{
	init_both();
	mutex_enter(&a);
	/* Not an entry, so no recursion either. */
	if (mutex_tryenter(&a) != 0)
		return (-1);
	mutex_exit(&a);
	mutex_enter(&a);
	mutex_exit(&a);
	destroy_both();
	return (0);
}

PROBE(exit_of_free_mutex)
{
	init_both();
	mutex_exit(&a);
	return (-1);
}

PROBE(exit_of_other_threads_mutex)
{
	init_both();
	meeting_start(&other, holder);
	meeting_await(&other, 1);
	mutex_exit(&a);
	return (-1);
}

PROBE(exit_by_owner_while_other_waits)
{
	init_both();
	meeting_start(&other, holder);
	meeting_await(&other, 1);
	meeting_reach(&other, 2);
	mutex_enter(&a);
	mutex_exit(&a);
	meeting_end(&other);
	destroy_both();
	return (0);
}

PROBE(enter_of_garbage)
{
	kmutex_t garbage = { { (void *)0xbaddcafebaddcafe } };

	mutex_enter(&garbage);
	return (-1);
}

PROBE(enter_of_zeroed_mutex)
{
	bzero(&a, sizeof (a));
	mutex_enter(&a);
	mutex_exit(&a);
	mutex_destroy(&a);
	return (0);
}

PROBE(enter_of_destroyed_mutex)
{
	init_both();
	mutex_destroy(&a);
	mutex_enter(&a);
	return (-1);
}

PROBE(tryenter_of_destroyed_mutex)
{
	init_both();
	mutex_destroy(&a);
	return (mutex_tryenter(&a));
}

PROBE(exit_of_destroyed_mutex)
{
	init_both();
	mutex_destroy(&a);
	mutex_exit(&a);
	return (-1);
}

PROBE(enter_of_reinitialised_mutex)
{
	init_both();
	destroy_both();
	init_both();
	mutex_enter(&a);
	mutex_exit(&a);
	destroy_both();
	return (0);
}

PROBE(destroy_of_other_threads_mutex)
{
	init_both();
	meeting_start(&other, holder);
	meeting_await(&other, 1);
	mutex_destroy(&a);
	return (-1);
}

static void
waiter(meeting_t *m)
{
	meeting_reach(m, 1);
	mutex_enter(&a);
	mutex_exit(&a);
}

PROBE(destroy_with_waiter)
{
	init_both();
	mutex_enter(&a);
	meeting_start(&other, waiter);
	meeting_await(&other, 1);
	/* Whoever sleeps lets the waiter get as far as its wait. */
	delay(10);
	mutex_destroy(&a);
	return (-1);
}

PROBE(destroy_twice)
{
	init_both();
	mutex_destroy(&a);
	mutex_destroy(&a);
	return (-1);
}

PROBE(destroy_by_owner)
{
	init_both();
	mutex_enter(&a);
	mutex_destroy(&a);
	mutex_destroy(&b);
	return (0);
}

PROBE(rwlock_recursive_writer)
{
	rw_init(&rw, NULL, RW_DRIVER, NULL);
	rw_enter(&rw, RW_WRITER);
	rw_enter(&rw, RW_WRITER);
	return (-1);
}

PROBE(rwlock_exit_not_held)
{
	rw_init(&rw, NULL, RW_DRIVER, NULL);
	rw_exit(&rw);
	return (-1);
}

PROBE(rwlock_destroy_held)
{
	rw_init(&rw, NULL, RW_DRIVER, NULL);
	rw_enter(&rw, RW_READER);
	rw_destroy(&rw);
	return (-1);
}

PROBE(rwlock_readers_and_writer)
{
	rw_init(&rw, NULL, RW_DRIVER, NULL);
	rw_enter(&rw, RW_READER);
	if (rw_tryenter(&rw, RW_WRITER) != 0)
		return (-1);
	if (rw_tryupgrade(&rw) == 0)
		return (-2);
	rw_downgrade(&rw);
	rw_exit(&rw);
	rw_enter(&rw, RW_WRITER);
	rw_exit(&rw);
	rw_destroy(&rw);
	return (0);
}

PROBE(adaptive_enter_under_spin_mutex)
{
	init_spin(&a, 12);
	mutex_init(&b, NULL, MUTEX_DRIVER, NULL);
	mutex_enter(&a);
	mutex_enter(&b);
	return (-1);
}

PROBE(kmem_free_under_spin_mutex)
{
	void *p = kmem_alloc(64, KM_SLEEP);

	init_spin(&a, 12);
	mutex_enter(&a);
	kmem_free(p, 64);
	return (-1);
}

PROBE(allocation_at_high_level)
{
	void *p = kmem_alloc(64, KM_NOSLEEP);

	return (p == NULL);
}

/* Nothing but what a high-level interrupt may do. */
PROBE(spin_mutex_at_high_level)
{
	char text[16];

	init_spin(&a, 12);
	mutex_enter(&a);
	(void) snprintf(text, sizeof (text), "%d", 5);
	bzero(text, sizeof (text));
	mutex_exit(&a);
	mutex_destroy(&a);
	return (0);
}

PROBE(both_orders)
{
	init_both();
	mutex_enter(&a);
	mutex_enter(&b);
	mutex_exit(&b);
	mutex_exit(&a);
	mutex_enter(&b);
	mutex_enter(&a);
	return (-1);
}

PROBE(one_order)
{
	int i;

	init_both();
	for (i = 0; i < 3; i++) {
		mutex_enter(&a);
		mutex_enter(&b);
		mutex_exit(&a);
		mutex_exit(&b);
	}
	/* A try cannot deadlock, whatever the order. */
	mutex_enter(&b);
	if (mutex_tryenter(&a) == 0)
		return (-1);
	mutex_exit(&a);
	mutex_exit(&b);
	destroy_both();
	return (0);
}

PROBE(return_with_mutex)
{
	init_both();
	mutex_enter(&a);
	return (0);
}

static int
release_callers_mutex(void *object, void *private, int flags)
{
	mutex_exit(&a);
	return (0);
}

PROBE(callback_releases_callers_mutex)
{
	kmem_cache_t *cache = kmem_cache_create("probe", 64, 0,
	    release_callers_mutex, NULL, NULL, NULL, NULL, 0);

	init_both();
	mutex_enter(&a);
	(void) kmem_cache_alloc(cache, KM_NOSLEEP);
	return (-1);
}

PROBE(return_without_mutex)
{
	init_both();
	mutex_enter(&a);
	mutex_enter(&b);
	mutex_exit(&a);
	mutex_exit(&b);
	destroy_both();
	return (0);
}

/*
 * A spin mutex keeps the level it found and goes back to it.  Left in the
 * order they were taken, the outer one lowers the level under the inner one,
 * and the inner one raises it again, with nobody left to lower it.
 */
PROBE(spin_mutexes_left_in_order)
{
	init_spin(&a, 12);
	init_spin(&b, 13);
	mutex_enter(&a);
	mutex_enter(&b);
	mutex_exit(&a);
	mutex_exit(&b);
	return (0);
}

PROBE(spin_mutexes_nested)
{
	init_spin(&a, 12);
	init_spin(&b, 13);
	mutex_enter(&a);
	mutex_enter(&b);
	mutex_exit(&b);
	mutex_exit(&a);
	destroy_both();
	return (0);
}
