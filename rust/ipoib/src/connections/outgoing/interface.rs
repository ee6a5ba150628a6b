//! What the machine is told, and what it answers.

use core::time::Duration;

use crate::addr::LinkAddr;
use crate::backoff::Backoff;
use crate::connections::request::USUAL_ANSWER;
use crate::connections::{Connection, Service};
use crate::paths::Validity;
use crate::time::Instant;

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingConfig {
    /// Connections that are open, being opened or being closed, at most.
    pub most: u32,
    /// Attempts that are out at once, at most: `ibcm` makes 16 for the whole node, and each that is not answered keeps a place for seconds.
    pub attempts: u32,
    /// Of them to neighbours with whom the last one failed, at most: others do not wait for those that do not answer.
    pub doubtful: u32,
    /// After so long it is seen whether there is room for another one.
    pub attempts_look: Duration,
    /// Small packets to a neighbour within [`Self::eager_within`] for which a connection is opened.
    pub eager: u8,
    /// For [`Self::eager`].
    pub eager_within: Duration,
    /// Packets that wait for one connection, at most.
    pub waiting: u32,
    /// Octets that do.
    pub waiting_bytes: u32,
    /// How long packets wait for their neighbour's turn to be asked: then he is one without a connection, until he is.
    pub patience: Duration,
    /// How long they wait for a neighbour that was asked. One that does not answer is given up before, unless others have their turn first.
    pub asked_patience: Duration,
    /// A neighbour that asks for more time than this is not waited for.
    pub longest_answer: Duration,
    /// Others have so long from then on.
    pub delay: Duration,
    /// A connection that carried nothing for so long is closed: before Linux does it, after 256 s.
    pub idle: Duration,
    /// One that carried something within this time makes no room for others.
    pub busy: Duration,
    /// A send that is not completed for so long is lost, and the connection with it.
    pub stuck: Duration,
    /// How often connections are looked at for both.
    pub look: Duration,
    /// Before an attempt that the neighbour took for one of before is repeated.
    pub stale: Duration,
    /// How often it is.
    pub stale_times: u8,
    /// After attempts that failed, and after connections that failed soon.
    pub retry: Backoff,
    /// A connection that lasted so long has failed for the first time.
    pub steady: Duration,
}

impl Default for OutgoingConfig {
    fn default() -> Self {
        Self {
            most: 1_024,
            attempts: 8,
            doubtful: 4,
            attempts_look: Duration::from_millis(100),
            eager: 4,
            eager_within: Duration::from_secs(1),
            waiting: 8,
            waiting_bytes: 256 << 10,
            patience: Duration::from_secs(1),
            asked_patience: Duration::from_secs(5),
            longest_answer: USUAL_ANSWER,
            delay: Duration::from_secs(10),
            idle: Duration::from_secs(240),
            busy: Duration::from_secs(10),
            stuck: Duration::from_secs(5),
            look: Duration::from_millis(2_500),
            stale: Duration::from_millis(10),
            stale_times: 2,
            retry: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) },
            steady: Duration::from_secs(10),
        }
    }
}

/// A connection as whoever sends has it: cheap to clone.
pub trait Channel: Clone {
    /// Whether it may still be sent on, and whether it was: the same of every clone.
    fn validity(&self) -> &Validity;

    /// Since when the oldest send that is not completed is out.
    fn owes_since(&self) -> Option<Instant>;
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Nobody listens there (REJ 8): perhaps at the other service.
    NoService,
    /// The neighbour takes it for one of before (REJ 10 and 30), and forgets that one.
    Stale,
    /// The neighbour refused, nobody answered, or the local side ran out of something.
    Failed,
}

impl OpenError {
    /// Of the reason in a REJ (InfiniBand Architecture volume 1, 12.6.7.2).
    pub const fn of_reject(reason: u16) -> Self {
        match reason {
            8 => Self::NoService,
            10 | 30 => Self::Stale,
            _ => Self::Failed,
        }
    }
}

/// A packet is longer than what goes to a neighbour: the most that does, in octets with the IPoIB header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig(pub u32);

/// What became of a packet at once.
#[derive(Debug, PartialEq, Eq)]
pub enum Submitted<P, C> {
    /// Send it on this connection, which carries so many octets at most: whoever sends may remember both as long as it holds.
    Connected(P, C, u32),
    /// Send it as a datagram.
    Datagram(P),
    /// It waits for a connection.
    Waits,
    /// It does not go: tell its sender.
    TooBig(P, TooBig),
    /// It does not go: too much waits already.
    Full(P),
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<P, C> {
    /// Open a connection to this service, and say how that ended: [`Outgoing::opened`](super::Outgoing::opened), [`Outgoing::failed`](super::Outgoing::failed).
    Open(Connection, Service),
    /// Close it, or give the attempt up, and say so when nothing of it is left: [`Outgoing::closed`](super::Outgoing::closed).
    Close(Connection),
    /// Send a packet that waited.
    Send(P, C),
    /// Tell the sender of a packet that waited how much goes to the neighbour: so much on its connection (0 if there is none), or what a datagram
    /// carries if that is more.
    Tell(LinkAddr, P, TooBig),
    /// Free a packet that waited: the link stopped, or the neighbour is gone.
    Drop(LinkAddr, P),
}
