//! Addresses: GUID, GID, multicast GID, queue pair number, and the 20-byte link address made of them (RFC 4391 sections 4
//! and 9.1.1).

use core::fmt;

use crate::numbers::{PKey, Scope};

/// A port's or node's 64-bit identifier, host order, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid(u64);

impl Guid {
    /// `None` for zero, which is "no GUID" everywhere.
    pub const fn new(raw: u64) -> Option<Self> {
        if raw != 0 { Some(Self(raw)) } else { None }
    }

    /// The 64 bits, host order.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({:016x})", self.0)
    }
}

/// Global identifier: subnet prefix and port GUID, or 128 bits of a multicast group. Kept as two host-order words, the shape
/// in which IBTF passes it (`ib_gid_t`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid {
    /// The upper 64 bits: subnet prefix.
    pub prefix: u64,
    /// The lower 64 bits: port GUID.
    pub guid: u64,
}

impl Gid {
    /// From 16 bytes in wire order.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let raw = u128::from_be_bytes(bytes);
        Self { prefix: (raw >> 64) as u64, guid: raw as u64 }
    }

    /// The 16 bytes in wire order.
    pub const fn to_bytes(self) -> [u8; 16] {
        (((self.prefix as u128) << 64) | self.guid as u128).to_be_bytes()
    }

    /// Whether the first byte says multicast.
    pub const fn is_multicast(self) -> bool {
        self.prefix >> 56 == 0xff
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{:016x}", self.prefix, self.guid)
    }
}

/// Which protocol an IPoIB multicast GID was made for: its 16-bit signature (RFC 4391 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Signature {
    Ipv4 = 0x401b,
    Ipv6 = 0x601b,
}

/// The GID of a multicast group: first byte 0xFF.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mgid(Gid);

impl Mgid {
    const SCOPE: u64 = 0xf << 48;
    const PKEY: u64 = 0xffff << 16;

    /// `None` unless `gid` is multicast.
    pub const fn new(gid: Gid) -> Option<Self> {
        if gid.is_multicast() { Some(Self(gid)) } else { None }
    }

    /// The GID.
    pub const fn gid(self) -> Gid {
        self.0
    }

    const fn ipoib(signature: Signature, scope: Scope, pkey: PKey, group: u128) -> Self {
        let prefix = (0xff10_u64 << 48)
            | (scope.nibble() as u64) << 48
            | (signature as u64) << 32
            | (pkey.to_full().get() as u64) << 16
            | (group >> 64) as u64 & 0xffff;
        Self(Gid { prefix, guid: group as u64 })
    }

    /// The broadcast group every member of the link belongs to: `FF1s:401B:pppp::FFFF:FFFF`.
    pub const fn broadcast(scope: Scope, pkey: PKey) -> Self {
        Self::ipoib(Signature::Ipv4, scope, pkey, 0xffff_ffff)
    }

    /// The group of an IPv4 multicast address: its low 28 bits.
    pub const fn ipv4(group: [u8; 4], scope: Scope, pkey: PKey) -> Self {
        Self::ipoib(Signature::Ipv4, scope, pkey, (u32::from_be_bytes(group) & 0x0fff_ffff) as u128)
    }

    /// The group of an IPv6 multicast address: its low 80 bits.
    pub const fn ipv6(group: [u8; 16], scope: Scope, pkey: PKey) -> Self {
        Self::ipoib(Signature::Ipv6, scope, pkey, u128::from_be_bytes(group) & ((1 << 80) - 1))
    }

    /// The all-routers group of a protocol (224.0.0.2, ff02::2), which stands in for a group nobody has created (RFC 4391
    /// section 5).
    pub const fn all_routers(signature: Signature, scope: Scope, pkey: PKey) -> Self {
        Self::ipoib(signature, scope, pkey, 2)
    }

    /// The protocol, if the signature is IPoIB's; other groups (`A01B`: made by the SA) have neither scope nor P_Key where
    /// IPoIB keeps them.
    pub const fn signature(self) -> Option<Signature> {
        match (self.0.prefix >> 32) as u16 {
            0x401b => Some(Signature::Ipv4),
            0x601b => Some(Signature::Ipv6),
            _ => None,
        }
    }

    /// The scope, if it is one of the four.
    pub const fn scope(self) -> Option<Scope> {
        Scope::from_nibble((self.0.prefix >> 48) as u8 & 0xf)
    }

    /// The partition in an IPoIB MGID; `None` in other groups and where the bits name no partition.
    pub const fn pkey(self) -> Option<PKey> {
        if self.signature().is_none() {
            return None;
        }
        PKey::new((self.0.prefix >> 16) as u16)
    }

    /// Whether the group id (the low 80 bits) is the broadcast's.
    pub const fn is_broadcast(self) -> bool {
        self.0.prefix & 0xffff == 0 && self.0.guid == 0xffff_ffff
    }

    /// The group on a given link: scope and P_Key replaced if this is an IPoIB MGID, else unchanged.
    ///
    /// The MAC layer knows groups without scope and P_Key; on the wire they carry the link's. Replaced, not OR-ed in: an
    /// address that comes with another scope or P_Key must not turn into a third one.
    pub const fn on_link(self, scope: Scope, pkey: PKey) -> Self {
        if self.signature().is_none() {
            return self;
        }
        let bits = (scope.nibble() as u64) << 48 | (pkey.to_full().get() as u64) << 16;
        Self(Gid { prefix: self.canonical().0.prefix | bits, guid: self.0.guid })
    }

    /// The form the MAC layer knows: scope and P_Key zero if this is an IPoIB MGID, else unchanged.
    pub const fn canonical(self) -> Self {
        if self.signature().is_none() {
            return self;
        }
        Self(Gid { prefix: self.0.prefix & !(Self::SCOPE | Self::PKEY), guid: self.0.guid })
    }
}

impl fmt::Debug for Mgid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Queue pair number: 24 bits, host order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qpn(u32);

impl Qpn {
    /// Where every multicast datagram is addressed (`IB_MC_QPN`).
    pub const MULTICAST: Self = Self(0x00ff_ffff);

    /// That of management, which no link has: an address without a queue pair.
    pub const NONE: Self = Self(0);

    /// `None` if `raw` does not fit in 24 bits.
    pub const fn new(raw: u32) -> Option<Self> {
        if raw <= 0x00ff_ffff { Some(Self(raw)) } else { None }
    }

    /// The low 24 bits of a word whose top byte means something else.
    pub const fn from_low_bits(word: u32) -> Self {
        Self(word & 0x00ff_ffff)
    }

    /// The number, host order.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({:#08x})", self.0)
    }
}

/// Who a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Cast {
    Unicast,
    Multicast,
    Broadcast,
}

/// Link-layer address: 20 bytes in wire order, one of flags, three of queue pair number, sixteen of GID.
#[allow(clippy::derived_hash_with_manual_eq, reason = "equality looks at the same bytes, in larger pieces")]
#[derive(Clone, Copy, Default, Eq, Hash, PartialOrd, Ord)]
pub struct LinkAddr([u8; Self::LEN]);

/// Compared for every packet: in words, since a comparison of so many bytes would be a call.
impl PartialEq for LinkAddr {
    fn eq(&self, other: &Self) -> bool {
        let words = |bytes: &[u8; Self::LEN]| {
            let (word, rest) = bytes.split_first_chunk::<8>()?;
            let (middle, last) = rest.split_first_chunk::<8>()?;
            Some((
                u64::from_ne_bytes(*word),
                u64::from_ne_bytes(*middle),
                u32::from_ne_bytes(*last.first_chunk()?),
            ))
        };
        words(&self.0) == words(&other.0)
    }
}

/// An address in words, without its flags: to be compared, and to be looked up by, for every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddrWords {
    /// Where the flags were, queue pair number, and 32 bits of GID.
    first: u64,
    middle: u64,
    last: u32,
}

impl AddrWords {
    /// Memory order, as [`LinkAddr`].
    const FLAGS: u64 = u64::from_ne_bytes([0xff, 0, 0, 0, 0, 0, 0, 0]);
    const QPN: u64 = u64::from_ne_bytes([0, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

    /// Of the 20 bytes of an address in wire order.
    #[inline]
    pub fn read(bytes: &[u8; LinkAddr::LEN]) -> Self {
        let (mut first, mut middle, mut last) = ([0; 8], [0; 8], [0; 4]);
        first.copy_from_slice(&bytes[..8]);
        middle.copy_from_slice(&bytes[8..16]);
        last.copy_from_slice(&bytes[16..]);
        let (first, middle) = (u64::from_ne_bytes(first), u64::from_ne_bytes(middle));
        Self { first: first & !Self::FLAGS, middle, last: u32::from_ne_bytes(last) }
    }

    /// The address, without flags.
    pub fn address(self) -> LinkAddr {
        let mut bytes = [0; LinkAddr::LEN];
        bytes[..8].copy_from_slice(&self.first.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.middle.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.last.to_ne_bytes());
        LinkAddr(bytes)
    }

    /// As [`LinkAddr::cast`].
    #[inline]
    pub fn cast(self) -> Cast {
        if self.first & Self::QPN == Self::QPN { self.cast_of_group() } else { Cast::Unicast }
    }

    #[inline(never)]
    fn cast_of_group(self) -> Cast {
        self.address().cast()
    }

    /// A number that depends on all of it and on a secret key: hosts of a cluster share the queue pair number, groups most of the GID. No
    /// address has the same one whatever the key: the key is in both factors.
    #[inline]
    pub fn hash(self, key: u64) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product >> 64) as u64 ^ product as u64
        };
        let hash = mix(self.first ^ key, self.middle ^ key.rotate_left(32));
        mix(hash ^ u64::from(self.last) ^ key, ODD)
    }
}

impl LinkAddr {
    /// In words, without flags.
    #[inline]
    pub fn words(&self) -> AddrWords {
        AddrWords::read(&self.0)
    }

    /// Bytes in a link address (`IPOIB_ADDRL`).
    pub const LEN: usize = 20;
    /// Flag byte of a station that takes connected mode (RFC 4755 section 3.1).
    pub const FLAG_CONNECTED: u8 = 0x80;

    /// From 20 bytes in wire order.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// From the first 20 bytes of `bytes`; `None` if there are fewer.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    /// The address of a datagram-mode station: no flags.
    pub fn unicast(qpn: Qpn, gid: Gid) -> Self {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&qpn.get().to_be_bytes());
        bytes[4..].copy_from_slice(&gid.to_bytes());
        Self(bytes)
    }

    /// The address of a group: the multicast queue pair and the group's GID.
    pub fn multicast(mgid: Mgid) -> Self {
        Self::unicast(Qpn::MULTICAST, mgid.gid())
    }

    /// The 20 bytes in wire order.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The flag byte.
    pub const fn flags(&self) -> u8 {
        self.0[0]
    }

    /// The queue pair number, flags left out.
    pub fn qpn(&self) -> Qpn {
        Qpn::from_low_bits(u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]))
    }

    /// The GID.
    pub fn gid(&self) -> Gid {
        let mut gid = [0; 16];
        gid.copy_from_slice(&self.0[4..]);
        Gid::from_bytes(gid)
    }

    /// The same address without flags: what two frames of one station have in common.
    pub const fn without_flags(mut self) -> Self {
        self.0[0] = 0;
        self
    }

    /// The same address with the flag of a station that takes connections.
    pub const fn with_connections(mut self) -> Self {
        self.0[0] |= Self::FLAG_CONNECTED;
        self
    }

    /// Whether the address has the flag of a station that takes connections.
    pub const fn has_connections(self) -> bool {
        self.0[0] & Self::FLAG_CONNECTED != 0
    }

    /// Whether the queue pair is the multicast one. The flag byte does not matter: it is reserved in such an address.
    pub fn is_multicast(&self) -> bool {
        self.qpn() == Qpn::MULTICAST
    }

    /// Whether the address is one that a port can have: a queue pair that carries data (not 0, 1 or the multicast one) and a
    /// GID that is no group's and names a port.
    pub fn is_port(&self) -> bool {
        let gid = self.gid();
        self.qpn().get() > 1 && !self.is_multicast() && !gid.is_multicast() && gid.guid != 0
    }

    /// The group, if the address is multicast and its GID is one.
    pub fn mgid(&self) -> Option<Mgid> {
        if self.is_multicast() { Mgid::new(self.gid()) } else { None }
    }

    /// Unicast, multicast, or the link's broadcast. The multicast queue pair decides; scope, P_Key and signature do not
    /// (which is what the MAC-type plugin looks at too).
    pub fn cast(&self) -> Cast {
        const BROADCAST_GROUP: [u8; 10] = [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        match self.is_multicast() {
            false => Cast::Unicast,
            true if self.0[10..] == BROADCAST_GROUP => Cast::Broadcast,
            true => Cast::Multicast,
        }
    }

    /// A destination as a link knows it, whatever scope and P_Key its groups have: without flags, and without those two if it is a
    /// group. `None` if it is neither a group of IP's (RFC 4391 section 4) nor [a port's](LinkAddr::is_port): nothing can be sent there, whatever a
    /// neighbour says.
    pub fn canonical(self) -> Option<Self> {
        if !self.is_multicast() {
            return self.is_port().then(|| self.without_flags());
        }
        let mgid = self.mgid().filter(|mgid| mgid.signature().is_some())?;
        Some(Self::multicast(mgid.canonical()))
    }
}

impl fmt::Debug for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:06x}:{:?}", self.flags(), self.qpn().get(), self.gid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PKEY: PKey = PKey::new(0x8001).unwrap();

    #[test]
    fn the_broadcast_group_of_a_partition_has_rfc_4391s_bytes() {
        let bytes = Mgid::broadcast(Scope::LinkLocal, PKEY).gid().to_bytes();
        assert_eq!(bytes, [0xff, 0x12, 0x40, 0x1b, 0x80, 0x01, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn ipv4_groups_keep_28_bits_and_ipv6_groups_80() {
        let v4 = Mgid::ipv4([239, 1, 2, 3], Scope::LinkLocal, PKEY).gid().to_bytes();
        assert_eq!(v4, [0xff, 0x12, 0x40, 0x1b, 0x80, 0x01, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3]);
        let group = [0xff, 2, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let v6 = Mgid::ipv6(group, Scope::Global, PKEY).gid().to_bytes();
        assert_eq!(v6, [0xff, 0x1e, 0x60, 0x1b, 0x80, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_limited_pkey_still_names_the_full_partitions_group() {
        let limited = PKey::new(0x0001).unwrap();
        assert_eq!(Mgid::broadcast(Scope::LinkLocal, limited), Mgid::broadcast(Scope::LinkLocal, PKEY));
    }

    #[test]
    fn filling_scope_and_pkey_replaces_what_was_there() {
        let foreign = Mgid::ipv4([224, 0, 0, 5], Scope::SiteLocal, PKey::new(0xffff).unwrap());
        let ours = Mgid::ipv4([224, 0, 0, 5], Scope::LinkLocal, PKEY);
        assert_eq!(foreign.on_link(Scope::LinkLocal, PKEY), ours);
        assert_eq!(ours.canonical().on_link(Scope::LinkLocal, PKEY), ours);
        assert_eq!(ours.canonical(), foreign.canonical());
    }

    #[test]
    fn groups_made_by_the_sa_are_left_alone() {
        let sa_made = Mgid::new(Gid { prefix: 0xff12_a01b_fe80_0000, guid: 7 }).unwrap();
        assert_eq!(sa_made.canonical(), sa_made);
        assert_eq!(sa_made.on_link(Scope::Global, PKEY), sa_made);
        assert_eq!(sa_made.pkey(), None);
    }

    #[test]
    fn an_address_in_words_is_the_same_address_without_flags() {
        let port = LinkAddr::unicast(
            Qpn::new(0x48).unwrap(),
            Gid { prefix: 0xfe80 << 48, guid: 0x0002_c903_000a_1b2d },
        );
        let group = LinkAddr::multicast(Mgid::ipv4([239, 1, 2, 3], Scope::LinkLocal, PKEY));
        let broadcast = LinkAddr::multicast(Mgid::broadcast(Scope::LinkLocal, PKEY));
        for address in [port, group, broadcast] {
            let mut flagged = *address.as_bytes();
            flagged[0] = LinkAddr::FLAG_CONNECTED;
            let words = AddrWords::read(&flagged);
            assert_eq!((words, words.address(), words.cast()), (address.words(), address, address.cast()));
        }
        assert_ne!(port.words().hash(1), group.words().hash(1));
    }

    /// One factor of the product was 0, so all of these had the hash of their last four bytes.
    #[test]
    fn no_address_collides_with_others_whatever_the_key() {
        for key in [0x1234_5678_9abc_def0_u64, 1 << 40 | 9, u64::MAX / 3] {
            let hash = |first| AddrWords { first, middle: 0x9e37_79b9_7f4a_7c15, last: 7 }.hash(key);
            assert_eq!((0..1_000).map(hash).collect::<std::collections::BTreeSet<_>>().len(), 1_000);
        }
    }

    #[test]
    fn a_flagged_multicast_address_is_still_multicast() {
        let mut bytes = *LinkAddr::multicast(Mgid::broadcast(Scope::LinkLocal, PKEY)).as_bytes();
        bytes[0] = 0x80;
        let addr = LinkAddr::from_bytes(bytes);
        assert_eq!(addr.cast(), Cast::Broadcast);
        let canonical = addr.canonical().unwrap();
        assert_eq!((canonical.flags(), canonical.cast()), (0, Cast::Broadcast));
        assert_eq!(canonical.mgid(), Some(Mgid::broadcast(Scope::Global, PKEY).canonical()));
    }

    #[test]
    fn a_station_that_takes_connected_mode_has_one_address() {
        let plain = LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: 1 });
        let mut bytes = *plain.as_bytes();
        bytes[0] = LinkAddr::FLAG_CONNECTED;
        assert_eq!(LinkAddr::from_bytes(bytes).canonical(), Some(plain));
    }

    #[test]
    fn the_multicast_queue_pair_with_a_unicast_gid_leads_nowhere() {
        let addr = LinkAddr::unicast(Qpn::MULTICAST, Gid { prefix: 0xfe80 << 48, guid: 1 });
        assert_eq!(addr.canonical(), None);
    }
}
