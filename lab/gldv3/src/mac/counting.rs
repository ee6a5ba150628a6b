//! What has come up on a mac that somebody measures: packets end here, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use fakekernel::{HostMutex, Nanos, WaitQueue};

/// Packets and bytes.
#[derive(Debug)]
pub(crate) struct Counting {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// `mac_tx_update`s.
    updates: HostMutex<u64>,
    updated: WaitQueue,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self {
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            updates: HostMutex::new(0),
            updated: WaitQueue::new("mac_tx_update"),
        }
    }

    pub(crate) fn update(&self) {
        *self.updates.lock() += 1;
        self.updated.wake_all();
    }

    pub(crate) fn received(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes so far.
    pub(crate) fn seen(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// `mac_tx_update`s so far.
    pub(crate) fn updates(&self) -> u64 {
        *self.updates.lock()
    }

    /// Waits until there have been others than `before`; false if there have not at `deadline`.
    pub(crate) fn wait_for_update(&self, before: u64, deadline: Nanos) -> bool {
        let mut updates = self.updates.lock();
        while *updates == before {
            let (guard, in_time) = self.updated.wait_until(updates, deadline);
            updates = guard;
            if !in_time {
                return *updates != before;
            }
        }
        true
    }
}
