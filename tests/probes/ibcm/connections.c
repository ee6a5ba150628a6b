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
 * Connections: channels are called by a number below CHANS, on either side; a
 * passive side takes the channel that it was told to.
 */

#include "manager.h"
#include <sys/ib/ibtl/ibvti.h>

#define	CHANS	32
#define	EVENTS	128
#define	SIZE	65524
#define	HELLO	0x1020304050607080ULL

MANAGER_MODULE("a client with connections");

static ibt_pd_hdl_t pd;
static ibt_cq_hdl_t scq, rcq;
static ibt_srq_hdl_t srq;
static ibt_mr_hdl_t mr;
static ibt_mr_desc_t mem;
static uchar_t *out, *in;
static ibt_channel_hdl_t chans[CHANS];
static ibt_srv_hdl_t service;
static ibt_sbind_hdl_t binding;
static ibt_path_info_t path;

/* What happened, in order: event | code << 8 | reason << 16. */
static long events[EVENTS];
static uint_t nevents;
static long asyncs;

/* How a REQ and a REP are answered, and which channel takes the REQ. */
static ibt_cm_status_t req_answer, rep_answer;
static uint_t taker;
static void *deferred;
static boolean_t proceeds_inside;
static clock_t slow;

static long
status_of(long line, ibt_status_t status)
{
	return (status == IBT_SUCCESS ? 0 : (line << 32) | status);
}

static void
note(long what)
{
	mutex_enter(&lock);
	if (nevents < EVENTS)
		events[nevents++] = what;
	cv_broadcast(&cv);
	mutex_exit(&lock);
}

static void
async(ibt_async_code_t code)
{
	if (code == IBT_EVENT_EMPTY_CHAN)
		asyncs++;
}

static void
say_hello(void *priv)
{
	*(uint64_t *)priv = HELLO;
}

static ibt_cm_status_t
on_req(ibt_cm_event_t *event, ibt_cm_return_args_t *ret, void *priv,
    uint8_t room)
{
	if (event->cm_channel != NULL || event->cm_priv_data_len != 92 ||
	    room != 196 || *(uint64_t *)event->cm_priv_data != HELLO)
		note(0xbad);
	deferred = event->cm_session_id;
	if (slow != 0 && ibt_cm_delay(IBT_CM_DELAY_REQ, event->cm_session_id,
	    slow, NULL, 0) != IBT_SUCCESS)
		note(0xbad1);
	if (proceeds_inside)
		(void) ibt_cm_proceed(IBT_CM_EVENT_REQ_RCV, deferred,
		    IBT_CM_REJECT, NULL, NULL, 0);
	if (req_answer == IBT_CM_ACCEPT) {
		ret->cm_ret.rep.cm_channel = chans[taker];
		ret->cm_ret.rep.cm_rnr_retry_cnt = IBT_RNR_INFINITE_RETRY;
		say_hello(priv);
		ret->cm_ret_len = sizeof (uint64_t);
	}
	return (req_answer);
}

static ibt_cm_status_t
handler(void *private, ibt_cm_event_t *event, ibt_cm_return_args_t *ret,
    void *priv, uint8_t room)
{
	ibt_cm_status_t answer = IBT_CM_ACCEPT;
	long code = 0, reason = 0;

	if (private != &chans)
		note(0xbad2);
	switch (event->cm_type) {
	case IBT_CM_EVENT_REQ_RCV:
		answer = on_req(event, ret, priv, room);
		break;
	case IBT_CM_EVENT_REP_RCV:
		if (event->cm_priv_data_len != 196 ||
		    *(uint64_t *)event->cm_priv_data != HELLO)
			note(0xbad3);
		deferred = event->cm_session_id;
		answer = rep_answer;
		break;
	case IBT_CM_EVENT_CONN_EST:
		if (ret != NULL || priv != NULL)
			note(0xbad4);
		break;
	case IBT_CM_EVENT_CONN_CLOSED:
		if (ret == NULL)
			note(0xbad5);
		code = event->cm_event.closed;
		break;
	case IBT_CM_EVENT_FAILURE:
		if (ret != NULL)
			note(0xbad6);
		code = event->cm_event.failed.cf_code;
		reason = event->cm_event.failed.cf_reason;
		break;
	default:
		break;
	}
	note(event->cm_type | code << 8 | reason << 16);
	return (answer);
}

/* arg: with a shared receive queue. */
PROBE(start)
{
	ibt_cq_attr_t cq;
	ibt_mr_attr_t attr;
	ibt_srq_sizes_t sizes;

	bzero(&cq, sizeof (cq));
	cq.cq_size = 127;
	on_event = async;
	WANT(ibt_alloc_pd(hca, IBT_PD_NO_FLAGS, &pd) == IBT_SUCCESS);
	WANT(ibt_alloc_cq(hca, &cq, &scq, NULL) == IBT_SUCCESS);
	WANT(ibt_alloc_cq(hca, &cq, &rcq, NULL) == IBT_SUCCESS);
	out = kmem_zalloc(2 * SIZE, KM_SLEEP);
	in = out + SIZE;
	bzero(&attr, sizeof (attr));
	attr.mr_vaddr = (uintptr_t)out;
	attr.mr_len = 2 * SIZE;
	attr.mr_flags = IBT_MR_SLEEP | IBT_MR_ENABLE_LOCAL_WRITE;
	WANT(ibt_register_mr(hca, pd, &attr, &mr, &mem) == IBT_SUCCESS);
	srq = NULL;
	if (arg != 0) {
		sizes.srq_wr_sz = 63;
		sizes.srq_sgl_sz = 1;
		WANT(ibt_alloc_srq(hca, IBT_SRQ_NO_FLAGS, pd, &sizes, &srq,
		    &sizes) == IBT_SUCCESS);
		WANT(ibt_modify_srq(srq, IBT_SRQ_SET_LIMIT, 0, 4, NULL) ==
		    IBT_NOT_SUPPORTED);
	}
	nevents = 0;
	return (0);
}

PROBE(stop)
{
	WANT(ibt_deregister_mr(hca, mr) == IBT_SUCCESS);
	kmem_free(out, 2 * SIZE);
	if (srq != NULL)
		WANT(ibt_free_srq(srq) == IBT_SUCCESS);
	WANT(ibt_free_cq(scq) == IBT_SUCCESS);
	WANT(ibt_free_cq(rcq) == IBT_SUCCESS);
	WANT(ibt_free_pd(hca, pd) == IBT_SUCCESS);
	on_event = NULL;
	return (0);
}

PROBE(make)
{
	ibt_rc_chan_alloc_args_t args;
	ibt_chan_alloc_flags_t flags = IBT_ACHAN_NO_FLAGS;

	bzero(&args, sizeof (args));
	args.rc_hca_port_num = 1;
	args.rc_sizes.cs_sq = args.rc_sizes.cs_rq = 4;
	args.rc_sizes.cs_sq_sgl = args.rc_sizes.cs_rq_sgl = 1;
	args.rc_scq = scq;
	args.rc_rcq = rcq;
	args.rc_pd = pd;
	if (srq != NULL) {
		args.rc_srq = srq;
		flags = IBT_ACHAN_USES_SRQ;
	}
	return (status_of(__LINE__, ibt_alloc_rc_channel(hca, flags, &args,
	    &chans[arg], NULL)));
}

/* Refused while anything is left; else the client is closed by its end. */
PROBE(close_hca)
{
	return (ibt_close_hca(hca));
}

PROBE(flush)
{
	return (ibt_flush_channel(chans[arg]));
}

PROBE(free)
{
	return (ibt_free_channel(chans[arg]));
}

PROBE(state)
{
	ibt_rc_chan_query_attr_t attr;

	if (ibt_query_rc_channel(chans[arg], &attr) != IBT_SUCCESS)
		return (-1);
	return (attr.rc_state);
}

/* Retry counts: transport | rnr << 8 | ACK timeout << 16. */
PROBE(retries)
{
	ibt_rc_chan_query_attr_t attr;

	if (ibt_query_rc_channel(chans[arg], &attr) != IBT_SUCCESS)
		return (-1);
	return (attr.rc_path_retry_cnt | attr.rc_path_rnr_retry_cnt << 8 |
	    (long)attr.rc_prim_path.cep_cm_opaque1 << 16);
}

/* The RNR timer of a channel in RTS may change, its retry counts may not. */
PROBE(change)
{
	ibt_rc_chan_modify_attr_t attr;
	ibt_rc_chan_query_attr_t now;
	ibt_qp_query_attr_t state;

	/* Has ibtl remember the state: ibcm names none when it gets there. */
	WANT(ibt_query_qp(chans[arg], &state) == IBT_SUCCESS);
	bzero(&attr, sizeof (attr));
	attr.rc_min_rnr_nak = IBT_RNR_NAK_20ms;
	WANT(ibt_modify_rc_channel(chans[arg], IBT_CEP_SET_MIN_RNR_NAK, &attr,
	    NULL) == IBT_SUCCESS);
	WANT(ibt_query_rc_channel(chans[arg], &now) == IBT_SUCCESS);
	WANT(now.rc_min_rnr_nak == IBT_RNR_NAK_20ms);
	WANT(ibt_modify_rc_channel(chans[arg], IBT_CEP_SET_RNR_NAK_RETRY,
	    &attr, NULL) == IBT_CHAN_ATTR_RO);
	return (0);
}

PROBE(listen)
{
	ibt_srv_desc_t desc;

	bzero(&desc, sizeof (desc));
	desc.sd_handler = handler;
	WANT(ibt_register_service(clnt, &desc, arg, 1, &service, NULL) ==
	    IBT_SUCCESS);
	WANT(ibt_bind_service(service, port, NULL, &chans, &binding) ==
	    IBT_SUCCESS);
	req_answer = IBT_CM_ACCEPT;
	rep_answer = IBT_CM_ACCEPT;
	return (0);
}

PROBE(unlisten)
{
	WANT(ibt_unbind_service(service, binding) == IBT_SUCCESS);
	WANT(ibt_deregister_service(clnt, service) == IBT_SUCCESS);
	return (0);
}

/* The other port's GUID; the answer is the lifetime of the path. */
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
	attr.pa_pkey = 0xffff;
	if (ibt_get_paths(clnt, IBT_PATH_PKEY, &attr, 1, &path, &found) !=
	    IBT_SUCCESS || found != 1)
		return (-1);
	rep_answer = IBT_CM_ACCEPT;
	return (path.pi_prim_pkt_lt);
}

static void
open_args(ibt_chan_open_args_t *args, uint64_t *hello, long sid)
{
	bzero(args, sizeof (*args));
	say_hello(hello);
	path.pi_sid = sid;
	args->oc_path = &path;
	args->oc_cm_handler = handler;
	args->oc_cm_clnt_private = &chans;
	args->oc_path_rnr_retry_cnt = IBT_RNR_RETRY_1;
	args->oc_path_retry_cnt = 1;
	args->oc_priv_data = hello;
	args->oc_priv_data_len = sizeof (*hello);
}

/* Service << 8 | channel; a status, or the reason << 16. */
PROBE(open_blocking)
{
	ibt_chan_open_args_t args;
	ibt_rc_returns_t returns;
	uint64_t hello, answer = 0;
	ibt_status_t status;

	open_args(&args, &hello, arg >> 8);
	bzero(&returns, sizeof (returns));
	returns.rc_priv_data = &answer;
	returns.rc_priv_data_len = sizeof (answer);
	status = ibt_open_rc_channel(chans[arg & 0xff], IBT_OCHAN_NO_FLAGS,
	    IBT_BLOCKING, &args, &returns);
	if (status == IBT_CM_FAILURE)
		return ((long)returns.rc_status << 16);
	if (status == IBT_SUCCESS && answer != HELLO)
		return (-1);
	return (status);
}

PROBE(open_nonblocking)
{
	ibt_chan_open_args_t args;
	uint64_t hello;

	open_args(&args, &hello, arg >> 8);
	return (ibt_open_rc_channel(chans[arg & 0xff], IBT_OCHAN_NO_FLAGS,
	    IBT_NONBLOCKING, &args, NULL));
}

/* Every argument that makes no sense. */
PROBE(nonsense)
{
	ibt_chan_open_args_t args;
	ibt_rc_returns_t returns;
	uint64_t hello;

	bzero(&returns, sizeof (returns));
	open_args(&args, &hello, 5);
	WANT(ibt_open_rc_channel(chans[0], IBT_OCHAN_NO_FLAGS, IBT_BLOCKING,
	    &args, NULL) == IBT_INVALID_PARAM);
	WANT(ibt_open_rc_channel(chans[0], IBT_OCHAN_NO_FLAGS, IBT_NONBLOCKING,
	    &args, &returns) == IBT_INVALID_PARAM);
	WANT(ibt_open_rc_channel(chans[0], IBT_OCHAN_NO_FLAGS, IBT_NOCALLBACKS,
	    &args, NULL) == IBT_INVALID_PARAM);
	args.oc_cm_handler = NULL;
	WANT(ibt_open_rc_channel(chans[0], IBT_OCHAN_NO_FLAGS, IBT_BLOCKING,
	    &args, &returns) == IBT_INVALID_PARAM);
	open_args(&args, &hello, 0);
	WANT(ibt_open_rc_channel(chans[0], IBT_OCHAN_NO_FLAGS, IBT_BLOCKING,
	    &args, &returns) == IBT_INVALID_PARAM);
	open_args(&args, &hello, 5);
	args.oc_path_rnr_retry_cnt = 8;
	WANT(ibt_open_rc_channel(chans[0], IBT_OCHAN_NO_FLAGS, IBT_BLOCKING,
	    &args, &returns) == IBT_INVALID_PARAM);
	WANT(ibt_close_rc_channel(chans[0], IBT_BLOCKING, NULL, 0, NULL, NULL,
	    NULL) == IBT_CHAN_STATE_INVALID);
	return (0);
}

/* Mode << 8 | channel; a status, or the code << 16. */
PROBE(close_channel)
{
	uint8_t code = 0;
	ibt_status_t status;

	status = ibt_close_rc_channel(chans[arg & 0xff],
	    (ibt_execution_mode_t)(arg >> 8), NULL, 0, &code, NULL, NULL);
	return (status != IBT_SUCCESS ? status : (long)code << 16);
}

PROBE(answer_req)
{
	req_answer = (ibt_cm_status_t)arg;
	return (0);
}

PROBE(answer_rep)
{
	rep_answer = (ibt_cm_status_t)arg;
	return (0);
}

PROBE(take_with)
{
	taker = arg;
	return (0);
}

PROBE(proceed_inside)
{
	proceeds_inside = B_TRUE;
	return (0);
}

/* Microseconds that the client asks for before it answers a REQ. */
PROBE(be_slow)
{
	slow = arg;
	return (0);
}

PROBE(proceed_req)
{
	ibt_cm_proceed_reply_t reply;
	uint64_t hello;

	bzero(&reply, sizeof (reply));
	say_hello(&hello);
	reply.rep.cm_channel = chans[taker];
	reply.rep.cm_rnr_retry_cnt = IBT_RNR_RETRY_3;
	return (ibt_cm_proceed(IBT_CM_EVENT_REQ_RCV, deferred,
	    (ibt_cm_status_t)arg, &reply, &hello, sizeof (hello)));
}

PROBE(proceed_rep)
{
	return (ibt_cm_proceed(IBT_CM_EVENT_REP_RCV, deferred,
	    (ibt_cm_status_t)arg, NULL, NULL, 0));
}

PROBE(events)
{
	return (nevents);
}

PROBE(event)
{
	return (arg < nevents ? events[arg] : -1);
}

PROBE(empty_channels)
{
	return (asyncs);
}

/* A receive for a whole message, on a channel or the shared queue. */
PROBE(post)
{
	ibt_wr_ds_t sgl = { (uintptr_t)in, mem.md_lkey, SIZE };
	ibt_recv_wr_t wr;

	bzero(&wr, sizeof (wr));
	wr.wr_id = 100;
	wr.wr_nds = 1;
	wr.wr_sgl = &sgl;
	return (srq != NULL ? ibt_post_srq(srq, &wr, 1, NULL) :
	    ibt_post_recv(chans[arg], &wr, 1, NULL));
}

/* Length << 8 | channel. */
PROBE(send)
{
	ibt_wr_ds_t sgl = { (uintptr_t)out, mem.md_lkey, arg >> 8 };
	ibt_send_wr_t wr;
	long n;

	for (n = 0; n < arg >> 8; n++)
		out[n] = (uchar_t)(n * 7 + n / 256);
	bzero(&wr, sizeof (wr));
	wr.wr_id = 200;
	wr.wr_flags = IBT_WR_SEND_SIGNAL;
	wr.wr_trans = IBT_RC_SRV;
	wr.wr_opcode = IBT_WRC_SEND;
	wr.wr_nds = 1;
	wr.wr_sgl = &sgl;
	return (ibt_post_send(chans[arg & 0xff], &wr, 1, NULL));
}

/* Status of the next completed send; -1 if there is none. */
PROBE(sent)
{
	ibt_wc_t wc;

	return (ibt_poll_cq(scq, &wc, 1, NULL) == IBT_SUCCESS ?
	    wc.wc_status : -1);
}

/* Length of the next message received, status << 32; -1 if there is none. */
PROBE(received)
{
	ibt_wc_t wc;
	uint_t n;

	if (ibt_poll_cq(rcq, &wc, 1, NULL) != IBT_SUCCESS)
		return (-1);
	if (wc.wc_status != IBT_WC_SUCCESS)
		return ((long)wc.wc_status << 32);
	for (n = 0; n < wc.wc_bytes_xfer; n++) {
		if (in[n] != (uchar_t)(n * 7 + n / 256))
			return (-2);
	}
	return (wc.wc_bytes_xfer);
}
