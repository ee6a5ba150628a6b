//! What IBTF tells of queue pairs and CQs that fail, which may be late: of a failure that was dealt with; or early: of one that does
//! not carry anything yet.

use ibtf::{ChannelId, CqId, UdChannel};
use ipoib::Instant;
use ipoib::link::{Generation, STEADY};
use kernel::{KVec, MayBlock};

use super::limits::MOST_TRANSMIT_RINGS;

/// Failures kept while queue pairs are being built; each of a link's queue pairs and CQs tells once.
const MOST: usize = 32;

/// What has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Channel(ChannelId),
    Cq(CqId),
}

impl Failure {
    /// Whether the queue pair cannot be used any more because of it.
    pub(crate) fn concerns(self, channel: &UdChannel) -> bool {
        match self {
            Self::Channel(id) => channel.id() == id,
            Self::Cq(id) => [channel.receive_cq(), channel.send_cq()].iter().any(|cq| cq.id() == id),
        }
    }
}

/// How sends have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Erred {
    /// One failed by itself, which ends the sends behind it.
    Failed,
    /// All were flushed: one before them has failed. That may be dealt with since.
    Flushed,
}

/// Failures nobody has looked at, and what the last ones were like.
pub(crate) struct Failures {
    told: KVec<Failure>,
    /// When a queue pair of the link failed last.
    last: Option<Instant>,
    /// Fault management is to be told of it.
    is_fault: bool,
    /// A send of the queue pair of this ring and generation has failed; whether a worker is at it.
    erred: Option<(usize, Generation, bool)>,
    /// When the queue pair of each ring was last made to send again.
    recovered: [Option<Instant>; MOST_TRANSMIT_RINGS],
}

impl Failures {
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        let told = KVec::with_capacity_waiting(MOST, may_block);
        Self { told, last: None, is_fault: false, erred: None, recovered: [None; MOST_TRANSMIT_RINGS] }
    }

    /// A queue pair of the link has failed: for the second time soon it is a fault of the adapter's.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.is_fault |= self.last.replace(now).is_some_and(|last| now - last < STEADY);
    }

    /// A send has failed; whether the queue pair is to send again, rather than to be replaced: it may fail once in [`STEADY`]. What fails until
    /// that is done is flushed.
    pub(crate) fn erred(&mut self, now: Instant, ring: usize, generation: Generation) -> bool {
        if self.erred.is_some() {
            // Another one has its turn when it flushes the next send.
            return true;
        }
        let last = self.recovered.get(ring).copied().flatten();
        let may = last.is_none_or(|last| now - last >= STEADY);
        if may {
            self.erred = Some((ring, generation, false));
        }
        may
    }

    /// The next one to have send again.
    pub(crate) fn next_erred(&mut self) -> Option<(usize, Generation)> {
        let (ring, generation, begun) = self.erred.as_mut()?;
        (!core::mem::replace(begun, true)).then_some((*ring, *generation))
    }

    /// It is gone.
    pub(crate) fn forget_erred(&mut self) {
        self.erred = None;
    }

    /// It sends again, or does not.
    pub(crate) fn recovered(&mut self, now: Instant, ring: usize, well: bool) {
        self.erred = None;
        if well && let Some(last) = self.recovered.get_mut(ring) {
            *last = Some(now);
        }
    }

    /// A CQ is lost, which is one the first time.
    pub(crate) fn lost_cq(&mut self) {
        self.is_fault = true;
    }

    /// Whether there was a fault that fault management was not told of.
    pub(crate) fn take_fault(&mut self) -> bool {
        core::mem::take(&mut self.is_fault)
    }

    /// Keeps one until somebody looks.
    pub(crate) fn keep(&mut self, failure: Failure) {
        if !self.told.contains(&failure) {
            // There are not more than a link's.
            let _ = self.told.push_within_capacity(failure);
        }
    }

    /// Queue pairs are freed: what was told until now was about them, and the next ones may be called the same.
    pub(crate) fn forget(&mut self) {
        self.told.clear();
        self.erred = None;
    }

    /// The one that was told last.
    pub(crate) fn take(&mut self) -> Option<Failure> {
        self.told.pop()
    }
}
