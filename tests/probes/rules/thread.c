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
 * Threads, their stacks and what they leave behind: rules 30, 35, 38 and 39.
 */

#include "probe.h"

PROBE_MODULE("rules about threads")

static kmutex_t lock;
static meeting_t other;

static void
join_self(meeting_t *m)
{
	thread_join(ddi_get_kt_did());
}

PROBE(join_of_self)
{
	meeting_start(&other, join_self);
	meeting_end(&other);
	return (-1);
}

static void
end_with_lock(meeting_t *m)
{
	mutex_enter(&lock);
}

static void
exit_with_lock(meeting_t *m)
{
	mutex_enter(&lock);
	thread_exit();
}

PROBE(return_from_thread_with_mutex)
{
	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	meeting_start(&other, end_with_lock);
	meeting_end(&other);
	return (-1);
}

PROBE(exit_from_thread_with_mutex)
{
	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	meeting_start(&other, exit_with_lock);
	meeting_end(&other);
	return (-1);
}

static void
do_nothing(meeting_t *m)
{
	mutex_enter(&lock);
	mutex_exit(&lock);
}

static void
exit_at_once(meeting_t *m)
{
	thread_exit();
}

PROBE(threads_that_end_well)
{
	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	meeting_start(&other, do_nothing);
	meeting_end(&other);
	meeting_start(&other, exit_at_once);
	meeting_end(&other);
	mutex_destroy(&lock);
	return (0);
}

/*
 * Sleeps in the module while the test unloads it, and comes back to text that
 * is no longer there.
 */
static void
sleep_long(void *arg)
{
	delay(1000);
}

PROBE(thread_left_behind)
{
	(void) thread_create(NULL, 0, (void (*)())sleep_long, NULL, 0, &p0,
	    TS_RUN, minclsyspri);
	delay(10);
	return (0);
}

static void
late(void *arg)
{
	cmn_err(CE_CONT, "too late\n");
}

/* A timeout the module does not take back before its unload. */
PROBE(timeout_left_behind)
{
	(void) timeout(late, NULL, 1000);
	return (0);
}

PROBE(timeout_taken_back)
{
	timeout_id_t id = timeout(late, NULL, 1000);

	(void) untimeout(id);
	return (0);
}

/* Each level has 512 bytes of its own and calls the kernel. */
static long
descend(long depth)
{
	volatile char frame[512];

	bzero((void *)frame, sizeof (frame));
	frame[0] = (char)depth;
	if (depth > 0)
		return (descend(depth - 1) + frame[0]);
	return (hz);
}

PROBE(stack_of_16_kib)
{
	return (descend(32));
}

PROBE(stack_of_8_kib)
{
	return (descend(16));
}

PROBE(stack_of_4_kib)
{
	return (descend(8) == 0);
}

PROBE(direction_flag_set)
{
	__asm__ volatile("std");
	return (0);
}

PROBE(alignment_check_set)
{
	__asm__ volatile(
	    "pushfq\n"
	    "orq $0x40000, (%%rsp)\n"
	    "popfq" : : : "memory", "cc");
	return (0);
}

PROBE(x87_control_changed)
{
	unsigned short word = 0x0f7f;

	__asm__ volatile("fldcw %0" : : "m" (word));
	return (0);
}

PROBE(mxcsr_changed)
{
	unsigned int word = 0x9f80;

	__asm__ volatile("ldmxcsr %0" : : "m" (word));
	return (0);
}

PROBE(flags_put_back)
{
	unsigned int word;

	__asm__ volatile("std\ncld");
	__asm__ volatile("stmxcsr %0" : "=m" (word));
	__asm__ volatile("ldmxcsr %0" : : "m" (word));
	return (0);
}
