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
 * Intrusive doubly linked lists: list_create(9F).  No locking inside.
 */

#ifndef	_SYS_LIST_H
#define	_SYS_LIST_H

#include <sys/types.h>

typedef struct list_node list_node_t;
typedef struct list list_t;

struct list_node {
	struct list_node	*list_next;
	struct list_node	*list_prev;
};

struct list {
	size_t	list_size;
	size_t	list_offset;
	struct list_node	list_head;
};

extern void list_create(list_t *, size_t, size_t);
extern void list_destroy(list_t *);
extern void *list_head(list_t *);
extern void list_insert_after(list_t *, void *, void *);
extern void list_insert_before(list_t *, void *, void *);
extern void list_insert_head(list_t *, void *);
extern void list_insert_tail(list_t *, void *);
extern int list_is_empty(list_t *);
extern int list_link_active(list_node_t *);
extern void list_link_init(list_node_t *);
extern void list_link_replace(list_node_t *, list_node_t *);
extern void list_move_tail(list_t *, list_t *);
extern void *list_next(list_t *, void *);
extern void *list_prev(list_t *, void *);
extern void list_remove(list_t *, void *);
extern void *list_remove_head(list_t *);
extern void *list_remove_tail(list_t *);
extern void *list_tail(list_t *);

#endif	/* _SYS_LIST_H */
