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
 * A GLDv3 driver on the InfiniBand MAC type with one receive ring and three
 * transmit rings.  Its adapter is a list of packets: what arrives calls, if the
 * ring's interrupt is on, and waits to be fetched if not.  It writes down what
 * is asked of it in which order, and breaks a rule when a test tells it to.
 * One instance.
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
#define	PACKET_LEN	(HEADER_LEN + 36)
#define	MAX_SDU		2044
#define	TX_RINGS	3
#define	MAX_EVENTS	256

/* What is written down; the order is known to the tests. */
typedef enum event {
	E_START, E_STOP, E_RING_START, E_RING_STOP, E_TX_START, E_TX_STOP,
	E_GROUP_START, E_GROUP_STOP, E_ADD, E_REMOVE, E_ENABLE, E_DISABLE,
	E_POLL, E_PROMISC
} event_t;

/* Which rule to break; the order is known to the tests. */
typedef enum misdeed {
	M_NONE,
	M_STALE,		/* brings packets with the first generation */
	M_DEAF,			/* goes on bringing packets with the interrupt off */
	M_GREEDY,		/* a poll brings everything there is */
	M_POLL_UPCALL,		/* a poll brings packets up by itself */
	M_ENABLE_UPCALL,	/* the switch of the interrupt calls up, too */
	M_ENABLE_WAITS,		/* which may not wait either */
	M_LOCKED,		/* brings packets holding its lock */
	M_WILD,			/* names a ring nobody has */
	M_REFUSE_TX,		/* gives packets to send back */
	M_REFUSE_ADDRESS
} misdeed_t;

typedef struct tx_ring {
	mac_ring_handle_t handle;
	long sent;
} tx_ring_t;

static mac_handle_t mh;
static mac_ring_handle_t rx_handle;
static kmutex_t lock;
static uint64_t generation, first_generation;
static int starts, started, quiet;
static misdeed_t misdeed;
static tx_ring_t tx_rings[TX_RINGS];
static mblk_t *waiting;
static event_t events[MAX_EVENTS];
static int nevents;
static uint32_t next_sequence[8];
static int address_told;
static unsigned char address[ADDRESS_LEN] = {
	0, 0, 0, 0x48, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 0, 0, 0, 0, 1
};
static const unsigned char peer[ADDRESS_LEN] = {
	0, 0, 0, 0x49, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 0, 0, 0, 0, 2
};
static unsigned char programmed[ADDRESS_LEN];

static void
note(event_t what)
{
	mutex_enter(&lock);
	if (nevents < MAX_EVENTS)
		events[nevents++] = what;
	mutex_exit(&lock);
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

/* A UDP packet over IPv4 that carries its flow and number in it. */
static mblk_t *
packet(uint32_t flow)
{
	mblk_t *mp = allocb(PACKET_LEN, BPRI_HI);
	unsigned char *p;

	if (mp == NULL)
		panic("no message, though no fault was asked for");
	p = mp->b_rptr;
	bzero(p, PACKET_LEN);
	bcopy(peer, p, ADDRESS_LEN);
	bcopy(address, p + ADDRESS_LEN, ADDRESS_LEN);
	put16(p + 40, 0x0800);
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
	put32(p + 32, next_sequence[flow]++);
	mp->b_wptr = mp->b_rptr + PACKET_LEN;
	return (mp);
}

/* At most so many bytes of what waits.  The lock is held. */
static mblk_t *
take(size_t bytes)
{
	mblk_t *head = NULL, **tail = &head;

	while (waiting != NULL && bytes >= PACKET_LEN) {
		*tail = waiting;
		waiting = waiting->b_next;
		(*tail)->b_next = NULL;
		tail = &(*tail)->b_next;
		bytes -= PACKET_LEN;
	}
	return (head);
}

/* As an interrupt: brings what waits, a few packets at a time. */
static void
interrupt(void)
{
	mblk_t *mp;

	for (;;) {
		mutex_enter(&lock);
		mp = (started && (!quiet || misdeed == M_DEAF)) ?
		    take(4 * PACKET_LEN) : NULL;
		if (mp != NULL && misdeed == M_LOCKED)
			mac_rx_ring(mh, rx_handle, mp, generation);
		mutex_exit(&lock);
		if (mp == NULL)
			return;
		if (misdeed == M_STALE)
			mac_rx_ring(mh, rx_handle, mp, first_generation);
		else if (misdeed == M_WILD)
			mac_rx_ring(mh, (mac_ring_handle_t)&mh, mp, generation);
		else
			mac_rx_ring(mh, rx_handle, mp, generation);
	}
}

static int
ring_getstat(void *drv, uint_t stat, uint64_t *val)
{
	if (stat != MAC_STAT_IFSPEED)
		return (ENOTSUP);
	*val = 8000000000;
	return (0);
}

static int
ring_start(void *drv)
{
	note(E_START);
	/* The framework tells everybody, changed or not. */
	if (!address_told)
		mac_unicst_update(mh, address);
	address_told = 1;
	return (mac_maxsdu_update2(mh, MAX_SDU, MAX_SDU));
}

static void
ring_stop(void *drv)
{
	note(E_STOP);
}

static int
ring_setpromisc(void *drv, boolean_t on)
{
	note(E_PROMISC);
	return (0);
}

static int
ring_multicst(void *drv, boolean_t add, const uint8_t *group)
{
	return (0);
}

static int
group_start(mac_group_driver_t drv)
{
	note(E_GROUP_START);
	return (0);
}

static void
group_stop(mac_group_driver_t drv)
{
	note(E_GROUP_STOP);
}

static int
group_add(void *drv, const uint8_t *addr)
{
	note(E_ADD);
	if (misdeed == M_REFUSE_ADDRESS)
		return (ENOSPC);
	bcopy(addr, programmed, ADDRESS_LEN);
	return (0);
}

static int
group_remove(void *drv, const uint8_t *addr)
{
	note(E_REMOVE);
	return (0);
}

static int
rx_start(mac_ring_driver_t drv, uint64_t gen)
{
	note(E_RING_START);
	mutex_enter(&lock);
	if (starts++ == 0)
		first_generation = gen;
	generation = gen;
	started = 1;
	quiet = 0;
	mutex_exit(&lock);
	return (0);
}

static void
rx_stop(mac_ring_driver_t drv)
{
	mblk_t *mp, *next;

	note(E_RING_STOP);
	mutex_enter(&lock);
	started = 0;
	mp = waiting;
	waiting = NULL;
	mutex_exit(&lock);
	for (; mp != NULL; mp = next) {
		next = mp->b_next;
		mp->b_next = NULL;
		freemsg(mp);
	}
}

static int
rx_enable(mac_intr_handle_t drv)
{
	note(E_ENABLE);
	mutex_enter(&lock);
	quiet = 0;
	mutex_exit(&lock);
	if (misdeed == M_ENABLE_UPCALL)
		mac_tx_ring_update(mh, tx_rings[0].handle);
	if (misdeed == M_ENABLE_WAITS)
		delay(1);
	return (0);
}

static int
rx_disable(mac_intr_handle_t drv)
{
	note(E_DISABLE);
	mutex_enter(&lock);
	quiet = 1;
	mutex_exit(&lock);
	return (0);
}

static mblk_t *
rx_poll(void *drv, int bytes)
{
	mblk_t *mp;

	note(E_POLL);
	mutex_enter(&lock);
	mp = take(misdeed == M_GREEDY ? (size_t)-1 : (size_t)bytes);
	mutex_exit(&lock);
	if (mp != NULL && misdeed == M_POLL_UPCALL) {
		mac_rx_ring(mh, rx_handle, mp, generation);
		mp = NULL;
	}
	return (mp);
}

static int
tx_start(mac_ring_driver_t drv, uint64_t gen)
{
	note(E_TX_START);
	return (0);
}

static void
tx_stop(mac_ring_driver_t drv)
{
	note(E_TX_STOP);
}

static mblk_t *
tx_send(void *drv, mblk_t *mp)
{
	tx_ring_t *ring = drv;

	if (misdeed == M_REFUSE_TX)
		return (mp);
	mutex_enter(&lock);
	ring->sent++;
	mutex_exit(&lock);
	freemsg(mp);
	return (NULL);
}

static int
ring_stat(mac_ring_driver_t drv, uint_t stat, uint64_t *val)
{
	return (ENOTSUP);
}

static void
get_ring(void *drv, mac_ring_type_t type, const int group, const int index,
    mac_ring_info_t *info, mac_ring_handle_t handle)
{
	if (type == MAC_RING_TYPE_TX) {
		tx_rings[index].handle = handle;
		info->mri_driver = (mac_ring_driver_t)&tx_rings[index];
		info->mri_start = tx_start;
		info->mri_stop = tx_stop;
		info->mri_tx = tx_send;
		info->mri_stat = ring_stat;
		return;
	}
	rx_handle = handle;
	info->mri_driver = (mac_ring_driver_t)&rx_handle;
	info->mri_start = rx_start;
	info->mri_stop = rx_stop;
	info->mri_intr.mi_handle = (mac_intr_handle_t)&rx_handle;
	info->mri_intr.mi_enable = rx_enable;
	info->mri_intr.mi_disable = rx_disable;
	info->mri_poll = rx_poll;
	info->mri_stat = ring_stat;
}

static void
get_group(void *drv, mac_ring_type_t type, const int index,
    mac_group_info_t *info, mac_group_handle_t handle)
{
	info->mgi_start = group_start;
	info->mgi_stop = group_stop;
	info->mgi_count = 1;
#ifndef	NO_ADDMAC
	info->mgi_addmac = group_add;
	info->mgi_remmac = group_remove;
#endif
}

static boolean_t
ring_getcapab(void *drv, mac_capab_t cap, void *data)
{
	mac_capab_rings_t *rings = data;

	if (cap != MAC_CAPAB_RINGS)
		return (B_FALSE);
#ifdef	NO_RX_RING
	if (rings->mr_type == MAC_RING_TYPE_RX)
		return (B_FALSE);
#endif
	rings->mr_group_type = MAC_GROUP_TYPE_STATIC;
	rings->mr_rnum = rings->mr_type == MAC_RING_TYPE_RX ? 1 : TX_RINGS;
	rings->mr_gnum = rings->mr_type == MAC_RING_TYPE_RX ? 1 : 0;
	rings->mr_rget = get_ring;
	rings->mr_gget = get_group;
	return (B_TRUE);
}

#ifdef	WITH_UNICST
static int
ring_unicst(void *drv, const uint8_t *addr)
{
	return (0);
}
#endif

static mac_callbacks_t ring_callbacks = {
	.mc_callbacks = MC_GETCAPAB,
	.mc_getstat = ring_getstat,
	.mc_start = ring_start,
	.mc_stop = ring_stop,
	.mc_setpromisc = ring_setpromisc,
	.mc_multicst = ring_multicst,
#ifdef	WITH_UNICST
	.mc_unicst = ring_unicst,
#endif
	.mc_getcapab = ring_getcapab
};

static int
ring_attach(dev_info_t *dip, ddi_attach_cmd_t cmd)
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
	reg->m_callbacks = &ring_callbacks;
	reg->m_max_sdu = MAX_SDU;
	reg->m_v12n = MAC_VIRT_LEVEL1;
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
ring_detach(dev_info_t *dip, ddi_detach_cmd_t cmd)
{
	if (cmd != DDI_DETACH || mac_unregister(mh) != 0)
		return (DDI_FAILURE);
	mh = NULL;
	mutex_destroy(&lock);
	return (DDI_SUCCESS);
}

DDI_DEFINE_STREAM_OPS(ring_ops, nulldev, nulldev, ring_attach, ring_detach,
    nodev, NULL, D_MP, NULL, ddi_quiesce_not_needed);

static struct modldrv ring_modldrv = {
	&mod_driverops, "A driver with rings", &ring_ops
};

static struct modlinkage ring_linkage = {
	MODREV_1, { &ring_modldrv, NULL }
};

int
_init(void)
{
	int error;

	mac_init_ops(&ring_ops, "ring");
	error = mod_install(&ring_linkage);
	if (error != 0)
		mac_fini_ops(&ring_ops);
	return (error);
}

int
_fini(void)
{
	int error = mod_remove(&ring_linkage);

	if (error == 0)
		mac_fini_ops(&ring_ops);
	return (error);
}

int
_info(struct modinfo *info)
{
	return (mod_info(&ring_linkage, info));
}

/* What was asked at the nth place, -1 behind the last. */
PROBE(event)
{
	return (arg < nevents ? (long)events[arg] : -1);
}

PROBE(misdeed)
{
	misdeed = arg;
	return (0);
}

/* Packets sent on a ring. */
PROBE(sent)
{
	return (tx_rings[arg].sent);
}

/* Which byte of its address the group was given. */
PROBE(programmed)
{
	return (programmed[arg]);
}

/* So many packets of eight flows arrive, one after the other. */
PROBE(arrive)
{
	mblk_t *mp, **tail;
	long i;

	for (i = 0; i < arg; i++) {
		mp = packet((uint32_t)(i % 8));
		mutex_enter(&lock);
		for (tail = &waiting; *tail != NULL; tail = &(*tail)->b_next)
			;
		*tail = mp;
		mutex_exit(&lock);
		if (i % 5 == 4)
			interrupt();
	}
	interrupt();
	return (0);
}

/* The adapter calls, as one does once its interrupt is on again. */
PROBE(call)
{
	interrupt();
	return (waiting != NULL);
}

/* A packet that a thread took while the ring ran, and brings now. */
PROBE(late)
{
	mac_rx_ring(mh, rx_handle, packet(0), generation);
	return (0);
}

PROBE(ring_update)
{
	mac_tx_ring_update(mh, tx_rings[arg].handle);
	return (0);
}

PROBE(update)
{
	mac_tx_update(mh);
	return (0);
}
