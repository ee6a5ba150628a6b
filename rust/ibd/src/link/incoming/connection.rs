//! One connection from a neighbour, from its REQ until nothing of it is left.

use core::time::Duration;

use ibtf::{ChannelId, RcChannel, Session};
use ipoib::connections::Connection;
use ipoib::{Instant, LinkAddr};

use kernel::KArc;

use super::receive::{ConnectedReceiver, Taken};
use super::{AGAIN, Step};
use crate::link::long_answers::LongAnswers;

/// How long a neighbour may take to say that it has got a connection.
const STAND: Duration = Duration::from_secs(1);
/// How long the communication manager may take to tell of the end of an offer that it was to take back. It needs memory and its one thread for such
/// things. One that it has not told of by then is closed all the same.
const TAKE_BACK: Duration = Duration::from_secs(30);

/// Who asks, and may have one.
pub(crate) struct Asker {
    pub(crate) peer: LinkAddr,
    /// Where acknowledgements go.
    pub(crate) lid: u16,
    pub(crate) session: Session,
}

/// One connection, or who has asked for one.
pub(crate) struct IncomingConnection {
    pub(super) connection: Connection,
    pub(super) channel: Option<ChannelId>,
    pub(super) state: State,
    /// The machine wants it gone.
    pub(super) dismissed: bool,
    /// The communication manager has told that it stands.
    pub(super) stands: bool,
    /// The communication manager has told that it is over.
    pub(super) over: bool,
    /// The communication manager was asked to take back the offer that nothing was told of.
    pub(super) taken_back: bool,
    /// The adapter has told that the queue pair holds no receive any more.
    pub(super) empty: bool,
    /// The pause after a receive that found no buffer is as it should be.
    pub(super) eased: bool,
    /// Where the P_Key is that its queue pair was made with, as the adapter says.
    pub(super) pkey_index: Option<u16>,
    /// The machine wants to know how far the neighbour has sent.
    pub(super) to_look: bool,
    /// Where what comes on it is taken.
    pub(super) receiver: Option<KArc<ConnectedReceiver>>,
    /// What had been taken when it was to be freed first.
    pub(super) taken: Option<Taken>,
    /// Its answers may take long.
    pub(super) long: Option<LongAnswers>,
    /// When the communication manager was given its channel.
    pub(super) given: Instant,
    /// Nothing is done about it before.
    pub(super) not_before: Option<Instant>,
}

pub(super) enum State {
    /// To be answered.
    ConnectRequest(Session),
    /// The thread is at it.
    Busy,
    Held(RcChannel),
    /// Closed, until it is empty.
    Draining(RcChannel),
}

impl IncomingConnection {
    pub(super) fn new(connection: Connection, session: Session) -> Self {
        Self {
            connection,
            channel: None,
            state: State::ConnectRequest(session),
            dismissed: false,
            stands: false,
            over: false,
            taken_back: false,
            empty: false,
            eased: false,
            pkey_index: None,
            to_look: false,
            receiver: None,
            taken: None,
            long: None,
            given: Instant::ZERO,
            not_before: None,
        }
    }

    /// One that was accepted and does not stand yet is closed when it does: the neighbour, who may have it by now, is told then.
    pub(super) fn dismiss(&mut self) {
        self.dismissed = true;
        if self.channel.is_some() && !self.stands && !self.over {
            self.not_before = Some(self.given + STAND);
        }
    }

    /// Whether its queue pair was made when the P_Key was not at this index, as far as the adapter has been asked.
    pub(super) fn is_elsewhere(&self, pkey_index: u16) -> bool {
        self.pkey_index.is_some_and(|index| index != pkey_index)
    }

    /// Whether there is something to do for who accepts and frees.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let wants = match self.state {
            State::ConnectRequest(_) | State::Draining(_) => true,
            State::Held(_) => !self.dismissed && self.stands && (self.to_look || !self.eased),
            State::Busy => false,
        };
        wants && self.has_come(now)
    }

    /// Whether it is closed, and its channel is to be freed.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining(_))
    }

    /// Whether it waits to be closed.
    pub(super) fn is_to_close(&self) -> bool {
        self.dismissed && matches!(self.state, State::Held(_))
    }

    /// Whether it is time for what is to be done.
    pub(super) fn has_come(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| now >= at)
    }

    /// Whether it is an offer that is to be taken back: the communication manager has not told what came of it, and might be about to. It would call a
    /// handler that a close had it forget (`ibcm_cep_state_rtu`).
    pub(super) fn is_to_take_back(&self) -> bool {
        !self.stands && !self.over && !self.taken_back
    }

    /// Whether the communication manager was asked to take it back, and has not told that it has. It uses the channel until it tells, and moves the queue
    /// pair to the error state first: a close that comes in between does not wait for it (`ibcm_process_abort`, `ibcm_close_rc_channel`).
    pub(super) fn is_being_taken_back(&self) -> bool {
        self.taken_back && !self.stands && !self.over
    }

    /// The communication manager was asked to take it back, or could not be asked yet.
    pub(super) fn takes_back(&mut self, channel: RcChannel, asked: bool, now: Instant) {
        (self.state, self.taken_back) = (State::Held(channel), asked);
        let wait = if asked { TAKE_BACK } else { AGAIN };
        self.not_before = Some(now + wait).filter(|_| !self.stands && !self.over);
    }

    /// The channel of one that is to be closed.
    pub(super) fn take_to_close(&mut self) -> Option<RcChannel> {
        self.not_before = None;
        match core::mem::replace(&mut self.state, State::Busy) {
            State::Held(channel) => Some(channel),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// What is to be done about one that is due.
    pub(super) fn step(&mut self) -> Option<Step> {
        self.not_before = None;
        match core::mem::replace(&mut self.state, State::Busy) {
            State::ConnectRequest(session) if self.dismissed => Some(Step::Refuse(self.connection, session)),
            State::ConnectRequest(session) => Some(Step::Accept(self.connection, session)),
            State::Held(channel) => {
                let is_new = !core::mem::replace(&mut self.eased, true);
                self.to_look = false;
                self.state = State::Held(channel.clone());
                Some(Step::Look(self.connection, channel, is_new))
            }
            State::Draining(channel) => {
                Some(Step::Free(self.connection, channel, self.receiver.clone(), self.taken))
            }
            State::Busy => None,
        }
    }
}
