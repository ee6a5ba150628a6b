//! What the communication manager, and the adapter, tell of connections that the link opens: under the machines' lock.

use core::time::Duration;

use ibtf::{ChannelId, CqId};
use ipoib::Instant;
use ipoib::connections::{Connection, OpenError, PrivateData};

use super::OutgoingConnections;
use super::connection::OutgoingConnection;
use crate::link::long_answers::LongAnswers;

impl OutgoingConnections {
    /// The neighbour has accepted, and says what it takes; whether that is any good.
    pub(crate) fn replied(&mut self, channel: ChannelId, private: &[u8]) -> bool {
        let Some(entry) = self.by_channel(channel).filter(|entry| !entry.closing) else { return false };
        match PrivateData::from_bytes(private) {
            Ok(private) => entry.longest = private.longest,
            Err(_) => return false,
        }
        entry.answered = true;
        true
    }

    /// The answers on a connection that stands may take long; whether it ends for that.
    pub(crate) fn is_long(
        &mut self,
        channel: ChannelId,
        long: Option<LongAnswers>,
        ends: bool,
        now: Instant,
    ) {
        let Some(entry) = self.by_channel(channel) else { return };
        entry.long = long;
        let connection = entry.connection;
        if ends {
            self.machine.too_slow(connection, now);
        }
    }

    /// The neighbour asks for so much time to answer; whether it is waited for.
    pub(crate) fn delayed(&mut self, channel: ChannelId, time: Duration, now: Instant) -> bool {
        let Some(entry) = self.by_channel(channel) else { return true };
        entry.delayed = true;
        let connection = entry.connection;
        self.machine.delayed(connection, time, now)
    }

    /// A connection stands; `None` if nobody wants it any more.
    pub(crate) fn established(&mut self, channel: ChannelId, now: Instant) -> Option<Connection> {
        let entry = self.by_channel(channel)?;
        (entry.stands, entry.place) = (true, None);
        // One that has failed meanwhile is freed, and the machine is told of that.
        if entry.failed.is_some() {
            return None;
        }
        let (connection, longest) = (entry.connection, entry.longest);
        // If nobody wants it any more it is about to be closed.
        let sender = entry.sender.clone()?;
        self.machine.opened(connection, sender, longest, now).then_some(connection)
    }

    /// The communication manager tells why no connection has come of it.
    pub(crate) fn refused(&mut self, channel: ChannelId, reason: u16) {
        if let Some(entry) = self.by_channel(channel) {
            entry.failed = Some(OpenError::of_reject(reason));
        }
    }

    /// The communication manager tells that it is over.
    pub(crate) fn is_over(&mut self, channel: ChannelId) {
        if let Some(entry) = self.by_channel(channel) {
            entry.over = true;
        }
    }

    /// The communication manager, or the adapter, tells that a connection is over; whether it was one of these that stood.
    pub(crate) fn ended(&mut self, channel: ChannelId, now: Instant) -> bool {
        let Some(entry) = self.by_channel(channel) else { return false };
        let (connection, stood) = (entry.connection, entry.stands);
        if stood {
            self.machine.lost(connection, now);
        } else if entry.failed.is_none() {
            entry.failed = Some(OpenError::Failed);
        }
        stood
    }

    /// A CQ is lost, and the connection with it.
    pub(crate) fn cq_failed(&mut self, cq: CqId, now: Instant) {
        let of = |entry: &OutgoingConnection| entry.sender.is_some() && entry.cq == Some(cq);
        if let Some(entry) = self.connections.find_mut(of) {
            let connection = entry.connection;
            self.machine.lost(connection, now);
        }
    }
}
