//! Connected mode (RFC 4755): which neighbours a link has connections to, and which it has from them. Datagrams carry what fits in one,
//! whatever becomes of a connection; a connection carries what does not, and more as soon as there is one.
//!
//! The two directions are two machines, as a station sends on the connections that it opened, and never on others ([`Outgoing`],
//! [`Incoming`]). What they tell each other while a connection is made is in [`PrivateData`], and where a station listens in [`Service`].

pub mod fragments;
mod incoming;
mod outgoing;
mod private_data;
mod request;
pub mod too_big;
mod waiting;

use crate::addr::LinkAddr;

pub use incoming::{Incoming, IncomingAction, IncomingConfig, IncomingSlot, LidCheck, PortSlot, Refusal};
pub use outgoing::{Action, Channel, OpenError, Outgoing, OutgoingConfig, OutgoingSlot, Submitted, TooBig};
pub use private_data::{LONGEST_MESSAGE, PrivateData, PrivateDataError, Service};
pub use request::{AnswerTime, ConnectRequest, LONG_ANSWER, Wrong, closing_takes};
pub use waiting::WaitingSlot;

/// One connection, or one attempt to make one. What comes late is known by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The neighbour's link address, without flags.
    pub peer: LinkAddr,
    /// No other one of the machine has it.
    pub number: u64,
}
