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
 * Timeouts and sleeping: rules 1, 4, 24, 25, 42 and 51.
 */

#include <sys/taskq.h>
#include "probe.h"

PROBE_MODULE("rules about time")

static kmutex_t lock;
static kcondvar_t cv;
static int fired;

static void
init_all(void)
{
	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	cv_init(&cv, NULL, CV_DRIVER, NULL);
	fired = 0;
}

static void
destroy_all(void)
{
	cv_destroy(&cv);
	mutex_destroy(&lock);
}

/* Runs `handler` as a timeout and returns when it has run. */
static void
run_handler(void (*handler)(void *))
{
	timeout_id_t id;

	init_all();
	id = timeout(handler, NULL, 1);
	delay(100);
	(void) untimeout(id);
	destroy_all();
}

static void
sleep_for_memory(void *arg)
{
	kmem_free(kmem_alloc(64, KM_SLEEP), 64);
}

static void
take_memory(void *arg)
{
	void *p = kmem_alloc(64, KM_NOSLEEP);

	if (p != NULL)
		kmem_free(p, 64);
}

static void
wait_in_handler(void *arg)
{
	mutex_enter(&lock);
	cv_wait(&cv, &lock);
	mutex_exit(&lock);
}

static void
run_long(void *arg)
{
	drv_usecwait(11000);
}

static void
run_short(void *arg)
{
	mutex_enter(&lock);
	fired = 1;
	cv_broadcast(&cv);
	mutex_exit(&lock);
	drv_usecwait(100);
}

PROBE(sleep_in_timeout)
{
	run_handler(sleep_for_memory);
	return (-1);
}

/* Called by the test as a soft interrupt. */
PROBE(sleep_for_memory_here)
{
	sleep_for_memory(NULL);
	return (-1);
}

PROBE(delay_here)
{
	delay(1);
	return (-1);
}

PROBE(thread_create_here)
{
	(void) thread_create(NULL, 0, (void (*)())take_memory, NULL, 0, &p0,
	    TS_RUN, minclsyspri);
	return (-1);
}

PROBE(wait_here)
{
	init_all();
	wait_in_handler(NULL);
	return (-1);
}

static void job(void *);

PROBE(taskq_create_here)
{
	(void) taskq_create("probe", 1, minclsyspri, 1, 1, 0);
	return (-1);
}

/* The queue is made where that is legal, by the test's first call. */
PROBE(taskq_dispatch_here)
{
	static taskq_t *tq;

	if (tq == NULL) {
		tq = taskq_create("probe", 1, minclsyspri, 1, 1, 0);
		return (0);
	}
	(void) taskq_dispatch(tq, job, NULL, TQ_SLEEP);
	return (-1);
}

PROBE(soft_state_init_here)
{
	void *state;

	return (ddi_soft_state_init(&state, 64, 1));
}

PROBE(cache_create_here)
{
	return (kmem_cache_create("probe", 64, 0, NULL, NULL, NULL, NULL, NULL,
	    0) == NULL);
}

PROBE(take_memory_here)
{
	take_memory(NULL);
	return (0);
}

PROBE(no_sleep_in_timeout)
{
	run_handler(take_memory);
	return (0);
}

PROBE(untimeout_under_mutex)
{
	timeout_id_t id;

	init_all();
	id = timeout(take_memory, NULL, 100);
	mutex_enter(&lock);
	(void) untimeout(id);
	return (-1);
}

static void
job(void *arg)
{
	take_memory(NULL);
}

PROBE(taskq_wait_under_mutex)
{
	taskq_t *tq = taskq_create("probe", 1, minclsyspri, 1, 1, 0);

	init_all();
	(void) taskq_dispatch(tq, job, NULL, TQ_SLEEP);
	mutex_enter(&lock);
	taskq_wait(tq);
	return (-1);
}

static void
end_at_once(meeting_t *m)
{
}

PROBE(thread_join_under_mutex)
{
	static meeting_t other;

	init_all();
	meeting_start(&other, end_at_once);
	mutex_enter(&lock);
	thread_join(other.m_did);
	return (-1);
}

PROBE(barriers_without_mutex)
{
	taskq_t *tq = taskq_create("probe", 1, minclsyspri, 1, 1, 0);
	timeout_id_t id;

	init_all();
	mutex_enter(&lock);
	id = timeout(take_memory, NULL, 100);
	mutex_exit(&lock);
	(void) taskq_dispatch(tq, job, NULL, TQ_SLEEP);
	taskq_wait(tq);
	taskq_destroy(tq);
	(void) untimeout(id);
	destroy_all();
	return (0);
}

PROBE(untimeout_of_wild_id)
{
	(void) untimeout((timeout_id_t)0x1234567812345678);
	return (-1);
}

PROBE(untimeout_of_known_ids)
{
	timeout_id_t pending, past;

	init_all();
	pending = timeout(take_memory, NULL, 100);
	past = timeout(take_memory, NULL, 1);
	delay(10);
	if (untimeout(pending) < 0)
		return (-1);
	if (untimeout(past) != -1 || untimeout(pending) != -1)
		return (-2);
	if (untimeout(0) != -1)
		return (-3);
	destroy_all();
	return (0);
}

static void
take_lock(void *arg)
{
	mutex_enter(&lock);
	fired = 1;
	mutex_exit(&lock);
}

/* The handler waits for the mutex, whose owner waits for the handler. */
PROBE(untimeout_holding_the_handlers_lock)
{
	timeout_id_t id;

	init_all();
	mutex_enter(&lock);
	id = timeout(take_lock, NULL, 1);
	delay(10);
	(void) untimeout(id);
	mutex_exit(&lock);
	return (-1);
}

PROBE(wait_in_timeout)
{
	run_handler(wait_in_handler);
	return (-1);
}

PROBE(long_timeout)
{
	run_handler(run_long);
	return (-1);
}

PROBE(short_timeout)
{
	timeout_id_t id;

	init_all();
	id = timeout(run_short, NULL, 1);
	mutex_enter(&lock);
	while (fired == 0)
		cv_wait(&cv, &lock);
	mutex_exit(&lock);
	(void) untimeout(id);
	destroy_all();
	return (0);
}

PROBE(delay_of_no_ticks)
{
	delay(0);
	return (0);
}

PROBE(delay_of_negative_ticks)
{
	delay(-5);
	return (0);
}

PROBE(delay_of_a_tick)
{
	delay(1);
	delay(drv_usectohz(1));
	return (0);
}

/*
 * Tasks that take two seconds each, on the queue that everybody shares or on
 * one of the probe's own.
 */
#define	LONG_TASKS	8

extern taskq_t *system_taskq;

static int tasks_out;

static void
long_task(void *arg __attribute__((unused)))
{
	delay(2 * hz);
	mutex_enter(&lock);
	tasks_out--;
	cv_broadcast(&cv);
	mutex_exit(&lock);
}

static void
run_long_tasks(taskq_t *tq)
{
	int n;

	init_all();
	tasks_out = LONG_TASKS;
	for (n = 0; n < LONG_TASKS; n++) {
		while (taskq_dispatch(tq, long_task, NULL, TQ_NOSLEEP) == 0)
			delay(1);
	}
	mutex_enter(&lock);
	while (tasks_out > 0)
		cv_wait(&cv, &lock);
	mutex_exit(&lock);
	destroy_all();
}

PROBE(long_tasks_on_system_taskq)
{
	run_long_tasks(system_taskq);
	return (-1);
}

PROBE(long_tasks_on_a_queue_of_its_own)
{
	taskq_t *tq = taskq_create("probe", 2, minclsyspri, 1, LONG_TASKS, 0);

	run_long_tasks(tq);
	taskq_destroy(tq);
	return (0);
}
