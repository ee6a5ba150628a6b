//! What the hosts of a scenario do over IP: ping, TCP transfer, multicast. Pure machines over [`Stack`].

mod bulk;
mod echoes;
mod group;
mod ping;
mod tcp;
mod until;

use std::time::Duration;

use super::stack::Stack;

pub use bulk::{Bulk, Sink};
pub use echoes::{Answer, Echoes, Mailbox, Request};
pub use group::{GroupHear, GroupSay};
pub use ping::Ping;
pub use tcp::{TcpReceive, TcpSend};
pub use until::Until;

/// Until something that the link does not take now is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Something that a host does over IP until it is done.
pub trait App: Send {
    /// Goes on as far as possible. `Some` once, when finished.
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome>;
    /// Gives back what it holds of the stack, unfinished.
    fn abandon(&mut self, stack: &mut Stack);
    /// When to be run again if nothing else happens. Never what was `now` in the run before, or the host does nothing else.
    fn wake_at(&self) -> Option<Duration>;
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ping {
        sent: u32,
        answered: u32,
    },
    Tcp {
        bytes: u64,
        sha256: String,
    },
    /// Datagrams of the group that arrived, in order of arrival.
    Heard(Vec<u32>),
    Said,
    /// Its time was over.
    Over,
    Failed(String),
}
