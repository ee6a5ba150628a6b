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
 * Mutual exclusion: mutex(9F).  Zero-filled memory is an unheld adaptive
 * mutex.
 */

#ifndef	_SYS_MUTEX_H
#define	_SYS_MUTEX_H

struct _kthread;

typedef enum kmutex_type_t {
	MUTEX_ADAPTIVE = 0,
	MUTEX_SPIN = 1,
	MUTEX_DRIVER = 4,
	MUTEX_DEFAULT = 6
} kmutex_type_t;

typedef struct mutex kmutex_t;
typedef struct pad_mutex pad_mutex_t;
struct mutex {
	void	*_opaque[1];
};

struct pad_mutex {
	kmutex_t	pad_mutex;
	char	pad_pad[56];
};

extern void mutex_destroy(kmutex_t *);
extern void mutex_enter(kmutex_t *);
extern void mutex_exit(kmutex_t *);
extern void mutex_init(kmutex_t *, char *, kmutex_type_t, void *);
extern int mutex_owned(const kmutex_t *);
extern struct _kthread *mutex_owner(const kmutex_t *);
extern int mutex_tryenter(kmutex_t *);

#define	MUTEX_HELD(mp)		(mutex_owned(mp))
#define	MUTEX_NOT_HELD(mp)	(!mutex_owned(mp))

#endif	/* _SYS_MUTEX_H */
