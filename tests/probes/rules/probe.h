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
 * What every probe shares.  A probe is a function `long probe_NAME(long)` of a
 * small module; the test calls it by its name.  One that is to break a rule
 * does so in the first call it makes out of order; what it returns then does
 * not matter, because it is never left.  A twin that keeps the rule returns 0,
 * gives back what it took, and its module unloads.
 */

#ifndef	_PROBE_H
#define	_PROBE_H

#include <sys/types.h>
#include <sys/cmn_err.h>
#include <sys/condvar.h>
#include <sys/ddi.h>
#include <sys/disp.h>
#include <sys/kmem.h>
#include <sys/modctl.h>
#include <sys/mutex.h>
#include <sys/proc.h>
#include <sys/sunddi.h>
#include <sys/systm.h>

#define	PROBE(name)			\
	long probe_##name(long);	\
	long probe_##name(long arg __attribute__((unused)))

/* An interrupt cookie above LOCK_LEVEL: mutexes made with it spin. */
#define	HIGH_LEVEL_COOKIE(pil)	((void *)(uintptr_t)(pil))

/* The module's linkage and an _init and _fini that do nothing else. */
#define	PROBE_MODULE(text)						\
static struct modlmisc probe_modlmisc = { &mod_miscops, text };		\
static struct modlinkage probe_linkage = {				\
	MODREV_1, { &probe_modlmisc, NULL }				\
};									\
int									\
_init(void)								\
{									\
	return (mod_install(&probe_linkage));				\
}									\
int									\
_fini(void)								\
{									\
	return (mod_remove(&probe_linkage));				\
}									\
int									\
_info(struct modinfo *info)						\
{									\
	return (mod_info(&probe_linkage, info));			\
}

/*
 * A second thread, and a meeting place for both.  Stages only grow.
 */
typedef struct meeting {
	kmutex_t	m_lock;
	kcondvar_t	m_cv;
	int		m_stage;
	kt_did_t	m_did;
	void		(*m_body)(struct meeting *);
} meeting_t;

static inline void
meeting_reach(meeting_t *m, int stage)
{
	mutex_enter(&m->m_lock);
	m->m_stage = stage;
	cv_broadcast(&m->m_cv);
	mutex_exit(&m->m_lock);
}

static inline void
meeting_await(meeting_t *m, int stage)
{
	mutex_enter(&m->m_lock);
	while (m->m_stage < stage)
		cv_wait(&m->m_cv, &m->m_lock);
	mutex_exit(&m->m_lock);
}

static void
meeting_thread(meeting_t *m)
{
	mutex_enter(&m->m_lock);
	m->m_did = ddi_get_kt_did();
	cv_broadcast(&m->m_cv);
	mutex_exit(&m->m_lock);
	m->m_body(m);
}

/* Starts a thread that runs `body`; returns when it runs. */
static inline void
meeting_start(meeting_t *m, void (*body)(meeting_t *))
{
	mutex_init(&m->m_lock, NULL, MUTEX_DRIVER, NULL);
	cv_init(&m->m_cv, NULL, CV_DRIVER, NULL);
	m->m_stage = 0;
	m->m_did = 0;
	m->m_body = body;
	(void) thread_create(NULL, 0, (void (*)())meeting_thread, m, 0, &p0,
	    TS_RUN, minclsyspri);
	mutex_enter(&m->m_lock);
	while (m->m_did == 0)
		cv_wait(&m->m_cv, &m->m_lock);
	mutex_exit(&m->m_lock);
}

/* Waits for the thread's end. */
static inline void
meeting_end(meeting_t *m)
{
	thread_join(m->m_did);
	cv_destroy(&m->m_cv);
	mutex_destroy(&m->m_lock);
}

#endif	/* _PROBE_H */
