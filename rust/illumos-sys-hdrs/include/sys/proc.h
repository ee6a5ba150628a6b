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
 * Processes, opaque to drivers.  A kernel thread is created in p0.
 */

#ifndef	_SYS_PROC_H
#define	_SYS_PROC_H

#include <sys/thread.h>
#include <sys/types.h>

typedef struct proc proc_t;

extern proc_t p0;
extern kthread_t *thread_create(caddr_t stk, size_t stksize, void (*proc)(),
    void *arg, size_t len, proc_t *pp, int state, pri_t pri);
extern void thread_join(kt_did_t);

extern void thread_exit(void) __attribute__((__noreturn__));

#endif	/* _SYS_PROC_H */
