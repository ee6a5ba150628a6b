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
 * A client of the software adapter: what no IPoIB link comes to do with one.
 * Its channel is on port 1 of the adapter, and what it sends goes back to that
 * port.
 */

#include "client.h"

CLIENT_MODULE("client")

/* What flushes come in, and fills. */
#define	RECEIVES	512
#define	SENDS		100
#define	MANY		1023

static ibt_ud_dest_hdl_t self;

/* A channel beside the client's own, with queues of its own. */
typedef struct side {
	ibt_cq_hdl_t		s_scq;
	ibt_cq_hdl_t		s_rcq;
	ibt_channel_hdl_t	s_chan;
	ib_qpn_t		s_qpn;
	ibt_ud_dest_hdl_t	s_dest;
} side_t;

static side_t side;

/* The channel's flags, its queues' length, and how many completions fit. */
static long
side_make(ibt_attr_flags_t flags, uint_t sends, uint_t receives, uint_t scq,
    uint_t rcq, ib_lid_t lid)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_ud_chan_query_attr_t attr;

	OK(client_alloc_cq(scq, IBT_CQ_NO_FLAGS, &side.s_scq, NULL));
	OK(client_alloc_cq(rcq, IBT_CQ_NO_FLAGS, &side.s_rcq, NULL));
	client_chan_args(&args);
	args.ud_flags = flags;
	args.ud_sizes.cs_sq = sends;
	args.ud_sizes.cs_rq = receives;
	args.ud_scq = side.s_scq;
	args.ud_rcq = side.s_rcq;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args,
	    &side.s_chan, NULL));
	OK(ibt_query_ud_channel(side.s_chan, &attr));
	side.s_qpn = attr.ud_qpn;
	OK(client_dest(lid, side.s_qpn, NULL, &side.s_dest));
	return (0);
}

static long
side_unmake(void)
{
	OK(ibt_free_ud_dest(side.s_dest));
	OK(ibt_free_channel(side.s_chan));
	OK(ibt_free_cq(side.s_scq));
	OK(ibt_free_cq(side.s_rcq));
	return (0);
}

/* A receive of `room` bytes from `base` on. */
static ibt_status_t
side_recv(uint64_t id, void *base, ibt_lkey_t key, uint32_t room)
{
	ibt_recv_wr_t wr;
	ibt_wr_ds_t ds;

	ds.ds_va = (ib_vaddr_t)(uintptr_t)base;
	ds.ds_key = key;
	ds.ds_len = room;
	wr.wr_id = id;
	wr.wr_nds = 1;
	wr.wr_sgl = &ds;
	return (ibt_post_recv(side.s_chan, &wr, 1, NULL));
}

/* A send of `len` bytes from `base` on to the channel beside. */
static ibt_status_t
side_send(uint64_t id, void *base, ibt_lkey_t key, uint32_t len)
{
	ibt_send_wr_t wr;
	ibt_wr_ds_t ds;

	client_send_wr(&wr, &ds, id, side.s_dest, len);
	ds.ds_va = (ib_vaddr_t)(uintptr_t)base;
	ds.ds_key = key;
	return (ibt_post_send(side.s_chan, &wr, 1, NULL));
}

#define	NEXT(cq, wc, id, status)				\
	do {							\
		OK(ibt_poll_cq((cq), &(wc), 1, NULL));		\
		WANT((wc).wc_id == (uint64_t)(id));		\
		WANT((wc).wc_status == (status));		\
	} while (0)

#define	EMPTY(cq, wc)	\
	WANT_STATUS(ibt_poll_cq((cq), &(wc), 1, NULL), IBT_CQ_EMPTY)

/* So many events of this kind, each of this object. */
static long
told(ibt_async_code_t code, void *object)
{
	long i, n = 0;

	mutex_enter(&seen.s_lock);
	for (i = 0; i < seen.s_async; i++) {
		ibt_async_event_t *event = &seen.s_event[i];
		void *of = code == IBT_EVENT_LIMIT_REACHED_SRQ ?
		    (void *)event->ev_srq_hdl : (void *)event->ev_chan_hdl;

		if (seen.s_code[i] == code && of == object)
			n++;
	}
	mutex_exit(&seen.s_lock);
	return (n);
}

/* arg is the adapter's GUID; its first port has the LID 1. */
PROBE(start)
{
	long error = client_start((ib_guid_t)arg);

	if (error != 0)
		return (error);
	seen.s_async = 0;
	OK(client_dest(1, 0, NULL, &self));
	return (0);
}

PROBE(stop)
{
	OK(ibt_free_ud_dest(self));
	return (client_stop());
}

/*
 * Receives that are posted come back when the channel is flushed, and what is
 * posted after that at once: each once and in order.
 */
PROBE(flush)
{
	ibt_wc_t wc;
	long i, error;

	error = side_make(IBT_ALL_SIGNALED, 128, RECEIVES + 1, MANY, MANY, 1);
	if (error != 0)
		return (error);
	for (i = 0; i < RECEIVES; i++)
		OK(side_recv(i, client.c_buf + SLOT + i * 100, client.c_lkey,
		    100));
	OK(ibt_flush_channel(side.s_chan));
	for (i = 0; i < SENDS; i++)
		OK(side_send(1000 + i, client.c_buf, client.c_lkey, 8));
	OK(side_recv(RECEIVES, client.c_buf + SLOT + RECEIVES * 100,
	    client.c_lkey, 100));
	for (i = 0; i <= RECEIVES; i++)
		NEXT(side.s_rcq, wc, i, IBT_WC_WR_FLUSHED_ERR);
	for (i = 0; i < SENDS; i++)
		NEXT(side.s_scq, wc, 1000 + i, IBT_WC_WR_FLUSHED_ERR);
	EMPTY(side.s_rcq, wc);
	EMPTY(side.s_scq, wc);
	return (side_unmake());
}

/* Of sends in one array the first cannot be sent: the others are flushed. */
PROBE(flush_behind_a_failed_send)
{
	static ibt_send_wr_t wr[SENDS];
	static ibt_wr_ds_t ds[SENDS];
	ibt_ud_chan_query_attr_t attr;
	ibt_wc_t wc;
	uint_t posted;
	long i, error;

	error = side_make(IBT_WR_SIGNALED, 128, 16, MANY, 15, 1);
	if (error != 0)
		return (error);
	for (i = 0; i < SENDS; i++) {
		client_send_wr(&wr[i], &ds[i], i, side.s_dest,
		    i == 3 ? 4097 : 8);
	}
	OK(ibt_post_send(side.s_chan, wr, SENDS, &posted));
	WANT(posted == SENDS);
	/* The first three were sent, and nobody asked to be told. */
	NEXT(side.s_scq, wc, 3, IBT_WC_LOCAL_LEN_ERR);
	for (i = 4; i < SENDS; i++)
		NEXT(side.s_scq, wc, i, IBT_WC_WR_FLUSHED_ERR);
	EMPTY(side.s_scq, wc);
	OK(ibt_query_ud_channel(side.s_chan, &attr));
	WANT(attr.ud_state == IBT_STATE_SQE);
	return (side_unmake());
}

/* Eight datagrams come where four completions fit. */
PROBE(overrun)
{
	ibt_ud_chan_query_attr_t attr;
	long i, error;

	error = side_make(IBT_ALL_SIGNALED, 16, 16, 63, 4, 1);
	if (error != 0)
		return (error);
	for (i = 0; i < 12; i++) {
		OK(side_recv(i, client.c_buf + (i + 1) * SLOT, client.c_lkey,
		    SLOT));
	}
	for (i = 0; i < 8; i++)
		OK(side_send(i, client.c_buf, client.c_lkey, 64));
	OK(ibt_query_ud_channel(side.s_chan, &attr));
	return (0);
}

/*
 * The owner is told once that completions were lost, the channel has failed,
 * and the four that there was room for are there, and no more.
 */
PROBE(overran)
{
	ibt_ud_chan_query_attr_t attr;
	ibt_wc_t wc;
	int i, lost = 0, failed = 0, sent = 0;

	for (i = 0; i < seen.s_async; i++) {
		if (seen.s_code[i] == IBT_ERROR_CQ) {
			WANT(seen.s_event[i].ev_cq_hdl == side.s_rcq);
			lost++;
		} else {
			WANT(seen.s_code[i] == IBT_ERROR_CATASTROPHIC_CHAN);
			WANT(seen.s_event[i].ev_chan_hdl == side.s_chan);
			failed++;
		}
	}
	WANT(lost == 1 && failed == 1);
	OK(ibt_query_ud_channel(side.s_chan, &attr));
	WANT(attr.ud_state == IBT_STATE_ERROR);
	for (i = 0; i < 4; i++)
		NEXT(side.s_rcq, wc, i, IBT_WC_SUCCESS);
	EMPTY(side.s_rcq, wc);
	/* Its own sends are flushed from when it has failed on. */
	for (i = 0; i < 8; i++) {
		OK(ibt_poll_cq(side.s_scq, &wc, 1, NULL));
		WANT(wc.wc_id == (uint64_t)i);
		if (wc.wc_status == IBT_WC_SUCCESS)
			WANT(sent++ == i);
		else
			WANT(wc.wc_status == IBT_WC_WR_FLUSHED_ERR);
	}
	WANT(sent >= 5);
	/* The other channel of the client goes on. */
	OK(ibt_query_ud_channel(client.c_chan, &attr));
	WANT(attr.ud_state == IBT_STATE_RTS);
	return (side_unmake());
}

/* A handler that takes 50 ms of the processor, as an interrupt may not. */
static volatile long turns_in, turns_out;

static void
slow(ibt_cq_hdl_t cq __attribute__((unused)),
    void *arg __attribute__((unused)))
{
	int i;

	turns_in++;
	for (i = 0; i < 500; i++) {
		/* Others run meanwhile. */
		drv_usecwait(100);
		(void) ddi_get_lbolt();
	}
	turns_out++;
}

PROBE(start_slow_handler)
{
	long error;

	error = side_make(IBT_ALL_SIGNALED, 16, 16, 63, 63, 1);
	if (error != 0)
		return (error);
	turns_in = turns_out = 0;
	ibt_set_cq_handler(side.s_rcq, slow, NULL);
	OK(ibt_enable_cq_notify(side.s_rcq, IBT_NEXT_COMPLETION));
	OK(side_recv(1, client.c_buf + SLOT, client.c_lkey, SLOT));
	OK(side_send(1, client.c_buf, client.c_lkey, 8));
	return (0);
}

/* How far the handler is: calls that have begun << 32 | ended. */
PROBE(turns)
{
	return (turns_in << 32 | turns_out);
}

/* Begun while the handler runs, freeing ends after it. */
PROBE(free_while_it_runs)
{
	WANT(turns_in == 1 && turns_out == 0);
	OK(ibt_free_ud_dest(side.s_dest));
	OK(ibt_free_channel(side.s_chan));
	OK(ibt_free_cq(side.s_rcq));
	WANT(turns_out == 1);
	OK(ibt_free_cq(side.s_scq));
	return (0);
}

/* The key of all kernel memory, on a channel that was not made for it. */
PROBE(reserved_key)
{
	ibt_hca_attr_t attr;
	ibt_wc_t wc;
	long error;

	OK(ibt_query_hca(client.c_hca, &attr));
	WANT(attr.hca_flags2 & IBT_HCA2_RES_LKEY);
	error = side_make(IBT_ALL_SIGNALED, 16, 16, 63, 63, 1);
	if (error != 0)
		return (error);
	OK(side_send(1, client.c_buf, attr.hca_reserved_lkey, 8));
	NEXT(side.s_scq, wc, 1, IBT_WC_LOCAL_PROTECT_ERR);
	OK(ibt_recover_ud_channel(side.s_chan));
	/* Nor does it receive by it. */
	OK(side_recv(2, client.c_buf + SLOT, attr.hca_reserved_lkey, SLOT));
	OK(side_send(3, client.c_buf, client.c_lkey, 8));
	NEXT(side.s_rcq, wc, 2, IBT_WC_LOCAL_PROTECT_ERR);
	error = side_unmake();
	if (error != 0)
		return (error);
	/* One that was made for it does both. */
	error = side_make(IBT_ALL_SIGNALED | IBT_FAST_REG_RES_LKEY, 16, 16, 63,
	    63, 1);
	if (error != 0)
		return (error);
	OK(side_recv(4, client.c_buf + SLOT, attr.hca_reserved_lkey, SLOT));
	OK(side_send(5, client.c_buf, attr.hca_reserved_lkey, 8));
	NEXT(side.s_rcq, wc, 4, IBT_WC_SUCCESS);
	NEXT(side.s_scq, wc, 5, IBT_WC_SUCCESS);
	return (side_unmake());
}

/* A region ends before the memory does: not a byte beyond is read or written. */
PROBE(one_byte_past)
{
	ibt_mr_hdl_t mr;
	ibt_lkey_t key;
	ibt_wc_t wc;
	char *base = client.c_buf + 2 * SLOT;
	long error;
	int i;

	OK(client_register(base, 100, IBT_MR_SLEEP | IBT_MR_ENABLE_LOCAL_WRITE,
	    &mr, &key));
	error = side_make(IBT_ALL_SIGNALED, 16, 16, 63, 63, 1);
	if (error != 0)
		return (error);
	OK(side_send(1, base, key, 101));
	NEXT(side.s_scq, wc, 1, IBT_WC_LOCAL_PROTECT_ERR);
	OK(ibt_recover_ud_channel(side.s_chan));
	OK(side_send(2, base - 1, key, 100));
	NEXT(side.s_scq, wc, 2, IBT_WC_LOCAL_PROTECT_ERR);
	OK(ibt_recover_ud_channel(side.s_chan));
	/* 40 bytes and 61 are one more than 100. */
	for (i = 0; i < 100; i++)
		client.c_buf[i] = (char)0x5a;
	bzero(base, 200);
	OK(side_recv(3, base, key, 101));
	OK(side_send(4, client.c_buf, client.c_lkey, 61));
	NEXT(side.s_rcq, wc, 3, IBT_WC_LOCAL_PROTECT_ERR);
	NEXT(side.s_scq, wc, 4, IBT_WC_SUCCESS);
	for (i = 100; i < 200; i++)
		WANT(base[i] == 0);
	/* That was the end of it. */
	OK(side_recv(5, base, key, 100));
	NEXT(side.s_rcq, wc, 5, IBT_WC_WR_FLUSHED_ERR);
	OK(ibt_recycle_ud(side.s_chan, 1, 0, CLIENT_QKEY));
	OK(side_recv(6, base, key, 100));
	OK(side_send(7, client.c_buf, client.c_lkey, 60));
	NEXT(side.s_rcq, wc, 6, IBT_WC_SUCCESS);
	WANT(base[99] == 0x5a && base[100] == 0);
	error = side_unmake();
	if (error != 0)
		return (error);
	OK(ibt_deregister_mr(client.c_hca, mr));
	return (0);
}

/*
 * The memory of the first of two receives is deregistered: the datagram that
 * comes for it fails the channel, and the other receive comes back.
 */
PROBE(receive_without_memory)
{
	ibt_ud_chan_query_attr_t attr;
	ibt_mr_hdl_t mr;
	ibt_lkey_t key;
	ibt_wc_t wc;
	char *good = client.c_buf + 3 * SLOT;
	long error;

	OK(client_register(client.c_buf + 2 * SLOT, 100,
	    IBT_MR_SLEEP | IBT_MR_ENABLE_LOCAL_WRITE, &mr, &key));
	error = side_make(IBT_ALL_SIGNALED, 16, 16, 63, 63, 1);
	if (error != 0)
		return (error);
	OK(side_recv(1, client.c_buf + 2 * SLOT, key, 100));
	OK(side_recv(2, good, client.c_lkey, SLOT));
	OK(ibt_deregister_mr(client.c_hca, mr));
	OK(side_send(3, client.c_buf, client.c_lkey, 8));
	NEXT(side.s_rcq, wc, 1, IBT_WC_LOCAL_PROTECT_ERR);
	/* Nobody tells the sender. */
	NEXT(side.s_scq, wc, 3, IBT_WC_SUCCESS);
	OK(ibt_query_ud_channel(side.s_chan, &attr));
	WANT(attr.ud_state == IBT_STATE_ERROR);
	NEXT(side.s_rcq, wc, 2, IBT_WC_WR_FLUSHED_ERR);
	OK(side_recv(4, good, client.c_lkey, SLOT));
	NEXT(side.s_rcq, wc, 4, IBT_WC_WR_FLUSHED_ERR);
	EMPTY(side.s_rcq, wc);
	return (0);
}

/* A while later: its owner was told once, its sends fail, too, and it recovers. */
PROBE(received_without_memory)
{
	ibt_wc_t wc;

	WANT(told(IBT_ERROR_CATASTROPHIC_CHAN, side.s_chan) == 1);
	OK(side_send(5, client.c_buf, client.c_lkey, 8));
	NEXT(side.s_scq, wc, 5, IBT_WC_WR_FLUSHED_ERR);
	OK(ibt_recycle_ud(side.s_chan, 1, 0, CLIENT_QKEY));
	OK(side_recv(6, client.c_buf + 3 * SLOT, client.c_lkey, SLOT));
	OK(side_send(7, client.c_buf, client.c_lkey, 8));
	NEXT(side.s_rcq, wc, 6, IBT_WC_SUCCESS);
	NEXT(side.s_scq, wc, 7, IBT_WC_SUCCESS);
	return (side_unmake());
}

/* Memory that is deregistered while it is being sent from. */
#define	BATCH		16
#define	BEFORE		0x42
#define	AFTER		0x66

static ibt_mr_hdl_t moving;
static ibt_lkey_t moving_key;
static volatile long sending;

PROBE(start_moving)
{
	long i, error;

	error = side_make(IBT_ALL_SIGNALED, BATCH, BATCH, 63, 63, 1);
	if (error != 0)
		return (error);
	for (i = 0; i < SLOT; i++)
		client.c_buf[i] = BEFORE;
	OK(client_register(client.c_buf, SLOT, IBT_MR_SLEEP |
	    IBT_MR_ENABLE_LOCAL_WRITE, &moving, &moving_key));
	sending = 0;
	return (0);
}

/* Sends as much as it may; how much arrived. None of it is younger. */
PROBE(send_from_it)
{
	ibt_send_wr_t wr[BATCH];
	ibt_wr_ds_t ds[BATCH];
	ibt_wc_t wc;
	long i, at, came = 0;

	for (i = 0; i < BATCH; i++) {
		OK(side_recv(i, client.c_buf + (i + 1) * SLOT, client.c_lkey,
		    SLOT));
		client_send_wr(&wr[i], &ds[i], i, side.s_dest, 1024);
		ds[i].ds_key = moving_key;
	}
	sending = 1;
	OK(ibt_post_send(side.s_chan, wr, BATCH, NULL));
	sending = 2;
	for (i = 0; i < BATCH; i++) {
		OK(ibt_poll_cq(side.s_scq, &wc, 1, NULL));
		WANT(wc.wc_id == (uint64_t)i);
		if (wc.wc_status != IBT_WC_SUCCESS)
			break;
	}
	for (came = 0; ibt_poll_cq(side.s_rcq, &wc, 1, NULL) == IBT_SUCCESS;
	    came++) {
		char *data = client.c_buf + (came + 1) * SLOT + 40;

		WANT(wc.wc_id == (uint64_t)came);
		for (at = 0; at < 1024; at++)
			WANT(data[at] == BEFORE);
	}
	/* What a send says that it did is what arrived. */
	WANT(came == i);
	return (-came);
}

/* Deregisters it meanwhile, and then it is nobody else's; how far they were. */
PROBE(take_it_away)
{
	long i, was;

	while (sending == 0)
		(void) ddi_get_lbolt();
	for (i = 0; i < arg; i++)
		(void) ddi_get_lbolt();
	OK(ibt_deregister_mr(client.c_hca, moving));
	was = sending;
	for (i = 0; i < SLOT; i++)
		client.c_buf[i] = AFTER;
	return (-was);
}

PROBE(stop_moving)
{
	return (side_unmake());
}

/* Asks a port for something that a client may ask for, arg times. */
PROBE(modify_ports)
{
	long i;

	for (i = 0; i < arg; i++) {
		OK(ibt_modify_port(client.c_hca, 1 + (uint8_t)(i & 1),
		    IBT_PORT_SET_DEVMGT, 0));
	}
	WANT_STATUS(ibt_modify_port(client.c_hca, 3, IBT_PORT_SET_DEVMGT, 0),
	    IBT_HCA_PORT_INVALID);
	return (0);
}

/* How many events came. */
PROBE(events)
{
	long n;

	mutex_enter(&seen.s_lock);
	n = seen.s_async;
	mutex_exit(&seen.s_lock);
	return (n);
}

/* Where a port finds its subnet manager, and its first prefix. */
static long
port_info(uint8_t port, ib_lid_t *manager, uint64_t *prefix)
{
	ibt_hca_portinfo_t *info;
	uint_t ports, size;

	OK(ibt_query_hca_ports(client.c_hca, port, &info, &ports, &size));
	*manager = info->p_sm_lid;
	*prefix = info->p_sgid_tbl[0].gid_prefix;
	ibt_free_portinfo(info, size);
	return (0);
}

/* arg is a port and, above 16 bits of it, the manager's LID that it should say. */
PROBE(manager_is)
{
	ib_lid_t manager;
	uint64_t prefix;
	long error = port_info((uint8_t)arg, &manager, &prefix);

	if (error == 0)
		WANT(manager == arg >> 16);
	return (error);
}

/* The same with the upper half of the prefix. */
PROBE(prefix_is)
{
	ib_lid_t manager;
	uint64_t prefix;
	long error = port_info((uint8_t)arg, &manager, &prefix);

	if (error == 0)
		WANT(prefix >> 32 == (uint64_t)arg >> 16);
	return (error);
}

/* arg is the lower half of a group's GID in IPoIB's default partition. */
static void
of_group(ibt_mcg_info_t *info, long arg)
{
	bzero(info, sizeof (*info));
	info->mc_adds_vect.av_dgid.gid_prefix = 0xff12401bffff0000ULL;
	info->mc_adds_vect.av_dgid.gid_guid = (ib_guid_t)arg;
	info->mc_adds_vect.av_dlid = 0xc000;
}

/* The client's channel is attached, and nobody has its port join. */
PROBE(attach)
{
	ibt_mcg_info_t info;
	long i;

	of_group(&info, arg);
	OK(ibt_attach_mcg(client.c_chan, &info));
	for (i = 0; i < 8; i++)
		OK(client_recv(i, SLOT));
	return (0);
}

PROBE(detach)
{
	ibt_mcg_info_t info;

	of_group(&info, arg);
	OK(ibt_detach_mcg(client.c_chan, &info));
	OK(ibt_flush_channel(client.c_chan));
	return (0);
}

/*
 * How often the CQ of the channel's sends was said to have failed, and above 8
 * bits of it that of its receives.
 */
PROBE(cqs_failed)
{
	long i, sends = 0, receives = 0;

	mutex_enter(&seen.s_lock);
	for (i = 0; i < seen.s_async; i++) {
		if (seen.s_code[i] != IBT_ERROR_CQ)
			continue;
		sends += seen.s_event[i].ev_cq_hdl == client.c_scq;
		receives += seen.s_event[i].ev_cq_hdl == client.c_rcq;
	}
	mutex_exit(&seen.s_lock);
	return (sends | receives << 8);
}

/* How much has come since the last time. */
PROBE(heard)
{
	ibt_wc_t wc;
	long n = 0;

	while (ibt_poll_cq(client.c_rcq, &wc, 1, NULL) == IBT_SUCCESS) {
		WANT(wc.wc_status == IBT_WC_SUCCESS);
		n++;
	}
	return (-n);
}

/* A handler that notes how much there is when it is called first. */
static volatile long first_time, calls;

static void
tally(ibt_cq_hdl_t cq, void *arg __attribute__((unused)))
{
	ibt_wc_t wc;
	long n = 0;

	while (ibt_poll_cq(cq, &wc, 1, NULL) == IBT_SUCCESS)
		n++;
	if (calls++ == 0)
		first_time = n;
	(void) ibt_enable_cq_notify(cq, IBT_NEXT_COMPLETION);
}

/*
 * Sixteen datagrams in one post, to a CQ whose handler may be called for arg
 * completions at once.
 */
PROBE(moderated)
{
	static ibt_send_wr_t wr[BATCH];
	static ibt_wr_ds_t ds[BATCH];
	uint_t entries, count, usec;
	ibt_cq_handler_id_t hid;
	long i, error;

	error = side_make(IBT_WR_SIGNALED, BATCH, BATCH, 63, 63, 1);
	if (error != 0)
		return (error);
	OK(ibt_modify_cq(side.s_rcq, (uint_t)arg, 1000, 0));
	OK(ibt_query_cq(side.s_rcq, &entries, &count, &usec, &hid));
	WANT(count == (uint_t)arg && usec == 1000);
	first_time = calls = 0;
	ibt_set_cq_handler(side.s_rcq, tally, NULL);
	OK(ibt_enable_cq_notify(side.s_rcq, IBT_NEXT_COMPLETION));
	for (i = 0; i < BATCH; i++) {
		OK(side_recv(i, client.c_buf + (i + 1) * SLOT, client.c_lkey,
		    SLOT));
		client_send_wr(&wr[i], &ds[i], i, side.s_dest, 64);
	}
	OK(ibt_post_send(side.s_chan, wr, BATCH, NULL));
	return (0);
}

/* What there was at the first call. */
PROBE(first_time)
{
	ibt_wc_t wc;

	EMPTY(side.s_rcq, wc);
	return (-first_time);
}

PROBE(unmoderate)
{
	ibt_set_cq_handler(side.s_rcq, NULL, NULL);
	WANT_STATUS(ibt_modify_cq(side.s_rcq, 0x10000, 1, 0),
	    IBT_INVALID_PARAM);
	return (side_unmake());
}

/* Two channels whose receives come from one queue. */
#define	SHARED		8

static ibt_srq_hdl_t srq;
static side_t sharers[2];

static long
share(uint_t receives)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_ud_chan_query_attr_t attr;
	ibt_srq_sizes_t wanted, real;
	int i;

	wanted.srq_wr_sz = receives;
	wanted.srq_sgl_sz = 1;
	OK(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd, &wanted,
	    &srq, &real));
	WANT(real.srq_wr_sz >= receives && real.srq_sgl_sz >= 1);
	for (i = 0; i < 2; i++) {
		side_t *s = &sharers[i];

		OK(client_alloc_cq(63, IBT_CQ_NO_FLAGS, &s->s_scq, NULL));
		OK(client_alloc_cq(63, IBT_CQ_NO_FLAGS, &s->s_rcq, NULL));
		client_chan_args(&args);
		args.ud_scq = s->s_scq;
		args.ud_rcq = s->s_rcq;
		args.ud_srq = srq;
		OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_USES_SRQ, &args,
		    &s->s_chan, NULL));
		OK(ibt_query_ud_channel(s->s_chan, &attr));
		WANT(attr.ud_srq == srq);
		s->s_qpn = attr.ud_qpn;
		OK(client_dest(1, s->s_qpn, NULL, &s->s_dest));
	}
	return (0);
}

static long
unshare(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		side_t *s = &sharers[i];

		WANT_STATUS(ibt_free_srq(srq), IBT_SRQ_IN_USE);
		OK(ibt_free_ud_dest(s->s_dest));
		OK(ibt_free_channel(s->s_chan));
		OK(ibt_free_cq(s->s_scq));
		OK(ibt_free_cq(s->s_rcq));
	}
	OK(ibt_free_srq(srq));
	return (0);
}

/* Receive `id` into its slot. */
static ibt_status_t
share_recv(uint64_t id)
{
	ibt_recv_wr_t wr;
	ibt_wr_ds_t ds;

	ds.ds_va = (ib_vaddr_t)(uintptr_t)(client.c_buf + (id + 1) * SLOT);
	ds.ds_key = client.c_lkey;
	ds.ds_len = SLOT;
	wr.wr_id = id;
	wr.wr_nds = 1;
	wr.wr_sgl = &ds;
	return (ibt_post_srq(srq, &wr, 1, NULL));
}

/* Something from one channel to one of the two. */
static ibt_status_t
share_send(side_t *from, side_t *to, uint64_t id, uint32_t len)
{
	ibt_send_wr_t wr;
	ibt_wr_ds_t ds;

	client_send_wr(&wr, &ds, id, to->s_dest, len);
	return (ibt_post_send(from->s_chan, &wr, 1, NULL));
}

/*
 * Whoever gets a datagram takes the oldest receive.  Without one it is lost, and
 * the next receive is for the next.
 */
PROBE(share_in_order)
{
	ibt_recv_wr_t none;
	ibt_wc_t wc;
	long i, error;

	error = share(SHARED);
	if (error != 0)
		return (error);
	bzero(&none, sizeof (none));
	WANT_STATUS(ibt_post_recv(sharers[0].s_chan, &none, 1, NULL),
	    IBT_SRQ_IN_USE);
	for (i = 0; i < SHARED; i++)
		OK(share_recv(i));
	WANT_STATUS(share_recv(SHARED), IBT_CHAN_FULL);
	for (i = 0; i < SHARED + 1; i++)
		OK(share_send(&sharers[0], &sharers[i % 3 == 0], i, 64 + i));
	for (i = 0; i < SHARED; i++) {
		NEXT(sharers[i % 3 == 0].s_rcq, wc, i, IBT_WC_SUCCESS);
		WANT(wc.wc_bytes_xfer == 64 + i + 40);
	}
	EMPTY(sharers[0].s_rcq, wc);
	EMPTY(sharers[1].s_rcq, wc);
	OK(share_recv(0));
	OK(share_send(&sharers[0], &sharers[1], SHARED + 1, 64));
	NEXT(sharers[1].s_rcq, wc, 0, IBT_WC_SUCCESS);
	return (unshare());
}

#define	MANY	20

/*
 * As many channels that share receives as can be had: minus one if some cannot.
 * They go again.
 */
PROBE(share_many)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_srq_sizes_t wanted, real;
	ibt_channel_hdl_t chans[MANY];
	ibt_cq_hdl_t cq;
	int n = 0;

	wanted.srq_wr_sz = 4;
	wanted.srq_sgl_sz = 1;
	if (ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd, &wanted,
	    &srq, &real) != IBT_SUCCESS)
		return (-1);
	if (client_alloc_cq(63, IBT_CQ_NO_FLAGS, &cq, NULL) == IBT_SUCCESS) {
		client_chan_args(&args);
		args.ud_scq = args.ud_rcq = cq;
		args.ud_srq = srq;
		while (n < MANY && ibt_alloc_ud_channel(client.c_hca,
		    IBT_ACHAN_USES_SRQ, &args, &chans[n], NULL) == IBT_SUCCESS)
			n++;
		for (int i = 0; i < n; i++)
			OK(ibt_free_channel(chans[i]));
		OK(ibt_free_cq(cq));
	}
	OK(ibt_free_srq(srq));
	return (n == MANY ? 0 : -1);
}

/* Four receives; the client wants to hear when fewer than three are left. */
PROBE(share_with_a_limit)
{
	ibt_pd_hdl_t pd;
	ibt_srq_sizes_t sizes;
	uint_t limit, real;
	long i, error;

	error = share(SHARED);
	if (error != 0)
		return (error);
	for (i = 0; i < 4; i++)
		OK(share_recv(i));
	WANT_STATUS(ibt_modify_srq(srq, IBT_SRQ_SET_LIMIT, 0, SHARED + 1, &real),
	    IBT_SRQ_LIMIT_EXCEEDED);
	WANT_STATUS(ibt_modify_srq(srq, IBT_SRQ_SET_SIZE, 64, 0, &real),
	    IBT_HCA_RESIZE_SRQ_NOT_SUPPORTED);
	OK(ibt_modify_srq(srq, IBT_SRQ_SET_LIMIT, 0, 3, &real));
	OK(ibt_query_srq(srq, &pd, &sizes, &limit));
	WANT(pd == client.c_pd && sizes.srq_wr_sz == real && limit == 3);
	OK(share_send(&sharers[0], &sharers[1], 0, 64));
	return (0);
}

/* How often the limit was told. */
PROBE(share_limit_told)
{
	return (told(IBT_EVENT_LIMIT_REACHED_SRQ, srq));
}

PROBE(share_send_one)
{
	OK(share_send(&sharers[0], &sharers[1], 1, 64));
	return (0);
}

/* With fewer than that already. */
PROBE(share_arm_again)
{
	uint_t limit;

	OK(ibt_query_srq(srq, NULL, NULL, &limit));
	WANT(limit == 0);
	OK(ibt_modify_srq(srq, IBT_SRQ_SET_LIMIT, 0, 2, NULL));
	return (0);
}

PROBE(share_stop)
{
	return (unshare());
}

/* What is shared stays for the other one when a channel is flushed. */
PROBE(share_and_flush)
{
	ibt_wc_t wc;
	long i, error;

	error = share(SHARED);
	if (error != 0)
		return (error);
	for (i = 0; i < 3; i++)
		OK(share_recv(i));
	OK(share_send(&sharers[1], &sharers[0], 0, 64));
	OK(ibt_flush_channel(sharers[0].s_chan));
	NEXT(sharers[0].s_rcq, wc, 0, IBT_WC_SUCCESS);
	EMPTY(sharers[0].s_rcq, wc);
	/* Nobody is there any more. */
	OK(share_send(&sharers[1], &sharers[0], 1, 64));
	OK(share_send(&sharers[1], &sharers[1], 2, 64));
	NEXT(sharers[1].s_rcq, wc, 1, IBT_WC_SUCCESS);
	EMPTY(sharers[0].s_rcq, wc);
	return (0);
}

/* The flushed one is made as new, while the slow handler runs. */
PROBE(share_recycle)
{
	OK(ibt_recycle_ud(sharers[0].s_chan, 1, 0, CLIENT_QKEY));
	WANT(turns_in == 1 && turns_out == 0);
	return (0);
}

/* How often the flushed one, and the other, was said to hold none any more. */
PROBE(share_empty_told)
{
	return (told(IBT_EVENT_EMPTY_CHAN, sharers[0].s_chan) +
	    100 * told(IBT_EVENT_EMPTY_CHAN, sharers[1].s_chan));
}

/* Two send at once, each to its own channel, as much as there is room for. */
PROBE(share_start)
{
	long i, error = share(BATCH);

	if (error != 0)
		return (error);
	for (i = 0; i < BATCH; i++)
		OK(share_recv(i));
	return (0);
}

PROBE(share_send_batch)
{
	side_t *me = &sharers[arg];
	long i;

	for (i = 0; i < BATCH / 2; i++)
		OK(share_send(me, me, i, 100 + arg));
	return (0);
}

/* Each receive was used once, by whom it went to, in the order of each. */
PROBE(share_sent_batches)
{
	char used[BATCH] = { 0 };
	ibt_wc_t wc;
	long i, n;

	for (n = 0; n < 2; n++) {
		for (i = 0; i < BATCH / 2; i++) {
			OK(ibt_poll_cq(sharers[n].s_rcq, &wc, 1, NULL));
			WANT(wc.wc_status == IBT_WC_SUCCESS);
			WANT(wc.wc_id < BATCH && used[wc.wc_id] == 0);
			WANT(wc.wc_bytes_xfer == 140 + n);
			used[wc.wc_id] = 1;
		}
		EMPTY(sharers[n].s_rcq, wc);
	}
	return (unshare());
}

/* An adapter without shared receive queues says so, and means it. */
PROBE(no_sharing)
{
	ibt_hca_attr_t attr;
	ibt_srq_sizes_t wanted = { 4, 1 };

	OK(ibt_query_hca(client.c_hca, &attr));
	WANT((attr.hca_flags & (IBT_HCA_SRQ | IBT_HCA_UD_SRQ)) == 0);
	WANT(attr.hca_max_srqs == 0);
	WANT_STATUS(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd,
	    &wanted, &srq, NULL), IBT_HCA_SRQ_NOT_SUPPORTED);
	return (0);
}

/* What is in a protection domain keeps it, whatever it is; then it goes. */
PROBE(domain_in_use)
{
	ibt_srq_sizes_t wanted = { 4, 1 };
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan;
	ibt_ud_dest_hdl_t dest;
	ibt_mr_attr_t attr;
	ibt_mr_desc_t desc;
	ibt_mr_hdl_t mr;
	ibt_pd_hdl_t pd;

#define	KEPT(pd)	WANT_STATUS(ibt_free_pd(client.c_hca, pd), IBT_PD_IN_USE)

	OK(ibt_alloc_pd(client.c_hca, IBT_PD_NO_FLAGS, &pd));
	OK(ibt_alloc_ud_dest(client.c_hca, IBT_UD_DEST_NO_FLAGS, pd, &dest));
	KEPT(pd);
	OK(ibt_free_ud_dest(dest));
	bzero(&attr, sizeof (attr));
	attr.mr_vaddr = (ib_vaddr_t)(uintptr_t)client.c_buf;
	attr.mr_len = SLOT;
	attr.mr_flags = IBT_MR_SLEEP | IBT_MR_ENABLE_LOCAL_WRITE;
	OK(ibt_register_mr(client.c_hca, pd, &attr, &mr, &desc));
	KEPT(pd);
	OK(ibt_deregister_mr(client.c_hca, mr));
	OK(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, pd, &wanted, &srq,
	    NULL));
	KEPT(pd);
	OK(ibt_free_srq(srq));
	client_chan_args(&args);
	args.ud_pd = pd;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args, &chan,
	    NULL));
	KEPT(pd);
	OK(ibt_free_channel(chan));
	OK(ibt_free_pd(client.c_hca, pd));
	return (0);
}

/*
 * What is in another protection domain than a channel is not for it: shared
 * receives, address handles.
 */
PROBE(other_domain)
{
	ibt_srq_sizes_t wanted = { 4, 1 };
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan;
	ibt_ud_dest_hdl_t dest;
	ibt_adds_vect_t av;
	ibt_send_wr_t wr;
	ibt_wr_ds_t ds;
	ibt_pd_hdl_t pd;
	ibt_wc_t wc;
	long error;

	OK(ibt_alloc_pd(client.c_hca, IBT_PD_NO_FLAGS, &pd));
	OK(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, pd, &wanted, &srq,
	    NULL));
	client_chan_args(&args);
	args.ud_srq = srq;
	WANT_STATUS(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_USES_SRQ,
	    &args, &chan, NULL), IBT_PD_HDL_INVALID);
	OK(ibt_free_srq(srq));
	error = side_make(IBT_ALL_SIGNALED, 16, 16, 63, 63, 1);
	if (error != 0)
		return (error);
	OK(ibt_alloc_ud_dest(client.c_hca, IBT_UD_DEST_NO_FLAGS, pd, &dest));
	bzero(&av, sizeof (av));
	av.av_port_num = 1;
	av.av_dlid = 1;
	OK(ibt_modify_ud_dest(dest, CLIENT_QKEY, side.s_qpn, &av));
	OK(side_recv(1, client.c_buf + SLOT, client.c_lkey, SLOT));
	client_send_wr(&wr, &ds, 2, dest, 8);
	OK(ibt_post_send(side.s_chan, &wr, 1, NULL));
	NEXT(side.s_scq, wc, 2, IBT_WC_LOCAL_PROTECT_ERR);
	EMPTY(side.s_rcq, wc);
	OK(ibt_recover_ud_channel(side.s_chan));
	OK(side_send(3, client.c_buf, client.c_lkey, 8));
	NEXT(side.s_scq, wc, 3, IBT_WC_SUCCESS);
	NEXT(side.s_rcq, wc, 1, IBT_WC_SUCCESS);
	OK(ibt_free_ud_dest(dest));
	OK(ibt_free_pd(client.c_hca, pd));
	return (side_unmake());
}

/* As many shared receive queues as the adapter says, and not one more. */
#define	MOST_SRQS	1024

PROBE(too_many)
{
	static ibt_srq_hdl_t all[MOST_SRQS];
	ibt_srq_sizes_t wanted = { 1, 1 };
	ibt_hca_attr_t attr;
	long i;

	OK(ibt_query_hca(client.c_hca, &attr));
	WANT(attr.hca_max_srqs == MOST_SRQS);
	for (i = 0; i < MOST_SRQS; i++) {
		OK(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd,
		    &wanted, &all[i], NULL));
	}
	WANT_STATUS(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd,
	    &wanted, &srq, NULL), IBT_INSUFF_RESOURCE);
	for (i = 0; i < MOST_SRQS; i++)
		OK(ibt_free_srq(all[i]));
	return (0);
}
