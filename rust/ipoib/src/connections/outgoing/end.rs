//! How connections end.

use core::ops::DerefMut;
use core::time::Duration;

use super::peer::{After, State};
use super::{Channel, DUE, LEAVING, Outgoing, OutgoingSlot, RECENT, WaitingSlot};
use crate::connections::Connection;
use crate::table::Id;
use crate::time::Instant;

impl<P, C, S, W> Outgoing<P, C, S, W>
where
    C: Channel,
    S: DerefMut<Target = [OutgoingSlot<C>]>,
    W: DerefMut<Target = [WaitingSlot<P>]>,
{
    /// A connection is of no use any more: a send failed, the neighbour closed it, or its queue pair did. The first time another one is made
    /// for what comes next, and then not before a while.
    pub fn lost(&mut self, connection: Connection, now: Instant) {
        let Some(id) = self.known(connection) else { return };
        let Some(State::Up { since, .. }) = self.peers.get(id).map(|peer| &peer.state) else { return };
        let lasted = now - *since >= self.config.steady;
        let again = self.fails(id, lasted) > 1;
        if !again {
            // What waited for this connection waits for the next one.
            self.peers.unlist(LEAVING, id);
        }
        self.close(id, if again { After::Rest } else { After::Off }, now);
    }

    /// A connection stands, and the neighbour's answers take so long that it should not: there is none for a while.
    pub fn too_slow(&mut self, connection: Connection, now: Instant) {
        let Some(id) = self.known(connection) else { return };
        if let Some(State::Up { .. }) = self.peers.get(id).map(|peer| &peer.state) {
            self.fails(id, false);
            self.close(id, After::Rest, now);
        }
    }

    /// The neighbour asks for more time to answer an attempt: so long (an MRA). Whether it is waited for.
    pub fn delayed(&mut self, connection: Connection, time: Duration, now: Instant) -> bool {
        let waits = time <= self.config.longest_answer;
        let Some((id, _)) = self.attempt(connection) else { return waits };
        if !waits {
            self.give_up(id, now);
            return false;
        }
        if let Some(State::Opening { since, until, .. }) = self.peers.get_mut(id).map(|peer| &mut peer.state)
        {
            let over = *until.get_or_insert(now + self.config.delay);
            let since = *since;
            self.look_at_attempt(id, since, Some(over), now);
        }
        true
    }

    /// What waits for an answer waits no longer than an answer usually takes, whatever becomes of the attempt.
    pub(super) fn look_at_attempt(&mut self, id: Id, since: Instant, until: Option<Instant>, now: Instant) {
        if until.is_some_and(|until| until <= now) {
            return self.give_up(id, now);
        }
        let patience = since + self.config.asked_patience;
        if patience <= now {
            self.leave(id);
        }
        let next = [Some(patience).filter(|at| *at > now), until].into_iter().flatten().min();
        self.peers.set_deadline(id, next);
    }

    /// Nobody waits for the answer to an attempt any more.
    fn give_up(&mut self, id: Id, now: Instant) {
        self.fails(id, false);
        self.close(id, After::Rest, now);
        self.leave(id);
    }

    /// One more attempt or connection has failed; how many have, since one that lasted.
    pub(super) fn fails(&mut self, id: Id, lasted: bool) -> u32 {
        let Some(peer) = self.peers.get_mut(id) else { return 0 };
        peer.failures = if lasted { 1 } else { peer.failures.saturating_add(1) };
        peer.failures
    }

    /// The link stops: connections are closed, which nobody has to wait for; what waits for one is dropped.
    pub fn stop(&mut self) {
        self.runs = false;
        let mut from = 0;
        while let Some((place, id)) = self.peers.next_from(from) {
            self.end(id);
            from = place + 1;
        }
    }

    pub(super) fn end(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        (peer.failures, peer.dropped) = (0, !peer.waiting.is_empty());
        match peer.state {
            // Nothing waits for the next one.
            State::Up { .. } | State::Opening { .. } => self.close(id, After::Off, Instant::ZERO),
            State::Wanted(..) => {
                self.held -= 1;
                self.off(id);
            }
            State::Resting => self.off(id),
            State::Closing(_, since) => peer.state = State::Closing(After::Off, since),
            State::Off => {}
        }
        self.leave(id);
    }

    /// Nothing of a connection is left.
    pub fn closed(&mut self, connection: Connection, now: Instant) {
        let Some(id) = self.known(connection) else { return };
        let Some(State::Closing(after, _)) = self.peers.get(id).map(|peer| &peer.state) else { return };
        let after = *after;
        self.attempt_is_over(id);
        self.held -= 1;
        self.closing -= 1;
        match after {
            After::Rest => self.rest(id, now),
            After::Off => {
                self.off(id);
                let waits = self.peers.get(id).is_some_and(|peer| !peer.waiting.is_empty());
                if waits && !self.peers.is_listed(LEAVING, id) {
                    self.want(id, now);
                    if !self.comes(id, now) {
                        self.leave(id);
                    }
                }
            }
        }
    }

    pub(super) fn close(&mut self, id: Id, after: After, now: Instant) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if let State::Up { channel, .. } = &peer.state {
            channel.validity().withdraw();
        }
        peer.state = State::Closing(after, now);
        self.closing += 1;
        self.peers.unlist(RECENT, id);
        // Its turn to be closed may come late.
        self.peers.set_deadline(id, (after == After::Off).then_some(now + self.config.patience));
        self.due(id);
    }

    pub(super) fn rest(&mut self, id: Id, now: Instant) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.state = State::Resting;
        let delay = self.config.retry.delay(peer.failures, &mut self.jitter);
        self.peers.set_deadline(id, Some(now + delay));
        self.peers.unlist(DUE, id);
        self.leave_line(id);
        self.leave(id);
        self.rank(id);
    }

    pub(super) fn off(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.state = State::Off;
        self.peers.set_deadline(id, None);
        self.peers.unlist(DUE, id);
        self.leave_line(id);
        self.rank(id);
    }
}
