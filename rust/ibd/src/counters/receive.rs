//! What the receive side of a link counts.

use ibtf::Refills;
use kernel::counter::Counter;

use super::drops::RX_NAMES;
use super::packet_counts::{PacketCounts, Traffic};
use super::{RxDrop, Shown};
use crate::probes;

/// Of datagrams and of messages of connections, which take one receive path.
#[derive(Default)]
pub(crate) struct RxCounters {
    link: i32,
    pub(super) received: Traffic,
    drops: [Counter; RX_NAMES.len()],
    /// Frames passed up as a copy, and in the adapter's own buffer.
    copied: Counter,
    lent: Counter,
    /// Of queues that are gone: times that buffers were posted, and times that there were fewer at home than the adapter takes.
    refills: Counter,
    short: Counter,
    /// Interrupts that left the rest to a thread.
    pub(crate) left: Counter,
    /// Frames that the MAC layer fetched from the receive ring with its interrupt off.
    pub(crate) fetched: Counter,
    /// How often it switched that interrupt off.
    pub(crate) quiet: Counter,
}

impl RxCounters {
    pub(super) fn of(link: i32) -> Self {
        Self { link, ..Self::default() }
    }

    /// Frames passed up, `copied` of them as a copy and the others in the adapter's own buffer. For datagrams and messages of
    /// connections. Only the thread on the receive path (`link/delivery.rs`) calls it.
    pub(crate) fn received(&self, counts: &PacketCounts, copied: u64) {
        self.received.count(counts);
        self.copied.add_alone(copied);
        self.lent.add_alone(counts.packets.saturating_sub(copied));
    }

    /// A queue is gone that was refilled so often.
    pub(crate) fn refilled(&self, Refills { all, short }: Refills) {
        self.refills.add(all);
        self.short.add(short);
    }

    /// A frame that goes no further.
    pub(crate) fn dropped(&self, reason: RxDrop) {
        self.drops[reason as usize].increment();
        probes::rx_drop(self.link, reason.name());
    }

    /// Several frames that go no further.
    pub(crate) fn dropped_many(&self, reason: RxDrop, frames: usize) {
        (0..frames).for_each(|_| self.dropped(reason));
    }

    pub(super) fn drop_count(&self, reason: RxDrop) -> u64 {
        self.drops[reason as usize].get()
    }

    /// In the order of [`super::drops::RX_NAMES`].
    pub(super) fn drop_counts(&self) -> [u64; RX_NAMES.len()] {
        self.drops.each_ref().map(Counter::get)
    }

    /// In the order of [`super::shown::RX_WAYS`]: lent, copied, left, fetched, quiet.
    pub(super) fn ways(&self) -> [&Counter; 5] {
        [&self.lent, &self.copied, &self.left, &self.fetched, &self.quiet]
    }

    /// How often queues were refilled, those that are gone and the one that is there: with the lock under which it goes.
    pub(crate) fn refills(&self, now: Refills) -> Refills {
        Refills { all: self.refills.get() + now.all, short: self.short.get() + now.short }
    }

    /// Everything, in the order of [`super::RX_RING`].
    pub(crate) fn show(&self, shown: &mut Shown<'_>, refills: Refills) {
        self.all().for_each(|counter| shown.put([counter.get()]));
        shown.put([refills.all, refills.short]);
    }

    /// In the same order, without the refills.
    pub(super) fn all(&self) -> impl Iterator<Item = &Counter> {
        self.received.all().into_iter().chain(&self.drops).chain(self.ways())
    }
}
