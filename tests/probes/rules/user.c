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
 * User memory: rules 28 and 32.  The test gives the address of a buffer of 16
 * bytes in a process.
 */

#include <sys/file.h>
#include "probe.h"

PROBE_MODULE("rules about user memory")

PROBE(copyin_here)
{
	char buf[16];

	return (ddi_copyin((void *)arg, buf, sizeof (buf), 0));
}

PROBE(copyout_here)
{
	char buf[16] = "from the kernel";

	return (ddi_copyout(buf, (void *)arg, sizeof (buf), 0));
}

/* With FKIOCTL the buffer is the kernel's own, and any thread may copy. */
PROBE(copy_of_kernel_memory)
{
	char from[16] = "from the kernel", to[16];

	if (ddi_copyin(from, to, sizeof (to), FKIOCTL) != 0)
		return (-1);
	return (strcmp(from, to));
}

PROBE(read_through_user_pointer)
{
	return (*(volatile char *)arg);
}

PROBE(write_through_user_pointer)
{
	*(volatile char *)arg = 5;
	return (-1);
}

PROBE(bcopy_from_user_pointer)
{
	char buf[16];

	bcopy((void *)arg, buf, sizeof (buf));
	return (buf[0]);
}
