//! What one transmit ring counts; a link without rings has one.

use kernel::counter::{CacheLine, Counter, sum};

use super::drops::TX_NAMES;
use super::packet_counts::{PacketCounts, Traffic};
use super::{Shown, TxDrop};
use crate::probes;

/// Written by one ring alone: no two rings share a cache line.
#[derive(Default)]
pub(crate) struct TxCounters {
    link: i32,
    /// What is written for every batch, on a line of its own.
    often: CacheLine<Often>,
    drops: [Counter; TX_NAMES.len()],
    /// Packets given back to the MAC layer for want of a slot; they come again.
    pub(crate) put_off: Counter,
    /// Times that it began to give packets back.
    pub(crate) full: Counter,
    /// Sends that the adapter took and then failed.
    pub(crate) failed: Counter,
    /// Packets the adapter was given where they are, without a copy.
    pub(crate) mapped: Counter,
    /// Large sends, each of which the adapter cuts into packets.
    pub(crate) large: Counter,
    /// Packets that large sends were cut into, without the first of each.
    pub(crate) cut: Counter,
    /// Queue pairs replaced because they did not complete sends.
    pub(crate) timeouts: Counter,
}

/// By whoever has the ring's lock.
#[derive(Default)]
struct Often {
    sent: Traffic,
    posts: Counter,
}

impl TxCounters {
    pub(super) fn of(link: i32) -> Self {
        Self { link, ..Self::default() }
    }

    /// The number of the link that these are of.
    pub(crate) fn link(&self) -> i32 {
        self.link
    }

    /// The adapter has taken these, some of them in a post of this ring's queue. With the ring's lock.
    #[inline]
    pub(crate) fn sent(&self, counts: &PacketCounts, posted: bool) {
        self.often.sent.count(counts);
        self.often.posts.add_alone(u64::from(posted && counts.packets != 0));
    }

    /// A packet that goes no further.
    pub(crate) fn dropped(&self, reason: TxDrop) {
        self.dropped_many(reason, 1);
    }

    /// Several packets that go no further.
    pub(crate) fn dropped_many(&self, reason: TxDrop, packets: usize) {
        if packets != 0 {
            self.drops[reason as usize].add(packets as u64);
            probes::tx_drop(self.link, reason.name(), packets);
        }
    }

    pub(super) fn traffic(&self) -> &Traffic {
        &self.often.sent
    }

    pub(super) fn drop_count(&self, reason: usize) -> u64 {
        self.drops[reason].get()
    }

    pub(super) fn all_drops(&self) -> u64 {
        sum(&self.drops)
    }

    /// Sends, of which a large one is one.
    pub(crate) fn sends(&self) -> u64 {
        self.traffic().packets.get().saturating_sub(self.cut.get())
    }

    /// Everything, in the order of [`super::TX_RING`].
    pub(crate) fn show(&self, shown: &mut Shown<'_>) {
        self.all().for_each(|counter| shown.put([counter.get()]));
    }

    /// In the same order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Counter> {
        let rest = [&self.put_off, &self.full, &self.failed, &self.mapped, &self.large, &self.timeouts];
        self.traffic().all().into_iter().chain(&self.drops).chain(rest).chain([&self.often.posts])
    }
}
