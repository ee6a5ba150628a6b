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
 * Counting semaphores: semaphore(9F).
 */

#ifndef	_SYS_SEMAPHORE_H
#define	_SYS_SEMAPHORE_H

#include <sys/types.h>

typedef enum ksema_type_t {
	SEMA_DEFAULT = 0,
	SEMA_DRIVER = 1
} ksema_type_t;

typedef struct _ksema ksema_t;
struct _ksema {
	void	*_opaque[2];
};

extern void sema_destroy(ksema_t *);
extern int sema_held(ksema_t *);
extern void sema_init(ksema_t *, uint32_t, char *, ksema_type_t, void *);
extern void sema_p(ksema_t *);
extern int sema_p_sig(ksema_t *);
extern int sema_tryp(ksema_t *);
extern void sema_v(ksema_t *);

#endif	/* _SYS_SEMAPHORE_H */
