//! Packets and bytes of one direction, counted by the batch.

use ipoib::Cast;
use ipoib::header::GRH_LEN;
use kernel::counter::Counter;

/// One direction's packets.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) packets: Counter,
    pub(super) bytes: Counter,
    pub(super) multicast: Counter,
    pub(super) broadcast: Counter,
}

impl Traffic {
    /// Only one thread at a time: with the lock of the transmit queue, or as the one that hands packets up.
    pub(super) fn count(&self, counts: &PacketCounts) {
        self.packets.add_alone(counts.packets);
        self.bytes.add_alone(counts.bytes);
        if counts.multicast | counts.broadcast != 0 {
            self.multicast.add_alone(counts.multicast);
            self.broadcast.add_alone(counts.broadcast);
        }
    }

    /// In the order of [`super::shown::TRAFFIC`].
    pub(super) fn all(&self) -> [&Counter; 4] {
        [&self.packets, &self.bytes, &self.multicast, &self.broadcast]
    }
}

/// Packets of one batch, counted together: a counter is shared by every processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketCounts {
    pub(super) packets: u64,
    bytes: u64,
    multicast: u64,
    broadcast: u64,
}

impl PacketCounts {
    /// `bytes` in all, IPoIB headers included.
    #[inline]
    pub(crate) fn add(&mut self, cast: Cast, packets: u32, bytes: u32) {
        self.packets += u64::from(packets);
        self.bytes += u64::from(bytes);
        if cast != Cast::Unicast {
            self.add_to_group(cast, packets);
        }
    }

    #[inline(never)]
    fn add_to_group(&mut self, cast: Cast, packets: u32) {
        if let Some(count) = self.groups_count(cast) {
            *count += u64::from(packets);
        }
    }

    /// None any more.
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.packets, self.bytes) = (0, 0);
        if self.multicast | self.broadcast != 0 {
            (self.multicast, self.broadcast) = (0, 0);
        }
    }

    /// Undoes [`PacketCounts::add`].
    pub(crate) fn take_out(&mut self, cast: Cast, packets: u32, bytes: u32) {
        self.packets = self.packets.saturating_sub(packets.into());
        self.bytes = self.bytes.saturating_sub(bytes.into());
        if let Some(count) = self.groups_count(cast) {
            *count = count.saturating_sub(packets.into());
        }
    }

    fn groups_count(&mut self, cast: Cast) -> Option<&mut u64> {
        match cast {
            Cast::Unicast => None,
            Cast::Multicast => Some(&mut self.multicast),
            Cast::Broadcast => Some(&mut self.broadcast),
        }
    }

    /// A received frame: `buffer` bytes of it, the GRH's 40 included, which are not counted.
    pub(crate) fn add_received(&mut self, cast: Cast, buffer: u32) {
        self.add(cast, 1, buffer.saturating_sub(GRH_LEN as u32));
    }
}
