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
 * Objects that krtld would mishandle: rule 40.  Which one is chosen when this
 * is compiled.
 */

#include "probe.h"

PROBE_MODULE("an object")

#if defined(UNDEFINED_SYMBOL)
extern int no_such_function(void);

int
ask(void)
{
	return (no_such_function());
}
#elif defined(UNDECLARED_DEPENDENCY)
extern long linkage_answer(void);

long
ask(void)
{
	return (linkage_answer());
}
#elif defined(ZERO_EXTENDED_ADDRESS)
__asm__(".text\nmov $ask, %edi\n");

int
ask(void)
{
	return (0);
}
#elif defined(GOT_OFFSET)
__asm__(".data\n.long hz@GOT\n");
#elif defined(THREAD_LOCAL)
__thread int mine;

int
ask(void)
{
	return (mine);
}
#elif defined(DUPLICATE_GLOBAL)
int
cmn_err_count(void)
{
	return (0);
}

void *
kmem_alloc(size_t size, int flags)
{
	return (NULL);
}
#endif
