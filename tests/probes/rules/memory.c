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
 * Kernel memory: rules 9, 15 to 18, 23 and 41.
 */

#include <sys/list.h>
#include <sys/stream.h>
#include "probe.h"

PROBE_MODULE("rules about memory")

typedef struct holder {
	kmutex_t	h_lock;
	kcondvar_t	h_cv;
	list_node_t	h_node;
	int		h_fired;
} holder_t;

static holder_t *
new_holder(void)
{
	return (kmem_zalloc(sizeof (holder_t), KM_SLEEP));
}

static void
fire(void *arg)
{
	((holder_t *)arg)->h_fired = 1;
}

PROBE(free_with_held_mutex)
{
	holder_t *h = new_holder();

	mutex_init(&h->h_lock, NULL, MUTEX_DRIVER, NULL);
	mutex_enter(&h->h_lock);
	kmem_free(h, sizeof (*h));
	return (-1);
}

PROBE(free_with_idle_mutex)
{
	holder_t *h = new_holder();

	mutex_init(&h->h_lock, NULL, MUTEX_DRIVER, NULL);
	kmem_free(h, sizeof (*h));
	return (-1);
}

static holder_t *waited_for;

static void
wait_in_holder(meeting_t *m)
{
	holder_t *h = waited_for;

	mutex_enter(&h->h_lock);
	meeting_reach(m, 1);
	while (h->h_fired == 0)
		cv_wait(&h->h_cv, &h->h_lock);
	mutex_exit(&h->h_lock);
}

PROBE(free_with_waiter)
{
	static meeting_t m;
	holder_t *h = waited_for = new_holder();

	mutex_init(&h->h_lock, NULL, MUTEX_DRIVER, NULL);
	cv_init(&h->h_cv, NULL, CV_DRIVER, NULL);
	meeting_start(&m, wait_in_holder);
	meeting_await(&m, 1);
	mutex_enter(&h->h_lock);
	mutex_exit(&h->h_lock);
	mutex_destroy(&h->h_lock);
	kmem_free(h, sizeof (*h));
	return (-1);
}

PROBE(free_with_pending_timeout)
{
	holder_t *h = new_holder();

	(void) timeout(fire, h, 100);
	kmem_free(h, sizeof (*h));
	return (-1);
}

PROBE(free_with_linked_node)
{
	static list_t list;
	holder_t *h = new_holder();

	list_create(&list, sizeof (holder_t), offsetof(holder_t, h_node));
	list_insert_tail(&list, h);
	kmem_free(h, sizeof (*h));
	return (-1);
}

PROBE(free_after_everything_in_it)
{
	static list_t list;
	holder_t *h = new_holder();
	timeout_id_t id;

	list_create(&list, sizeof (holder_t), offsetof(holder_t, h_node));
	mutex_init(&h->h_lock, NULL, MUTEX_DRIVER, NULL);
	cv_init(&h->h_cv, NULL, CV_DRIVER, NULL);
	list_insert_tail(&list, h);
	id = timeout(fire, h, 100);
	(void) untimeout(id);
	list_remove(&list, h);
	list_destroy(&list);
	cv_destroy(&h->h_cv);
	mutex_destroy(&h->h_lock);
	kmem_free(h, sizeof (*h));
	return (0);
}

PROBE(free_with_another_size)
{
	void *p = kmem_alloc(100, KM_SLEEP);

	kmem_free(p, 96);
	return (-1);
}

PROBE(free_of_unknown_pointer)
{
	static char mine[64];

	kmem_free(mine, sizeof (mine));
	return (-1);
}

PROBE(free_twice)
{
	void *p = kmem_alloc(100, KM_SLEEP);

	kmem_free(p, 100);
	kmem_free(p, 100);
	return (-1);
}

PROBE(free_of_interior_pointer)
{
	char *p = kmem_alloc(100, KM_SLEEP);

	kmem_free(p + 8, 92);
	return (-1);
}

PROBE(kmem_free_of_message_buffer)
{
	mblk_t *mp = allocb(64, BPRI_MED);

	if (mp == NULL)
		return (-1);
	kmem_free(mp->b_rptr, 64);
	return (-2);
}

static kmem_cache_t *
new_cache(char *name)
{
	return (kmem_cache_create(name, 48, 0, NULL, NULL, NULL, NULL, NULL, 0));
}

PROBE(free_to_the_wrong_cache)
{
	kmem_cache_t *one = new_cache("probe_one");
	kmem_cache_t *two = new_cache("probe_two");
	void *p = kmem_cache_alloc(one, KM_SLEEP);

	kmem_cache_free(two, p);
	return (-1);
}

PROBE(free_with_its_size)
{
	kmem_cache_t *cache = new_cache("probe_one");
	void *p = kmem_alloc(100, KM_SLEEP);
	void *object = kmem_cache_alloc(cache, KM_SLEEP);

	kmem_free(p, 100);
	kmem_free(NULL, 0);
	kmem_cache_free(cache, object);
	kmem_cache_destroy(cache);
	return (0);
}

PROBE(write_behind_the_end)
{
	char *p = kmem_alloc(13, KM_SLEEP);

	p[13] = 0;
	kmem_free(p, 13);
	return (-1);
}

PROBE(write_before_the_start)
{
	char *p = kmem_alloc(64, KM_SLEEP);

	p[-1] = 0;
	kmem_free(p, 64);
	return (-1);
}

/* Found at the unload at the latest. */
PROBE(write_after_free)
{
	char *p = kmem_alloc(64, KM_SLEEP);

	kmem_free(p, 64);
	p[5] = 0;
	return (0);
}

PROBE(read_after_free)
{
	volatile char *p = kmem_alloc(64, KM_SLEEP);

	kmem_free((void *)p, 64);
	return (p[5]);
}

PROBE(read_behind_the_end)
{
	volatile char *p = kmem_alloc(64, KM_SLEEP);
	long got = p[80];

	kmem_free((void *)p, 64);
	return (got);
}

PROBE(write_within_bounds)
{
	char *p = kmem_alloc(13, KM_SLEEP);

	bzero(p, 13);
	p[0] = p[12] = 1;
	kmem_free(p, 13);
	return (0);
}

PROBE(cache_destroyed_with_object)
{
	kmem_cache_t *cache = new_cache("probe_one");

	(void) kmem_cache_alloc(cache, KM_SLEEP);
	kmem_cache_destroy(cache);
	return (-1);
}

PROBE(cache_destroyed_empty)
{
	kmem_cache_t *cache = new_cache("probe_one");
	void *p[3];
	int i;

	for (i = 0; i < 3; i++)
		p[i] = kmem_cache_alloc(cache, KM_SLEEP);
	for (i = 0; i < 3; i++)
		kmem_cache_free(cache, p[i]);
	kmem_cache_destroy(cache);
	return (0);
}

/* An object whose constructed state is a zero counter. */
typedef struct counted {
	long	c_count;
	long	c_scratch;
} counted_t;

static int
construct(void *object, void *private, int flags)
{
	((counted_t *)object)->c_count = 0;
	return (0);
}

static kmem_cache_t *
new_counted_cache(void)
{
	return (kmem_cache_create("probe_counted", sizeof (counted_t), 0,
	    construct, NULL, NULL, NULL, NULL, 0));
}

PROBE(free_of_used_object)
{
	kmem_cache_t *cache = new_counted_cache();
	counted_t *object = kmem_cache_alloc(cache, KM_SLEEP);

	object->c_count++;
	kmem_cache_free(cache, object);
	return (-1);
}

PROBE(free_of_object_as_constructed)
{
	kmem_cache_t *cache = new_counted_cache();
	counted_t *object = kmem_cache_alloc(cache, KM_SLEEP);

	object->c_count++;
	object->c_scratch = 5;
	object->c_count--;
	kmem_cache_free(cache, object);
	kmem_cache_destroy(cache);
	return (0);
}

PROBE(allocation_not_checked)
{
	char *p = kmem_zalloc(64, KM_NOSLEEP);

	p[0] = 1;
	kmem_free(p, 64);
	return (0);
}

PROBE(message_not_checked)
{
	mblk_t *mp = allocb(64, BPRI_MED);

	*mp->b_wptr++ = 1;
	freemsg(mp);
	return (0);
}

PROBE(allocation_checked)
{
	char *p = kmem_zalloc(64, KM_NOSLEEP);

	if (p != NULL)
		kmem_free(p, 64);
	return (p != NULL);
}

PROBE(absurd_size)
{
	void *p = kmem_alloc((size_t)-1, KM_NOSLEEP);

	return (p == NULL);
}

PROBE(overlapping_bcopy)
{
	char *p = kmem_zalloc(64, KM_SLEEP);

	bcopy(p, p + 1, 32);
	return (-1);
}

PROBE(overlapping_memcpy)
{
	char *p = kmem_zalloc(64, KM_SLEEP);

	(void) memcpy(p + 1, p, 32);
	return (-1);
}

PROBE(overlapping_ovbcopy)
{
	char *p = kmem_zalloc(64, KM_SLEEP);

	ovbcopy(p, p + 1, 32);
	(void) memmove(p, p + 1, 32);
	kmem_free(p, 64);
	if (kmem_alloc(0, KM_SLEEP) != NULL)
		return (-1);
	return (0);
}
