//! The transmit queues of a link: one for each transmit ring, or one.
//!
//! Each has a queue pair, a CQ, buffers and a lock of its own, so senders on different rings do not wait for each other. What they
//! have in common: they are opened and closed together (but for one whose queue pair is replaced alone), know the same paths, and a packet that waited for its path goes on from the
//! queue it came to.

use gldv3::{Mac, Stat};
use ipoib::link::Generation;
use ipoib::paths::DenialEpoch;
use kernel::sync::Monitor;
use kernel::{KArc, KVec, MayBlock};

use super::{SendSide, Transmitter};
use crate::counters::Counters;
use crate::link::control::Control;
use crate::link::incoming::ConnectionCounters;
use crate::link::traffic::Pools;

/// See the module's text.
pub(crate) struct Transmitters {
    each: KVec<KArc<Transmitter>>,
    control: KArc<Monitor<Control>>,
}

impl Transmitters {
    /// A queue for each of so many rings; one, if there are none.
    #[inline(never)]
    pub(crate) fn new(
        rings: usize,
        mac: &Mac,
        (counters, connection_counters): (&KArc<Counters>, &KArc<ConnectionCounters>),
        control: &KArc<Monitor<Control>>,
        denial_epoch: &KArc<DenialEpoch>,
        seed: u64,
        may_block: &MayBlock,
    ) -> Self {
        let mut each = KVec::with_capacity_waiting(rings.max(1), may_block);
        for (index, counters) in counters.rings().enumerate() {
            let ring = (rings != 0).then_some(index);
            let (control, denial_epoch) = (control.clone(), denial_epoch.clone());
            let transmitter = Transmitter::new(
                ring,
                mac.clone(),
                (counters.clone(), connection_counters.clone()),
                control,
                denial_epoch,
                seed,
                may_block,
            );
            each.push_waiting(transmitter, may_block);
        }
        Self { each, control: control.clone() }
    }

    /// In the order of the rings, the first of which has the link's address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KArc<Transmitter>> {
        self.each.iter()
    }

    /// How many there are; at least one.
    pub(crate) fn len(&self) -> usize {
        self.each.len()
    }

    /// That of a ring.
    pub(crate) fn of(&self, ring: usize) -> Option<&KArc<Transmitter>> {
        self.each.get(ring)
    }

    /// Opens them all; the buffers of those whose generation is over, to be closed.
    #[inline(never)]
    pub(crate) fn open(&self, generation: Generation, sides: KVec<SendSide>) -> Pools {
        let mut unused = Pools::default();
        for (transmitter, side) in self.each.iter().zip(sides) {
            open(transmitter, generation, side, &mut unused);
        }
        unused
    }

    /// Ends every generation up to this one on each of them: when this returns nobody posts any more. Their buffers, to be closed. What
    /// the adapter has stays with its queue pair. The MAC layer is told to send what it was given back, which is then dropped.
    #[inline(never)]
    pub(crate) fn close(&self, up_to: Option<Generation>) -> Pools {
        let mut pools = Pools::default();
        self.each.iter().for_each(|transmitter| close(transmitter, up_to, &mut pools));
        pools
    }

    /// Stops sending on one until it is reopened or all are closed; it gives its packets back meanwhile. Its buffers, to be closed.
    #[inline(never)]
    pub(crate) fn suspend(&self, ring: usize, pools: &mut Pools) {
        if let Some(side) = self.of(ring).and_then(|transmitter| transmitter.suspend()) {
            side.into_pools(pools);
        }
    }

    /// Goes on with one that was suspended; the send side comes back if its generation is over.
    #[inline(never)]
    pub(crate) fn reopen(&self, ring: usize, generation: Generation, side: SendSide) -> Option<SendSide> {
        match self.of(ring) {
            Some(transmitter) => transmitter.open(generation, side),
            None => Some(side),
        }
    }

    /// Sends the packets whose path was found, each from the queue it waits for, and frees those without one: of every queue that
    /// has room. On the control thread.
    pub(crate) fn send_resolved(&self) {
        let queues = self.control.lock().can_go_on();
        let has_some = |transmitter: &&KArc<Transmitter>| queues.contains(transmitter.tx_queue());
        self.each.iter().filter(has_some).for_each(|transmitter| transmitter.send_resolved());
    }

    /// A statistic of one ring; `None` if it is not counted.
    pub(crate) fn stat(&self, ring: usize, stat: Stat) -> Option<u64> {
        self.of(ring)?.stat(stat)
    }
}

/// In a frame of its own, as a send side is large.
#[inline(never)]
fn open(transmitter: &Transmitter, generation: Generation, side: SendSide, unused: &mut Pools) {
    if let Some(side) = transmitter.open(generation, side) {
        side.into_pools(unused);
    }
}

/// As [`open`].
#[inline(never)]
fn close(transmitter: &Transmitter, up_to: Option<Generation>, pools: &mut Pools) {
    if let Some(side) = transmitter.close(up_to) {
        side.into_pools(pools);
    }
}
