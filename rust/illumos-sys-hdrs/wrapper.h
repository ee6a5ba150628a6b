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
 * Everything that src/bindings.rs declares.
 */

#include <inet/ip.h>
#include <netinet/in.h>
#include <netinet/ip6.h>
#include <sys/atomic.h>
#include <sys/byteorder.h>
#include <sys/callb.h>
#include <sys/cmn_err.h>
#include <sys/condvar.h>
#include <sys/conf.h>
#include <sys/cred.h>
#include <sys/ddi.h>
#include <sys/ddi_intr.h>
#include <sys/ddifm.h>
#include <sys/ddipropdefs.h>
#include <sys/dditypes.h>
#include <sys/debug.h>
#include <sys/devops.h>
#include <sys/disp.h>
#include <sys/dld_ioc.h>
#include <sys/dlpi.h>
#include <sys/dls.h>
#include <sys/dls_mgmt.h>
#include <sys/errno.h>
#include <sys/ethernet.h>
#include <sys/file.h>
#include <sys/ib/ib_types.h>
#include <sys/ib/ibtl/ibci.h>
#include <sys/ib/ibtl/ibti.h>
#include <sys/ib/ibtl/ibti_cm.h>
#include <sys/ib/ibtl/ibti_common.h>
#include <sys/ib/ibtl/ibvti.h>
#include <sys/ib/ibtl/ibtl_ci_types.h>
#include <sys/ib/ibtl/ibtl_status.h>
#include <sys/ib/ibtl/ibtl_types.h>
#include <sys/ibpart.h>
#include <sys/kmem.h>
#include <sys/kstat.h>
#include <sys/list.h>
#include <sys/mac.h>
#include <sys/mac_client.h>
#include <sys/mac_client_priv.h>
#include <sys/mac_ib.h>
#include <sys/mac_provider.h>
#include <sys/machlock.h>
#include <sys/modctl.h>
#include <sys/model.h>
#include <sys/modhash.h>
#include <sys/mutex.h>
#include <sys/param.h>
#include <sys/pattr.h>
#include <sys/policy.h>
#include <sys/proc.h>
#include <sys/random.h>
#include <sys/rwlock.h>
#include <sys/semaphore.h>
#include <sys/stream.h>
#include <sys/strsubr.h>
#include <sys/strsun.h>
#include <sys/sunddi.h>
#include <sys/systm.h>
#include <sys/taskq.h>
#include <sys/thread.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/varargs.h>
#include <sys/zone.h>
