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
 * Kernel memory: kmem_alloc(9F), kmem_cache_create(9F).  Memory is freed
 * with the size it was allocated with.
 */

#ifndef	_SYS_KMEM_H
#define	_SYS_KMEM_H

#include <sys/types.h>

#define	KM_SLEEP	0
#define	KM_NOSLEEP	1
#define	KM_PANIC	2
#define	KM_PUSHPAGE	4
#define	KM_NORMALPRI	8
#define	KM_VMFLAGS	0xff
#define	KM_FLAGS	0xffff

typedef struct kmem_cache kmem_cache_t;
typedef struct vmem vmem_t;

extern void *kmem_alloc(size_t size, int kmflags);
extern size_t kmem_avail(void);
extern void *kmem_cache_alloc(kmem_cache_t *, int);
extern kmem_cache_t *kmem_cache_create(char *, size_t, size_t, int (*)(void *,
    void *, int), void (*)(void *, void *), void (*)(void *), void *, vmem_t
    *, int);
extern void kmem_cache_destroy(kmem_cache_t *);
extern void kmem_cache_free(kmem_cache_t *, void *);
extern void kmem_cache_reap_soon(kmem_cache_t *);
extern void kmem_free(void *buf, size_t size);
extern void *kmem_zalloc(size_t size, int kmflags);

#endif	/* _SYS_KMEM_H */
