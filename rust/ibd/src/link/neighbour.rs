//! [`Neighbour`]: a port or a group, and how packets get there.

use core::iter;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ibtf::{AddressVector, McgInfo, PathInfo, Pd, Status, UdDest};
use ipoib::paths::{Handle, Validity};
use ipoib::{Mlid, Mtu, QKey, Qpn, Rate};
use kernel::{KArc, log};

use super::Name;

/// One value, with its address handle, for the table of paths, the memories of all transmit queues, and the sends on their way. It says
/// itself whether the table still stands for it ([`Validity`]). Cheap to clone.
#[derive(Clone)]
pub(crate) struct Neighbour(KArc<UdDest<NeighbourPath>>);

/// What is known about the way there.
pub(crate) struct NeighbourPath {
    validity: Validity,
    /// As the SA says it; the handle's rate may be another one.
    to: AddressVector,
    /// What the handle sends with.
    qkey: QKey,
    /// The handle's rate.
    rate: AtomicU32,
    /// MTU code of the path.
    mtu: u8,
    /// Bytes of the longest packet that fits through, IPoIB header included.
    longest: u32,
    /// See [`ibtf::PathInfo`]; of a group nobody tells it.
    lifetime: Option<u8>,
}

impl Neighbour {
    /// To a port. **May block.**
    pub(crate) fn port(
        pd: &Pd,
        rates: &StaticRates,
        qpn: Qpn,
        qkey: QKey,
        path: &PathInfo,
    ) -> Result<Self, Status> {
        let lifetime = Some(path.packet_lifetime);
        let path = NeighbourPath::new(path.address, qkey, path.mtu_code, lifetime);
        rates.handle(pd, qpn, qkey, path).map(Self)
    }

    /// To a group. `MC_MLID_INVALID` if its LID is none of a group. **May block.**
    pub(crate) fn group(pd: &Pd, rates: &StaticRates, info: &McgInfo) -> Result<Self, Status> {
        Mlid::new(info.address.dlid).ok_or(Status::MC_MLID_INVALID)?;
        let qkey = QKey::new(info.qkey);
        let path = NeighbourPath::new(info.address, qkey, info.mtu_code, None);
        rates.handle(pd, Qpn::MULTICAST, qkey, path).map(Self)
    }

    /// The way there.
    pub(crate) fn address(&self) -> &AddressVector {
        &self.details().to
    }

    /// For a connection, in the partition with this index; `None` if nobody tells how long a packet lives on the way.
    pub(crate) fn path(&self, pkey_index: u16) -> Option<PathInfo> {
        let NeighbourPath { to, mtu, lifetime, ref rate, .. } = *self.details();
        // Not what the SA said, which the adapter may not know.
        let address = AddressVector { rate: rate.load(Ordering::Relaxed), ..to };
        Some(PathInfo { address, pkey_index, mtu_code: mtu, packet_lifetime: lifetime? })
    }

    /// Octets of the longest packet that fits through, IPoIB header included.
    pub(crate) fn longest(&self) -> u32 {
        self.details().longest
    }

    /// What fits through; `None` if the SA's code for it means nothing.
    pub(crate) fn mtu(&self) -> Option<Mtu> {
        Mtu::from_code(self.details().mtu)
    }

    /// Code of how long a packet lives on the way.
    pub(crate) fn lifetime(&self) -> Option<u8> {
        self.details().lifetime
    }

    /// Whether one packet of so many bytes, IPoIB header included, fits through: a switch would lose another one.
    #[inline]
    pub(crate) fn carries(&self, longest: usize) -> bool {
        longest <= self.details().longest as usize
    }

    /// To send a packet by.
    pub(crate) fn handle(&self) -> &KArc<UdDest<NeighbourPath>> {
        &self.0
    }

    fn details(&self) -> &NeighbourPath {
        self.0.about()
    }
}

impl NeighbourPath {
    fn new(to: AddressVector, qkey: QKey, mtu: u8, lifetime: Option<u8>) -> Self {
        let longest = Mtu::from_code(mtu).map_or(u32::MAX, Mtu::bytes);
        Self { validity: Validity::new(), to, qkey, rate: AtomicU32::new(to.rate), mtu, longest, lifetime }
    }
}

impl Handle for Neighbour {
    fn validity(&self) -> &Validity {
        &self.details().validity
    }
}

/// Two are equal if packets take the same way with the same Q_Key, and the same packets fit.
impl PartialEq for Neighbour {
    fn eq(&self, other: &Self) -> bool {
        let told = |path: &NeighbourPath| (path.to, path.qkey, path.mtu, path.lifetime);
        told(self.details()) == told(other.details())
    }
}

impl core::fmt::Debug for Neighbour {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Neighbour({:?})", self.address())
    }
}

/// Which static rates the link's adapter knows, as far as it was asked. An adapter may know fewer than the SA: IBTF's own codes
/// end at 120 Gb/s (`ibt_srate_t`), and hermon refuses every other one.
pub(crate) struct StaticRates {
    name: Name,
    /// The codes that it has refused, a bit each.
    refused: AtomicU64,
}

impl StaticRates {
    /// Of an adapter that was not asked yet. `name` is whose log tells.
    pub(crate) const fn new(name: Name) -> Self {
        Self { name, refused: AtomicU64::new(0) }
    }

    /// A handle that sends as fast as the way allows, or at the next slower rate that the adapter knows; at the port's own, which
    /// is to limit nothing, if it knows none. **May block.**
    fn handle(
        &self,
        pd: &Pd,
        qpn: Qpn,
        qkey: QKey,
        path: NeighbourPath,
    ) -> Result<KArc<UdDest<NeighbourPath>>, Status> {
        let to = path.to;
        let mut handle = UdDest::new(pd, path)?;
        let mut news = false;
        let rate = loop {
            let rate = self.known(to.rate);
            match handle.modify(qpn.get(), qkey.get(), &AddressVector { rate, ..to }) {
                Err(Status::STATIC_RATE_INVALID) if rate != NO_LIMIT => {
                    news |= self.refuse(rate) && rate == to.rate
                }
                result => {
                    result?;
                    break rate;
                }
            }
        };
        handle.about().rate.store(rate, Ordering::Relaxed);
        if news {
            self.tell(to.rate, rate);
        }
        Ok(KArc::new(handle)?)
    }

    /// This rate, or the next slower one that was not refused.
    fn known(&self, code: u32) -> u32 {
        let refused = self.refused.load(Ordering::Relaxed);
        let slower = iter::successors(rate_of(code).and_then(Rate::next_slower), |rate| rate.next_slower());
        let mut codes = iter::once(code).chain(slower.map(|rate| rate.code().into()));
        codes.find(|code| refused & bit(*code) == 0).unwrap_or(NO_LIMIT)
    }

    /// Remembers a code that the adapter has refused; whether that was not known.
    fn refuse(&self, code: u32) -> bool {
        self.refused.fetch_or(bit(code), Ordering::Relaxed) & bit(code) == 0
    }

    #[inline(never)]
    fn tell(&self, wanted: u32, taken: u32) {
        let name = &self.name;
        match (rate_of(wanted), rate_of(taken)) {
            (Some(wanted), Some(taken)) => {
                log!(note, name, "the adapter has no static rate of {wanted}; {taken} is used for it");
            }
            _ => log!(note, name, "the adapter has no static rate for code {wanted}; none is used for it"),
        }
    }
}

/// `IBT_SRATE_NOT_SPECIFIED`.
const NO_LIMIT: u32 = 0;

fn rate_of(code: u32) -> Option<Rate> {
    u8::try_from(code).ok().and_then(Rate::from_code)
}

/// Records have six bits for a code.
const fn bit(code: u32) -> u64 {
    1 << (code & 0x3f)
}
