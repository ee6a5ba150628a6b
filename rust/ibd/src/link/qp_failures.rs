//! What IBTF tells of queue pairs and CQs that fail, which may be late: of a failure that was dealt with; or early: of one that does
//! not carry anything yet.

use ibtf::{ChannelId, CqId, UdChannel};
use kernel::{AllocError, KVec};

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

/// Failures nobody has looked at.
pub(crate) struct Failures(KVec<Failure>);

impl Failures {
    pub(crate) fn new() -> Result<Self, AllocError> {
        Ok(Self(KVec::with_capacity(MOST)?))
    }

    /// Keeps one until somebody looks.
    pub(crate) fn keep(&mut self, failure: Failure) {
        // More than a link has are told twice.
        let _ = self.0.push_within_capacity(failure);
    }

    /// Queue pairs are freed: what was told until now was about them, and the next ones may be called the same.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// The one that was told last.
    pub(crate) fn take(&mut self) -> Option<Failure> {
        self.0.pop()
    }
}
