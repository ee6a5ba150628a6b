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
 * Hash tables: every call takes a lock inside, and callbacks run under it.
 */

#ifndef	_SYS_MODHASH_H
#define	_SYS_MODHASH_H

#include <sys/types.h>

#define	MH_WALK_CONTINUE	0
#define	MH_WALK_TERMINATE	1
#define	MH_ERR_NOTFOUND	(-3)
#define	MH_ERR_DUPLICATE	(-2)
#define	MH_ERR_NOMEM	(-1)

typedef struct mod_hash mod_hash_t;
typedef void *mod_hash_hndl_t;
typedef void *mod_hash_key_t;
typedef void *mod_hash_val_t;

extern uint_t mod_hash_byid(void *, mod_hash_key_t);
extern uint_t mod_hash_byptr(void *, mod_hash_key_t);
extern uint_t mod_hash_bystr(void *, mod_hash_key_t);
extern void mod_hash_cancel(mod_hash_t *, mod_hash_hndl_t *);
extern void mod_hash_clear(mod_hash_t *);
extern mod_hash_t *mod_hash_create_extended(char *, size_t, void
    (*)(mod_hash_key_t), void (*)(mod_hash_val_t), uint_t (*)(void *,
    mod_hash_key_t), void *, int (*)(mod_hash_key_t, mod_hash_key_t), int);
extern mod_hash_t *mod_hash_create_idhash(char *, size_t, void
    (*)(mod_hash_val_t));
extern mod_hash_t *mod_hash_create_ptrhash(char *, size_t, void
    (*)(mod_hash_val_t), size_t);
extern mod_hash_t *mod_hash_create_strhash(char *, size_t, void
    (*)(mod_hash_val_t));
extern int mod_hash_destroy(mod_hash_t *, mod_hash_key_t);
extern void mod_hash_destroy_hash(mod_hash_t *);
extern void mod_hash_destroy_idhash(mod_hash_t *);
extern void mod_hash_destroy_ptrhash(mod_hash_t *);
extern void mod_hash_destroy_strhash(mod_hash_t *);
extern int mod_hash_find(mod_hash_t *, mod_hash_key_t, mod_hash_val_t *);
extern int mod_hash_find_cb(mod_hash_t *, mod_hash_key_t, mod_hash_val_t *,
    void (*)(mod_hash_key_t, mod_hash_val_t));
extern int mod_hash_find_cb_rval(mod_hash_t *, mod_hash_key_t, mod_hash_val_t
    *, int (*)(mod_hash_key_t, mod_hash_val_t), int *);
extern uint_t mod_hash_iddata_gen(size_t);
extern int mod_hash_idkey_cmp(mod_hash_key_t, mod_hash_key_t);
extern int mod_hash_insert(mod_hash_t *, mod_hash_key_t, mod_hash_val_t);
extern int mod_hash_insert_reserve(mod_hash_t *, mod_hash_key_t,
    mod_hash_val_t, mod_hash_hndl_t);
extern void mod_hash_null_keydtor(mod_hash_key_t);
extern void mod_hash_null_valdtor(mod_hash_val_t);
extern int mod_hash_ptrkey_cmp(mod_hash_key_t, mod_hash_key_t);
extern int mod_hash_remove(mod_hash_t *, mod_hash_key_t, mod_hash_val_t *);
extern int mod_hash_replace(mod_hash_t *, mod_hash_key_t, mod_hash_val_t);
extern int mod_hash_reserve(mod_hash_t *, mod_hash_hndl_t *);
extern int mod_hash_reserve_nosleep(mod_hash_t *, mod_hash_hndl_t *);
extern int mod_hash_strkey_cmp(mod_hash_key_t, mod_hash_key_t);
extern void mod_hash_strkey_dtor(mod_hash_key_t);
extern void mod_hash_strval_dtor(mod_hash_val_t);
extern void mod_hash_walk(mod_hash_t *, uint_t (*)(mod_hash_key_t,
    mod_hash_val_t *, void *), void *);

#endif	/* _SYS_MODHASH_H */
