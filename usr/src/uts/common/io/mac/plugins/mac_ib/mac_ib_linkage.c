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
 * Module linkage of the InfiniBand MAC-type plugin.  Everything else about
 * the module is Rust (rust/mac_ib); its _init, _fini and _info hand
 * kmod_linkage to mod_install(9F), mod_remove(9F) and mod_info(9F).
 */

#include <sys/types.h>
#include <sys/modctl.h>

static struct modlmisc mac_ib_modlmisc = {
	&mod_miscops,
	"Infiniband MAC Type plugin 1.0"
};

struct modlinkage kmod_linkage = {
	MODREV_1,
	{ &mac_ib_modlmisc, NULL }
};

/*
 * krtld reads st_size bytes and wants the last one to be NUL.  A gate's linker
 * writes the same into a dynamic section (ld -N).
 */
#ifndef	KMOD_NEEDED_BY_LD
char _depends_on[] = "misc/mac";
#endif
