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
 * Soft state, lists, hashes and the formatter: rules 27, 33, 44 and 45.
 */

#include <sys/list.h>
#include <sys/modhash.h>
#include "probe.h"

PROBE_MODULE("rules about data structures")

static void *state;

PROBE(soft_state_used_after_fini)
{
	void *stale;

	(void) ddi_soft_state_init(&state, 64, 1);
	stale = state;
	ddi_soft_state_fini(&state);
	return (ddi_get_soft_state(stale, 0) == NULL);
}

PROBE(soft_state_allocated_twice)
{
	(void) ddi_soft_state_init(&state, 64, 1);
	(void) ddi_soft_state_zalloc(state, 3);
	return (ddi_soft_state_zalloc(state, 3));
}

PROBE(soft_state_freed_when_absent)
{
	(void) ddi_soft_state_init(&state, 64, 1);
	ddi_soft_state_free(state, 3);
	return (-1);
}

PROBE(soft_state_in_order)
{
	if (ddi_soft_state_init(&state, 64, 1) != 0)
		return (-1);
	if (ddi_get_soft_state(state, 3) != NULL)
		return (-2);
	if (ddi_soft_state_zalloc(state, 3) != DDI_SUCCESS)
		return (-3);
	if (ddi_get_soft_state(state, 3) == NULL)
		return (-4);
	ddi_soft_state_free(state, 3);
	ddi_soft_state_fini(&state);
	return (state != NULL);
}

PROBE(format_with_z)
{
	cmn_err(CE_CONT, "%zu bytes\n", (size_t)5);
	return (-1);
}

PROBE(snprintf_with_plus)
{
	char text[16];

	return (snprintf(text, sizeof (text), "%+d", 5));
}

PROBE(format_of_null_string)
{
	char text[32];

	return (snprintf(text, sizeof (text), "%s", (char *)NULL) == 0);
}

PROBE(format_of_no_bytes)
{
	char text[32];

	/* A precision of zero is none: all of the string is printed. */
	(void) snprintf(text, sizeof (text), "%.*s", 0, "all of it");
	return (strcmp(text, "all of it"));
}

PROBE(format_as_the_kernel_knows)
{
	char text[64];
	size_t len;

	len = snprintf(text, sizeof (text), "%d %5u %-3o %08x %lx %s %c %p%%",
	    -1, 2, 8, 0xab, 0x123456789al, "text", 'c', (void *)0x10);
	if (strcmp(text, "-1     2 10  000000ab 123456789a text c 10%") != 0)
		return (-1);
	return (len != strlen(text));
}

typedef struct item {
	long		i_value;
	list_node_t	i_node;
} item_t;

static list_t list;
static item_t one, two;

static void
new_list(void)
{
	bzero(&one, sizeof (one));
	bzero(&two, sizeof (two));
	list_create(&list, sizeof (item_t), offsetof(item_t, i_node));
	list_insert_tail(&list, &one);
}

PROBE(list_insert_twice)
{
	new_list();
	list_insert_tail(&list, &one);
	return (-1);
}

PROBE(list_remove_of_unlinked)
{
	new_list();
	list_remove(&list, &two);
	return (-1);
}

PROBE(list_destroyed_with_item)
{
	new_list();
	list_destroy(&list);
	return (-1);
}

PROBE(list_in_order)
{
	new_list();
	list_insert_head(&list, &two);
	if (list_head(&list) != &two || list_next(&list, &two) != &one ||
	    list_tail(&list) != &one || list_prev(&list, &two) != NULL)
		return (-1);
	list_remove(&list, &two);
	list_remove(&list, &one);
	list_insert_tail(&list, &one);
	list_remove(&list, &one);
	list_destroy(&list);
	return (0);
}

static mod_hash_t *hash;

static uint_t
by_value(void *data, mod_hash_key_t key)
{
	return ((uint_t)(uintptr_t)key);
}

static int
compare(mod_hash_key_t a, mod_hash_key_t b)
{
	return (a != b);
}

static int
compare_and_ask(mod_hash_key_t a, mod_hash_key_t b)
{
	mod_hash_val_t value;

	(void) mod_hash_find(hash, a, &value);
	return (a != b);
}

static void
new_hash(int (*keycmp)(mod_hash_key_t, mod_hash_key_t))
{
	hash = mod_hash_create_extended("probe", 8, mod_hash_null_keydtor,
	    mod_hash_null_valdtor, by_value, NULL, keycmp, KM_SLEEP);
}

PROBE(hash_entered_from_its_callback)
{
	new_hash(compare_and_ask);
	(void) mod_hash_insert(hash, (mod_hash_key_t)8, (mod_hash_val_t)1);
	(void) mod_hash_insert(hash, (mod_hash_key_t)16, (mod_hash_val_t)2);
	return (-1);
}

PROBE(hash_in_order)
{
	mod_hash_val_t value;

	new_hash(compare);
	if (mod_hash_insert(hash, (mod_hash_key_t)8, (mod_hash_val_t)1) != 0 ||
	    mod_hash_insert(hash, (mod_hash_key_t)16, (mod_hash_val_t)2) != 0)
		return (-1);
	if (mod_hash_insert(hash, (mod_hash_key_t)8, (mod_hash_val_t)3) !=
	    MH_ERR_DUPLICATE)
		return (-2);
	if (mod_hash_find(hash, (mod_hash_key_t)16, &value) != 0 ||
	    value != (mod_hash_val_t)2)
		return (-3);
	if (mod_hash_remove(hash, (mod_hash_key_t)8, &value) != 0)
		return (-4);
	if (mod_hash_find(hash, (mod_hash_key_t)8, &value) != MH_ERR_NOTFOUND)
		return (-5);
	mod_hash_destroy_hash(hash);
	return (0);
}
