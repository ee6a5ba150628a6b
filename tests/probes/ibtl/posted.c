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
 * What a client owes an adapter that has its work requests: each probe takes an
 * adapter, does one thing, and gives everything back.
 */

#include "client.h"

CLIENT_MODULE("posted")

static ibt_ud_dest_hdl_t self;

#define	BYTES	200

static long
start(long guid)
{
	long error = client_start((ib_guid_t)guid);

	if (error != 0)
		return (error);
	OK(client_dest(1, 2, NULL, &self));
	return (0);
}

static long
stop(void)
{
	OK(ibt_free_ud_dest(self));
	return (client_stop());
}

/* Sends `len` bytes from the start of the buffer. */
static long
send(uint64_t id, uint32_t len)
{
	OK(client_send(id, self, len));
	return (0);
}

static long
polled(void)
{
	ibt_wc_t wc;

	OK(ibt_poll_cq(client.c_scq, &wc, 1, NULL));
	return (0);
}

#define	DO(call)				\
	do {					\
		long _error = (call);		\
		if (_error != 0)		\
			return (_error);	\
	} while (0)

PROBE(receive_twice)
{
	DO(start(arg));
	OK(client_recv(0, BYTES));
	OK(client_recv(0, BYTES));
	return (stop());
}

PROBE(receive_then_send)
{
	DO(start(arg));
	OK(client_recv(0, BYTES));
	/* As far as the first slot. */
	DO(send(1, SLOT + 1));
	return (stop());
}

PROBE(send_then_receive)
{
	ibt_recv_wr_t wr;
	ibt_wr_ds_t ds;

	DO(start(arg));
	DO(send(1, BYTES));
	ds.ds_va = (ib_vaddr_t)(uintptr_t)client.c_buf;
	ds.ds_key = client.c_lkey;
	ds.ds_len = BYTES;
	wr.wr_id = 2;
	wr.wr_nds = 1;
	wr.wr_sgl = &ds;
	OK(ibt_post_recv(client.c_chan, &wr, 1, NULL));
	return (stop());
}

PROBE(change_a_send)
{
	DO(start(arg));
	DO(send(1, BYTES));
	client.c_buf[BYTES - 1]++;
	DO(polled());
	return (stop());
}

PROBE(change_between_two_sends)
{
	DO(start(arg));
	DO(send(1, BYTES));
	client.c_buf[0]++;
	DO(send(2, BYTES));
	return (stop());
}

PROBE(free_a_receive)
{
	DO(start(arg));
	OK(client_recv(0, BYTES));
	kmem_free(client.c_buf, SLOT * SLOTS);
	return (stop());
}

PROBE(deregister_a_receive)
{
	DO(start(arg));
	OK(client_recv(0, BYTES));
	OK(ibt_deregister_mr(client.c_hca, client.c_mr));
	return (stop());
}

/* A channel that may use the reserved key, a mapping, and a send from it. */
static long
send_mapped(ibt_channel_hdl_t *chan, ibt_mi_hdl_t *mi)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_iov_attr_t attr;
	ibt_iov_t iov;
	ibt_all_wr_t wr;
	ibt_wr_ds_t ds[2];

	client_chan_args(&args);
	args.ud_flags = IBT_ALL_SIGNALED | IBT_FAST_REG_RES_LKEY;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args, chan,
	    NULL));
	client_send_wr(&wr.send, ds, 1, self, 0);
	iov.iov_addr = client.c_buf;
	iov.iov_len = BYTES;
	bzero(&attr, sizeof (attr));
	attr.iov = &iov;
	attr.iov_list_len = 1;
	attr.iov_wr_nds = 2;
	OK(ibt_map_mem_iov(client.c_hca, &attr, &wr, mi));
	OK(ibt_post_send(*chan, &wr.send, 1, NULL));
	return (0);
}

PROBE(unmap_a_send)
{
	ibt_channel_hdl_t chan;
	ibt_mi_hdl_t mi;

	DO(start(arg));
	DO(send_mapped(&chan, &mi));
	OK(ibt_unmap_mem_iov(client.c_hca, mi));
	OK(ibt_free_channel(chan));
	return (stop());
}

/* All of this is allowed. */
PROBE(in_order)
{
	ibt_channel_hdl_t chan;
	ibt_mi_hdl_t mi;

	DO(start(arg));
	/* Slot after slot; once more when the channel has given all back. */
	OK(client_recv(0, SLOT));
	OK(client_recv(1, SLOT));
	OK(ibt_flush_channel(client.c_chan));
	OK(ibt_recycle_ud(client.c_chan, 1, 0, CLIENT_QKEY));
	/* The same memory in two sends, and another one's after it. */
	DO(send(1, BYTES));
	DO(send(2, BYTES));
	DO(polled());
	DO(polled());
	client.c_buf[0]++;
	DO(send(3, BYTES));
	DO(polled());
	OK(client_recv(0, SLOT));
	DO(send_mapped(&chan, &mi));
	DO(polled());
	OK(ibt_unmap_mem_iov(client.c_hca, mi));
	OK(ibt_free_channel(chan));
	return (stop());
}

/* Makes the channel ready again, after it has sent if `sent`. */
static long
recycled(long guid, boolean_t sent)
{
	DO(start(guid));
	if (sent) {
		DO(send(1, BYTES));
		DO(polled());
	}
	OK(ibt_flush_channel(client.c_chan));
	OK(ibt_recycle_ud(client.c_chan, 1, 0, CLIENT_QKEY));
	return (stop());
}

PROBE(recycle_what_has_sent)
{
	return (recycled(arg, B_TRUE));
}

PROBE(recycle_what_has_not_sent)
{
	return (recycled(arg, B_FALSE));
}
