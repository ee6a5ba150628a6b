//! Connected mode (RFC 4755): which neighbours a link has connections to, and which it has from them. Datagrams carry what fits in one,
//! whatever becomes of a connection; a connection carries what does not, and more as soon as there is one.
//!
//! The two directions are two machines, as a station sends on the connections that it opened, and never on others ([`Outgoing`],
//! [`Incoming`]). What they tell each other while a connection is made is in [`Hello`], and where a station listens in [`Service`].

mod asked;
pub mod fragments;
mod hello;
mod incoming;
mod outgoing;
pub mod too_big;
mod waiting;

use crate::addr::LinkAddr;

pub use asked::{Asked, Wrong};
pub use hello::{Hello, HelloError, LONGEST_MESSAGE, Service};
pub use incoming::{Dismissed, Incoming, IncomingConfig, IncomingSlot, Refusal};
pub use outgoing::{Action, Channel, OpenError, Outgoing, OutgoingConfig, OutgoingSlot, Submitted, TooBig};
pub use waiting::WaitingSlot;

/// One connection, or one attempt to make one. What comes late is known by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The neighbour's link address, without flags.
    pub peer: LinkAddr,
    /// No other one of the machine has it.
    pub number: u64,
}
