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
 * Helpers for M_IOCTL and for the parts of a message.
 */

#ifndef	_SYS_STRSUN_H
#define	_SYS_STRSUN_H

#include <sys/stream.h>
#include <sys/types.h>

extern void mcopyin(mblk_t *, void *, size_t, void *);
extern void mcopymsg(mblk_t *, void *);
extern void mcopyout(mblk_t *, void *, size_t, void *, mblk_t *);
extern void merror(queue_t *, mblk_t *, int);
extern mblk_t *mexchange(queue_t *, mblk_t *, size_t, uchar_t, int32_t);
extern void mioc2ack(mblk_t *, mblk_t *, size_t, int);
extern void miocack(queue_t *, mblk_t *, int, int);
extern void miocnak(queue_t *, mblk_t *, int, int);
extern int miocpullup(mblk_t *, size_t);
extern size_t msgsize(mblk_t *);

#endif	/* _SYS_STRSUN_H */
