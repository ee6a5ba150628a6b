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
 * Module linkage: modlinkage(9S), mod_install(9F), _init(9E).
 */

#ifndef	_SYS_MODCTL_H
#define	_SYS_MODCTL_H

#include <sys/types.h>

#define	MI_INFO_ONE	1
#define	MI_LOADED	1
#define	MI_INFO_ALL	2
#define	MI_INSTALLED	2
#define	MI_INFO_CNT	4
#define	MI_INFO_LINKAGE	8
#define	MI_INFO_NOBASE	16

#define	MODMAXLINK	10

#define	MODMAXLINK32	10

#define	MODMAXLINKINFOLEN	32

#define	MODMAXLINKINFOLEN32	32

#define	MODMAXNAMELEN	32

#define	MODMAXNAMELEN32	32

#define	MODREV_1	1

#define	MOD_NOAUTOUNLOAD	1

struct mod_ops;
struct modinfo;
struct modlinkage;

struct mod_ops {
	int (*modm_install)();
	int (*modm_remove)();
	int (*modm_info)();
};

struct modspecific_info {
	char	msi_linkinfo[32];
	int	msi_p0;
};

struct modinfo {
	int	mi_info;
	int	mi_state;
	int	mi_id;
	int	mi_nextid;
	caddr_t	mi_base;
	size_t	mi_size;
	int	mi_rev;
	int	mi_loadcnt;
	char	mi_name[32];
	struct modspecific_info	mi_msinfo[10];
};

struct modldrv {
	struct mod_ops	*drv_modops;
	char	*drv_linkinfo;
	struct dev_ops	*drv_dev_ops;
};

struct modlinkage {
	int	ml_rev;
	void	*ml_linkage[7];
};

struct modlmisc {
	struct mod_ops	*misc_modops;
	char	*misc_linkinfo;
};

extern int _fini(void);
extern int _info(struct modinfo *);
extern int _init(void);
extern struct mod_ops mod_driverops;
extern int mod_info(struct modlinkage *, struct modinfo *);
extern int mod_install(struct modlinkage *);
extern struct mod_ops mod_miscops;
extern const char *mod_modname(struct modlinkage *);
extern int mod_remove(struct modlinkage *);
extern int modload(const char *, const char *);

#endif	/* _SYS_MODCTL_H */
