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
 * Two threads and the same memory: rule 54.  A compiler that is asked to announces
 * each load and store; here they are announced by hand.  Where one thread is to be
 * behind the other with nothing that says so, it waits for the clock.
 */

#include "probe.h"
#include <sys/rwlock.h>
#include <sys/semaphore.h>
#include <sys/taskq.h>

PROBE_MODULE("rules about races")

void __tsan_read8(void *);
void __tsan_write8(void *);
void __tsan_write4(void *);
uint32_t __tsan_atomic32_load(volatile void *, int);
void __tsan_atomic32_store(volatile void *, uint32_t, int);

#define	RELAXED	0
#define	ACQUIRE	2
#define	RELEASE	3

static uint64_t word;
static uint32_t flag;
static uint64_t *block;
static meeting_t other;
static kmutex_t lock;
static ksema_t sema;
static krwlock_t rwlock;

static void __attribute__((noinline))
store(uint64_t *at, uint64_t value)
{
	__tsan_write8(at);
	*at = value;
}

static uint64_t __attribute__((noinline))
load(uint64_t *at)
{
	__tsan_read8(at);
	return (*at);
}

static void
store_word(meeting_t *m)
{
	store(&word, 1);
}

static void
load_word(meeting_t *m)
{
	(void) load(&word);
}

PROBE(load_after_a_store)
{
	meeting_start(&other, store_word);
	delay(10);
	(void) load(&word);
	meeting_end(&other);
	return (-1);
}

PROBE(store_after_a_load)
{
	meeting_start(&other, load_word);
	delay(10);
	store(&word, 2);
	meeting_end(&other);
	return (-1);
}

static void
store_flag(meeting_t *m)
{
	__tsan_atomic32_store(&flag, 1, RELEASE);
}

PROBE(plain_store_after_an_atomic_one)
{
	meeting_start(&other, store_flag);
	delay(10);
	__tsan_write4(&flag);
	flag = 2;
	meeting_end(&other);
	return (-1);
}

static int order;

/* Tells by the flag that the word is there. */
static void
store_and_tell(meeting_t *m)
{
	store(&word, 1);
	__tsan_atomic32_store(&flag, 1, order);
}

static long
told_by_a_flag(int stored, int loaded)
{
	flag = 0;
	order = stored;
	meeting_start(&other, store_and_tell);
	while (__tsan_atomic32_load(&flag, loaded) == 0)
		delay(1);
	(void) load(&word);
	meeting_end(&other);
	return (0);
}

PROBE(flag_that_is_not_released)
{
	return (told_by_a_flag(RELAXED, ACQUIRE));
}

PROBE(flag_that_is_not_acquired)
{
	return (told_by_a_flag(RELEASE, RELAXED));
}

PROBE(flag)
{
	return (told_by_a_flag(RELEASE, ACQUIRE));
}

static void
load_block(meeting_t *m)
{
	(void) load(block);
}

PROBE(free_after_a_load)
{
	block = kmem_zalloc(64, KM_SLEEP);
	meeting_start(&other, load_block);
	delay(10);
	kmem_free(block, 64);
	meeting_end(&other);
	return (-1);
}

/* What each of these uses puts one thread's accesses before the other's. */

static void
store_under_locks(meeting_t *m)
{
	int i;

	for (i = 0; i < 20; i++) {
		mutex_enter(&lock);
		store(&word, i);
		mutex_exit(&lock);
		rw_enter(&rwlock, RW_WRITER);
		store(block, i);
		rw_exit(&rwlock);
	}
	store(&block[1], 1);
	sema_v(&sema);
}

PROBE(locks_and_semaphores)
{
	int i;

	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	rw_init(&rwlock, NULL, RW_DRIVER, NULL);
	sema_init(&sema, 0, NULL, SEMA_DRIVER, NULL);
	block = kmem_zalloc(64, KM_SLEEP);
	store(block, 0);
	meeting_start(&other, store_under_locks);
	for (i = 0; i < 20; i++) {
		mutex_enter(&lock);
		store(&word, i);
		mutex_exit(&lock);
		rw_enter(&rwlock, RW_READER);
		(void) load(block);
		rw_exit(&rwlock);
	}
	sema_p(&sema);
	store(&block[1], 2);
	meeting_end(&other);
	kmem_free(block, 64);
	sema_destroy(&sema);
	rw_destroy(&rwlock);
	mutex_destroy(&lock);
	return (0);
}

static void
store_argument(void *arg)
{
	store(arg, load(arg) + 1);
}

/* Hand-over to a thread, a task, a timeout, and back; and memory that is new. */
PROBE(hand_over)
{
	taskq_t *tq = taskq_create("race", 1, minclsyspri, 1, 4, 0);
	timeout_id_t id;
	int i;

	block = kmem_zalloc(64, KM_SLEEP);
	store(block, 0);
	for (i = 0; i < 4; i++) {
		(void) taskq_dispatch(tq, store_argument, block, TQ_SLEEP);
		taskq_wait(tq);
		store(block, i);
		id = timeout(store_argument, block, 1);
		delay(i);
		(void) untimeout(id);
		store(block, i);
	}
	taskq_destroy(tq);
	meeting_start(&other, load_block);
	meeting_end(&other);
	kmem_free(block, 64);
	for (i = 0; i < 4; i++) {
		block = kmem_zalloc(64, KM_SLEEP);
		store(block, i);
		kmem_free(block, 64);
	}
	return (0);
}

static void
store_second_half(meeting_t *m)
{
	uint32_t *half = (uint32_t *)(void *)block + 1;

	__tsan_write4(half);
	*half = 1;
}

PROBE(bytes_beside_each_other)
{
	block = kmem_zalloc(64, KM_SLEEP);
	meeting_start(&other, store_second_half);
	__tsan_write4(block);
	*(uint32_t *)(void *)block = 1;
	meeting_end(&other);
	kmem_free(block, 64);
	return (0);
}
