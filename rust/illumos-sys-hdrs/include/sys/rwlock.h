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
 * Readers/writer locks: rwlock(9F).
 */

#ifndef	_SYS_RWLOCK_H
#define	_SYS_RWLOCK_H

struct _kthread;

typedef enum krw_t {
	RW_WRITER = 0,
	RW_READER = 1,
	RW_READER_STARVEWRITER = 2
} krw_t;

typedef enum krw_type_t {
	RW_DRIVER = 2,
	RW_DEFAULT = 4
} krw_type_t;

typedef struct _krwlock krwlock_t;
struct _krwlock {
	void	*_opaque[1];
};

extern void rw_destroy(krwlock_t *);
extern void rw_downgrade(krwlock_t *);
extern void rw_enter(krwlock_t *, krw_t);
extern void rw_exit(krwlock_t *);
extern void rw_init(krwlock_t *, char *, krw_type_t, void *);
extern int rw_iswriter(krwlock_t *);
extern int rw_lock_held(krwlock_t *);
extern struct _kthread *rw_owner(krwlock_t *);
extern int rw_read_held(krwlock_t *);
extern int rw_read_locked(krwlock_t *);
extern int rw_tryenter(krwlock_t *, krw_t);
extern int rw_tryupgrade(krwlock_t *);
extern int rw_write_held(krwlock_t *);

#endif	/* _SYS_RWLOCK_H */
