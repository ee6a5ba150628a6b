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
 * Callbacks around checkpoint/resume, which every long-lived kernel thread
 * registers so that it can be stopped at a safe point.
 */

#ifndef	_SYS_CALLB_H
#define	_SYS_CALLB_H

#include <sys/condvar.h>
#include <sys/mutex.h>
#include <sys/sunddi.h>
#include <sys/types.h>

#define	CALLB_CPR_START	1
#define	CALLB_CPR_SAFE	2
#define	CALLB_CPR_ALWAYS_SAFE	4

#define	CB_CL_CPR_DAEMON	0
#define	CB_CODE_CPR_CHKPT	0
#define	CB_CODE_CPR_RESUME	1

typedef struct callb_cpr callb_cpr_t;
typedef void *callb_id_t;

struct callb_cpr {
	kmutex_t	*cc_lockp;
	char	cc_events;
	callb_id_t	cc_id;
	kcondvar_t	cc_callb_cv;
	kcondvar_t	cc_stop_cv;
};

extern callb_id_t callb_add(boolean_t (*)(void *, int), void *, int, char *);
extern int callb_delete(callb_id_t);
extern boolean_t callb_generic_cpr(void *, int);
extern boolean_t callb_generic_cpr_safe(void *, int);

/*
 * A kernel thread that waits for work tells checkpoint/resume when it may be
 * frozen: between SAFE_BEGIN and SAFE_END it touches nothing.  The lock given
 * to CALLB_CPR_INIT is held at each of these, and CALLB_CPR_EXIT drops it.
 */
#define	CALLB_CPR_INIT(cp, lockp, func, name)	{			\
	bzero((cp), sizeof (callb_cpr_t));				\
	(cp)->cc_lockp = (lockp);					\
	(cp)->cc_id = callb_add((func), (cp), CB_CL_CPR_DAEMON, (name));\
}

#define	CALLB_CPR_SAFE_BEGIN(cp)	{				\
	(cp)->cc_events |= CALLB_CPR_SAFE;				\
	if ((cp)->cc_events & CALLB_CPR_START)				\
		cv_signal(&(cp)->cc_callb_cv);				\
}

#define	CALLB_CPR_SAFE_END(cp, lockp)	{				\
	while ((cp)->cc_events & CALLB_CPR_START)			\
		cv_wait(&(cp)->cc_stop_cv, (lockp));			\
	(cp)->cc_events &= ~CALLB_CPR_SAFE;				\
}

#define	CALLB_CPR_EXIT(cp)	{					\
	(cp)->cc_events |= CALLB_CPR_SAFE;				\
	if ((cp)->cc_events & CALLB_CPR_START)				\
		cv_signal(&(cp)->cc_callb_cv);				\
	mutex_exit((cp)->cc_lockp);					\
	(void) callb_delete((cp)->cc_id);				\
	cv_destroy(&(cp)->cc_callb_cv);					\
	cv_destroy(&(cp)->cc_stop_cv);					\
}

#endif	/* _SYS_CALLB_H */
