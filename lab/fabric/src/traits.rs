//! The crate's edges: memory, events, time, captures. Implementations are called with no lock of this crate held.

use crate::{CqNum, Guid, ManagementPeer, Nanos, PortNum, Qpn, Reason, SrqNum};

/// Memory could not be reached at this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory at {addr:#x}, {len} bytes")]
pub struct DmaFault {
    /// First byte of the access.
    pub addr: u64,
    /// Length of the access in bytes.
    pub len: usize,
}

/// Memory of the host, by the virtual addresses that scatter/gather lists carry.
///
/// The fabric has already checked that a registered memory region covers the access; the implementation checks that the
/// memory behind it is still alive.
pub trait Dma: Send + Sync {
    /// Fills `buf` from `addr`.
    ///
    /// # Errors
    /// [`DmaFault`] if any byte is not there; nothing may be assumed about `buf` then.
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaFault>;

    /// Stores `buf` at `addr`.
    ///
    /// # Errors
    /// [`DmaFault`] if any byte is not there.
    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaFault>;

    /// Whether all of `len` bytes from `addr` are memory: asked when a region is registered.
    fn is_memory(&self, addr: u64, len: u64) -> bool;
}

/// Bits of a port change event (`ibt_port_change_t`, the same numbers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortChange(pub u32);

impl PortChange {
    /// GID table.
    pub const SGID: PortChange = PortChange(1);
    /// P_Key table.
    pub const PKEY: PortChange = PortChange(2);
    /// Master SM LID.
    pub const SM_LID: PortChange = PortChange(4);
    /// Master SM service level.
    pub const SM_SL: PortChange = PortChange(8);
    /// Subnet timeout.
    pub const SUBNET_TIMEOUT: PortChange = PortChange(0x10);

    /// No bit set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: PortChange) -> PortChange {
        PortChange(self.0 | other.0)
    }
}

/// What an HCA tells its driver outside of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// The port became ACTIVE.
    PortUp(PortNum),
    /// The port left ACTIVE.
    PortDown(PortNum),
    /// A table or SM attribute of the port changed.
    PortChange(PortNum, PortChange),
    /// The subnet manager asks clients to register again.
    ClientReregister(PortNum),
    /// The QP went to ERROR by itself.
    CatastrophicChannel(Qpn),
    /// The first message came in on a connection that is in RTR.
    Established(Qpn),
    /// A peer asked for what cannot be, so the QP went to ERROR.
    InvalidRequest(Qpn),
    /// The QP is in ERROR and holds no receive of its shared queue any more.
    EmptyChannel(Qpn),
    /// The shared queue has fewer receives than was asked to be told.
    SrqLimit(SrqNum),
    /// The shared queue takes no more receives, and gives none.
    SrqError(SrqNum),
    /// The CQ overran; it takes no more completions.
    CqError(CqNum),
    /// The HCA failed as a whole.
    LocalCatastrophic,
    /// The HCA is being pulled: everything must be freed, then the caller of [`crate::Hca::begin_removal`] goes on.
    Detach,
}

/// Where an HCA's events go. An implementation records and wakes; it calls nothing of this crate.
pub trait HcaEvents: Send + Sync {
    /// An armed CQ fired. The completion is in the CQ and its data is in memory.
    fn completion(&self, cq: CqNum);
    /// Something else happened.
    fn async_event(&self, event: AsyncEvent);
    /// A management datagram of 256 bytes came to queue pair 1 of a port. False if nobody takes it.
    fn management(&self, port: PortNum, from: ManagementPeer, mad: &[u8]) -> bool {
        let _ = (port, from, mad);
        false
    }
}

/// The lab's clock.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Nanos;
    /// A delivery was put off to `at`: [`crate::Fabric::pump`] is due then. May come with any thread and any number of times.
    fn wake_at(&self, at: Nanos);
}

/// Which way a frame goes, seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the host to the switch.
    ToSwitch,
    /// From the switch to the host.
    FromSwitch,
}

/// Sees each frame at each port it passes, as a capture on the host would: when the host sends it (before its link may lose
/// it) and when it arrives. A packet that an adapter hands back to its own port never reaches the link and is not seen.
pub trait Tap: Send + Sync {
    /// A frame (LRH first, VCRC last) passed `port`, named by its GUID, at `at`. `refused` says why no queue pair took one that
    /// arrived.
    fn frame(&self, at: Nanos, port: Guid, direction: Direction, refused: Option<Reason>, bytes: &[u8]);
}
