//! What is known of a neighbour.

use crate::connections::Service;
use crate::connections::waiting::Queue;
use crate::time::Instant;

/// What is known of a neighbour.
#[derive(Debug)]
pub struct Peer<C> {
    pub(super) state: State<C>,
    /// Of the attempt or connection.
    pub(super) number: u64,
    /// Where the neighbour was found to listen.
    pub(super) service: Option<Service>,
    /// Attempts and connections that failed, since one that lasted.
    pub(super) failures: u32,
    /// Small packets, and since when.
    pub(super) small: (u8, Instant),
    /// What it is counted as, if an attempt is out or its end is waited for.
    pub(super) attempt: Option<Kind>,
    pub(super) waiting: Queue,
    /// Packets that came to wait when the connection stood already, behind those that had waited for it.
    pub(super) joined: u32,
    /// What waits is dropped.
    pub(super) dropped: bool,
}

/// An attempt to open a connection to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Fresh,
    /// The last one, or the last connection, has failed.
    Doubtful,
}

#[derive(Debug)]
pub(super) enum State<C> {
    Off,
    /// Since then.
    Wanted(Attempt, Instant),
    /// Since then; no longer than `until`, if the neighbour has asked for time.
    Opening {
        attempt: Attempt,
        since: Instant,
        until: Option<Instant>,
    },
    Up {
        channel: C,
        longest: u32,
        since: Instant,
        used: Instant,
    },
    /// What comes when it is closed; since then.
    Closing(After, Instant),
    /// Until its deadline.
    Resting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Another attempt, if packets wait for one.
    Off,
    Rest,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) service: Service,
    pub(super) other_tried: bool,
    pub(super) stale: u8,
}

impl Attempt {
    /// Whether the neighbour has answered one before it, and may answer this one otherwise.
    pub(super) const fn is_repeated(&self) -> bool {
        self.other_tried || self.stale != 0
    }
}
