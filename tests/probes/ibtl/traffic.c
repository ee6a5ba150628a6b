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
 * Datagrams between two clients, and completion handlers.
 */

#include "client.h"

CLIENT_MODULE("traffic")

static ibt_ud_dest_hdl_t peer;
static ibt_ud_dest_hdl_t group;
static ib_gid_t mgid;

PROBE(start)
{
	mgid.gid_prefix = 0xff12401bffff0000ULL;
	mgid.gid_guid = 0xffffffffULL;
	return (client_start((ib_guid_t)arg));
}

PROBE(stop)
{
	return (client_stop());
}

PROBE(qpn)
{
	ibt_ud_chan_query_attr_t attr;

	OK(ibt_query_ud_channel(client.c_chan, &attr));
	return (attr.ud_qpn);
}

/* arg is LID << 32 | QPN. */
PROBE(aim)
{
	OK(client_dest((ib_lid_t)(arg >> 32), (ib_qpn_t)(arg & 0xffffff), NULL,
	    &peer));
	return (0);
}

PROBE(aim_at_group)
{
	OK(client_dest((ib_lid_t)arg, IB_MC_QPN, &mgid, &group));
	return (0);
}

PROBE(let_go)
{
	OK(ibt_free_ud_dest(peer));
	return (0);
}

PROBE(let_go_of_group)
{
	OK(ibt_free_ud_dest(group));
	return (0);
}

PROBE(join)
{
	ibt_mcg_info_t info;

	bzero(&info, sizeof (info));
	info.mc_adds_vect.av_dgid = mgid;
	info.mc_adds_vect.av_dlid = (ib_lid_t)arg;
	OK(ibt_attach_mcg(client.c_chan, &info));
	return (0);
}

PROBE(leave)
{
	ibt_mcg_info_t info;

	bzero(&info, sizeof (info));
	info.mc_adds_vect.av_dgid = mgid;
	info.mc_adds_vect.av_dlid = (ib_lid_t)arg;
	OK(ibt_detach_mcg(client.c_chan, &info));
	return (0);
}

PROBE(send)
{
	int i;

	for (i = 0; i < arg; i++)
		client.c_buf[i] = (char)i;
	OK(client_send((uint64_t)arg, peer, (uint32_t)arg));
	return (0);
}

PROBE(send_to_group)
{
	int i;

	for (i = 0; i < arg; i++)
		client.c_buf[i] = (char)i;
	OK(client_send((uint64_t)arg, group, (uint32_t)arg));
	return (0);
}

/* Posts one receive into slot arg, room for a GRH and 2048 bytes. */
PROBE(post)
{
	OK(client_recv((uint64_t)arg, 40 + 2048));
	return (0);
}

/* One send completion, in success: its wr_id, or -1. */
PROBE(sent)
{
	ibt_wc_t wc;

	if (ibt_poll_cq(client.c_scq, &wc, 1, NULL) == IBT_CQ_EMPTY)
		return (-1);
	WANT(wc.wc_status == IBT_WC_SUCCESS && wc.wc_type == IBT_WRC_SEND);
	return ((long)wc.wc_id);
}

/* The next completion of the send or receive queue: status << 32 | wr_id. */
PROBE(next_sent)
{
	ibt_wc_t wc;

	if (ibt_poll_cq(client.c_scq, &wc, 1, NULL) == IBT_CQ_EMPTY)
		return (-1);
	return (((long)wc.wc_status << 32) | (long)wc.wc_id);
}

PROBE(next_received)
{
	ibt_wc_t wc;

	if (ibt_poll_cq(client.c_rcq, &wc, 1, NULL) == IBT_CQ_EMPTY)
		return (-1);
	return (((long)wc.wc_status << 32) | (long)wc.wc_id);
}

/* arg bytes came into slot 0, without a GRH. */
PROBE(plain_datagram)
{
	ibt_wc_t wc;
	uint_t n;
	int i;

	OK(ibt_poll_cq(client.c_rcq, &wc, 1, &n));
	WANT(n == 1 && wc.wc_id == 0 && wc.wc_status == IBT_WC_SUCCESS);
	WANT(wc.wc_type == IBT_WRC_RECV);
	WANT(wc.wc_bytes_xfer == 40 + (uint_t)arg);
	WANT((wc.wc_flags & IBT_WC_GRH_PRESENT) == 0);
	WANT(wc.wc_slid != 0 && wc.wc_qpn > 1);
	for (i = 0; i < arg; i++)
		WANT(client.c_buf[SLOT + 40 + i] == (char)i);
	/* No byte after it was touched. */
	WANT(client.c_buf[SLOT + 40 + arg] == 0);
	return (0);
}

/* arg bytes came into slot 0 by multicast from the port GUID in `from`. */
static ib_guid_t from;

PROBE(from)
{
	from = (ib_guid_t)arg;
	return (0);
}

PROBE(group_datagram)
{
	const uint8_t *grh = (const uint8_t *)client.c_buf + SLOT;
	uint64_t guid = 0, low = 0;
	ibt_wc_t wc;
	int i;

	OK(ibt_poll_cq(client.c_rcq, &wc, 1, NULL));
	WANT(wc.wc_status == IBT_WC_SUCCESS);
	WANT(wc.wc_flags & IBT_WC_GRH_PRESENT);
	WANT(wc.wc_bytes_xfer == 40 + (uint_t)arg);
	WANT(grh[0] >> 4 == 6 && grh[6] == 0x1b);
	for (i = 0; i < 8; i++) {
		guid = guid << 8 | grh[16 + i];
		low = low << 8 | grh[32 + i];
	}
	WANT(guid == from);
	WANT(low == mgid.gid_guid);
	WANT(grh[24] == 0xff);
	for (i = 0; i < arg; i++)
		WANT(grh[40 + i] == (uint8_t)i);
	return (0);
}

PROBE(nothing_received)
{
	ibt_wc_t wc;

	WANT_STATUS(ibt_poll_cq(client.c_rcq, &wc, 1, NULL), IBT_CQ_EMPTY);
	return (0);
}

/* An array stops at its first bad request, which is the third. */
PROBE(stops_at_the_first_bad_request)
{
	ibt_send_wr_t wr[4];
	ibt_wr_ds_t ds[4];
	uint_t posted = 99;
	ibt_wc_t wc[4];
	int i;

	for (i = 0; i < 4; i++)
		client_send_wr(&wr[i], &ds[i], i, peer, 8);
	wr[2].wr_trans = IBT_RC_SRV;
	WANT_STATUS(ibt_post_send(client.c_chan, wr, 4, &posted),
	    IBT_CHAN_SRV_TYPE_INVALID);
	WANT(posted == 2);
	OK(ibt_poll_cq(client.c_scq, wc, 4, &posted));
	WANT(posted == 2 && wc[0].wc_id == 0 && wc[1].wc_id == 1);
	wr[2].wr_trans = IBT_UD_SRV;
	wr[2].wr_opcode = IBT_WRC_RDMAW;
	WANT_STATUS(ibt_post_send(client.c_chan, &wr[2], 1, NULL),
	    IBT_CHAN_OP_TYPE_INVALID);
	wr[2].wr_opcode = IBT_WRC_SEND;
	wr[2].wr.ud.udwr_dest = NULL;
	WANT_STATUS(ibt_post_send(client.c_chan, &wr[2], 1, NULL),
	    IBT_UD_DEST_HDL_INVALID);
	wr[2].wr.ud.udwr_dest = peer;
	wr[2].wr_nds = 30;
	WANT_STATUS(ibt_post_send(client.c_chan, &wr[2], 1, NULL),
	    IBT_CHAN_SGL_LEN_INVALID);
	wr[2].wr_nds = 1;
	/* Large sends need a channel made for them. */
	wr[2].wr_opcode = IBT_WRC_SEND_LSO;
	wr[2].wr.ud_lso.lso_ud_dest = peer;
	wr[2].wr.ud_lso.lso_hdr = (uint8_t *)client.c_buf;
	wr[2].wr.ud_lso.lso_hdr_sz = 0;
	WANT_STATUS(ibt_post_send(client.c_chan, &wr[2], 1, NULL),
	    IBT_CHAN_OP_TYPE_INVALID);
	return (0);
}

/* The queue is full after its 16 requests, and has room after a poll. */
PROBE(fills_up)
{
	ibt_wc_t wc;
	int i;

	for (i = 0; i < 16; i++)
		OK(client_send(i, peer, 8));
	WANT_STATUS(client_send(16, peer, 8), IBT_CHAN_FULL);
	OK(ibt_poll_cq(client.c_scq, &wc, 1, NULL));
	WANT(wc.wc_id == 0);
	OK(client_send(16, peer, 8));
	for (i = 1; i < 17; i++) {
		OK(ibt_poll_cq(client.c_scq, &wc, 1, NULL));
		WANT(wc.wc_id == (uint64_t)i);
	}
	for (i = 0; i < 16; i++)
		OK(client_recv(i, 48));
	WANT_STATUS(client_recv(16, 48), IBT_CHAN_FULL);
	return (0);
}

PROBE(flush)
{
	OK(ibt_flush_channel(client.c_chan));
	return (0);
}

PROBE(watch)
{
	ibt_set_cq_handler(client.c_rcq, client_cq, &seen);
	OK(ibt_enable_cq_notify(client.c_rcq, IBT_NEXT_COMPLETION));
	return (0);
}

PROBE(arm)
{
	OK(ibt_enable_cq_notify(client.c_rcq, IBT_NEXT_COMPLETION));
	return (0);
}

PROBE(look_away)
{
	ibt_set_cq_handler(client.c_rcq, NULL, NULL);
	return (0);
}

PROBE(calls)
{
	long n;

	mutex_enter(&seen.s_lock);
	n = seen.s_cq_calls;
	mutex_exit(&seen.s_lock);
	return (n);
}

PROBE(handler_had_its_arguments)
{
	WANT(seen.s_cq == client.c_rcq);
	WANT(seen.s_cq_arg == &seen);
	WANT(seen.s_cq_overlaps == 0);
	return (0);
}

/* A handler that keeps itself armed and takes what there is. */
static volatile long taken;

static void
greedy(ibt_cq_hdl_t cq, void *arg)
{
	ibt_wc_t wc;

	client_cq(cq, arg);
	do {
		while (ibt_poll_cq(cq, &wc, 1, NULL) == IBT_SUCCESS) {
			taken++;
			(void) client_recv(wc.wc_id, 40 + 2048);
		}
		(void) ibt_enable_cq_notify(cq, IBT_NEXT_COMPLETION);
	} while (ibt_poll_cq(cq, &wc, 1, NULL) == IBT_SUCCESS && ++taken != 0 &&
	    client_recv(wc.wc_id, 40 + 2048) == IBT_SUCCESS);
}

PROBE(be_greedy)
{
	int i;

	for (i = 0; i < 8; i++)
		OK(client_recv(i, 40 + 2048));
	ibt_set_cq_handler(client.c_rcq, greedy, &seen);
	OK(ibt_enable_cq_notify(client.c_rcq, IBT_NEXT_COMPLETION));
	return (0);
}

PROBE(taken)
{
	return (taken);
}

/* A burst of arg sends, none of them waited for longer than the queue allows. */
PROBE(burst)
{
	ibt_wc_t wc;
	long i;

	for (i = 0; i < arg; i++) {
		while (client_send((uint64_t)i, peer, 64) == IBT_CHAN_FULL)
			(void) ibt_poll_cq(client.c_scq, &wc, 1, NULL);
	}
	while (ibt_poll_cq(client.c_scq, &wc, 1, NULL) == IBT_SUCCESS)
		WANT(wc.wc_status == IBT_WC_SUCCESS);
	return (0);
}

/* A queue whose handler runs in a thread and may therefore wait. */
static ibt_cq_hdl_t threaded;
static ibt_channel_hdl_t threaded_chan;
static volatile long naps_in, naps_out;

static void
napper(ibt_cq_hdl_t cq __attribute__((unused)),
    void *arg __attribute__((unused)))
{
	naps_in++;
	delay(drv_usectohz(200000));
	naps_out++;
}

PROBE(start_threaded)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_ud_chan_query_attr_t attr;
	ibt_recv_wr_t wr;
	ibt_wr_ds_t ds;

	OK(client_alloc_cq(63, IBT_CQ_HANDLER_IN_THREAD, &threaded, NULL));
	client_chan_args(&args);
	args.ud_rcq = threaded;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args,
	    &threaded_chan, NULL));
	ibt_set_cq_handler(threaded, napper, NULL);
	OK(ibt_enable_cq_notify(threaded, IBT_NEXT_COMPLETION));
	ds.ds_va = (ib_vaddr_t)(uintptr_t)(client.c_buf + SLOT);
	ds.ds_key = client.c_lkey;
	ds.ds_len = 200;
	wr.wr_id = 1;
	wr.wr_nds = 1;
	wr.wr_sgl = &ds;
	OK(ibt_post_recv(threaded_chan, &wr, 1, NULL));
	OK(ibt_query_ud_channel(threaded_chan, &attr));
	return (attr.ud_qpn);
}

/* Freeing the queue waits for its handler. */
PROBE(free_while_napping)
{
	WANT(naps_in == 1 && naps_out == 0);
	OK(ibt_free_channel(threaded_chan));
	OK(ibt_free_cq(threaded));
	WANT(naps_out == 1);
	return (0);
}

PROBE(free_threaded)
{
	OK(ibt_free_channel(threaded_chan));
	OK(ibt_free_cq(threaded));
	return (0);
}

PROBE(naps)
{
	return (naps_in);
}

/* A handler at interrupt level that takes arg frames of half a kilobyte of the stack. */
static int __attribute__((noinline))
deep(long frames)
{
	volatile char room[512];

	room[0] = (char)frames;
	return (frames == 0 ? (int)ddi_get_lbolt() : deep(frames - 1) + room[0]);
}

static void
digger(ibt_cq_hdl_t cq __attribute__((unused)), void *frames)
{
	(void) deep((long)frames);
}

PROBE(watch_with_frames)
{
	ibt_set_cq_handler(client.c_rcq, digger, (void *)arg);
	OK(ibt_enable_cq_notify(client.c_rcq, IBT_NEXT_COMPLETION));
	return (0);
}

/* A handler at interrupt level that waits: a broken rule. */
PROBE(watch_with_a_nap)
{
	ibt_set_cq_handler(client.c_rcq, napper, NULL);
	OK(ibt_enable_cq_notify(client.c_rcq, IBT_NEXT_COMPLETION));
	return (0);
}

/* Receive memory that is given back while it is registered: a broken rule. */
PROBE(free_registered_memory)
{
	kmem_free(client.c_buf, SLOT * SLOTS);
	return (0);
}

/* A receive that is too short, and one without the right to write. */
PROBE(post_short)
{
	OK(client_recv((uint64_t)arg, 44));
	return (0);
}

/* Too long for the MTU: the send completes with an error and the rest flush. */
PROBE(too_long)
{
	ibt_ud_chan_query_attr_t attr;
	ibt_wc_t wc[2];
	uint_t n;

	OK(client_send(1, peer, 4097));
	OK(client_send(2, peer, 8));
	OK(ibt_poll_cq(client.c_scq, wc, 2, &n));
	WANT(n == 2);
	WANT(wc[0].wc_id == 1 && wc[0].wc_status == IBT_WC_LOCAL_LEN_ERR);
	WANT(wc[1].wc_id == 2 && wc[1].wc_status == IBT_WC_WR_FLUSHED_ERR);
	OK(ibt_query_ud_channel(client.c_chan, &attr));
	WANT(attr.ud_state == IBT_STATE_SQE);
	OK(ibt_recover_ud_channel(client.c_chan));
	OK(client_send(3, peer, 4096));
	OK(ibt_poll_cq(client.c_scq, wc, 1, NULL));
	WANT(wc[0].wc_status == IBT_WC_SUCCESS);
	return (0);
}

/* Posting with the reserved key what was never mapped: a broken rule. */
PROBE(unmapped)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan;
	ibt_send_wr_t wr;
	ibt_wr_ds_t ds;

	client_chan_args(&args);
	args.ud_flags = IBT_ALL_SIGNALED | IBT_FAST_REG_RES_LKEY;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args, &chan,
	    NULL));
	client_send_wr(&wr, &ds, 1, peer, 8);
	ds.ds_key = (ibt_lkey_t)arg;
	OK(ibt_post_send(chan, &wr, 1, NULL));
	return (0);
}

/* A mapped buffer goes out with the reserved key. arg is the key. */
PROBE(mapped)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan;
	ibt_iov_attr_t attr;
	ibt_iov_t iov;
	ibt_all_wr_t wr;
	ibt_wr_ds_t ds[2];
	ibt_mi_hdl_t mi;
	ibt_wc_t wc;
	int i;

	client_chan_args(&args);
	args.ud_flags = IBT_ALL_SIGNALED | IBT_FAST_REG_RES_LKEY;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args, &chan,
	    NULL));
	for (i = 0; i < 64; i++)
		client.c_buf[i] = (char)i;
	client_send_wr(&wr.send, ds, 1, peer, 0);
	iov.iov_addr = client.c_buf;
	iov.iov_len = 64;
	bzero(&attr, sizeof (attr));
	attr.iov = &iov;
	attr.iov_list_len = 1;
	attr.iov_wr_nds = 2;
	OK(ibt_map_mem_iov(client.c_hca, &attr, &wr, &mi));
	WANT(wr.send.wr_nds == 1 && ds[0].ds_key == (ibt_lkey_t)arg);
	OK(ibt_post_send(chan, &wr.send, 1, NULL));
	OK(ibt_poll_cq(client.c_scq, &wc, 1, NULL));
	WANT(wc.wc_status == IBT_WC_SUCCESS);
	OK(ibt_unmap_mem_iov(client.c_hca, mi));
	OK(ibt_free_channel(chan));
	return (0);
}

/* Answers the datagram in slot 0 to its sender. */
PROBE(reply)
{
	ibt_ud_dest_hdl_t back;
	ibt_wc_t wc;

	OK(ibt_poll_cq(client.c_rcq, &wc, 1, NULL));
	OK(ibt_alloc_ud_dest(client.c_hca, IBT_UD_DEST_NO_FLAGS, client.c_pd,
	    &back));
	OK(ibt_modify_reply_ud_dest(client.c_chan, back, 0, &wc,
	    (ib_vaddr_t)(uintptr_t)(client.c_buf + SLOT)));
	for (int i = 0; i < arg; i++)
		client.c_buf[i] = (char)i;
	OK(client_send(5, back, (uint32_t)arg));
	OK(ibt_poll_cq(client.c_scq, &wc, 1, NULL));
	OK(ibt_free_ud_dest(back));
	return (0);
}

/* The asynchronous handler takes so many microseconds to its first statement. */
PROBE(handle_late)
{
	seen.s_late = arg;
	return (0);
}

/* How often the asynchronous handler has got that far. */
PROBE(told)
{
	return (seen.s_async);
}

/* The channel broke; what the asynchronous handler was told. */
PROBE(told_of_the_channel)
{
	WANT(seen.s_async == 1);
	WANT(seen.s_code[0] == IBT_ERROR_CATASTROPHIC_CHAN);
	WANT(seen.s_event[0].ev_chan_hdl == client.c_chan);
	WANT(seen.s_hca[0] == client.c_hca);
	return (0);
}


/* A receive queue of eight on a completion queue of three. */
static ibt_cq_hdl_t small;
static ibt_channel_hdl_t small_chan;

/* Eight receives that complete in a queue for so many. */
static long
start_small(uint_t places)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_recv_wr_t wr;
	ibt_wr_ds_t ds;
	int i;

	OK(client_alloc_cq(places, IBT_CQ_NO_FLAGS, &small, NULL));
	client_chan_args(&args);
	args.ud_rcq = small;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args,
	    &small_chan, NULL));
	for (i = 0; i < 8; i++) {
		ds.ds_va = (ib_vaddr_t)(uintptr_t)(client.c_buf + (i + 1) * SLOT);
		ds.ds_key = client.c_lkey;
		ds.ds_len = 200;
		wr.wr_id = (ibt_wrid_t)i;
		wr.wr_nds = 1;
		wr.wr_sgl = &ds;
		OK(ibt_post_recv(small_chan, &wr, 1, NULL));
	}
	return (0);
}

/* The queue is made too small when they are posted. */
PROBE(start_small)
{
	ibt_ud_chan_query_attr_t attr;
	uint_t real;

	WANT(start_small(15) == 0);
	OK(ibt_resize_cq(small, 3, &real));
	OK(ibt_query_ud_channel(small_chan, &attr));
	return (attr.ud_qpn);
}

/* Breaks a rule. */
PROBE(crowd)
{
	return (start_small(3));
}

/* The first overrun is told, three completions are there, and no more come. */
PROBE(small_overran)
{
	ibt_wc_t wc[8];
	uint_t n;

	WANT(seen.s_async == 1);
	WANT(seen.s_code[0] == IBT_ERROR_CQ);
	WANT(seen.s_event[0].ev_cq_hdl == small);
	OK(ibt_poll_cq(small, wc, 8, &n));
	WANT(n == 3);
	OK(ibt_free_channel(small_chan));
	OK(ibt_free_cq(small));
	return (0);
}

/* Sends that do not stop: arg of them, as fast as the queue allows. */
PROBE(flood)
{
	ibt_wc_t wc;
	long i, done = 0;

	for (i = 0; i < arg; i++) {
		ibt_status_t status;

		while ((status = client_send((uint64_t)i, peer, 512)) ==
		    IBT_CHAN_FULL) {
			if (ibt_poll_cq(client.c_scq, &wc, 1, NULL) !=
			    IBT_SUCCESS)
				continue;
			/* In the order of posting. */
			WANT(wc.wc_id == (uint64_t)done);
			done++;
		}
		WANT(status == IBT_SUCCESS);
	}
	while (done < arg) {
		if (ibt_poll_cq(client.c_scq, &wc, 1, NULL) != IBT_SUCCESS)
			continue;
		WANT(wc.wc_id == (uint64_t)done);
		WANT(wc.wc_status == IBT_WC_SUCCESS);
		done++;
	}
	return (0);
}

PROBE(handler_never_overlapped)
{
	WANT(seen.s_cq_overlaps == 0 && seen.s_cq_running == 0);
	return (0);
}

/* The address says how a datagram leaves: arg is LID << 32 | QPN. */
PROBE(aim_with_path_bits)
{
	ibt_adds_vect_t av;

	OK(client_dest((ib_lid_t)(arg >> 32), (ib_qpn_t)(arg & 0xffffff), NULL,
	    &peer));
	bzero(&av, sizeof (av));
	av.av_port_num = 1;
	av.av_dlid = (ib_lid_t)((arg >> 32) + 1);
	av.av_src_path = 0xfd;
	av.av_srvl = 5;
	av.av_srate = IBT_SRATE_10;
	OK(ibt_modify_ud_dest(peer, CLIENT_QKEY, (ib_qpn_t)(arg & 0xffffff),
	    &av));
	return (0);
}

/* arg is the source's base LID. */
PROBE(came_by_its_path)
{
	ibt_wc_t wc;

	OK(ibt_poll_cq(client.c_rcq, &wc, 1, NULL));
	WANT(wc.wc_slid == (ib_lid_t)(arg + 1));
	WANT(wc.wc_sl == 5);
	/* Path bits of the destination. */
	WANT(wc.wc_opaque4 == 1);
	return (0);
}
