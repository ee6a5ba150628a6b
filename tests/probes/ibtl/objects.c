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
 * A client's objects: protection domains, completion queues, channels, address
 * handles, memory regions, shared receive queues, mappings; who may be freed
 * when, and what each call refuses.
 */

#include "client.h"

CLIENT_MODULE("objects")

PROBE(start)
{
	return (client_start((ib_guid_t)arg));
}

PROBE(stop)
{
	return (client_stop());
}

PROBE(references)
{
	ibt_ud_dest_hdl_t dest;
	ibt_mcg_info_t mcg;
	ib_gid_t mgid;

	mgid.gid_prefix = 0xff12401bffff0000ULL;
	mgid.gid_guid = 0xffffffffULL;
	OK(ibt_alloc_ud_dest(client.c_hca, IBT_UD_DEST_NO_FLAGS, client.c_pd,
	    &dest));
	WANT_STATUS(ibt_free_pd(client.c_hca, client.c_pd), IBT_PD_IN_USE);
	WANT_STATUS(ibt_free_cq(client.c_scq), IBT_CQ_BUSY);
	WANT_STATUS(ibt_close_hca(client.c_hca), IBT_HCA_RESOURCES_NOT_FREED);

	bzero(&mcg, sizeof (mcg));
	mcg.mc_adds_vect.av_dgid = mgid;
	mcg.mc_adds_vect.av_dlid = 0xc000;
	OK(ibt_attach_mcg(client.c_chan, &mcg));
	OK(ibt_attach_mcg(client.c_chan, &mcg));
	/* A channel in a group stays. */
	WANT_STATUS(ibt_free_channel(client.c_chan), CI_FAILURE);
	OK(ibt_detach_mcg(client.c_chan, &mcg));
	/* Attaching twice was attaching once. */
	WANT_STATUS(ibt_detach_mcg(client.c_chan, &mcg), IBT_MC_MGID_INVALID);
	OK(ibt_free_ud_dest(dest));
	return (0);
}

PROBE(multicast_checks)
{
	ibt_mcg_info_t mcg;

	bzero(&mcg, sizeof (mcg));
	mcg.mc_adds_vect.av_dgid.gid_prefix = 0xff12401bffff0000ULL;
	mcg.mc_adds_vect.av_dgid.gid_guid = 1;
	mcg.mc_adds_vect.av_dlid = 0xbfff;
	WANT_STATUS(ibt_attach_mcg(client.c_chan, &mcg), IBT_MC_MLID_INVALID);
	mcg.mc_adds_vect.av_dlid = 0xffff;
	WANT_STATUS(ibt_attach_mcg(client.c_chan, &mcg), IBT_MC_MLID_INVALID);
	mcg.mc_adds_vect.av_dlid = 0xc001;
	mcg.mc_adds_vect.av_dgid.gid_prefix = 0xfe80000000000000ULL;
	WANT_STATUS(ibt_attach_mcg(client.c_chan, &mcg), IBT_MC_MGID_INVALID);
	mcg.mc_adds_vect.av_dgid.gid_prefix = 0xff22401bffff0000ULL;
	WANT_STATUS(ibt_attach_mcg(client.c_chan, &mcg), IBT_MC_MGID_INVALID);
	mcg.mc_adds_vect.av_dgid.gid_prefix = 0xff13401bffff0000ULL;
	WANT_STATUS(ibt_attach_mcg(client.c_chan, &mcg), IBT_MC_MGID_INVALID);
	return (0);
}

PROBE(cq_sizes_and_refusals)
{
	static const uint_t asked[] = { 1, 3, 4, 1000 };
	static const uint_t real[] = { 1, 3, 7, 1023 };
	ibt_cq_attr_t attr;
	ibt_cq_hdl_t cq;
	ibt_wc_t wc;
	uint_t size, n;
	int i;

	for (i = 0; i < 4; i++) {
		OK(client_alloc_cq(asked[i], IBT_CQ_NO_FLAGS, &cq, &size));
		WANT(size == real[i]);
		OK(ibt_free_cq(cq));
	}
	WANT_STATUS(client_alloc_cq(0x7fffffff, IBT_CQ_NO_FLAGS, &cq, NULL),
	    IBT_HCA_CQ_EXCEEDED);
	bzero(&attr, sizeof (attr));
	attr.cq_size = 1;
	attr.cq_flags = IBT_CQ_HID;
	attr.cq_hid = 99;
	WANT_STATUS(ibt_alloc_cq(client.c_hca, &attr, &cq, NULL),
	    IBT_INVALID_PARAM);

	WANT_STATUS(ibt_poll_cq(client.c_scq, &wc, 0, &n), IBT_INVALID_PARAM);
	n = 7;
	WANT_STATUS(ibt_poll_cq(client.c_scq, &wc, 1, &n), IBT_CQ_EMPTY);
	WANT(n == 0);
	WANT_STATUS(ibt_poll_cq(client.c_scq, &wc, 1, NULL), IBT_CQ_EMPTY);
	WANT_STATUS(ibt_enable_cq_notify(client.c_scq, 3),
	    IBT_CQ_NOTIFY_TYPE_INVALID);
	WANT(ibt_get_cq_private(client.c_scq) == NULL);
	ibt_set_cq_private(client.c_scq, &wc);
	WANT(ibt_get_cq_private(client.c_scq) == &wc);
	OK(ibt_modify_cq(client.c_scq, 4, 100, 0));
	return (0);
}

PROBE(channel_born_ready)
{
	ibt_ud_chan_query_attr_t attr;
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan, copy;
	ibt_chan_sizes_t sizes;

	client_chan_args(&args);
	args.ud_sizes.cs_sq = 100;
	args.ud_sizes.cs_rq = 3;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args, &chan,
	    &sizes));
	WANT(sizes.cs_sq >= 100 && sizes.cs_rq >= 3);
	WANT(sizes.cs_sq_sgl >= 2 && sizes.cs_rq_sgl >= 2);
	OK(ibt_query_ud_channel(chan, &attr));
	WANT(attr.ud_state == IBT_STATE_RTS);
	WANT(attr.ud_qpn > 1 && attr.ud_qpn < 0xffffff);
	WANT(attr.ud_hca_guid == client.c_guid);
	WANT(attr.ud_scq == client.c_scq && attr.ud_rcq == client.c_rcq);
	WANT(attr.ud_pd == client.c_pd && attr.ud_hca_port_num == 1);
	WANT(attr.ud_pkey_ix == 0 && attr.ud_qkey == CLIENT_QKEY);
	WANT(ibt_channel_to_hca_guid(chan) == client.c_guid);

	/* A clone has everything but the number. */
	bzero(&args, sizeof (args));
	args.ud_clone_chan = chan;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_CLONE, &args, &copy,
	    NULL));
	OK(ibt_free_channel(chan));
	OK(ibt_query_ud_channel(copy, &attr));
	WANT(attr.ud_scq == client.c_scq && attr.ud_qkey == CLIENT_QKEY);
	WANT(attr.ud_chan_sizes.cs_sq >= sizes.cs_sq);
	OK(ibt_free_channel(copy));
	return (0);
}

#define	REFUSED(change, flags, status)					\
	do {								\
		client_chan_args(&args);				\
		change;							\
		WANT_STATUS(ibt_alloc_ud_channel(client.c_hca, flags,	\
		    &args, &chan, NULL), status);			\
	} while (0)

PROBE(channel_refusals)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan;

	REFUSED(args.ud_hca_port_num = 0, 0, IBT_HCA_PORT_INVALID);
	REFUSED(args.ud_hca_port_num = 2, 0, IBT_HCA_PORT_INVALID);
	REFUSED(args.ud_pkey_ix = 9999, 0, IBT_PKEY_IX_ILLEGAL);
	REFUSED(args.ud_pkey_ix = 5, 0, IBT_PKEY_IX_INVALID);
	REFUSED(args.ud_scq = NULL, 0, IBT_CQ_HDL_INVALID);
	REFUSED(args.ud_rcq = NULL, 0, IBT_CQ_HDL_INVALID);
	REFUSED(args.ud_pd = NULL, 0, IBT_PD_HDL_INVALID);
	REFUSED(args.ud_sizes.cs_sq = 1 << 20, 0, IBT_HCA_WR_EXCEEDED);
	REFUSED(args.ud_sizes.cs_rq_sgl = 1000, 0, IBT_HCA_SGL_EXCEEDED);
	REFUSED((void) 0, IBT_ACHAN_USES_FEXCH, IBT_CHAN_SRV_TYPE_INVALID);
	REFUSED((void) 0, IBT_ACHAN_USES_SRQ, IBT_INVALID_PARAM);
	REFUSED((void) 0, IBT_ACHAN_CLONE, IBT_INVALID_PARAM);
	REFUSED((void) 0, IBT_ACHAN_CLONE | IBT_ACHAN_USER_MAP,
	    IBT_INVALID_PARAM);
	REFUSED((void) 0, IBT_ACHAN_USES_RSS | IBT_ACHAN_USES_SRQ,
	    IBT_INVALID_PARAM);
	return (0);
}

PROBE(destinations)
{
	ibt_ud_dest_query_attr_t attr;
	ibt_ud_dest_hdl_t dest;
	ibt_adds_vect_t av;

	OK(ibt_alloc_ud_dest(client.c_hca, IBT_UD_DEST_NO_FLAGS, client.c_pd,
	    &dest));
	bzero(&av, sizeof (av));
	av.av_port_num = 1;
	av.av_dlid = 0x77;
	av.av_srvl = 5;
	av.av_flow = 0x12345;
	av.av_srate = IBT_SRATE_10;
	OK(ibt_modify_ud_dest(dest, 0x80000001, 0x123456, &av));

	/* What is refused changes nothing. */
	av.av_port_num = 2;
	WANT_STATUS(ibt_modify_ud_dest(dest, 1, 1, &av), IBT_HCA_PORT_INVALID);
	av.av_port_num = 1;
	av.av_srate = 11;
	WANT_STATUS(ibt_modify_ud_dest(dest, 1, 1, &av),
	    IBT_STATIC_RATE_INVALID);
	av.av_srate = IBT_SRATE_10;
	av.av_send_grh = B_TRUE;
	av.av_sgid_ix = 9;
	WANT_STATUS(ibt_modify_ud_dest(dest, 1, 1, &av), IBT_SGID_INVALID);

	OK(ibt_query_ud_dest(dest, &attr));
	WANT(attr.ud_hca_hdl == client.c_hca && attr.ud_pd == client.c_pd);
	WANT(attr.ud_dst_qpn == 0x123456 && attr.ud_qkey == 0x80000001);
	WANT(attr.ud_addr_vect.av_dlid == 0x77);
	WANT(attr.ud_addr_vect.av_srvl == 5);
	WANT(attr.ud_addr_vect.av_flow == 0x12345);
	/* The source GID is looked up, whatever was stored. */
	WANT(attr.ud_addr_vect.av_sgid.gid_guid == client.c_guid + 1);
	WANT(ibt_is_privileged_ud_dest(dest) == B_TRUE);

	/* Without an address the address stays. */
	OK(ibt_modify_ud_dest(dest, 7, 8, NULL));
	OK(ibt_query_ud_dest(dest, &attr));
	WANT(attr.ud_dst_qpn == 8 && attr.ud_qkey == 7);
	WANT(attr.ud_addr_vect.av_dlid == 0x77);
	WANT(ibt_is_privileged_ud_dest(dest) == B_FALSE);
	OK(ibt_free_ud_dest(dest));
	return (0);
}

/* modify_ud_dest is for interrupt handlers, too. */
PROBE(modify_destination)
{
	static ibt_ud_dest_hdl_t dest;

	switch (arg) {
	case 0:
		OK(ibt_alloc_ud_dest(client.c_hca, IBT_UD_DEST_NO_FLAGS,
		    client.c_pd, &dest));
		break;
	case 1:
		OK(ibt_modify_ud_dest(dest, 1, 2, NULL));
		break;
	default:
		OK(ibt_free_ud_dest(dest));
	}
	return (0);
}

PROBE(memory_regions)
{
	char *buf = kmem_alloc(8192, KM_SLEEP);
	ibt_mr_hdl_t mr;
	ibt_mr_attr_t attr;
	ibt_mr_desc_t desc;
	ibt_lkey_t lkey;

	WANT_STATUS(client_register(buf, 8192,
	    IBT_MR_ENABLE_REMOTE_WRITE, &mr, &lkey), IBT_MR_ACCESS_REQ_INVALID);
	WANT_STATUS(client_register(buf, 0, IBT_MR_SLEEP, &mr, &lkey),
	    IBT_MR_LEN_INVALID);
	WANT_STATUS(client_register(NULL, 8192, IBT_MR_SLEEP, &mr, &lkey),
	    IBT_MR_VA_INVALID);
	/* More than was allocated. */
	WANT_STATUS(client_register(buf, 8192 + 4096, IBT_MR_SLEEP, &mr, &lkey),
	    IBT_MR_VA_INVALID);
	bzero(&attr, sizeof (attr));
	attr.mr_vaddr = (ib_vaddr_t)(uintptr_t)buf;
	attr.mr_len = 8192;
	attr.mr_flags = IBT_MR_ENABLE_LOCAL_WRITE | IBT_MR_ENABLE_REMOTE_READ;
	OK(ibt_register_mr(client.c_hca, client.c_pd, &attr, &mr, &desc));
	WANT(desc.md_vaddr == attr.mr_vaddr && desc.md_lkey != 0);
	WANT(desc.md_rkey != 0);
	OK(ibt_deregister_mr(client.c_hca, mr));
	kmem_free(buf, 8192);
	return (0);
}


PROBE(shared_receive_queues)
{
	ibt_srq_sizes_t asked, real;
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan;
	ibt_srq_hdl_t srq;
	ibt_recv_wr_t wr;

	asked.srq_wr_sz = 100;
	asked.srq_sgl_sz = 2;
	OK(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd, &asked,
	    &srq, &real));
	WANT(real.srq_wr_sz >= 100 && real.srq_sgl_sz >= 2);
	client_chan_args(&args);
	args.ud_srq = srq;
	OK(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_USES_SRQ, &args, &chan,
	    NULL));
	WANT_STATUS(ibt_free_srq(srq), IBT_SRQ_IN_USE);
	bzero(&wr, sizeof (wr));
	WANT_STATUS(ibt_post_recv(chan, &wr, 1, NULL), IBT_SRQ_IN_USE);
	OK(ibt_post_srq(srq, &wr, 1, NULL));
	OK(ibt_free_channel(chan));
	OK(ibt_free_srq(srq));
	asked.srq_wr_sz = 1 << 30;
	WANT_STATUS(ibt_alloc_srq(client.c_hca, IBT_SRQ_NO_FLAGS, client.c_pd,
	    &asked, &srq, &real), IBT_HCA_WR_EXCEEDED);
	return (0);
}

/* Connected channels are made in INIT, and are none of datagrams. */
PROBE(connected_channels)
{
	ibt_rc_chan_alloc_args_t args;
	ibt_rc_chan_query_attr_t attr;
	ibt_ud_chan_query_attr_t ud_attr;
	ibt_channel_hdl_t chan = NULL;

	bzero(&args, sizeof (args));
	WANT_STATUS(ibt_alloc_rc_channel(client.c_hca, IBT_ACHAN_NO_FLAGS,
	    &args, &chan, NULL), IBT_HCA_PORT_INVALID);
	args.rc_hca_port_num = 1;
	args.rc_scq = client.c_scq;
	args.rc_rcq = client.c_rcq;
	args.rc_pd = client.c_pd;
	args.rc_sizes.cs_sq = args.rc_sizes.cs_rq = 1;
	args.rc_sizes.cs_sq_sgl = args.rc_sizes.cs_rq_sgl = 1;
	args.rc_scq = NULL;
	WANT_STATUS(ibt_alloc_rc_channel(client.c_hca, IBT_ACHAN_NO_FLAGS,
	    &args, &chan, NULL), IBT_CQ_HDL_INVALID);
	args.rc_scq = client.c_scq;
	WANT_STATUS(ibt_alloc_rc_channel(client.c_hca, IBT_ACHAN_USES_SRQ,
	    &args, &chan, NULL), IBT_INVALID_PARAM);
	WANT(chan == NULL);
	WANT(ibt_alloc_rc_channel(client.c_hca, IBT_ACHAN_NO_FLAGS, &args,
	    &chan, NULL) == IBT_SUCCESS);
	WANT(ibt_query_rc_channel(chan, &attr) == IBT_SUCCESS);
	WANT(attr.rc_state == IBT_STATE_INIT);
	WANT(attr.rc_prim_path.cep_hca_port_num == 1);
	WANT_STATUS(ibt_query_ud_channel(chan, &ud_attr),
	    IBT_CHAN_SRV_TYPE_INVALID);
	WANT(ibt_flush_channel(chan) == IBT_SUCCESS);
	WANT(ibt_free_channel(chan) == IBT_SUCCESS);
	return (0);
}

/* Partition attributes: nobody has registered. */
static long
part_attr(datalink_id_t id, ibt_part_attr_t *attr)
{
	attr->pa_plinkid = id + 1;
	return (0);
}

static ibt_status_t
get_part(datalink_id_t id, ibt_part_attr_t *attr)
{
	return (part_attr(id, attr) == 0 ? IBT_SUCCESS : IBT_NO_SUCH_OBJECT);
}

static ibt_status_t
get_all_parts(ibt_part_attr_t **attrs, int *n)
{
	*attrs = kmem_zalloc(2 * sizeof (ibt_part_attr_t), KM_SLEEP);
	(*attrs)[1].pa_port = 9;
	*n = 2;
	return (IBT_SUCCESS);
}

PROBE(partition_attributes)
{
	ibt_part_attr_t attr, *all = &attr;
	int n = 5;

	WANT_STATUS(ibt_get_part_attr(3, &attr), IBT_NO_SUCH_OBJECT);
	OK(ibt_get_all_part_attr(&all, &n));
	WANT(n == 0);
	ibt_register_part_attr_cb(get_part, get_all_parts);
	OK(ibt_get_part_attr(3, &attr));
	WANT(attr.pa_plinkid == 4);
	OK(ibt_get_all_part_attr(&all, &n));
	WANT(n == 2 && all[1].pa_port == 9);
	OK(ibt_free_part_attr(all, n));
	ibt_unregister_part_attr_cb();
	WANT_STATUS(ibt_get_part_attr(3, &attr), IBT_NO_SUCH_OBJECT);
	return (0);
}

/* Mappings: arg is the reserved key, 0 if there is none. */
PROBE(mappings)
{
	ibt_iov_attr_t attr;
	ibt_iov_t iov[3];
	ibt_all_wr_t wr;
	ibt_wr_ds_t sgl[4];
	ibt_mi_hdl_t mi;
	ibt_status_t status;

	iov[0].iov_addr = client.c_buf;
	iov[0].iov_len = 100;
	iov[1].iov_addr = client.c_buf;
	iov[1].iov_len = 0;
	iov[2].iov_addr = client.c_buf + SLOT;
	iov[2].iov_len = 200;
	bzero(&attr, sizeof (attr));
	bzero(&wr, sizeof (wr));
	attr.iov = iov;
	attr.iov_list_len = 3;
	attr.iov_wr_nds = 4;
	attr.iov_flags = IBT_IOV_NOSLEEP;
	wr.send.wr_sgl = sgl;
	status = ibt_map_mem_iov(client.c_hca, &attr, &wr, &mi);
	if (arg == 0) {
		WANT(status == IBT_NOT_SUPPORTED);
		return (0);
	}
	WANT(status == IBT_SUCCESS);
	/* Pieces of no length are left out. */
	WANT(wr.send.wr_nds == 2);
	WANT(sgl[0].ds_key == (ibt_lkey_t)arg && sgl[0].ds_len == 100);
	WANT(sgl[1].ds_len == 200);
	OK(ibt_unmap_mem_iov(client.c_hca, mi));

	/* The header of a large send takes its share of the list. */
	attr.iov_lso_hdr_sz = 44;
	WANT_STATUS(ibt_map_mem_iov(client.c_hca, &attr, &wr, &mi),
	    IBT_SGL_TOO_SMALL);
	attr.iov_lso_hdr_sz = 0;
	attr.iov_wr_nds = 1;
	WANT_STATUS(ibt_map_mem_iov(client.c_hca, &attr, &wr, &mi),
	    IBT_SGL_TOO_SMALL);

	attr.iov_wr_nds = 2;
	attr.iov_flags = IBT_IOV_NOSLEEP | IBT_IOV_RECV | IBT_IOV_ALT_LKEY;
	attr.iov_alt_lkey = 77;
	bzero(&wr, sizeof (wr));
	wr.recv.wr_sgl = sgl;
	OK(ibt_map_mem_iov(client.c_hca, &attr, &wr, &mi));
	WANT(wr.recv.wr_nds == 2 && sgl[0].ds_key == 77);
	OK(ibt_unmap_mem_iov(client.c_hca, mi));
	return (0);
}

/* What comes below breaks a rule. */

/* A mapping of three blocks, one of them empty if arg says so, for one piece. */
PROBE(map_too_much)
{
	ibt_iov_attr_t attr;
	ibt_iov_t iov[3];
	ibt_all_wr_t wr;
	ibt_wr_ds_t sgl[1];
	ibt_mi_hdl_t mi;
	int i;

	for (i = 0; i < 3; i++) {
		iov[i].iov_addr = client.c_buf + i * SLOT;
		iov[i].iov_len = 100;
	}
	if (arg != 0)
		iov[1].iov_len = 0;
	bzero(&attr, sizeof (attr));
	bzero(&wr, sizeof (wr));
	attr.iov = iov;
	attr.iov_list_len = 3;
	attr.iov_wr_nds = 1;
	attr.iov_flags = IBT_IOV_NOSLEEP;
	wr.send.wr_sgl = sgl;
	WANT_STATUS(ibt_map_mem_iov(client.c_hca, &attr, &wr, &mi),
	    IBT_SGL_TOO_SMALL);
	return (0);
}

PROBE(poll_freed_cq)
{
	ibt_cq_hdl_t cq;
	ibt_wc_t wc;

	OK(client_alloc_cq(1, IBT_CQ_NO_FLAGS, &cq, NULL));
	OK(ibt_free_cq(cq));
	(void) ibt_poll_cq(cq, &wc, 1, NULL);
	return (0);
}

PROBE(free_nothing)
{
	(void) ibt_free_cq(NULL);
	return (0);
}

PROBE(pd_as_cq)
{
	ibt_wc_t wc;

	(void) ibt_poll_cq((ibt_cq_hdl_t)client.c_pd, &wc, 1, NULL);
	return (0);
}

PROBE(free_portinfo_wrongly)
{
	ibt_hca_portinfo_t *info;
	uint_t n, size;

	OK(ibt_query_hca_ports(client.c_hca, 1, &info, &n, &size));
	ibt_free_portinfo(info, size - 8);
	return (0);
}

PROBE(leave_a_cq)
{
	ibt_cq_hdl_t cq;

	return (client_alloc_cq(1, IBT_CQ_NO_FLAGS, &cq, NULL));
}

/* Each of the four allocations of client_start fails once. */
PROBE(start_fails_four_times)
{
	ibt_ud_chan_alloc_args_t args;
	ibt_channel_hdl_t chan;
	ibt_mr_hdl_t mr;
	ibt_lkey_t lkey;
	ibt_pd_hdl_t pd;
	ibt_cq_hdl_t cq;
	char *buf;

	WANT(client_open((ib_guid_t)arg) == 0);
	WANT_STATUS(ibt_alloc_pd(client.c_hca, IBT_PD_NO_FLAGS, &pd),
	    IBT_INSUFF_RESOURCE);
	OK(ibt_alloc_pd(client.c_hca, IBT_PD_NO_FLAGS, &pd));
	client.c_pd = pd;
	WANT_STATUS(client_alloc_cq(1, IBT_CQ_NO_FLAGS, &cq, NULL),
	    IBT_INSUFF_RESOURCE);
	OK(client_alloc_cq(1, IBT_CQ_NO_FLAGS, &cq, NULL));
	client.c_scq = client.c_rcq = cq;
	client_chan_args(&args);
	WANT_STATUS(ibt_alloc_ud_channel(client.c_hca, IBT_ACHAN_NO_FLAGS,
	    &args, &chan, NULL), IBT_INSUFF_RESOURCE);
	buf = kmem_alloc(4096, KM_SLEEP);
	WANT_STATUS(client_register(buf, 4096, IBT_MR_SLEEP, &mr, &lkey),
	    IBT_INSUFF_RESOURCE);
	kmem_free(buf, 4096);
	OK(ibt_free_cq(cq));
	OK(ibt_free_pd(client.c_hca, pd));
	return (client_close());
}
