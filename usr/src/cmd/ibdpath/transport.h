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
 * What ibdpath asks a link through: on illumos the link's own node (dlpi.c),
 * in the tests a lab's.
 */

#ifndef	_TRANSPORT_H
#define	_TRANSPORT_H

#include <sys/ibd_path.h>

#ifdef	__cplusplus
extern "C" {
#endif

/* Opens a link by its name; 0 or an errno. */
extern int link_open(const char *);

/* IBD_PATH_INFO on the link; 0 or an errno. */
extern int link_ask(ibd_path_info_t *);

/* Waits so many milliseconds. */
extern void link_pause(unsigned int);

#ifdef	__cplusplus
}
#endif

#endif	/* _TRANSPORT_H */
