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
 * What a module can leave behind at its unload: rule 19, one kind per probe.
 */

#include <sys/callb.h>
#include <sys/list.h>
#include <sys/modhash.h>
#include <sys/rwlock.h>
#include <sys/stream.h>
#include <sys/taskq.h>
#include "probe.h"

PROBE_MODULE("what is left behind")

PROBE(kmem)
{
	return (kmem_alloc(64, KM_SLEEP) == NULL);
}

PROBE(kmem_cache)
{
	return (kmem_cache_create("probe", 64, 0, NULL, NULL, NULL, NULL, NULL,
	    0) == NULL);
}

PROBE(mutex)
{
	static kmutex_t lock;

	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	return (0);
}

PROBE(cv)
{
	static kcondvar_t cv;

	cv_init(&cv, NULL, CV_DRIVER, NULL);
	return (0);
}

PROBE(rwlock)
{
	static krwlock_t lock;

	rw_init(&lock, NULL, RW_DRIVER, NULL);
	return (0);
}

static void
nothing(void *arg)
{
}

PROBE(timeout)
{
	return (timeout(nothing, NULL, 100) == 0);
}

static boolean_t
resume(void *arg, int code)
{
	return (B_TRUE);
}

PROBE(callb)
{
	return (callb_add(resume, NULL, CB_CL_CPR_DAEMON, "probe") == NULL);
}

static uint_t
by_value(void *data, mod_hash_key_t key)
{
	return ((uint_t)(uintptr_t)key);
}

static int
compare(mod_hash_key_t a, mod_hash_key_t b)
{
	return (a != b);
}

static mod_hash_t *
new_hash(void)
{
	return (mod_hash_create_extended("probe", 8, mod_hash_null_keydtor,
	    mod_hash_null_valdtor, by_value, NULL, compare, KM_SLEEP));
}

PROBE(mod_hash)
{
	return (new_hash() == NULL);
}

PROBE(soft_state)
{
	static void *state;

	return (ddi_soft_state_init(&state, 64, 1));
}

PROBE(mblk)
{
	return (allocb(64, BPRI_MED) == NULL);
}

PROBE(dup_of_mblk)
{
	mblk_t *mp = allocb(64, BPRI_MED);
	mblk_t *dup;

	if (mp == NULL)
		return (-1);
	dup = dupb(mp);
	freeb(mp);
	return (dup == NULL);
}

static void
give_back(caddr_t arg)
{
}

/* A loan that is not back: its free routine lies in this module. */
PROBE(loan)
{
	static unsigned char buffer[64];
	static frtn_t routine;

	routine.free_func = (void (*)())give_back;
	routine.free_arg = NULL;
	return (desballoc(buffer, sizeof (buffer), BPRI_MED, &routine) == NULL);
}

PROBE(taskq)
{
	return (taskq_create("probe", 1, minclsyspri, 1, 1, 0) == NULL);
}

static kmutex_t forever_lock;
static kcondvar_t forever_cv;

static void
wait_forever(void *arg)
{
	mutex_enter(&forever_lock);
	for (;;)
		cv_wait(&forever_cv, &forever_lock);
}

PROBE(thread)
{
	(void) thread_create(NULL, 0, (void (*)())wait_forever, NULL, 0, &p0,
	    TS_RUN, minclsyspri);
	delay(1);
	return (0);
}

PROBE(nothing)
{
	static kmutex_t lock;
	static kcondvar_t cv;
	callb_id_t id;
	mod_hash_t *hash;
	taskq_t *tq;
	mblk_t *mp;

	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	cv_init(&cv, NULL, CV_DRIVER, NULL);
	id = callb_add(resume, NULL, CB_CL_CPR_DAEMON, "probe");
	tq = taskq_create("probe", 1, minclsyspri, 1, 1, 0);
	hash = new_hash();
	if ((mp = allocb(64, BPRI_MED)) != NULL)
		freemsg(mp);
	(void) untimeout(timeout(nothing, NULL, 100));
	mod_hash_destroy_hash(hash);
	taskq_destroy(tq);
	(void) callb_delete(id);
	cv_destroy(&cv);
	mutex_destroy(&lock);
	return (0);
}
