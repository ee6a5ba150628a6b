//! What is due: connections to answer, look at, close and free, and what they share to make and to end.

use ibtf::RcState;
use ipoib::Instant;
use ipoib::connections::{Connection, IncomingAction};

use super::connection::IncomingConnection;
use super::{Close, IncomingConnections, Step, UNUSED};

impl IncomingConnections {
    /// What the machine wants done. Each thread asks: one of them may be waiting for something.
    fn ask_machine(&mut self, now: Instant) {
        while let Some(action) = self.machine.poll_action(now) {
            match action {
                IncomingAction::Dismiss(connection) => match self.find(connection) {
                    Some(entry) => entry.dismiss(),
                    None => self.machine.drained(connection),
                },
                IncomingAction::Look(connection) => match self.find(connection) {
                    Some(entry) => entry.to_look = true,
                    None => self.machine.looked(connection, None, now),
                },
            }
        }
    }

    /// How a connection receives, if the adapter says so.
    pub(crate) fn looked(&mut self, connection: Connection, seen: Option<RcState>, now: Instant) {
        self.machine.looked(connection, seen.map(|seen| seen.packet_due), now);
        let pkey = self.pkey;
        let Some(entry) = self.find(connection) else { return };
        entry.pkey_index = seen.map(|seen| seen.pkey_index);
        // Whether the link has moved since, when nobody knew where this one is. One that came later may be where the link is about to follow to.
        let is_left_behind =
            pkey.is_some_and(|(index, since)| since >= entry.given && entry.is_elsewhere(index));
        if is_left_behind {
            self.machine.ended(connection);
        }
    }

    /// The next thing to do.
    pub(crate) fn next_step(&mut self, now: Instant) -> Option<Step> {
        self.ask_machine(now);
        if core::mem::take(&mut self.lost)
            && let Some(shared_receive) = self.shared_receive.take()
        {
            return Some(Step::End(shared_receive));
        }
        // Requests come as fast as any host sends them.
        let mut turns = self.turns;
        let step = turns.take(3, |kind| match kind {
            0 => self.next_of_connections(now),
            1 => self.next_to_dissolve().map(Step::Dissolve).or_else(|| self.next_of_receives(now)),
            _ => self.next_of_outgoing(now),
        });
        self.turns = turns;
        step.or_else(|| self.end_unused(now)).or_else(|| self.close_adapter(now))
    }

    /// What is due of a connection from a neighbour: of the one that came before all others.
    fn next_of_connections(&mut self, now: Instant) -> Option<Step> {
        let ends = self.ends;
        let entry =
            self.connections.find_oldest_mut(|entry| entry.is_due(now) && !(ends && entry.is_draining()))?;
        let refused = (entry.dismissed && entry.channel.is_none()).then_some(entry.connection);
        let step = entry.step();
        if let Some(connection) = refused {
            // Of one that was only asked for nothing is left.
            drop(self.forget(connection, now));
        }
        step
    }

    fn next_of_outgoing(&mut self, now: Instant) -> Option<Step> {
        let step = self.outgoing.as_mut()?.next_step(now)?;
        self.wait_for_numbers(now);
        Some(Step::Outgoing(step))
    }

    /// The next connection to close, from neighbours and to them by turns: one of these can take seconds.
    pub(crate) fn next_close(&mut self, now: Instant) -> Option<Close> {
        self.ask_machine(now);
        let next = if self.outgoing_is_next {
            self.next_outgoing_close(now).or_else(|| self.next_incoming_close(now))
        } else {
            self.next_incoming_close(now).or_else(|| self.next_outgoing_close(now))
        };
        // The side that had this turn has the next one only if the other does not want it.
        if let Some(next) = &next {
            self.outgoing_is_next = !matches!(next, Close::Outgoing(..));
        }
        next
    }

    fn next_outgoing_close(&mut self, now: Instant) -> Option<Close> {
        let (connection, channel, sender) = self.outgoing.as_mut()?.next_close(now)?;
        Some(Close::Outgoing(connection, channel, sender))
    }

    fn next_incoming_close(&mut self, now: Instant) -> Option<Close> {
        let entry = self.connections.find_oldest_mut(|entry| entry.is_to_close() && entry.has_come(now))?;
        let (connection, takes_back) = (entry.connection, entry.is_to_take_back());
        let channel = entry.take_to_close()?;
        Some(if takes_back {
            Close::TakeBack(connection, channel)
        } else {
            Close::Incoming(connection, channel)
        })
    }

    /// When [`IncomingConnections::next_close`] has something again, if nothing happens before.
    pub(crate) fn close_deadline(&self) -> Option<Instant> {
        let next = self.connections.iter().filter(|entry| entry.is_to_close());
        let next = next.filter_map(|entry| entry.not_before).min();
        let outgoing = self.outgoing.as_ref().and_then(|outgoing| outgoing.close_deadline());
        [self.machine.next_deadline(), next, outgoing].into_iter().flatten().min()
    }

    /// Of a link that is stopped nothing stays open.
    fn close_adapter(&mut self, now: Instant) -> Option<Step> {
        if self.runs || !self.is_empty() || self.close_at.is_some_and(|at| now < at) {
            return None;
        }
        let hca = self.hca.take()?;
        self.lets_go = true;
        Some(Step::LetGo(hca, self.number, core::mem::take(&mut self.resting)))
    }

    /// What nobody has sent to for a while goes.
    fn end_unused(&mut self, now: Instant) -> Option<Step> {
        let unused = self.shared_receive.is_some() && self.connections.iter().next().is_none();
        self.unused_since = if unused { self.unused_since.or(Some(now)) } else { None };
        if self.unused_since.is_none_or(|since| now < since + UNUSED) {
            return None;
        }
        self.unused_since = None;
        self.shared_receive.take().map(Step::End)
    }

    /// When [`IncomingConnections::next_step`] has something again, if nothing happens before.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let waits = |entry: &&IncomingConnection| entry.is_to_close() || self.ends && entry.is_draining();
        let incoming = self.connections.iter().filter(|entry| !waits(entry));
        let incoming = incoming.filter_map(|entry| entry.not_before).min();
        let unused = self.unused_since.map(|since| since + UNUSED);
        let close = self.close_at.filter(|_| !self.runs && self.is_empty() && self.hca.is_some());
        let outgoing = self.outgoing.as_ref().and_then(|outgoing| outgoing.next_deadline());
        let grow = self.grow_at.filter(|_| self.short_of_receives);
        let shared = self.shared_receive.as_ref().and([grow, self.shrink_at].into_iter().flatten().min());
        [self.machine.next_deadline(), incoming, unused, close, outgoing, shared].into_iter().flatten().min()
    }
}
