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
 * A link by its DLPI node.  The stream is passive: it does not keep the link
 * from being used otherwise, and receives nothing.
 */

#include <errno.h>
#include <libdlpi.h>
#include <poll.h>
#include <stropts.h>
#include "transport.h"

#define	ANSWER_SECONDS	15

static dlpi_handle_t handle;

int
link_open(const char *name)
{
	switch (dlpi_open(name, &handle, DLPI_PASSIVE)) {
	case DLPI_SUCCESS:
		return (0);
	case DL_SYSERR:
		return (errno == 0 ? EIO : errno);
	case DLPI_ENOLINK:
	case DLPI_ELINKNAMEINVAL:
		return (ENODEV);
	default:
		return (EIO);
	}
}

int
link_ask(ibd_path_info_t *path)
{
	struct strioctl request;

	request.ic_cmd = IBD_PATH_INFO;
	request.ic_timout = ANSWER_SECONDS;
	request.ic_len = sizeof (*path);
	request.ic_dp = (char *)path;
	return (ioctl(dlpi_fd(handle), I_STR, &request) < 0 ? errno : 0);
}

void
link_pause(unsigned int milliseconds)
{
	(void) poll(NULL, 0, (int)milliseconds);
}
