//! What a link counts. Every packet is in exactly one of "sent" and the transmit drops, or "received" and the receive drops.
//!
//! Each transmit ring has counters of its own ([`transmit`]), the receive side has some ([`receive`]), and what the SA is asked is counted for
//! the link. They live as long as it is attached, over any number of starts. What becomes of them as kstats is in [`shown`].

mod drops;
mod dumped;
mod packet_counts;
mod questions;
mod receive;
mod shown;
mod state;
mod transmit;

use gldv3::Stat;
use kernel::counter::{CacheLine, Counter, sum};
use kernel::{KArc, KVec, MayBlock};

pub(crate) use drops::{RxDrop, TxDrop};
pub(crate) use dumped::counters;
pub(crate) use packet_counts::PacketCounts;
use packet_counts::Traffic;
pub(crate) use questions::{Asked, SaCounters};
pub(crate) use receive::RxCounters;
pub(crate) use shown::{HISTORY, RX_RING, Shown, TX_RING, names};
pub(crate) use state::{History, LinkState, State};
pub(crate) use transmit::TxCounters;

/// All counters of a link. What two sides write, or two transmit rings, never shares a cache line.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) state: State,
    pub(crate) history: History,
    /// By transmit ring.
    tx: KVec<KArc<TxCounters>>,
    pub(crate) rx: CacheLine<RxCounters>,
    pub(crate) sa: CacheLine<SaCounters>,
}

impl Counters {
    /// Those of the link with this number, which sends from so many rings; a link without rings sends from one.
    #[inline(never)]
    pub(crate) fn of(link: i32, rings: usize, may_block: &MayBlock) -> KArc<Self> {
        let ring = |_| KArc::new_waiting(TxCounters::of(link), may_block);
        let tx = KVec::from_fn_waiting(rings.max(1), may_block, ring);
        let counters = Self {
            tx,
            rx: CacheLine(RxCounters::of(link)),
            sa: CacheLine::default(),
            state: State::default(),
            history: History::default(),
        };
        KArc::new_waiting(counters, may_block)
    }

    /// Those of one transmit ring.
    pub(crate) fn tx(&self, ring: usize) -> Option<&KArc<TxCounters>> {
        self.tx.get(ring)
    }

    /// Those of each transmit ring.
    pub(crate) fn rings(&self) -> impl Iterator<Item = &KArc<TxCounters>> {
        self.tx.iter()
    }

    /// Sends of all rings, of which a large one is one.
    pub(crate) fn sends(&self) -> u64 {
        self.tx.iter().map(|ring| ring.sends()).sum()
    }

    /// The MAC layer's view; `None` for what is not counted here.
    pub(crate) fn stat(&self, stat: Stat) -> Option<u64> {
        let rx = &self.rx.0;
        let sent = |of: fn(&Traffic) -> &Counter| sum(self.tx.iter().map(|ring| of(ring.traffic())));
        Some(match stat {
            Stat::PacketsSent => sent(|ring| &ring.packets),
            Stat::BytesSent => sent(|ring| &ring.bytes),
            Stat::MulticastSent => sent(|ring| &ring.multicast),
            Stat::BroadcastSent => sent(|ring| &ring.broadcast),
            Stat::PacketsReceived => rx.received.packets.get(),
            Stat::BytesReceived => rx.received.bytes.get(),
            Stat::MulticastReceived => rx.received.multicast.get(),
            Stat::BroadcastReceived => rx.received.broadcast.get(),
            Stat::TransmitErrors => {
                self.tx.iter().map(|ring| ring.all_drops()).sum::<u64>()
                    + self.over_rings(|ring| &ring.failed)
            }
            Stat::NoTransmitBuffer => self.over_rings(|ring| &ring.put_off),
            Stat::ReceiveErrors => {
                let errors = [RxDrop::Short, RxDrop::Completion, RxDrop::NeighbourForm];
                errors.into_iter().map(|reason| rx.drop_count(reason)).sum()
            }
            Stat::NoReceiveBuffer => rx.drop_count(RxDrop::NoMemory),
            _ => return None,
        })
    }
}

impl TxCounters {
    /// What was sent from one ring; `None` for what is not counted by ring.
    pub(crate) fn stat(&self, stat: Stat) -> Option<u64> {
        match stat {
            Stat::PacketsSent => Some(self.traffic().packets.get()),
            Stat::BytesSent => Some(self.traffic().bytes.get()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use ipoib::Cast;
    use kernel::kstat::Source;

    use super::*;

    fn shown(show: impl FnOnce(&mut Shown<'_>)) -> usize {
        let mut seen = std::vec::Vec::new();
        show(&mut Shown::new(&mut |index, _| seen.push(index)));
        assert!(seen.iter().copied().eq(0..seen.len()));
        seen.len()
    }

    #[test]
    fn every_counter_has_a_name() {
        let counters = Counters::of(0, 2, &MayBlock::on_host());
        let mut seen = std::vec::Vec::new();
        counters.read(&mut |index, _| seen.push(index));
        assert!(seen.into_iter().eq(0..Counters::NAMES.len()));
        assert_eq!(shown(|all| counters.tx(0).unwrap().show(all)), TX_RING.len());
        assert_eq!(shown(|all| counters.rx.show(all, ibtf::Refills::default())), RX_RING.len());
        assert_eq!(shown(|all| counters.history.show(all)), HISTORY.len());
    }

    #[test]
    fn bytes_count_the_ipoib_header_and_not_the_grh_in_both_directions() {
        let counters = Counters::of(0, 0, &MayBlock::on_host());
        let mut sent = PacketCounts::default();
        sent.add(Cast::Broadcast, 1, 4 + 28);
        counters.tx(0).unwrap().sent(&sent, true);
        let mut received = PacketCounts::default();
        received.add_received(Cast::Broadcast, 40 + 4 + 28);
        counters.rx.received(&received, 1);
        for stat in [Stat::BytesSent, Stat::BytesReceived] {
            assert_eq!(counters.stat(stat), Some(32));
        }
        for stat in [Stat::BroadcastSent, Stat::BroadcastReceived, Stat::PacketsSent, Stat::PacketsReceived] {
            assert_eq!(counters.stat(stat), Some(1));
        }
        assert_eq!(counters.stat(Stat::MulticastReceived), Some(0));
    }

    #[test]
    fn rings_count_on_lines_of_their_own_and_add_up() {
        let counters = Counters::of(0, 4, &MayBlock::on_host());
        for ring in 0..4 {
            let mut sent = PacketCounts::default();
            sent.add(Cast::Unicast, ring as u32 + 1, 100);
            let counters = counters.tx(ring).unwrap();
            counters.sent(&sent, true);
            assert_eq!(counters.stat(Stat::PacketsSent), Some(ring as u64 + 1));
        }
        assert_eq!(counters.stat(Stat::PacketsSent), Some(1 + 2 + 3 + 4));
        assert_eq!(counters.stat(Stat::BytesSent), Some(400));
        let line = |ring: &KArc<TxCounters>| core::ptr::from_ref(ring.traffic()).addr() / 64;
        let lines: std::collections::BTreeSet<usize> = counters.tx.iter().map(line).collect();
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn own_multicast_is_no_error() {
        let counters = Counters::default();
        counters.rx.dropped(RxDrop::OwnMulticast);
        counters.rx.dropped(RxDrop::Short);
        assert_eq!(counters.stat(Stat::ReceiveErrors), Some(1));
    }
}
