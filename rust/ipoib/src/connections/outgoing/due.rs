//! What is due: connections to open and to close, and packets that wait no longer.

use core::ops::DerefMut;

use super::peer::{After, Kind, State};
use super::{
    Action, Channel, DOUBTFUL, DUE, FRESH, LEAVING, Outgoing, OutgoingSlot, Peer, RECENT, TooBig, WaitingSlot,
};
use crate::connections::Connection;
use crate::table::Id;
use crate::time::Instant;

impl<P, C, S, W> Outgoing<P, C, S, W>
where
    C: Channel,
    S: DerefMut<Target = [OutgoingSlot<C>]>,
    W: DerefMut<Target = [WaitingSlot<P>]>,
{
    /// The next thing to do, if there is one.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action<P, C>> {
        // Time may have passed for packets.
        self.next_packet().or_else(|| self.next_connection(now, || true)).or_else(|| self.next_packet())
    }

    /// Whether a connection is to be opened or closed now.
    pub fn wants_work(&self) -> bool {
        self.peers.front(DUE).is_some()
    }

    /// Whether [`Self::next_packet`] has something.
    pub fn has_packets(&self) -> bool {
        self.peers.front(LEAVING).is_some()
    }

    /// The next thing to do about a connection, [`Action::Open`] or [`Action::Close`], if there is one. An attempt that could begin begins only if
    /// `may_open`, which is asked just before that.
    pub fn next_connection(&mut self, now: Instant, may_open: impl FnMut() -> bool) -> Option<Action<P, C>> {
        while let Some(id) = self.peers.pop_due(now) {
            self.timer(id, now);
        }
        self.next_due(now, may_open)
    }

    fn timer(&mut self, id: Id, now: Instant) {
        let (look, stuck, idle) = (self.config.look, self.config.stuck, self.config.idle);
        let Some(peer) = self.peers.get_mut(id) else { return };
        match &mut peer.state {
            State::Wanted(_, since) => {
                if now - *since >= self.config.patience {
                    self.leave(id);
                }
                self.due(id);
            }
            State::Resting => self.off(id),
            State::Up { channel, used, since, .. } => {
                let lasted = now - *since >= self.config.steady;
                let recently = channel.validity().take_use();
                if recently {
                    *used = now;
                }
                let (stuck, idle) =
                    (channel.owes_since().is_some_and(|since| now - since >= stuck), now - *used >= idle);
                if stuck {
                    self.fails(id, lasted);
                    self.close(id, After::Rest, now);
                } else if idle {
                    peer.failures = if lasted { 0 } else { peer.failures };
                    self.close(id, After::Off, now);
                } else {
                    if recently {
                        self.peers.push_back(RECENT, id);
                    }
                    self.peers.set_deadline(id, Some(now + look));
                }
            }
            State::Closing(After::Off, _) => self.leave(id),
            State::Opening { since, until, .. } => {
                let (since, until) = (*since, *until);
                self.look_at_attempt(id, since, until, now);
            }
            State::Off | State::Closing(..) => {}
        }
    }

    /// What to do about the next packet that waits no longer: any other [`Action`], if there is one.
    pub fn next_packet(&mut self) -> Option<Action<P, C>> {
        loop {
            let id = self.peers.front(LEAVING)?;
            let to = self.peers.key(id)?;
            let peer = self.peers.get_mut(id)?;
            let Some((packet, len)) = self.waiting.pop(&mut peer.waiting) else {
                peer.dropped = false;
                self.peers.unlist(LEAVING, id);
                self.rank(id);
                continue;
            };
            return Some(match &peer.state {
                _ if peer.dropped => Action::Drop(to, packet),
                State::Up { channel, longest, .. } if len <= *longest => {
                    Action::Send(packet, channel.clone())
                }
                State::Up { longest, .. } => Action::Tell(to, packet, TooBig(*longest)),
                _ => Action::Tell(to, packet, TooBig(0)),
            });
        }
    }

    fn next_due(&mut self, now: Instant, mut may_open: impl FnMut() -> bool) -> Option<Action<P, C>> {
        while let Some(id) = self.peers.pop_front(DUE) {
            let (to, peer) = (self.peers.key(id)?, self.peers.get(id)?);
            match peer.state {
                // One that has answered is asked again in its place.
                State::Wanted(attempt, _)
                    if attempt.is_repeated() && self.has_place(kind(peer)) && may_open() =>
                {
                    return self.begin(id, now);
                }
                State::Wanted(_, since) => self.line_up(id, since, now),
                State::Closing(..) => {
                    return Some(Action::Close(Connection { peer: to, number: peer.number }));
                }
                State::Off | State::Opening { .. } | State::Up { .. } | State::Resting => {}
            }
        }
        if let Some(id) = self.next_in_line()
            && may_open()
        {
            return self.begin(id, now);
        }
        self.look_again(now);
        None
    }

    fn has_place(&self, kind: Kind) -> bool {
        let is_doubtful = kind == Kind::Doubtful;
        self.attempts < self.config.attempts && !(is_doubtful && self.doubtful >= self.config.doubtful)
    }

    /// Behind those that wait already, or where it is. What waits for it waits no longer than its patience.
    fn line_up(&mut self, id: Id, since: Instant, now: Instant) {
        let Some(list) = self.peers.get(id).map(line) else { return };
        if !self.peers.is_listed(list, id) {
            self.peers.push_back(list, id);
        }
        let patience = since + self.config.patience;
        self.peers.set_deadline(id, Some(patience).filter(|at| *at > now));
    }

    pub(super) fn leave_line(&mut self, id: Id) {
        self.peers.unlist(FRESH, id);
        self.peers.unlist(DOUBTFUL, id);
    }

    /// Of those for whom there is a place the one that was needed longest ago.
    fn next_in_line(&self) -> Option<Id> {
        let of = |list, kind| self.peers.front(list).filter(|_| self.has_place(kind));
        let since = |id: &Id| match self.peers.get(*id).map(|peer| &peer.state) {
            Some(State::Wanted(_, since)) => Some(*since),
            _ => None,
        };
        // Those of whom there may be fewer first, of two that were needed at once.
        let first = [of(DOUBTFUL, Kind::Doubtful), of(FRESH, Kind::Fresh)];
        first.into_iter().flatten().min_by_key(since)
    }

    /// Nobody tells when others have given a place back.
    fn look_again(&mut self, now: Instant) {
        let at = now + self.config.attempts_look;
        for list in [FRESH, DOUBTFUL] {
            let first = self.peers.front(list);
            if let Some(id) = first.filter(|id| self.peers.deadline(*id).is_none_or(|before| before > at)) {
                self.peers.set_deadline(id, Some(at));
            }
        }
    }

    fn begin(&mut self, id: Id, now: Instant) -> Option<Action<P, C>> {
        self.leave_line(id);
        let to = self.peers.key(id)?;
        let peer = self.peers.get_mut(id)?;
        let State::Wanted(attempt, _) = peer.state else { return None };
        self.number += 1;
        self.attempts += 1;
        let kind = kind(peer);
        self.doubtful += u32::from(kind == Kind::Doubtful);
        (peer.attempt, peer.number) = (Some(kind), self.number);
        peer.state = State::Opening { attempt, since: now, until: None };
        self.peers.set_deadline(id, Some(now + self.config.asked_patience));
        Some(Action::Open(Connection { peer: to, number: self.number }, attempt.service))
    }
}

fn kind<C>(peer: &Peer<C>) -> Kind {
    if peer.failures == 0 { Kind::Fresh } else { Kind::Doubtful }
}

/// Where it waits for a place.
fn line<C>(peer: &Peer<C>) -> usize {
    match kind(peer) {
        Kind::Fresh => FRESH,
        Kind::Doubtful => DOUBTFUL,
    }
}
