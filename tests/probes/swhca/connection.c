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
 * Two ends of a reliable connection over the software adapter, one on each of
 * its ports.  The test connects them, as ibcm would, and says what each does.
 */

#include "client.h"
#include <sys/ib/ibtl/ibvti.h>

CLIENT_MODULE("connection")

/* The bytes that are sent, and behind them those that are received. */
#define	BYTES		(1024 * 1024)
#define	QUARTER		(BYTES / 4)
#define	ALL_BYTES	(3 * BYTES)
#define	ENTRIES		63
#define	QUEUE		8
#define	SHARED		4

typedef struct end {
	ibt_cq_hdl_t		e_scq;
	ibt_cq_hdl_t		e_rcq;
	ibt_channel_hdl_t	e_chan;
} end_t;

static end_t ends[2];
static ibt_srq_hdl_t srq;
static char *bytes;
static ibt_mr_hdl_t bytes_mr;
static ibt_lkey_t bytes_key;

static long
end_make(end_t *e, uint8_t port, ibt_srq_hdl_t shared)
{
	ibt_rc_chan_alloc_args_t args;

	OK(client_alloc_cq(ENTRIES, IBT_CQ_NO_FLAGS, &e->e_scq, NULL));
	OK(client_alloc_cq(ENTRIES, IBT_CQ_NO_FLAGS, &e->e_rcq, NULL));
	bzero(&args, sizeof (args));
	args.rc_flags = IBT_WR_SIGNALED;
	args.rc_control = IBT_CEP_RDMA_RD | IBT_CEP_RDMA_WR;
	args.rc_scq = e->e_scq;
	args.rc_rcq = e->e_rcq;
	args.rc_pd = client.c_pd;
	args.rc_srq = shared;
	args.rc_hca_port_num = port;
	args.rc_sizes.cs_sq = QUEUE;
	args.rc_sizes.cs_rq = shared == NULL ? QUEUE : 0;
	args.rc_sizes.cs_sq_sgl = 2;
	args.rc_sizes.cs_rq_sgl = shared == NULL ? 2 : 0;
	OK(ibt_alloc_rc_channel(client.c_hca, shared == NULL ?
	    IBT_ACHAN_NO_FLAGS : IBT_ACHAN_USES_SRQ, &args, &e->e_chan, NULL));
	return (0);
}

static long
end_unmake(end_t *e)
{
	if (e->e_chan != NULL)
		OK(ibt_free_channel(e->e_chan));
	e->e_chan = NULL;
	OK(ibt_free_cq(e->e_scq));
	OK(ibt_free_cq(e->e_rcq));
	return (0);
}

/* arg is the adapter's GUID. */
PROBE(start)
{
	long i, error = client_start((ib_guid_t)arg);

	if (error != 0)
		return (error);
	seen.s_async = 0;
	bytes = kmem_zalloc(ALL_BYTES, KM_SLEEP);
	for (i = 0; i < BYTES; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	OK(client_register(bytes, ALL_BYTES,
	    IBT_MR_SLEEP | IBT_MR_ENABLE_LOCAL_WRITE, &bytes_mr, &bytes_key));
	return (0);
}

PROBE(stop)
{
	OK(ibt_deregister_mr(client.c_hca, bytes_mr));
	kmem_free(bytes, ALL_BYTES);
	return (client_stop());
}

/* Two ends; if arg, the receives of the second one are shared. */
PROBE(make)
{
	ibt_srq_sizes_t wanted = { SHARED, 2 };
	long error;

	seen.s_async = 0;
	srq = NULL;
	if (arg != 0) {
		OK(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd,
		    &wanted, &srq, NULL));
	}
	error = end_make(&ends[0], 1, NULL);
	return (error != 0 ? error : end_make(&ends[1], 2, srq));
}

PROBE(unmake)
{
	long error = end_unmake(&ends[0]);

	if (error == 0)
		error = end_unmake(&ends[1]);
	if (error == 0 && srq != NULL)
		OK(ibt_free_srq(srq));
	return (error);
}

/* An end goes before the other one. */
PROBE(free)
{
	OK(ibt_free_channel(ends[arg].e_chan));
	ends[arg].e_chan = NULL;
	return (0);
}

PROBE(handle)
{
	return ((long)(uintptr_t)ends[arg].e_chan);
}

PROBE(number)
{
	ibt_rc_chan_query_attr_t attr;

	OK(ibt_query_rc_channel(ends[arg].e_chan, &attr));
	return ((long)attr.rc_qpn);
}

PROBE(state)
{
	ibt_rc_chan_query_attr_t attr;

	OK(ibt_query_rc_channel(ends[arg].e_chan, &attr));
	return ((long)attr.rc_state);
}

/* The packet that an end expects. */
PROBE(due)
{
	ibt_qp_query_attr_t attr;

	OK(ibt_query_qp(ends[arg].e_chan, &attr));
	return ((long)attr.qp_info.qp_transport.rc.rc_rq_psn);
}

/* What arg says: an end, a request's number, so many bytes, how it is sent. */
#define	ARG_END(arg)	((arg) & 1)
#define	ARG_ID(arg)	(((arg) >> 1) & 0x7f)
#define	ARG_HOW(arg)	(((arg) >> 8) & 0xff)
#define	ARG_LEN(arg)	((uint32_t)((arg) >> 16))
#define	HOW_SIGNALED	1
#define	HOW_SOLICITED	2
#define	HOW_IMMEDIATE	4
#define	HOW_RDMA	8
#define	HOW_BAD_KEY	16

/* A list of two: the first byte, and the rest. */
static uint_t
list(ibt_wr_ds_t *ds, char *base, uint32_t len, ibt_lkey_t key)
{
	uint32_t first = len == 0 ? 0 : 1;

	ds[0].ds_va = (ib_vaddr_t)(uintptr_t)base;
	ds[0].ds_key = key;
	ds[0].ds_len = first;
	ds[1].ds_va = ds[0].ds_va + first;
	ds[1].ds_key = key;
	ds[1].ds_len = len - first;
	return (2);
}

/* What the post answers. */
PROBE(send)
{
	ibt_send_wr_t wr;
	ibt_wr_ds_t ds[2];
	long how = ARG_HOW(arg);

	bzero(&wr, sizeof (wr));
	wr.wr_id = ARG_ID(arg);
	wr.wr_trans = IBT_RC_SRV;
	wr.wr_opcode = how & HOW_RDMA ? IBT_WRC_RDMAW : IBT_WRC_SEND;
	wr.wr_flags = (how & HOW_SIGNALED ? IBT_WR_SEND_SIGNAL : 0) |
	    (how & HOW_SOLICITED ? IBT_WR_SEND_SOLICIT : 0) |
	    (how & HOW_IMMEDIATE ? IBT_WR_SEND_IMMED : 0);
	if (how & HOW_IMMEDIATE)
		wr.wr.rc.rcwr.send_immed = 0x1234567;
	wr.wr_nds = list(ds, bytes, ARG_LEN(arg),
	    how & HOW_BAD_KEY ? bytes_key + 1 : bytes_key);
	wr.wr_sgl = ds;
	return (ibt_post_send(ends[ARG_END(arg)].e_chan, &wr, 1, NULL));
}

/* Where a receive is: one that is short, or of a quarter, has a place of its own. */
#define	SHORT		128

static char *
place(long arg)
{
	long n = ARG_LEN(arg) > SHORT ? 0 : 2 * ARG_ID(arg) + ARG_END(arg);

	if (ARG_LEN(arg) == QUARTER)
		return (bytes + BYTES + ARG_ID(arg) % QUEUE * QUARTER);
	return (bytes + BYTES + n * SHORT);
}

/* What the post answers. */
PROBE(receive)
{
	ibt_recv_wr_t wr;
	ibt_wr_ds_t ds[2];

	wr.wr_id = ARG_ID(arg);
	wr.wr_nds = list(ds, place(arg), ARG_LEN(arg),
	    ARG_HOW(arg) & HOW_BAD_KEY ? bytes_key + 1 : bytes_key);
	wr.wr_sgl = ds;
	if (ARG_END(arg) == 1 && srq != NULL)
		return (ibt_post_srq(srq, &wr, 1, NULL));
	return (ibt_post_recv(ends[ARG_END(arg)].e_chan, &wr, 1, NULL));
}

/*
 * The next completion of an end's sends, or of its receives: its number, how it
 * ended, and so many bytes, with a bit each for immediate data that are right.
 * -1 if there is none.
 */
static long
next(ibt_cq_hdl_t cq)
{
	ibt_wc_t wc;
	long immediate;

	if (ibt_poll_cq(cq, &wc, 1, NULL) != IBT_SUCCESS)
		return (-1);
	immediate = (wc.wc_flags & IBT_WC_IMMED_DATA_PRESENT) != 0 &&
	    wc.wc_immed_data == 0x1234567;
	return ((long)wc.wc_id | ((long)wc.wc_status << 8) |
	    (immediate << 15) | ((long)wc.wc_bytes_xfer << 16));
}

PROBE(sent)
{
	return (next(ends[arg].e_scq));
}

PROBE(received)
{
	return (next(ends[arg].e_rcq));
}

/* Whether a receive was filled as was sent, and nothing else; it is wiped then. */
PROBE(same)
{
	char *to = place(arg), *p;
	uint32_t i;

	for (i = 0; i < ARG_LEN(arg); i++)
		WANT(to[i] == bytes[i]);
	for (p = bytes + BYTES; p < bytes + 2 * BYTES; p++)
		WANT(*p == 0 || (p >= to && p < to + ARG_LEN(arg)));
	bzero(to, ARG_LEN(arg));
	return (0);
}

PROBE(flush)
{
	OK(ibt_flush_channel(ends[arg].e_chan));
	return (0);
}

/* How often the second end was said to hold no shared receive any more. */
PROBE(emptied)
{
	long i, n = 0;

	mutex_enter(&seen.s_lock);
	for (i = 0; i < seen.s_async; i++) {
		n += seen.s_code[i] == IBT_EVENT_EMPTY_CHAN &&
		    seen.s_event[i].ev_chan_hdl == ends[1].e_chan;
	}
	mutex_exit(&seen.s_lock);
	return (n);
}
