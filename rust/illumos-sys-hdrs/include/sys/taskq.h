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
 * Task queues: taskq(9F).
 */

#ifndef	_SYS_TASKQ_H
#define	_SYS_TASKQ_H

#include <sys/thread.h>
#include <sys/types.h>

#define	TASKQ_CPR_SAFE	2
#define	TASKQ_DC_BATCH	16

#define	TASKQ_PREPOPULATE	1
#define	TASKQ_DYNAMIC	4
#define	TASKQ_THREADS_CPU_PCT	8
#define	TASKQ_NAMELEN	31

#define	TQ_SLEEP	0
#define	TQ_NOSLEEP	1
#define	TQ_NOQUEUE	2
#define	TQ_NOALLOC	4
#define	TQ_FRONT	8

struct proc;

typedef struct taskq taskq_t;
typedef void task_func_t(void *);
typedef uintptr_t taskqid_t;

extern void nulltask(void *);
extern taskq_t *taskq_create(const char *, int, pri_t, int, int, uint_t);
extern taskq_t *taskq_create_instance(const char *, int, int, pri_t, int, int,
    uint_t);
extern taskq_t *taskq_create_proc(const char *, int, pri_t, int, int, struct
    proc *, uint_t);
extern void taskq_destroy(taskq_t *);
extern taskqid_t taskq_dispatch(taskq_t *, task_func_t, void *, uint_t);
extern boolean_t taskq_empty(taskq_t *);
extern int taskq_member(taskq_t *, kthread_t *);
extern void taskq_resume(taskq_t *);
extern void taskq_suspend(taskq_t *);
extern int taskq_suspended(taskq_t *);
extern void taskq_wait(taskq_t *);

#endif	/* _SYS_TASKQ_H */
