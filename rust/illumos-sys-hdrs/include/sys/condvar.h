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
 * Condition variables: condvar(9F).  Zero-filled memory is an idle one.
 */

#ifndef	_SYS_CONDVAR_H
#define	_SYS_CONDVAR_H

#include <sys/mutex.h>
#include <sys/time.h>
#include <sys/types.h>

typedef enum kcv_type_t {
	CV_DEFAULT = 0,
	CV_DRIVER = 1
} kcv_type_t;

typedef enum time_res_t {
	TR_NANOSEC = 0,
	TR_MICROSEC = 1,
	TR_MILLISEC = 2,
	TR_SEC = 3,
	TR_CLOCK_TICK = 4,
	TR_COUNT = 5
} time_res_t;

typedef struct _kcondvar kcondvar_t;
struct _kcondvar {
	ushort_t	_opaque;
};

extern void cv_broadcast(kcondvar_t *);
extern void cv_destroy(kcondvar_t *);
extern void cv_init(kcondvar_t *, char *, kcv_type_t, void *);
extern clock_t cv_reltimedwait(kcondvar_t *, kmutex_t *, clock_t, time_res_t);
extern clock_t cv_reltimedwait_sig(kcondvar_t *, kmutex_t *, clock_t,
    time_res_t);
extern void cv_signal(kcondvar_t *);
extern clock_t cv_timedwait(kcondvar_t *, kmutex_t *, clock_t);
extern clock_t cv_timedwait_hires(kcondvar_t *, kmutex_t *, hrtime_t,
    hrtime_t, int);
extern clock_t cv_timedwait_sig(kcondvar_t *, kmutex_t *, clock_t);
extern int cv_timedwait_sig_hrtime(kcondvar_t *, kmutex_t *, hrtime_t);
extern void cv_wait(kcondvar_t *, kmutex_t *);
extern int cv_wait_sig(kcondvar_t *, kmutex_t *);
extern int cv_wait_sig_swap(kcondvar_t *, kmutex_t *);
extern int cv_wait_sig_swap_core(kcondvar_t *, kmutex_t *, int *);
extern void cv_wait_stop(kcondvar_t *, kmutex_t *, int);

#endif	/* _SYS_CONDVAR_H */
