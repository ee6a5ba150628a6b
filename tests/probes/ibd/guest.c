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
 * Somebody who opens connections to an IPoIB link and sends on them: channels
 * are called by a number below CHANS.
 */

#include "../ibcm/manager.h"

#define	CHANS	1024
#define	SIZE	65536
#define	HELLO	8

MANAGER_MODULE("somebody who opens connections to a link");

static ibt_pd_hdl_t pd;
static ibt_cq_hdl_t cq;
static ibt_mr_hdl_t mr;
static ibt_mr_desc_t mem;
static uchar_t *out;
static ibt_channel_hdl_t chans[CHANS];
static ibt_path_info_t path;
static uchar_t hello[92];
static uchar_t answer[HELLO];
static ib_svc_id_t service;
static ib_pkey_t pkey = 0xffff;

/* What came of attempts that nobody waited for, and of connections. */
static long established, failed, closed, last_reason;

static ibt_cm_status_t
handler(void *private, ibt_cm_event_t *event,
    ibt_cm_return_args_t *ret __attribute__((unused)),
    void *priv __attribute__((unused)),
    uint8_t room __attribute__((unused)))
{
	if (private != &chans)
		return (IBT_CM_REJECT);
	mutex_enter(&lock);
	switch (event->cm_type) {
	case IBT_CM_EVENT_REP_RCV:
		bcopy(event->cm_priv_data, answer, HELLO);
		break;
	case IBT_CM_EVENT_CONN_EST:
		established++;
		break;
	case IBT_CM_EVENT_CONN_CLOSED:
		closed++;
		break;
	case IBT_CM_EVENT_FAILURE:
		failed++;
		last_reason = event->cm_event.failed.cf_reason;
		break;
	default:
		break;
	}
	mutex_exit(&lock);
	return (IBT_CM_ACCEPT);
}

PROBE(start)
{
	ibt_cq_attr_t attr;
	ibt_mr_attr_t region;

	bzero(&attr, sizeof (attr));
	attr.cq_size = 4095;
	WANT(ibt_alloc_pd(hca, IBT_PD_NO_FLAGS, &pd) == IBT_SUCCESS);
	WANT(ibt_alloc_cq(hca, &attr, &cq, NULL) == IBT_SUCCESS);
	out = kmem_zalloc(SIZE, KM_SLEEP);
	bzero(&region, sizeof (region));
	region.mr_vaddr = (uintptr_t)out;
	region.mr_len = SIZE;
	region.mr_flags = IBT_MR_SLEEP;
	WANT(ibt_register_mr(hca, pd, &region, &mr, &mem) == IBT_SUCCESS);
	return (0);
}

PROBE(stop)
{
	WANT(ibt_deregister_mr(hca, mr) == IBT_SUCCESS);
	kmem_free(out, SIZE);
	WANT(ibt_free_cq(cq) == IBT_SUCCESS);
	WANT(ibt_free_pd(hca, pd) == IBT_SUCCESS);
	return (0);
}

PROBE(make)
{
	ibt_rc_chan_alloc_args_t args;

	bzero(&args, sizeof (args));
	args.rc_hca_port_num = 1;
	args.rc_sizes.cs_sq = args.rc_sizes.cs_rq = 4;
	args.rc_sizes.cs_sq_sgl = args.rc_sizes.cs_rq_sgl = 1;
	args.rc_scq = args.rc_rcq = cq;
	args.rc_pd = pd;
	return (ibt_alloc_rc_channel(hca, IBT_ACHAN_NO_FLAGS, &args,
	    &chans[arg], NULL));
}

PROBE(free)
{
	return (ibt_free_channel(chans[arg]));
}

/* A channel whose opening failed goes to its first state. */
PROBE(flush)
{
	return (ibt_flush_channel(chans[arg]));
}

/* The way to the port with this GUID. */
PROBE(aim)
{
	ibt_path_attr_t attr;
	ib_gid_t gid = port;
	uint8_t found = 0;

	gid.gid_guid = arg;
	bzero(&attr, sizeof (attr));
	attr.pa_dgids = &gid;
	attr.pa_num_dgids = 1;
	attr.pa_sgid = port;
	attr.pa_pkey = pkey;
	WANT(ibt_get_paths(clnt, IBT_PATH_PKEY, &attr, 1, &path, &found) ==
	    IBT_SUCCESS && found == 1);
	return (0);
}

/* How long a packet may live on the way, as a code. */
PROBE(lifetime)
{
	path.pi_prim_pkt_lt = arg;
	return (0);
}

PROBE(service)
{
	service = arg;
	return (0);
}

/* An octet of what is sent along with a REQ: which << 8 | value. */
PROBE(say)
{
	hello[arg >> 8] = (uchar_t)arg;
	return (0);
}

/* An octet of what came with the last REP. */
PROBE(said)
{
	return (answer[arg]);
}

static void
open_args(ibt_chan_open_args_t *args)
{
	bzero(args, sizeof (*args));
	path.pi_sid = service;
	args->oc_path = &path;
	args->oc_cm_handler = handler;
	args->oc_cm_clnt_private = &chans;
	args->oc_path_rnr_retry_cnt = IBT_RNR_RETRY_1;
	args->oc_path_retry_cnt = 1;
	args->oc_priv_data = hello;
	args->oc_priv_data_len = HELLO;
}

/* 0, a status, or the reason << 16. */
PROBE(connect)
{
	ibt_chan_open_args_t args;
	ibt_rc_returns_t returns;
	uchar_t came[HELLO];
	ibt_status_t status;

	open_args(&args);
	bzero(&returns, sizeof (returns));
	returns.rc_priv_data = came;
	returns.rc_priv_data_len = HELLO;
	status = ibt_open_rc_channel(chans[arg], IBT_OCHAN_NO_FLAGS,
	    IBT_BLOCKING, &args, &returns);
	return (status == IBT_CM_FAILURE ? (long)returns.rc_status << 16 :
	    (long)status);
}

/* The same, and what comes of it is counted. */
PROBE(begin)
{
	ibt_chan_open_args_t args;

	open_args(&args);
	return (ibt_open_rc_channel(chans[arg], IBT_OCHAN_NO_FLAGS,
	    IBT_NONBLOCKING, &args, NULL));
}

PROBE(established)
{
	return (established);
}

PROBE(failed)
{
	return (failed);
}

PROBE(closed)
{
	return (closed);
}

PROBE(last_reason)
{
	return (last_reason);
}

/* Nobody is told, and nobody waited for. */
PROBE(close_channel)
{
	return (ibt_close_rc_channel(chans[arg], IBT_NOCALLBACKS, NULL, 0,
	    NULL, NULL, NULL));
}

PROBE(state)
{
	ibt_rc_chan_query_attr_t attr;

	if (ibt_query_rc_channel(chans[arg], &attr) != IBT_SUCCESS)
		return (-1);
	return (attr.rc_state);
}

/* Of the receiver: how often a message that finds no buffer is repeated. */
PROBE(receiver_retries)
{
	ibt_rc_chan_query_attr_t attr;

	if (ibt_query_rc_channel(chans[arg], &attr) != IBT_SUCCESS)
		return (-1);
	return (attr.rc_path_rnr_retry_cnt);
}

/*
 * A message: its length << 16 | an EtherType to begin with.  What follows is a
 * pattern that begins with `from`.
 */
static uchar_t from;

PROBE(from)
{
	from = (uchar_t)arg;
	return (0);
}

PROBE(write)
{
	long n, len = arg >> 16;

	WANT(len <= SIZE);
	out[0] = (uchar_t)(arg >> 8);
	out[1] = (uchar_t)arg;
	out[2] = out[3] = 0;
	for (n = 4; n < len; n++)
		out[n] = (uchar_t)(from + n - 4);
	return (0);
}

/* Sends so many octets of it: length << 16 | channel. */
PROBE(send)
{
	ibt_wr_ds_t sgl = { (uintptr_t)out, mem.md_lkey, arg >> 16 };
	ibt_send_wr_t wr;

	bzero(&wr, sizeof (wr));
	wr.wr_id = arg & 0xffff;
	wr.wr_flags = IBT_WR_SEND_SIGNAL;
	wr.wr_trans = IBT_RC_SRV;
	wr.wr_opcode = IBT_WRC_SEND;
	wr.wr_nds = 1;
	wr.wr_sgl = &sgl;
	return (ibt_post_send(chans[arg & 0xffff], &wr, 1, NULL));
}

/* Status of the next completed send; -1 if there is none. */
PROBE(sent)
{
	ibt_wc_t wc;

	return (ibt_poll_cq(cq, &wc, 1, NULL) == IBT_SUCCESS ?
	    wc.wc_status : -1);
}
