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
 * An IBTF client as small as it can be: a completion queue for each direction,
 * one UD channel, one registered buffer.  Every probe of this directory is such
 * a client or a part of one.
 *
 * A check that fails ends the probe with the line and, for a status, with what
 * the call answered.  0 is success.
 */

#ifndef	_CLIENT_H
#define	_CLIENT_H

#include <sys/types.h>
#include <sys/ddi.h>
#include <sys/kmem.h>
#include <sys/modctl.h>
#include <sys/mutex.h>
#include <sys/condvar.h>
#include <sys/sunddi.h>
#include <sys/systm.h>
#include <sys/ib/ibtl/ibti.h>

#define	PROBE(name)			\
	long probe_##name(long);	\
	long probe_##name(long arg __attribute__((unused)))

#define	WANT(cond)			\
	do {				\
		if (!(cond))		\
			return (__LINE__);	\
	} while (0)

#define	WANT_STATUS(call, status)				\
	do {							\
		ibt_status_t _was = (call);			\
		if (_was != (status))				\
			return (((long)__LINE__ << 32) | _was);	\
	} while (0)

#define	OK(call)	WANT_STATUS(call, IBT_SUCCESS)

/* A CI failure as IBTF reports one. */
#define	CI_FAILURE	((ibt_status_t)0x88000000)

#define	CLIENT_MODULE(text)						\
static struct modlmisc client_modlmisc = { &mod_miscops, text };	\
static struct modlinkage client_linkage = {				\
	MODREV_1, { &client_modlmisc, NULL }				\
};									\
int									\
_init(void)								\
{									\
	mutex_init(&seen.s_lock, NULL, MUTEX_DRIVER, NULL);		\
	return (mod_install(&client_linkage));				\
}									\
int									\
_fini(void)								\
{									\
	int error = mod_remove(&client_linkage);			\
	if (error == 0)							\
		mutex_destroy(&seen.s_lock);				\
	return (error);							\
}									\
int									\
_info(struct modinfo *info)						\
{									\
	return (mod_info(&client_linkage, info));			\
}

#define	MAX_EVENTS	32

/* What the handlers saw. */
typedef struct seen {
	kmutex_t		s_lock;
	clock_t			s_late;	/* microseconds before s_async counts */
	int			s_async;
	ibt_async_code_t	s_code[MAX_EVENTS];
	ibt_hca_hdl_t		s_hca[MAX_EVENTS];
	ibt_async_event_t	s_event[MAX_EVENTS];
	int			s_cq_calls;
	int			s_cq_running;
	int			s_cq_overlaps;
	void			*s_cq_arg;
	ibt_cq_hdl_t		s_cq;
} seen_t;

static seen_t seen;

typedef struct client {
	ibt_clnt_hdl_t		c_clnt;
	ibt_hca_hdl_t		c_hca;
	ibt_pd_hdl_t		c_pd;
	ibt_cq_hdl_t		c_scq;
	ibt_cq_hdl_t		c_rcq;
	ibt_channel_hdl_t	c_chan;
	ibt_mr_hdl_t		c_mr;
	ibt_lkey_t		c_lkey;
	char			*c_buf;
	ib_guid_t		c_guid;
} client_t;

static client_t client;

/* Receive slot n is at (n + 1) * SLOT; sends go from the start of the buffer. */
#define	SLOT		4096
#define	SLOTS		17
#define	CLIENT_QKEY	0x0b1b

static inline void
client_async(void *private, ibt_hca_hdl_t hca, ibt_async_code_t code,
    ibt_async_event_t *event)
{
	if (seen.s_late != 0)
		delay(drv_usectohz(seen.s_late));
	mutex_enter(&seen.s_lock);
	if (private == &client && seen.s_async < MAX_EVENTS) {
		seen.s_code[seen.s_async] = code;
		seen.s_hca[seen.s_async] = hca;
		seen.s_event[seen.s_async] = *event;
		seen.s_async++;
	}
	mutex_exit(&seen.s_lock);
}

static inline void
client_cq(ibt_cq_hdl_t cq, void *arg)
{
	mutex_enter(&seen.s_lock);
	if (seen.s_cq_running++ != 0)
		seen.s_cq_overlaps++;
	mutex_exit(&seen.s_lock);

	mutex_enter(&seen.s_lock);
	seen.s_cq = cq;
	seen.s_cq_arg = arg;
	seen.s_cq_calls++;
	seen.s_cq_running--;
	mutex_exit(&seen.s_lock);
}

static ibt_clnt_modinfo_t client_modinfo = {
	IBTI_V_CURR, IBT_GENERIC_MISC, client_async, NULL, "PROBE"
};

static inline ibt_status_t
client_alloc_cq(uint_t size, ibt_cq_flags_t flags, ibt_cq_hdl_t *cq,
    uint_t *real)
{
	ibt_cq_attr_t attr;

	bzero(&attr, sizeof (attr));
	attr.cq_size = size;
	attr.cq_flags = flags;
	return (ibt_alloc_cq(client.c_hca, &attr, cq, real));
}

static inline void
client_chan_args(ibt_ud_chan_alloc_args_t *args)
{
	bzero(args, sizeof (*args));
	args->ud_flags = IBT_ALL_SIGNALED;
	args->ud_hca_port_num = 1;
	args->ud_pkey_ix = 0;
	args->ud_sizes.cs_sq = 16;
	args->ud_sizes.cs_rq = 16;
	args->ud_sizes.cs_sq_sgl = 2;
	args->ud_sizes.cs_rq_sgl = 2;
	args->ud_qkey = CLIENT_QKEY;
	args->ud_scq = client.c_scq;
	args->ud_rcq = client.c_rcq;
	args->ud_pd = client.c_pd;
}

static inline ibt_status_t
client_register(void *base, size_t len, ibt_mr_flags_t flags, ibt_mr_hdl_t *mr,
    ibt_lkey_t *lkey)
{
	ibt_mr_attr_t attr;
	ibt_mr_desc_t desc;
	ibt_status_t status;

	bzero(&attr, sizeof (attr));
	attr.mr_vaddr = (ib_vaddr_t)(uintptr_t)base;
	attr.mr_len = len;
	attr.mr_flags = flags;
	status = ibt_register_mr(client.c_hca, client.c_pd, &attr, mr, &desc);
	if (status == IBT_SUCCESS)
		*lkey = desc.md_lkey;
	return (status);
}

/* Attaches and opens. */
static inline long
client_open(ib_guid_t guid)
{
	client.c_guid = guid;
	OK(ibt_attach(&client_modinfo, NULL, &client, &client.c_clnt));
	OK(ibt_open_hca(client.c_clnt, guid, &client.c_hca));
	return (0);
}

static inline long
client_close(void)
{
	OK(ibt_close_hca(client.c_hca));
	OK(ibt_detach(client.c_clnt));
	return (0);
}

/* Everything up to a channel that can send and receive. */
static inline long
client_start(ib_guid_t guid)
{
	ibt_ud_chan_alloc_args_t args;
	long error = client_open(guid);

	if (error != 0)
		return (error);
	OK(ibt_alloc_pd(client.c_hca, IBT_PD_NO_FLAGS, &client.c_pd));
	OK(client_alloc_cq(63, IBT_CQ_NO_FLAGS, &client.c_scq, NULL));
	OK(client_alloc_cq(63, IBT_CQ_NO_FLAGS, &client.c_rcq, NULL));
	client_chan_args(&args);
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args,
	    &client.c_chan, NULL));
	client.c_buf = kmem_zalloc(SLOT * SLOTS, KM_SLEEP);
	OK(client_register(client.c_buf, SLOT * SLOTS,
	    IBT_MR_SLEEP | IBT_MR_ENABLE_LOCAL_WRITE, &client.c_mr,
	    &client.c_lkey));
	return (0);
}

static inline long
client_stop(void)
{
	OK(ibt_free_channel(client.c_chan));
	OK(ibt_free_cq(client.c_scq));
	OK(ibt_free_cq(client.c_rcq));
	OK(ibt_deregister_mr(client.c_hca, client.c_mr));
	kmem_free(client.c_buf, SLOT * SLOTS);
	OK(ibt_free_pd(client.c_hca, client.c_pd));
	return (client_close());
}

/* A destination: LID, QPN, and a group's GID if `mgid` is not NULL. */
static inline ibt_status_t
client_dest(ib_lid_t dlid, ib_qpn_t qpn, ib_gid_t *dgid,
    ibt_ud_dest_hdl_t *dest)
{
	ibt_adds_vect_t av;
	ibt_status_t status;

	status = ibt_alloc_ud_dest(client.c_hca, IBT_UD_DEST_NO_FLAGS,
	    client.c_pd, dest);
	if (status != IBT_SUCCESS)
		return (status);
	bzero(&av, sizeof (av));
	av.av_port_num = 1;
	av.av_dlid = dlid;
	if (dgid != NULL) {
		av.av_send_grh = B_TRUE;
		av.av_dgid = *dgid;
		av.av_hop = 1;
	}
	return (ibt_modify_ud_dest(*dest, CLIENT_QKEY, qpn, &av));
}

static inline void
client_send_wr(ibt_send_wr_t *wr, ibt_wr_ds_t *ds, uint64_t id,
    ibt_ud_dest_hdl_t dest, uint32_t len)
{
	bzero(wr, sizeof (*wr));
	ds->ds_va = (ib_vaddr_t)(uintptr_t)client.c_buf;
	ds->ds_key = client.c_lkey;
	ds->ds_len = len;
	wr->wr_id = id;
	wr->wr_trans = IBT_UD_SRV;
	wr->wr_opcode = IBT_WRC_SEND;
	wr->wr_nds = 1;
	wr->wr_sgl = ds;
	wr->wr.ud.udwr_dest = dest;
}

static inline ibt_status_t
client_send(uint64_t id, ibt_ud_dest_hdl_t dest, uint32_t len)
{
	ibt_send_wr_t wr;
	ibt_wr_ds_t ds;

	client_send_wr(&wr, &ds, id, dest, len);
	return (ibt_post_send(client.c_chan, &wr, 1, NULL));
}

/* Posts receive `id` into its slot. */
static inline ibt_status_t
client_recv(uint64_t id, uint32_t room)
{
	ibt_recv_wr_t wr;
	ibt_wr_ds_t ds;

	ds.ds_va = (ib_vaddr_t)(uintptr_t)(client.c_buf + (id + 1) * SLOT);
	ds.ds_key = client.c_lkey;
	ds.ds_len = room;
	wr.wr_id = id;
	wr.wr_nds = 1;
	wr.wr_sgl = &ds;
	return (ibt_post_recv(client.c_chan, &wr, 1, NULL));
}

#endif	/* _CLIENT_H */
