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
 * Messages: checksum attributes and memory of other owners.
 */

#ifndef	_SYS_STRSUBR_H
#define	_SYS_STRSUBR_H

#include <sys/cred.h>
#include <sys/stream.h>
#include <sys/types.h>

struct multidata_s;
struct pdesc_s;

extern mblk_t *allocb_cred(size_t, cred_t *, pid_t);
extern mblk_t *allocb_tmpl(size_t, const mblk_t *);
extern mblk_t *allocb_wait(size_t, uint_t, uint_t, int *);
extern mblk_t *desballoca(unsigned char *, size_t, uint_t, frtn_t *);
extern mblk_t *esballoca(unsigned char *, size_t, uint_t, frtn_t *);
extern void freemsgchain(mblk_t *);
extern int hcksum_assoc(mblk_t *, struct multidata_s *, struct pdesc_s *,
    uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, int);
extern void hcksum_retrieve(mblk_t *, struct multidata_s *, struct pdesc_s *,
    uint32_t *, uint32_t *, uint32_t *, uint32_t *, uint32_t *);

#endif	/* _SYS_STRSUBR_H */
