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
 * A consumer of sys/mac_ib.h that includes nothing else.  It receives a
 * datagram as an HCA delivers it, converts the GRH to addresses in place as
 * the header describes, and exits with the number of the first thing wrong.
 */

#include <sys/mac_ib.h>

#if defined(_SYS_MAC_ETHER_H) || defined(_MAC_ETHER_H)
#error "sys/mac_ib.h must leave sys/mac_ether.h its include guard"
#endif

#define	AT(type, member, offset)	\
	_Static_assert(offsetof(type, member) == (offset), #type "." #member)
#define	SIZE(type, size)	\
	_Static_assert(sizeof (type) == (size), "sizeof " #type)

SIZE(ipoib_mac_t, IPOIB_ADDRL);
AT(ipoib_mac_t, ipoib_qpn, 0);
AT(ipoib_mac_t, ipoib_gidpref, 4);
AT(ipoib_mac_t, ipoib_gidsuff, 12);

SIZE(ipoib_hdr_t, IPOIB_HDRSIZE);
AT(ipoib_hdr_t, ipoib_type, 0);
AT(ipoib_hdr_t, ipoib_mbz, 2);

SIZE(ipoib_ptxhdr_t, 24);
AT(ipoib_ptxhdr_t, ipoib_dest, 0);
AT(ipoib_ptxhdr_t, ipoib_rhdr, 20);

SIZE(ipoib_pgrh_t, IPOIB_GRH_SIZE);
AT(ipoib_pgrh_t, ipoib_vertcflow, 0);
AT(ipoib_pgrh_t, ipoib_sqpn, 4);
AT(ipoib_pgrh_t, ipoib_sgid_pref, 8);
AT(ipoib_pgrh_t, ipoib_sgid_suff, 16);
AT(ipoib_pgrh_t, ipoib_dgid_pref, 24);
AT(ipoib_pgrh_t, ipoib_dgid_suff, 32);

SIZE(ib_addrs_t, 40);
AT(ib_addrs_t, ipib_src, 0);
AT(ib_addrs_t, ipib_dst, 20);

SIZE(ib_header_info_t, 44);
AT(ib_header_info_t, ib_grh, 0);
AT(ib_header_info_t, ib_src, 0);
AT(ib_header_info_t, ib_dst, 20);
AT(ib_header_info_t, ipib_rhdr, 40);

_Static_assert(IPOIB_ADDRL == 20 && IPOIB_HDRSIZE == 4 && IPOIB_GRH_SIZE == 40, "lengths");
_Static_assert(MAC_IB_MAX_802_SAP == 255 && MAC_IB_ETHERTYPE_MAX == 65535, "SAPs");
_Static_assert(MAC_IB_GID_SIZE == 10 && MAC_IB_BROADCAST_GID == 0xffffffff, "broadcast");
_Static_assert(IB_QPN_MASK == 0x00ffffff && IB_MC_QPN == IB_QPN_MASK, "QPNs");
_Static_assert(sizeof (MAC_PLUGIN_IDENT_IB) == sizeof ("mac_ib"), "name");

int
main(void)
{
	union {
		ib_header_info_t info;
		unsigned char bytes[44];
	} packet;
	const unsigned int sender = 0x48000000, receiver = 0x49000000;
	int i;

	/* Every byte says where it was. */
	for (i = 0; i < 44; i++)
		packet.bytes[i] = (unsigned char)i;

	packet.info.ib_grh.ipoib_sqpn = sender;
	__builtin_memmove(&packet.info.ib_src, &packet.info.ib_grh.ipoib_sqpn,
	    sizeof (ipoib_mac_t));
	packet.info.ib_dst.ipoib_qpn = receiver;

	if (packet.info.ib_src.ipoib_qpn != sender)
		return (1);
	for (i = 4; i < 20; i++)	/* the source GID, from bytes 8 to 23 */
		if (packet.bytes[i] != i + 4)
			return (2);
	if (packet.info.ib_dst.ipoib_qpn != receiver)
		return (3);
	for (i = 24; i < 44; i++)	/* the destination GID and the header */
		if (packet.bytes[i] != i)
			return (4);
	return (0);
}
