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
 * STREAMS messages and queues: msgb(9S), datab(9S), allocb(9F).
 */

#ifndef	_SYS_STREAM_H
#define	_SYS_STREAM_H

#include <sys/cred.h>
#include <sys/types.h>

#define	BPRI_LO	1
#define	BPRI_MED	2
#define	BPRI_HI	3

#define	DBLK_REFMIN	1
#define	DBLK_REFMAX	0xff

#define	IOC_NONE	0
#define	IOC_ILP32	0x100000
#define	IOC_LP64	0x200000
#define	IOC_NATIVE	0x200000
#define	IOC_MODELS	267386880

#define	MSGDELIM	4

#define	MSGMARK	1

#define	MSGMARKNEXT	16

#define	MSGNOLOOP	2

#define	MSGNOTMARKNEXT	32

#define	MSGWAITSYNC	0x40

#define	M_DATA	0
#define	M_PROTO	1
#define	M_MULTIDATA	2
#define	M_BREAK	8
#define	M_PASSFP	9
#define	M_EVENT	10
#define	M_SIG	11
#define	M_DELAY	12
#define	M_CTL	13
#define	M_IOCTL	14
#define	M_SETOPTS	16
#define	M_RSE	17
#define	M_IOCACK	0x81
#define	M_IOCNAK	0x82
#define	M_PCPROTO	131
#define	M_PCSIG	0x84
#define	M_READ	133
#define	M_FLUSH	134
#define	M_STOP	135
#define	M_START	0x88
#define	M_HANGUP	137
#define	M_ERROR	138
#define	M_COPYIN	139
#define	M_COPYOUT	140
#define	M_IOCDATA	141
#define	M_PCRSE	142
#define	M_STOPI	143
#define	M_STARTI	0x90
#define	M_PCEVENT	145
#define	M_UNHANGUP	146
#define	M_CMD	147

#define	STRUIO_SPEC	1
#define	STRUIO_DONE	2
#define	STRUIO_IP	4
#define	STRUIO_ZC	8
#define	STRUIO_ZCNOTIFY	16

struct datab;
struct msgb;

typedef struct datab dblk_t;
typedef struct free_rtn frtn_t;
typedef struct msgb mblk_t;
typedef struct queue queue_t;

struct datab {
	frtn_t	*db_frtnp;
	unsigned char	*db_base;
	unsigned char	*db_lim;
	unsigned char	db_ref;
	unsigned char	db_type;
	unsigned char	db_flags;
	unsigned char	db_struioflag;
	pid_t	db_cpid;
	void	*db_cache;
	struct msgb	*db_mblk;
	void (*db_free)(struct msgb *, struct datab *);
	void (*db_lastfree)(struct msgb *, struct datab *);
	intptr_t	db_cksumstart;
	intptr_t	db_cksumend;
	intptr_t	db_cksumstuff;
	union {
		uint64_t	enforce_alignment;
		unsigned char	data[8];
		struct {
			union {
				uint32_t	u32;
				uint16_t	u16;
			} cksum_val;
			uint16_t	flags;
			uint16_t	pad;
		} cksum;
	} db_struioun;
	struct fthdr	*db_fthdr;
	cred_t	*db_credp;
};
#define	db_cksum32	db_struioun.cksum.cksum_val.u32
#define	db_cksum16	db_struioun.cksum.cksum_val.u16
#define	db_cksumflags	db_struioun.cksum.flags
#define	db_mss	db_struioun.cksum.pad

struct free_rtn {
	void (*free_func)();
	caddr_t	free_arg;
};

struct iocblk {
	int	ioc_cmd;
	cred_t	*ioc_cr;
	uint_t	ioc_id;
	uint_t	ioc_flag;
	size_t	ioc_count;
	int	ioc_rval;
	int	ioc_error;
};

struct module_info {
	ushort_t	mi_idnum;
	char	*mi_idname;
	ssize_t	mi_minpsz;
	ssize_t	mi_maxpsz;
	size_t	mi_hiwat;
	size_t	mi_lowat;
};

struct msgb {
	struct msgb	*b_next;
	struct msgb	*b_prev;
	struct msgb	*b_cont;
	unsigned char	*b_rptr;
	unsigned char	*b_wptr;
	struct datab	*b_datap;
	unsigned char	b_band;
	unsigned char	b_tag;
	unsigned short	b_flag;
	queue_t	*b_queue;
};

struct qinit {
	int (*qi_putp)();
	int (*qi_srvp)();
	int (*qi_qopen)();
	int (*qi_qclose)();
	int (*qi_qadmin)();
	struct module_info	*qi_minfo;
	struct module_stat	*qi_mstat;
	int (*qi_rwp)();
	int (*qi_infop)();
	int	qi_struiot;
};

struct streamtab {
	struct qinit	*st_rdinit;
	struct qinit	*st_wrinit;
	struct qinit	*st_muxrinit;
	struct qinit	*st_muxwinit;
};

extern int adjmsg(struct msgb *, ssize_t);
extern mblk_t *allocb(size_t, uint_t);
extern bufcall_id_t bufcall(size_t, uint_t, void (*)(void *), void *);
extern int canputnext(queue_t *);
extern mblk_t *copyb(mblk_t *);
extern mblk_t *copymsg(mblk_t *);
extern mblk_t *desballoc(unsigned char *, size_t, uint_t, frtn_t *);
extern mblk_t *dupb(mblk_t *);
extern mblk_t *dupmsg(mblk_t *);
extern mblk_t *esballoc(unsigned char *, size_t, uint_t, frtn_t *);
extern void flushq(queue_t *, int);
extern void freeb(struct msgb *);
extern void freemsg(mblk_t *);
extern mblk_t *getq(queue_t *);
extern void linkb(mblk_t *, mblk_t *);
extern mblk_t *mkiocb(uint_t);
extern int mp_cont_len(mblk_t *, int *);
extern size_t msgdsize(struct msgb *);
extern mblk_t *msgpullup(struct msgb *, ssize_t);
extern int pullupmsg(struct msgb *, ssize_t);
extern void put(queue_t *, mblk_t *);
extern int putbq(queue_t *, mblk_t *);
extern void putnext(queue_t *, mblk_t *);
extern int putq(queue_t *, mblk_t *);
extern void qprocsoff(queue_t *);
extern void qprocson(queue_t *);
extern void qreply(queue_t *, mblk_t *);
extern mblk_t *reallocb(mblk_t *, size_t, uint_t);
extern mblk_t *rmvb(mblk_t *, mblk_t *);
extern int testb(size_t, uint_t);
extern void unbufcall(bufcall_id_t);
extern mblk_t *unlinkb(mblk_t *);

#define	DB_BASE(mp)	((mp)->b_datap->db_base)
#define	DB_LIM(mp)	((mp)->b_datap->db_lim)
#define	DB_REF(mp)	((mp)->b_datap->db_ref)
#define	DB_TYPE(mp)	((mp)->b_datap->db_type)
#define	DB_CKSUMFLAGS(mp)	((mp)->b_datap->db_cksumflags)
#define	DB_CKSUMSTART(mp)	((mp)->b_datap->db_cksumstart)
#define	DB_CKSUMEND(mp)		((mp)->b_datap->db_cksumend)
#define	DB_CKSUMSTUFF(mp)	((mp)->b_datap->db_cksumstuff)
#define	DB_CKSUM16(mp)		((mp)->b_datap->db_cksum16)
#define	DB_LSOMSS(mp)		((mp)->b_datap->db_mss)

#define	MBLKL(mp)	((mp)->b_wptr - (mp)->b_rptr)
#define	MBLKSIZE(mp)	((mp)->b_datap->db_lim - (mp)->b_datap->db_base)
#define	MBLKHEAD(mp)	((mp)->b_rptr - (mp)->b_datap->db_base)
#define	MBLKTAIL(mp)	((mp)->b_datap->db_lim - (mp)->b_wptr)

#endif	/* _SYS_STREAM_H */
