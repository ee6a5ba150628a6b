//! One connection to a neighbour, from the attempt to make it until nothing of it is left.

use ibtf::{AddressVector, ChannelId, CqId, RcChannel};
use ipoib::Instant;
use ipoib::connections::{Connection, OpenError};

use super::ConnectedSender;
use crate::link::attempts::AttemptPlace;
use crate::link::long_answers::LongAnswers;

/// One connection, or an attempt to make one.
pub(super) struct OutgoingConnection {
    pub(super) connection: Connection,
    pub(super) channel: Option<ChannelId>,
    pub(super) sender: Option<ConnectedSender>,
    /// The CQ of that: the sender has a lock of its own, which it holds while it copies a packet.
    pub(super) cq: Option<CqId>,
    /// What its queue pair keeps sending by, whatever becomes of the path.
    pub(super) route: Option<Route>,
    /// Octets of the longest message that the neighbour takes; 0 before it has said so.
    pub(super) longest: u32,
    /// Its answers may take long.
    pub(super) long: Option<LongAnswers>,
    /// While an attempt is out.
    pub(super) place: Option<AttemptPlace>,
    pub(super) state: State,
    /// The neighbour asks for time to answer: its REQ is out, and waits for no turn.
    pub(super) delayed: bool,
    /// The neighbour has accepted, and is what it has to be.
    pub(super) answered: bool,
    /// Why an attempt came to nothing: as the communication manager, or the adapter, has told.
    pub(super) failed: Option<OpenError>,
    /// It stands, or has stood.
    pub(super) stands: bool,
    /// The communication manager has told that it is over.
    pub(super) over: bool,
    /// The machine wants it closed.
    pub(super) closing: bool,
    /// And it still sends.
    pub(super) speaks: bool,
    /// Its channel is not freed before.
    pub(super) not_before: Option<Instant>,
}

/// How a connection goes to its neighbour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    /// The port's base LID.
    pub(super) own_lid: u16,
    /// Where the P_Key is in the port's table: a queue pair keeps the index that it was made with.
    pub(super) pkey_index: u16,
    /// As the SA says it.
    pub(super) to: AddressVector,
}

pub(super) enum State {
    /// A thread is at it.
    Busy,
    Held(RcChannel),
}

impl OutgoingConnection {
    pub(super) fn new(connection: Connection, place: Option<AttemptPlace>) -> Self {
        Self {
            connection,
            channel: None,
            sender: None,
            cq: None,
            route: None,
            longest: 0,
            long: None,
            place,
            state: State::Busy,
            delayed: false,
            answered: false,
            failed: None,
            stands: false,
            over: false,
            closing: false,
            speaks: false,
            not_before: None,
        }
    }

    /// Whether the communication manager has told what came of the attempt, as it does within seconds once the REQ has gone. Until then nobody
    /// gives it up. The REQ may wait for its turn: `ibcm` would forget the attempt, but never what it has counted for it, and so wait for ever when
    /// the adapter is to go (`ibcm_open_done`). Or the connection is about to stand: `ibcm` might call a handler that it was told to forget
    /// (`ibcm_cep_send_rtu`). Of one whose neighbour asks for time, which can be hours, neither is so.
    pub(super) fn is_told(&self) -> bool {
        self.has_come_to_something() || self.delayed && !self.answered
    }

    /// Whether the communication manager has told that it stands, or that it is over. What the adapter tells is no substitute: a neighbour that answers can
    /// have the queue pair fail while the communication manager is about to tell that the connection stands.
    pub(super) fn has_come_to_something(&self) -> bool {
        self.stands || self.over
    }

    /// Whether nothing came of it, and nobody but the link has to do with it any more.
    pub(super) fn is_to_free(&self) -> bool {
        self.failed.is_some() && self.has_come_to_something() && !self.closing
    }

    /// Whether no thread is at it, and it is time for what is to be done.
    pub(super) fn has_come(&self, now: Instant) -> bool {
        matches!(self.state, State::Held(_)) && self.not_before.is_none_or(|at| now >= at)
    }

    pub(super) fn take(&mut self) -> Option<RcChannel> {
        self.not_before = None;
        match core::mem::replace(&mut self.state, State::Busy) {
            State::Held(channel) => Some(channel),
            State::Busy => None,
        }
    }
}
