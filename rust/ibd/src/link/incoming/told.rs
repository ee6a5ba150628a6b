//! What the communication manager, and the adapter, tell of connections: under the machines' lock.

use ibtf::{ChannelId, CqId, SrqId};
use ipoib::connections::Connection;
use ipoib::{Instant, LinkAddr};

use super::IncomingConnections;
use crate::link::long_answers::{LongAnswers, TooMany};

impl IncomingConnections {
    /// The communication manager tells that a connection stands: this one, if this link has opened it.
    pub(crate) fn established(&mut self, channel: ChannelId, now: Instant) -> Option<Connection> {
        let Some(entry) = self.by_channel(channel) else {
            return self.outgoing.as_mut()?.established(channel, now);
        };
        (entry.stands, entry.not_before) = (true, None);
        let connection = entry.connection;
        self.machine.established(connection, now);
        None
    }

    /// The neighbour at the other end of a connection, and whether the link has opened it.
    pub(crate) fn peer(&mut self, channel: ChannelId) -> Option<(LinkAddr, bool)> {
        match self.by_channel(channel) {
            Some(entry) => Some((entry.connection.peer, false)),
            None => Some((self.outgoing.as_ref()?.peer(channel)?, true)),
        }
    }

    /// The answers on a connection may take long. One that is one too many is ended.
    pub(crate) fn is_long(&mut self, channel: ChannelId, long: Result<LongAnswers, TooMany>, now: Instant) {
        let ends = long.is_err();
        let long = Some(long.unwrap_or_else(|TooMany(long)| long));
        match self.by_channel(channel) {
            Some(entry) => {
                entry.long = long;
                let connection = entry.connection;
                if ends {
                    self.machine.ended(connection);
                }
            }
            None => {
                if let Some(outgoing) = &mut self.outgoing {
                    outgoing.is_long(channel, long, ends, now);
                }
            }
        }
    }

    /// The communication manager tells that a connection is over, or that none has come of it.
    pub(crate) fn ended(&mut self, channel: ChannelId, now: Instant) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.is_over(channel);
            outgoing.ended(channel, now);
        }
        let Some(entry) = self.by_channel(channel) else { return };
        (entry.over, entry.not_before) = (true, None);
        let connection = entry.connection;
        self.machine.ended(connection);
    }

    /// The communication manager tells that no connection has come of an attempt, and why.
    pub(crate) fn refused(&mut self, channel: ChannelId, reason: u16, now: Instant) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.refused(channel, reason);
        }
        self.ended(channel, now);
    }

    /// The adapter tells that a queue pair has failed.
    pub(crate) fn failed(&mut self, channel: ChannelId, now: Instant) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.ended(channel, now);
        }
        let connection = self.by_channel(channel).map(|entry| entry.connection);
        if let Some(connection) = connection {
            self.machine.ended(connection);
        }
    }

    /// The adapter tells that a queue pair holds no receive any more.
    pub(crate) fn emptied(&mut self, channel: ChannelId) {
        let Some(entry) = self.by_channel(channel) else { return };
        entry.empty = true;
        if !entry.is_being_taken_back() {
            entry.not_before = None;
        }
        let connection = entry.connection;
        // A connection that carries messages has its receives: one that has none has failed, whether the adapter says so or not.
        self.machine.ended(connection);
    }

    /// A CQ is lost: that of a connection to a neighbour, or of what those from neighbours share.
    pub(crate) fn cq_failed(&mut self, cq: CqId, now: Instant) {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.cq_failed(cq, now);
        }
        if self.shared_receive.as_ref().is_some_and(|shared_receive| shared_receive.has_cq(cq)) {
            self.lose_shared_receive();
        }
    }

    /// A shared receive queue is lost; false if it is none that is in use, or was.
    pub(crate) fn srq_failed(&mut self, srq: SrqId) -> bool {
        if let Some(shared_receive) =
            self.shared_receive.as_mut().filter(|shared_receive| shared_receive.has_srq(srq))
        {
            shared_receive.failed();
            self.lose_shared_receive();
            true
        } else if let Some(ended) = self.ended.find_mut(|ended| ended.has_srq(srq)) {
            ended.failed();
            true
        } else {
            false
        }
    }

    /// What rests was to be used, and one that rests has failed: which is not known.
    pub(crate) fn resting_failed(&mut self) {
        if let Some(shared_receive) = &mut self.shared_receive {
            shared_receive.failed();
            self.lose_shared_receive();
        }
    }

    /// All are dismissed, and the next one finds another.
    fn lose_shared_receive(&mut self) {
        self.machine.stop();
        self.lost = true;
        if self.runs {
            self.machine.run();
        }
    }
}
