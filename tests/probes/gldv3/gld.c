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
 * A GLDv3 driver on the InfiniBand MAC type that counts what is asked of it
 * and does what a test tells it.  One instance.
 */

#include <sys/conf.h>
#include <sys/devops.h>
#include <sys/dls.h>
#include <sys/errno.h>
#include <sys/mac_provider.h>
#include <sys/stream.h>
#include "../rules/probe.h"

#define	ADDRESS_LEN	20
#define	HEADER_LEN	44
#define	MAX_SDU		2044

/* What is counted; the order is known to the tests. */
typedef enum counter {
	C_START, C_STOP, C_PROMISC_ON, C_PROMISC_OFF, C_GROUP_ADD, C_GROUP_REMOVE,
	C_UNICST, C_TX, C_REFUSED, C_GETSTAT, C_COUNTERS
} counter_t;

/* What mc_tx does; the order is known to the tests. */
typedef enum tx_mode {
	TX_TAKE,		/* frees everything */
	TX_REFUSE,		/* gives the chain back */
	TX_REFUSE_AND_UPDATE,	/* once, having called mac_tx_update first */
	TX_SUBSTITUTE,		/* gives another message back */
	TX_SCRIBBLE,		/* writes to the payload before it is freed */
	TX_FREE_UNDER_MUTEX,
	TX_NOTHING_UNDER_MUTEX,
	TX_SLEEP		/* waits for memory with the mutex held */
} tx_mode_t;

#define	MAX_EVENTS	64

static mac_handle_t mh;
static kmutex_t lock;
static long counters[C_COUNTERS];
static counter_t events[MAX_EVENTS];
static int nevents;
static tx_mode_t tx_mode;
static int start_error, promisc_error, group_error, keep_attached;
static uint64_t speed = 8000000000;
static uint32_t rx_sap = 0x0800;
static unsigned char last_sent[256];
static size_t last_sent_len;
static unsigned char last_group[ADDRESS_LEN];
static int address_told;
static unsigned char address[ADDRESS_LEN] = {
	0, 0, 0, 0x48, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 0, 0, 0, 0, 1
};
static const unsigned char peer[ADDRESS_LEN] = {
	0, 0, 0, 0x49, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 0, 0, 0, 0, 2
};

static void
count(counter_t which)
{
	mutex_enter(&lock);
	counters[which]++;
	if (which < C_TX && nevents < MAX_EVENTS)
		events[nevents++] = which;
	mutex_exit(&lock);
}

static int
gld_getstat(void *drv, uint_t stat, uint64_t *val)
{
	count(C_GETSTAT);
	if (stat != MAC_STAT_IFSPEED)
		return (ENOTSUP);
	*val = speed;
	return (0);
}

static int
gld_start(void *drv)
{
	count(C_START);
	if (start_error != 0)
		return (start_error);
	/* The framework tells everybody, changed or not. */
	if (!address_told)
		mac_unicst_update(mh, address);
	address_told = 1;
	return (mac_maxsdu_update2(mh, MAX_SDU, MAX_SDU));
}

static void
gld_stop(void *drv)
{
	count(C_STOP);
}

static int
gld_setpromisc(void *drv, boolean_t on)
{
	if (promisc_error != 0)
		return (promisc_error);
	count(on ? C_PROMISC_ON : C_PROMISC_OFF);
	return (0);
}

static int
gld_multicst(void *drv, boolean_t add, const uint8_t *group)
{
	if (add && group_error != 0)
		return (group_error);
	count(add ? C_GROUP_ADD : C_GROUP_REMOVE);
	bcopy(group, last_group, ADDRESS_LEN);
	return (0);
}

static int
gld_unicst(void *drv, const uint8_t *addr)
{
	count(C_UNICST);
	return (ENOTSUP);
}

static void
remember(mblk_t *mp)
{
	size_t len, total = 0;

	for (; mp != NULL; mp = mp->b_cont) {
		len = MBLKL(mp);
		if (len > sizeof (last_sent) - total)
			len = sizeof (last_sent) - total;
		bcopy(mp->b_rptr, last_sent + total, len);
		total += len;
	}
	last_sent_len = total;
}

/* One packet; what mc_tx gives back of it. */
static mblk_t *
gld_tx_one(mblk_t *mp)
{
	mblk_t *other;

	count(C_TX);
	remember(mp);
	switch (tx_mode) {
	case TX_REFUSE:
		count(C_REFUSED);
		return (mp);
	case TX_REFUSE_AND_UPDATE:
		count(C_REFUSED);
		tx_mode = TX_TAKE;
		mac_tx_update(mh);
		return (mp);
	case TX_SUBSTITUTE:
		if ((other = copymsg(mp)) == NULL)
			return (mp);
		freemsg(mp);
		return (other);
	case TX_SCRIBBLE:
		if (mp->b_cont != NULL)
			mp = (other = mp)->b_cont;
		else
			other = mp;
		*mp->b_rptr ^= 0xff;
		freemsg(other);
		return (NULL);
	case TX_FREE_UNDER_MUTEX:
		mutex_enter(&lock);
		freemsg(mp);
		mutex_exit(&lock);
		return (NULL);
	case TX_NOTHING_UNDER_MUTEX:
		mutex_enter(&lock);
		mutex_exit(&lock);
		freemsg(mp);
		return (NULL);
	default:
		freemsg(mp);
		return (NULL);
	}
}

static mblk_t *
gld_tx(void *drv, mblk_t *chain)
{
	mblk_t *mp, *next;

	for (mp = chain; mp != NULL; mp = next) {
		next = mp->b_next;
		mp->b_next = NULL;
		if ((mp = gld_tx_one(mp)) != NULL) {
			mp->b_next = next;
			return (mp);
		}
	}
	return (NULL);
}

static mac_callbacks_t gld_callbacks = {
	.mc_callbacks = 0,
	.mc_getstat = gld_getstat,
	.mc_start = gld_start,
	.mc_stop = gld_stop,
	.mc_setpromisc = gld_setpromisc,
	.mc_multicst = gld_multicst,
	.mc_unicst = gld_unicst,
	.mc_tx = gld_tx
};

static int
gld_attach(dev_info_t *dip, ddi_attach_cmd_t cmd)
{
	static uint8_t unknown[ADDRESS_LEN];
	mac_register_t *reg;
	int error;

	if (cmd != DDI_ATTACH || (reg = mac_alloc(MAC_VERSION)) == NULL)
		return (DDI_FAILURE);
	mutex_init(&lock, NULL, MUTEX_DRIVER, NULL);
	reg->m_type_ident = "mac_ib";
	reg->m_driver = &mh;
	reg->m_dip = dip;
	reg->m_src_addr = unknown;
	reg->m_callbacks = &gld_callbacks;
	reg->m_max_sdu = MAX_SDU;
	error = mac_register(reg, &mh);
	mac_free(reg);
	if (error != 0) {
		cmn_err(CE_NOTE, "!mac_register failed: %d", error);
		mutex_destroy(&lock);
		return (DDI_FAILURE);
	}
	return (DDI_SUCCESS);
}

static int
gld_detach(dev_info_t *dip, ddi_detach_cmd_t cmd)
{
	if (cmd != DDI_DETACH)
		return (DDI_FAILURE);
	if (keep_attached)
		return (mac_disable(mh), DDI_FAILURE);
#ifndef	NO_UNREGISTER
	if (mac_unregister(mh) != 0)
		return (DDI_FAILURE);
#endif
	mh = NULL;
	mutex_destroy(&lock);
	return (DDI_SUCCESS);
}

DDI_DEFINE_STREAM_OPS(gld_ops, nulldev, nulldev, gld_attach, gld_detach, nodev,
    NULL, D_MP, NULL, ddi_quiesce_not_needed);

static struct modldrv gld_modldrv = {
	&mod_driverops, "A driver that counts", &gld_ops
};

static struct modlinkage gld_linkage = {
	MODREV_1, { &gld_modldrv, NULL }
};

int
_init(void)
{
	int error;

#ifndef	INIT_OPS_LATE
	mac_init_ops(&gld_ops, "gld");
#endif
	error = mod_install(&gld_linkage);
#ifdef	INIT_OPS_LATE
	mac_init_ops(&gld_ops, "gld");
#endif
	if (error != 0)
		mac_fini_ops(&gld_ops);
	return (error);
}

int
_fini(void)
{
	int error;

#ifdef	FINI_OPS_EARLY
	mac_fini_ops(&gld_ops);
#endif
	error = mod_remove(&gld_linkage);
#ifndef	NO_FINI_OPS
	if (error == 0)
		mac_fini_ops(&gld_ops);
#endif
	return (error);
}

int
_info(struct modinfo *info)
{
	return (mod_info(&gld_linkage, info));
}

PROBE(count)
{
	return (counters[arg]);
}

/* The nth call that changed what the driver does, -1 behind the last. */
PROBE(event)
{
	return (arg < nevents ? (long)events[arg] : -1);
}

PROBE(tx_mode)
{
	tx_mode = arg;
	return (0);
}

PROBE(start_error)
{
	start_error = arg;
	return (0);
}

PROBE(promisc_error)
{
	promisc_error = arg;
	return (0);
}

PROBE(group_error)
{
	group_error = arg;
	return (0);
}

/* Detach disables the mac and refuses. */
PROBE(keep_attached)
{
	keep_attached = arg;
	return (0);
}

PROBE(speed)
{
	speed = arg;
	return (0);
}

PROBE(rx_sap)
{
	rx_sap = arg;
	return (0);
}

/* Length of the packet sent last, and its nth byte. */
PROBE(sent_len)
{
	return (last_sent_len);
}

PROBE(sent_byte)
{
	return (last_sent[arg]);
}

PROBE(group_byte)
{
	return (last_group[arg]);
}

PROBE(unregister)
{
	return (mac_unregister(mh));
}

PROBE(disable)
{
	return (mac_disable(mh));
}

PROBE(link_state)
{
	mac_link_update(mh, (link_state_t)arg);
	return (0);
}

PROBE(tx_update)
{
	mac_tx_update(mh);
	return (0);
}

PROBE(tx_update_under_mutex)
{
	mutex_enter(&lock);
	mac_tx_update(mh);
	mutex_exit(&lock);
	return (0);
}

PROBE(link_update_under_mutex)
{
	mutex_enter(&lock);
	mac_link_update(mh, LINK_STATE_UP);
	mutex_exit(&lock);
	return (0);
}

static void
put16(unsigned char *p, uint_t value)
{
	p[0] = value >> 8;
	p[1] = value;
}

static void
put32(unsigned char *p, uint32_t value)
{
	put16(p, value >> 16);
	put16(p + 2, value & 0xffff);
}

/*
 * A UDP packet over IPv4 to this driver's address, as UD delivers it after the
 * GRH was turned into addresses: 44 bytes of header, 28 of IPv4 and UDP, then
 * the flow and its sequence number.  The flow is the source port.
 */
static mblk_t *
packet(uint32_t flow, uint32_t sequence)
{
	size_t len = HEADER_LEN + 36;
	mblk_t *mp = allocb(len, BPRI_HI);
	unsigned char *p;

	if (mp == NULL)
		return (NULL);
	p = mp->b_rptr;
	bzero(p, len);
	bcopy(peer, p, ADDRESS_LEN);
	bcopy(address, p + ADDRESS_LEN, ADDRESS_LEN);
	put16(p + 40, rx_sap);
	p += HEADER_LEN;
	p[0] = 0x45;
	put16(p + 2, 36);
	p[8] = 64;
	p[9] = 17;
	put32(p + 12, 0x0a000002);
	put32(p + 16, 0x0a000001);
	put16(p + 20, 1024 + flow);
	put16(p + 22, 9);
	put16(p + 24, 16);
	put32(p + 28, flow);
	put32(p + 32, sequence);
	mp->b_wptr = mp->b_rptr + len;
	return (mp);
}

static uint32_t next_sequence[8];

static mblk_t *
packets(int n, uint32_t first_flow)
{
	mblk_t *head = NULL, **tail = &head;
	uint32_t flow;
	int i;

	for (i = 0; i < n; i++) {
		flow = (first_flow + i) % 8;
		if ((*tail = packet(flow, next_sequence[flow]++)) == NULL)
			panic("no message, though no fault was asked for");
		tail = &(*tail)->b_next;
	}
	return (head);
}

/* Delivers that many packets in one chain. */
PROBE(rx)
{
	mac_rx(mh, NULL, packets(arg, 0));
	return (0);
}

PROBE(rx_under_mutex)
{
	mutex_enter(&lock);
	mac_rx(mh, NULL, packets(1, 0));
	mutex_exit(&lock);
	return (0);
}

/* A packet that is shorter than its header. */
PROBE(rx_short)
{
	mblk_t *mp = packets(1, 0);

	mp->b_wptr = mp->b_rptr + HEADER_LEN - 1;
	mac_rx(mh, NULL, mp);
	return (0);
}

/*
 * Delivers that many packets of eight flows in chains of 1 to 16, and lets
 * those above catch up now and then.
 */
PROBE(rx_flows)
{
	long left, chain;
	uint32_t flow = 0;
	int rounds = 0;

	for (left = arg; left > 0; left -= chain) {
		chain = 1 + (flow * 7 + rounds) % 16;
		if (chain > left)
			chain = left;
		mac_rx(mh, NULL, packets(chain, flow));
		flow = (flow + 3) % 8;
		if (++rounds % 32 == 0)
			delay(1);
	}
	return (0);
}
