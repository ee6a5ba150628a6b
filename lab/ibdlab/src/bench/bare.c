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
 * The bare loop: what any driver must do to send a packet, and nothing else.
 * It copies the packet into registered memory, posts it, takes completions and
 * frees the message.  It has no lock, table or counter, knows one destination,
 * and is called by one thread at a time.  Nothing is given back at the end.
 */

#include <sys/types.h>
#include <sys/ddi.h>
#include <sys/errno.h>
#include <sys/kmem.h>
#include <sys/modctl.h>
#include <sys/stream.h>
#include <sys/sunddi.h>
#include <sys/systm.h>
#include <sys/ib/ibtl/ibti.h>

/* Sends in flight at most, of which one in so many asks for a completion. */
#define	RING		1024
#define	SIGNAL_EVERY	64
/* Completions taken at once: more than can be there. */
#define	COMPLETIONS	16
/* Bytes of a buffer. */
#define	SLOT		4096
/* Both addresses, which mac puts in front of a packet, are not sent. */
#define	ADDRESSES	40
#define	QKEY		0x0b1b
#define	PEER_QPN	0x1000

static struct {
	ibt_clnt_hdl_t		b_clnt;
	ibt_hca_hdl_t		b_hca;
	ibt_pd_hdl_t		b_pd;
	ibt_cq_hdl_t		b_cq;
	ibt_channel_hdl_t	b_chan;
	ibt_ud_dest_hdl_t	b_dest;
	ibt_mr_hdl_t		b_mr;
	ibt_lkey_t		b_lkey;
	char			*b_buf;
	uint64_t		b_next;
} bare;

static void
bare_async(void *private, ibt_hca_hdl_t hca, ibt_async_code_t code,
    ibt_async_event_t *event)
{
}

static ibt_clnt_modinfo_t bare_modinfo = {
	IBTI_V_CURR, IBT_GENERIC_MISC, bare_async, NULL, "BARE"
};

static struct modlmisc bare_modlmisc = { &mod_miscops, "the bare loop" };
static struct modlinkage bare_linkage = {
	MODREV_1, { &bare_modlmisc, NULL }
};
char _depends_on[] = "misc/ibtl";

int
_init(void)
{
	return (mod_install(&bare_linkage));
}

int
_fini(void)
{
	return (EBUSY);
}

int
_info(struct modinfo *info)
{
	return (mod_info(&bare_linkage, info));
}

static ibt_status_t
bare_memory(void)
{
	ibt_mr_attr_t attr;
	ibt_mr_desc_t desc;
	ibt_status_t status;

	bare.b_buf = kmem_zalloc(RING * SLOT, KM_SLEEP);
	bzero(&attr, sizeof (attr));
	attr.mr_vaddr = (ib_vaddr_t)(uintptr_t)bare.b_buf;
	attr.mr_len = RING * SLOT;
	attr.mr_flags = IBT_MR_SLEEP;
	status = ibt_register_mr(bare.b_hca, bare.b_pd, &attr, &bare.b_mr,
	    &desc);
	if (status == IBT_SUCCESS)
		bare.b_lkey = desc.md_lkey;
	return (status);
}

static ibt_status_t
bare_channel(uint8_t port)
{
	ibt_cq_attr_t attr;
	ibt_ud_chan_alloc_args_t args;
	ibt_status_t status;

	bzero(&attr, sizeof (attr));
	attr.cq_size = RING;
	status = ibt_alloc_cq(bare.b_hca, &attr, &bare.b_cq, NULL);
	if (status != IBT_SUCCESS)
		return (status);
	bzero(&args, sizeof (args));
	args.ud_flags = IBT_WR_SIGNALED;
	args.ud_hca_port_num = port;
	args.ud_sizes.cs_sq = RING;
	args.ud_sizes.cs_rq = 1;
	args.ud_sizes.cs_sq_sgl = 1;
	args.ud_sizes.cs_rq_sgl = 1;
	args.ud_qkey = QKEY;
	args.ud_scq = bare.b_cq;
	args.ud_rcq = bare.b_cq;
	args.ud_pd = bare.b_pd;
	return (ibt_alloc_ud_channel(bare.b_hca, IBT_ACHAN_NO_FLAGS, &args,
	    &bare.b_chan, NULL));
}

static ibt_status_t
bare_destination(uint8_t port, ib_lid_t dlid)
{
	ibt_adds_vect_t av;
	ibt_status_t status;

	status = ibt_alloc_ud_dest(bare.b_hca, IBT_UD_DEST_NO_FLAGS, bare.b_pd,
	    &bare.b_dest);
	if (status != IBT_SUCCESS)
		return (status);
	bzero(&av, sizeof (av));
	av.av_port_num = port;
	av.av_dlid = dlid;
	return (ibt_modify_ud_dest(bare.b_dest, QKEY, PEER_QPN, &av));
}

/* Everything up to a channel that can send.  What a call answered. */
int
bare_start(ib_guid_t hca, int port, int dlid)
{
	ibt_status_t status;

	status = ibt_attach(&bare_modinfo, NULL, NULL, &bare.b_clnt);
	if (status == IBT_SUCCESS)
		status = ibt_open_hca(bare.b_clnt, hca, &bare.b_hca);
	if (status == IBT_SUCCESS)
		status = ibt_alloc_pd(bare.b_hca, IBT_PD_NO_FLAGS, &bare.b_pd);
	if (status == IBT_SUCCESS)
		status = bare_memory();
	if (status == IBT_SUCCESS)
		status = bare_channel((uint8_t)port);
	if (status == IBT_SUCCESS)
		status = bare_destination((uint8_t)port, (ib_lid_t)dlid);
	return (status);
}

static size_t
bare_copy(mblk_t *mp, char *to)
{
	size_t skip = ADDRESSES;
	size_t copied = 0;

	for (; mp != NULL; mp = mp->b_cont) {
		size_t len = mp->b_wptr - mp->b_rptr - skip;

		bcopy(mp->b_rptr + skip, to + copied, len);
		copied += len;
		skip = 0;
	}
	return (copied);
}

static int
bare_post(mblk_t *mp)
{
	char *buf = bare.b_buf + (bare.b_next % RING) * SLOT;
	ibt_wc_t done[COMPLETIONS];
	ibt_wr_ds_t ds;
	ibt_send_wr_t wr;
	uint_t taken;

	ds.ds_va = (ib_vaddr_t)(uintptr_t)buf;
	ds.ds_key = bare.b_lkey;
	ds.ds_len = (uint32_t)bare_copy(mp, buf);
	bare.b_next++;
	wr.wr_id = bare.b_next;
	wr.wr_flags = bare.b_next % SIGNAL_EVERY == 0 ?
	    IBT_WR_SEND_SIGNAL : IBT_WR_NO_FLAGS;
	wr.wr_trans = IBT_UD_SRV;
	wr.wr_opcode = IBT_WRC_SEND;
	wr.wr_nds = 1;
	wr.wr_sgl = &ds;
	wr.wr.ud.udwr_immed = 0;
	wr.wr.ud.udwr_dest = bare.b_dest;
	if (ibt_post_send(bare.b_chan, &wr, 1, NULL) != IBT_SUCCESS)
		return (0);
	if (bare.b_next % SIGNAL_EVERY == 0)
		(void) ibt_poll_cq(bare.b_cq, done, COMPLETIONS, &taken);
	freemsg(mp);
	return (1);
}

/* In the place of mc_tx: what it did not take. */
mblk_t *
bare_tx(void *arg, mblk_t *mp)
{
	mblk_t *next;

	for (; mp != NULL; mp = next) {
		next = mp->b_next;
		mp->b_next = NULL;
		if (!bare_post(mp)) {
			mp->b_next = next;
			break;
		}
	}
	return (mp);
}
