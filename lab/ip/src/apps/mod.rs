//! What the hosts of a scenario do over IP: ping, TCP transfer, multicast. Pure machines over [`Stack`].

mod bulk;
mod group;
mod ping;
mod tcp;
mod until;

use std::time::Duration;

use super::stack::Stack;

pub use bulk::{Bulk, Sink};
pub use group::{GroupHear, GroupSay};
pub use ping::{ECHO_HEADER, Ping, parse_echo_reply, pattern, send_echo};
pub use tcp::{TcpReceive, TcpSend};
pub use until::Until;

/// Until something that the link does not take now is tried again.
pub const PAUSE: Duration = Duration::from_millis(10);

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
    /// Requests sent and answers that came.
    Ping {
        /// Echo requests that went out.
        sent: u32,
        /// Those of them that were answered in time, byte for byte.
        answered: u32,
    },
    /// A transfer that came to its end.
    Tcp {
        /// What was sent or received.
        bytes: u64,
        /// Of those bytes, in hexadecimal.
        sha256: String,
    },
    /// Datagrams of the group that arrived, in order of arrival.
    Heard(Vec<u32>),
    /// Everything that was to be sent to the group has left.
    Said,
    /// Its time was over.
    Over,
    /// It went no further, and why.
    Failed(String),
}
