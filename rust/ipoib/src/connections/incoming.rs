//! Connections that neighbours opened, to send to this link.
//!
//! ```text
//! requested --> Offered ------------> Up
//!                  |   established    |   ended, superseded, makes room, link stops
//!                  +---> Draining <---+
//!                            | drained
//!                            v
//!                          gone
//! ```
//!
//! Anybody on the subnet can ask for a connection, and with anybody's identity, so what one neighbour can have is bounded, what one port can have, and what
//! all can have together ([`room`]).

mod peer;
mod room;
mod tally;

use core::ops::DerefMut;
use core::time::Duration;

use super::Connection;
use crate::addr::LinkAddr;
use crate::table::{Id, Slot, Table};
use crate::time::Instant;

pub use peer::Peer;
use peer::{Accepted, Look, State, Up};
use room::Asker;
pub use room::LidCheck;
pub use tally::PortSlot;
use tally::Tally;

/// Room for one neighbour.
pub type IncomingSlot = Slot<LinkAddr, Peer, LISTS>;

const LISTS: usize = 2;
/// Neighbours with a connection that is to be dismissed, or looked at.
const DUE: usize = 0;
/// Neighbours, the one that was found in use longest ago first.
const RECENT: usize = 1;
/// Neighbours that are looked at for one with a connection to lose, and connections that may be about to lose their place.
const LOOKS: usize = 16;
/// Connections of one neighbour: two that carry something, and two that drain, or take the place of those.
const EACH: usize = 4;
const LIVE: usize = 2;
/// What was only offered gives way to whoever asks after so long: the opener has had two seconds to take it up.
const STANDS_WITHIN: Duration = Duration::from_secs(2);

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct IncomingConfig {
    /// Connections, those that drain among them.
    pub most: u32,
    /// A neighbour that opened a connection and did not go on with it has so long.
    pub offer: Duration,
    /// Where there is no room, one on which nothing has come for so long is dismissed.
    pub idle: Duration,
}

impl Default for IncomingConfig {
    fn default() -> Self {
        Self { most: 1_536, offer: Duration::from_secs(30), idle: Duration::from_secs(10) }
    }
}

/// Why a connection is not accepted. Its opener gets a REJ with this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room (REJ 3).
    NoRoom,
    /// The link is stopped, or the address is none of a port (REJ 28).
    NotHere,
}

/// What the link does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingAction {
    /// End this connection: its queue pair goes to the error state, and when it holds no receive any more, or after a while, say that it is
    /// [drained](Incoming::drained).
    Dismiss(Connection),
    /// See how far the neighbour has sent on it: [`Incoming::looked`].
    Look(Connection),
}

/// The machine: neighbours in slots of its creator's.
#[derive(Debug)]
pub struct Incoming<S, P> {
    config: IncomingConfig,
    peers: Table<LinkAddr, Peer, S, LISTS>,
    tally: Tally<P>,
    /// Where the next look for one that can go begins.
    next_look: usize,
    number: u64,
    runs: bool,
}

impl<S: DerefMut<Target = [IncomingSlot]>, P: DerefMut<Target = [PortSlot]>> Incoming<S, P> {
    /// A link that is stopped. There are to be as many places for neighbours and for ports as there may be connections.
    pub fn new(config: IncomingConfig, peers: S, ports: P, seed: u64) -> Self {
        let (peers, tally) = (Table::new(peers, seed), Tally::new(ports, seed));
        Self { config, peers, tally, next_look: 0, number: 0, runs: false }
    }

    /// Changes what a neighbour has. The only place where that changes: the counts follow.
    fn edit<R>(&mut self, id: Id, change: impl FnOnce(&mut Peer) -> R) -> Option<R> {
        let identity = self.peers.key(id)?;
        let peer = self.peers.get_mut(id)?;
        peer.all().for_each(|one| self.tally.take(id, identity, one));
        let changed = change(peer);
        peer.all().for_each(|one| self.tally.add(id, identity, one));
        Some(changed)
    }

    /// The link runs.
    pub fn run(&mut self) {
        self.runs = true;
    }

    /// Connections, those that drain among them.
    pub fn held(&self) -> u32 {
        self.tally.all().held
    }

    /// A neighbour asks for a connection, and wants acknowledgements at the port with this base LID; what it says of itself was checked
    /// ([`PrivateData`](super::PrivateData)), and `check` says what speaks for an identity and a LID. What is accepted counts until it is
    /// [drained](Self::drained).
    ///
    /// # Errors
    ///
    /// Why it gets none. Does not block: a CM handler may ask.
    pub fn requested(
        &mut self,
        peer: &LinkAddr,
        lid: u16,
        check: impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) -> Result<Connection, Refusal> {
        let peer = peer.without_flags();
        if !self.runs || !peer.is_port() {
            return Err(Refusal::NotHere);
        }
        let asker = Asker { peer, lid, check: check(&peer, lid) };
        if !self.has_room(&asker, &check, now) {
            return Err(Refusal::NoRoom);
        }
        let known = self.peers.find(&peer);
        let id = known.or_else(|| self.peers.insert(peer, Peer::default())).ok_or(Refusal::NoRoom)?;
        let place = self.place(id, &asker, &check, now).ok_or(Refusal::NoRoom)?;
        self.number += 1;
        let number = self.number;
        let state = State::Offered { since: now };
        let one = Accepted { number, lid, check: asker.check, state };
        self.edit(id, |entry| entry.connections[place] = Some(one)).ok_or(Refusal::NoRoom)?;
        let entry = self.peers.get(id).ok_or(Refusal::NoRoom)?;
        if entry.all().filter(|one| one.is_live()).count() > LIVE {
            // Anybody can ask with a neighbour's identity: what is only offered ends nothing that stands.
            self.dismiss_oldest(id, |one| one.number != number && matches!(one.state, State::Offered { .. }));
        }
        self.peers.push_back(RECENT, id);
        self.arm(id);
        Ok(Connection { peer, number })
    }

    /// The connection is there. If that makes one too many, one of those before it goes.
    pub fn established(&mut self, connection: Connection, now: Instant) {
        let mut stands = None;
        self.change(connection, |one| {
            if let State::Offered { .. } = one.state {
                one.state = State::Up(Up::default());
                stands = Some(*one);
            }
        });
        if let (Some(id), Some(newest)) = (self.peers.find(&connection.peer), stands) {
            self.supersede(id, &newest, now);
        }
    }

    /// How far the neighbour has sent on it: the number of the packet that is due, or `None` if the adapter does not say.
    pub fn looked(&mut self, connection: Connection, sent: Option<u32>, now: Instant) {
        let Some(id) = self.peers.find(&connection.peer) else { return };
        let idle = self.config.idle;
        let (mut unused, mut used) = (None, false);
        self.change(connection, |one| {
            let State::Up(up) = &mut one.state else { return };
            let before = up.sent;
            if up.looked(sent, idle, now) {
                unused = Some(*one);
            } else {
                used = up.sent != before;
            }
        });
        let standing = self.peers.get(id).map_or(0, Peer::standing);
        match unused {
            Some(one) if standing > LIVE || one.gives_way() && self.is_short_of(id, &one) => {
                self.dismiss_oldest(id, |other| other.number == one.number);
            }
            Some(one) => self.spare(id, one.number),
            None if used => self.peers.push_back(RECENT, id),
            None => {}
        }
    }

    /// The neighbour closed it, or its queue pair failed.
    pub fn ended(&mut self, connection: Connection) {
        self.change(connection, |one| {
            if one.is_live() {
                one.state = State::Draining { told: false };
            }
        });
        if let Some(id) = self.peers.find(&connection.peer) {
            self.peers.push_back(DUE, id);
        }
    }

    fn change(&mut self, connection: Connection, change: impl FnOnce(&mut Accepted)) {
        let Some(id) = self.peers.find(&connection.peer) else { return };
        self.edit(id, |entry| entry.all_mut().find(|one| one.number == connection.number).map(change));
        self.arm(id);
    }

    /// Nothing of it is left.
    pub fn drained(&mut self, connection: Connection) {
        let Some(id) = self.peers.find(&connection.peer) else { return };
        let is_it = |place: &&mut Option<Accepted>| place.is_some_and(|one| one.number == connection.number);
        let is_empty = self.edit(id, |entry| {
            if let Some(place) = entry.connections.iter_mut().find(is_it) {
                *place = None;
            }
            entry.connections.iter().all(Option::is_none)
        });
        if is_empty == Some(true) {
            self.peers.remove(id);
        }
    }

    /// The link stops: every connection is dismissed, and nobody has to wait for that.
    pub fn stop(&mut self) {
        self.runs = false;
        let mut from = 0;
        while let Some((place, id)) = self.peers.next_from(from) {
            self.edit(id, |entry| {
                for one in entry.all_mut().filter(|one| one.is_live()) {
                    one.state = State::Draining { told: false };
                }
            });
            self.peers.push_back(DUE, id);
            self.arm(id);
            from = place + 1;
        }
    }

    /// When an offer ends, or a connection is looked at.
    fn arm(&mut self, id: Id) {
        let Some(entry) = self.peers.get(id) else { return };
        let offer = self.config.offer;
        let first = entry.all().filter_map(|one| one.deadline(offer)).min();
        self.peers.set_deadline(id, first);
    }

    /// When [`Self::poll_action`] has something to do again, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.peers.next_deadline()
    }

    /// The next thing to do, if there is one.
    pub fn poll_action(&mut self, now: Instant) -> Option<IncomingAction> {
        while let Some(id) = self.peers.pop_due(now) {
            let offer = self.config.offer;
            self.edit(id, |entry| {
                for one in entry.all_mut().filter(|one| one.is_stale(offer, now)) {
                    one.state = State::Draining { told: false };
                }
            });
            self.peers.push_back(DUE, id);
        }
        loop {
            let id = self.peers.front(DUE)?;
            let peer = self.peers.key(id)?;
            let action = self.edit(id, |entry| next_action(entry, peer, now))?;
            if action.is_some() {
                return action;
            }
            self.peers.unlist(DUE, id);
            self.arm(id);
        }
    }
}

/// What the link does next about a neighbour.
fn next_action(entry: &mut Peer, peer: LinkAddr, now: Instant) -> Option<IncomingAction> {
    for one in entry.all_mut() {
        let connection = Connection { peer, number: one.number };
        match &mut one.state {
            State::Draining { told } if !*told => {
                *told = true;
                return Some(IncomingAction::Dismiss(connection));
            }
            State::Up(Up { look, .. }) => {
                if let Look::Due { at, again } = *look
                    && at <= now
                {
                    *look = Look::Out { again };
                    return Some(IncomingAction::Look(connection));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
