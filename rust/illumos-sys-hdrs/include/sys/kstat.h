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
 * Kernel statistics: kstat_create(9F).
 */

#ifndef	_SYS_KSTAT_H
#define	_SYS_KSTAT_H

#include <sys/time.h>
#include <sys/types.h>

#define	KSTAT_DATA_CHAR	0
#define	KSTAT_DATA_INT32	1
#define	KSTAT_DATA_UINT32	2
#define	KSTAT_DATA_INT64	3
#define	KSTAT_DATA_LONGLONG	3
#define	KSTAT_DATA_UINT64	4
#define	KSTAT_DATA_ULONGLONG	4
#define	KSTAT_DATA_FLOAT	5
#define	KSTAT_DATA_DOUBLE	6
#define	KSTAT_DATA_LONG	7
#define	KSTAT_DATA_ULONG	8
#define	KSTAT_DATA_STRING	9

#define	KSTAT_FLAG_VIRTUAL	1
#define	KSTAT_FLAG_VAR_SIZE	2
#define	KSTAT_FLAG_WRITABLE	4
#define	KSTAT_FLAG_PERSISTENT	8
#define	KSTAT_FLAG_DORMANT	16
#define	KSTAT_FLAG_INVALID	32
#define	KSTAT_FLAG_LONGSTRINGS	0x40

#define	KSTAT_READ	0
#define	KSTAT_WRITE	1
#define	KSTAT_STRLEN	31

#define	KSTAT_TYPE_RAW	0
#define	KSTAT_TYPE_NAMED	1
#define	KSTAT_TYPE_INTR	2
#define	KSTAT_TYPE_IO	3
#define	KSTAT_TYPE_TIMER	4

struct kstat;

typedef struct kstat_named kstat_named_t;
typedef struct kstat kstat_t;
typedef int kid_t;

struct kstat {
	hrtime_t	ks_crtime;
	struct kstat	*ks_next;
	kid_t	ks_kid;
	char	ks_module[31];
	uchar_t	ks_resv;
	int	ks_instance;
	char	ks_name[31];
	uchar_t	ks_type;
	char	ks_class[31];
	uchar_t	ks_flags;
	void	*ks_data;
	uint_t	ks_ndata;
	size_t	ks_data_size;
	hrtime_t	ks_snaptime;
	int (*ks_update)(struct kstat *, int);
	void	*ks_private;
	int (*ks_snapshot)(struct kstat *, void *, int);
	void	*ks_lock;
};

struct kstat_named {
	char	name[31];
	uchar_t	data_type;
	union {
		char		c[16];
		int32_t		i32;
		uint32_t	ui32;
		struct {
			union {
				char	*ptr;
				char	__pad[8];
			} addr;
			uint32_t	len;
		} str;
		int64_t		i64;
		uint64_t	ui64;
		long		l;
		ulong_t		ul;
	} value;
};
#define	KSTAT_NAMED_STR_PTR(knptr)	((knptr)->value.str.addr.ptr)
#define	KSTAT_NAMED_STR_BUFLEN(knptr)	((knptr)->value.str.len)

extern kstat_t *kstat_create(const char *, int, const char *, const char *,
    uchar_t, uint_t, uchar_t);
extern void kstat_delete(kstat_t *);
extern void kstat_install(kstat_t *);
extern void kstat_named_init(kstat_named_t *, const char *, uchar_t);
extern void kstat_named_setstr(kstat_named_t *knp, const char *src);
extern void kstat_set_string(char *, const char *);

#endif	/* _SYS_KSTAT_H */
