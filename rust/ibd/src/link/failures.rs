//! What IBTF tells of queue pairs and CQs that fail, which may be late: of one that was replaced since; or early: of one that is not in
//! its place yet.

use ibtf::{ChannelId, CqId, UdChannel};
use kernel::{AllocError, KVec};

/// Failures kept while a queue pair is being built; each of a link's queue pairs and CQs tells once.
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

/// Failures of what does not stand, in the order in which they were told.
pub(crate) struct Early(KVec<Failure>);

impl Early {
    pub(crate) fn new() -> Result<Self, AllocError> {
        Ok(Self(KVec::with_capacity(MOST)?))
    }

    /// Keeps one until the queue pair that is being built stands.
    pub(crate) fn keep(&mut self, failure: Failure) {
        // More than there are queue pairs are of queue pairs of before.
        let _ = self.0.push_within_capacity(failure);
    }

    /// A queue pair is freed: what was told until now was about that one, and the next one may be called the same.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// The last one, and so on.
    pub(crate) fn take(&mut self) -> Option<Failure> {
        self.0.pop()
    }
}
