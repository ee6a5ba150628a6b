//! What is due: connections to open and to close, and packets that wait no longer.

use core::ops::DerefMut;

use super::peer::{After, Kind, State};
use super::{Action, Channel, DUE, LEAVING, Outgoing, OutgoingSlot, RECENT, TooBig, WaitingSlot};
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
        loop {
            let id = self.peers.pop_front(DUE)?;
            let to = self.peers.key(id)?;
            let peer = self.peers.get_mut(id)?;
            let kind = if peer.failures == 0 { Kind::Fresh } else { Kind::Doubtful };
            let full = self.attempts >= self.config.attempts
                || kind == Kind::Doubtful && self.doubtful >= self.config.doubtful;
            match peer.state {
                State::Wanted(..) if full || !may_open() => {
                    self.peers.set_deadline(id, Some(now + self.config.attempts_look));
                }
                State::Wanted(attempt, _) => {
                    self.number += 1;
                    self.attempts += 1;
                    self.doubtful += u32::from(kind == Kind::Doubtful);
                    peer.attempt = Some(kind);
                    peer.number = self.number;
                    peer.state = State::Opening { attempt, since: now, until: None };
                    self.peers.set_deadline(id, Some(now + self.config.asked_patience));
                    let number = self.number;
                    return Some(Action::Open(Connection { peer: to, number }, attempt.service));
                }
                State::Closing(..) => {
                    return Some(Action::Close(Connection { peer: to, number: peer.number }));
                }
                State::Off | State::Opening { .. } | State::Up { .. } | State::Resting => {}
            }
        }
    }
}
