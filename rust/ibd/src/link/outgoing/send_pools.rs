//! What all connections of a link send from: a protection domain, and buffers of two sizes.

use core::sync::atomic::{AtomicU32, Ordering};

use ibtf::{Buffer, BufferPool, BufferUse, Pd, Status};
use ipoib::connections::LONGEST_MESSAGE;

/// Messages up to this length go into small buffers.
pub(super) const SMALL: u32 = 4096;
/// How many of each there are: 2 MiB and 6 MiB.
const SMALL_ONES: u32 = 512;
const LARGE_ONES: u32 = 96;
/// What a connection may have of the buffers that are free: a quarter, or one. So one alone has a fifth of all, and eight neighbours that take
/// nothing any more leave a sixth for the others.
const SHARE: u32 = 4;
/// The most that one has of each kind.
pub(super) const SMALL_EACH: u32 = SMALL_ONES.div_ceil(SHARE + 1);
pub(super) const LARGE_EACH: u32 = LARGE_ONES.div_ceil(SHARE + 1);

/// Octets of packets that may wait for buffers behind one connection, whatever waits behind others.
const WAIT_EACH: u32 = 256 << 10;
/// Where all have no more together, one may have more than that.
const WAIT_TOGETHER: u32 = 8 << 20;

/// See the module's text.
pub(crate) struct SendPools {
    small: BufferPool,
    large: BufferPool,
    /// Octets of packets that wait, of all connections.
    waiting: AtomicU32,
    pd: Pd,
}

impl SendPools {
    /// **May block.**
    #[inline(never)]
    pub(super) fn new(pd: Pd) -> Result<Self, Status> {
        let small = BufferPool::new(&pd, SMALL_ONES, SMALL, BufferUse::Send)?;
        let large = BufferPool::new(&pd, LARGE_ONES, LONGEST_MESSAGE, BufferUse::Send)?;
        Ok(Self { small, large, waiting: AtomicU32::new(0), pd })
    }

    /// Whether a packet of so many octets may wait behind a connection behind which so many wait already. **Any** context.
    pub(super) fn allows_waiting(&self, has: u32, len: u32) -> bool {
        has.saturating_add(len) <= WAIT_EACH
            || self.waiting.load(Ordering::Relaxed).saturating_add(len) <= WAIT_TOGETHER
    }

    /// So many octets wait. **Any** context.
    pub(super) fn waits(&self, len: u32) {
        self.waiting.fetch_add(len, Ordering::Relaxed);
    }

    /// And no more. **Any** context.
    pub(super) fn waits_no_more(&self, len: u32) {
        self.waiting.fetch_sub(len, Ordering::Relaxed);
    }

    pub(super) fn pd(&self) -> &Pd {
        &self.pd
    }

    /// A buffer for so many octets, if there is one. **Any** context.
    pub(super) fn take(&self, len: u32) -> Option<Buffer> {
        if len <= SMALL { self.small.take() } else { self.large.take() }
    }

    /// Whether a connection that has so many buffers for so many octets may have another one. **Any** context.
    pub(super) fn allows_another(&self, has: u32, len: u32) -> bool {
        let free = if len <= SMALL { self.small.free() } else { self.large.free() };
        free != 0 && has < (free / SHARE).max(1)
    }

    /// Its buffers, to be closed. What it was made from goes.
    pub(super) fn into_pools(self) -> [BufferPool; 2] {
        [self.small, self.large]
    }
}
