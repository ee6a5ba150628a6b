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
 * A link of a host in the lab: the test on the other side of the socket that
 * LAB_SOCKET names does what the kernel would.  A message is an operation, a
 * number, and as many bytes; so is the answer, with an illumos errno.
 */

#include <sys/socket.h>
#include <sys/un.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "transport.h"

enum { OPEN, ASK, PAUSE };

static int lab = -1;

static void
exactly(ssize_t (*transfer)(void *, size_t), void *bytes, size_t len)
{
	char *at = bytes;

	while (len != 0) {
		ssize_t done = transfer(at, len);

		/* The test has gone: there is nobody left to tell. */
		if (done <= 0)
			_exit(99);
		at += done;
		len -= (size_t)done;
	}
}

static ssize_t
put(void *bytes, size_t len)
{
	return (write(lab, bytes, len));
}

static ssize_t
get(void *bytes, size_t len)
{
	return (read(lab, bytes, len));
}

/* One exchange: an errno as this system has it. */
static int
call(uint32_t operation, uint32_t number, void *bytes, size_t room)
{
	uint32_t words[2] = { operation, number };
	int32_t error;

	exactly(put, words, sizeof (words));
	if (operation != PAUSE)
		exactly(put, bytes, number);
	exactly(get, &error, sizeof (error));
	if (error == 0 && room != 0)
		exactly(get, bytes, room);
	return (error == 127 ? ENETDOWN : error);
}

int
link_open(const char *name)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *path = getenv("LAB_SOCKET");

	if (path == NULL)
		return (EIO);
	(void) strncpy(to.sun_path, path, sizeof (to.sun_path) - 1);
	lab = socket(AF_UNIX, SOCK_STREAM, 0);
	if (lab < 0 || connect(lab, (struct sockaddr *)&to, sizeof (to)) != 0)
		return (errno);
	return (call(OPEN, (uint32_t)strlen(name), (void *)name, 0));
}

int
link_ask(ibd_path_info_t *path)
{
	return (call(ASK, sizeof (*path), path, sizeof (*path)));
}

void
link_pause(unsigned int milliseconds)
{
	(void) call(PAUSE, milliseconds, NULL, 0);
}
