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
//! Anybody on the subnet can ask for a connection, so what one neighbour can have is bounded, and what all can have together.

use core::ops::DerefMut;
use core::time::Duration;

use super::Connection;
use crate::addr::LinkAddr;
use crate::table::{Id, Slot, Table};
use crate::time::Instant;

/// Room for one neighbour.
pub type IncomingSlot = Slot<LinkAddr, Peer, LISTS>;

const LISTS: usize = 2;
/// Neighbours with a connection that is to be dismissed.
const DUE: usize = 0;
/// Neighbours, the one that sent nothing for longest first.
const RECENT: usize = 1;
/// Neighbours that are looked at for one with a connection to lose.
const LOOKS: usize = 16;
/// Connections of one neighbour: two that carry something, and one that drains.
const EACH: usize = 3;
const LIVE: usize = 2;

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct IncomingConfig {
    /// Connections, those that drain among them.
    pub most: u32,
    /// Those of one port, in whatever names: who asks says himself which queue pair he has.
    pub each_port: u32,
    /// A neighbour that opened a connection and did not go on with it has so long.
    pub offer: Duration,
    /// Where there is no room, one that was not used for so long is dismissed.
    pub idle: Duration,
}

impl Default for IncomingConfig {
    fn default() -> Self {
        Self { most: 512, each_port: 8, offer: Duration::from_secs(30), idle: Duration::from_secs(10) }
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

/// End this connection: its queue pair goes to the error state, and when it holds no receive any more, or after a while, say that it is
/// [drained](Incoming::drained).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dismissed(pub Connection);

/// What a neighbour has opened.
#[derive(Debug, Default)]
pub struct Peer {
    connections: [Option<Accepted>; EACH],
}

#[derive(Clone, Copy, Debug)]
struct Accepted {
    number: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Offered { until: Instant },
    Up { used: Instant },
    Draining { told: bool },
}

impl Accepted {
    fn is_live(&self) -> bool {
        !matches!(self.state, State::Draining { .. })
    }
}

/// The machine: neighbours in slots of its creator's.
#[derive(Debug)]
pub struct Incoming<S> {
    config: IncomingConfig,
    peers: Table<LinkAddr, Peer, S, LISTS>,
    held: u32,
    number: u64,
    runs: bool,
}

impl<S: DerefMut<Target = [IncomingSlot]>> Incoming<S> {
    /// A link that is stopped.
    pub fn new(config: IncomingConfig, peers: S, seed: u64) -> Self {
        Self { config, peers: Table::new(peers, seed), held: 0, number: 0, runs: false }
    }

    /// The link runs.
    pub fn run(&mut self) {
        self.runs = true;
    }

    /// Connections, those that drain among them.
    pub const fn held(&self) -> u32 {
        self.held
    }

    /// A neighbour asks for a connection; what it says of itself was checked ([`PrivateData`](super::PrivateData)). What is accepted counts until it is
    /// [drained](Self::drained).
    ///
    /// # Errors
    ///
    /// Why it gets none. Does not block: a CM handler may ask.
    pub fn requested(&mut self, peer: &LinkAddr, now: Instant) -> Result<Connection, Refusal> {
        let peer = peer.without_flags();
        if !self.runs || !peer.is_port() {
            return Err(Refusal::NotHere);
        }
        if self.of_port(&peer).0 >= self.config.each_port {
            self.make_room_of_port(&peer, now);
            return Err(Refusal::NoRoom);
        }
        if self.held >= self.config.most {
            self.make_room(now);
            return Err(Refusal::NoRoom);
        }
        let known = self.peers.find(&peer);
        let id = known.or_else(|| self.peers.insert(peer, Peer::default())).ok_or(Refusal::NoRoom)?;
        let entry = self.peers.get_mut(id).ok_or(Refusal::NoRoom)?;
        let place = entry.connections.iter().position(Option::is_none).ok_or(Refusal::NoRoom)?;
        self.number += 1;
        let state = State::Offered { until: now + self.config.offer };
        entry.connections[place] = Some(Accepted { number: self.number, state });
        self.held += 1;
        let newest = self.number;
        if entry.connections.iter().flatten().filter(|one| one.is_live()).count() > LIVE {
            // Anybody can ask in a neighbour's name: what is only offered ends nothing that stands.
            self.dismiss_oldest(id, |one| one.number != newest && matches!(one.state, State::Offered { .. }));
        }
        self.peers.push_back(RECENT, id);
        self.arm(id);
        Ok(Connection { peer, number: self.number })
    }

    /// Connections of a neighbour's port, in whatever names, and the name among them that has had the oldest one that is live.
    fn of_port(&self, peer: &LinkAddr) -> (u32, Option<Id>) {
        let (mut count, mut oldest) = (0, None);
        let mut next = self.peers.siblings(peer);
        while let Some(id) = next {
            next = self.peers.next_sibling(id);
            let of_it = self.peers.key(id).is_some_and(|key| key.gid() == peer.gid());
            let Some(entry) = self.peers.get(id).filter(|_| of_it) else { continue };
            count += entry.connections.iter().flatten().count() as u32;
            let live = entry.connections.iter().flatten().filter(|one| one.is_live());
            let number = live.map(|one| one.number).min();
            oldest =
                [oldest, number.map(|number| (number, id))].into_iter().flatten().min_by_key(|(n, _)| *n);
        }
        (count, oldest.map(|(_, id)| id))
    }

    /// The neighbour that sent nothing for longest loses a connection.
    fn make_room(&mut self, now: Instant) {
        for _ in 0..LOOKS {
            let Some(id) = self.peers.front(RECENT) else { return };
            if self.make_room_of(id, now) {
                return;
            }
            // None of its connections stands, so it has none to lose.
            self.peers.push_back(RECENT, id);
        }
    }

    fn make_room_of_port(&mut self, peer: &LinkAddr, now: Instant) {
        if let Some(id) = self.of_port(peer).1 {
            self.make_room_of(id, now);
        }
    }

    /// A neighbour that sent nothing for long loses its oldest connection. False if none of them stands.
    fn make_room_of(&mut self, id: Id, now: Instant) -> bool {
        let Some(entry) = self.peers.get(id) else { return false };
        let used = entry.connections.iter().flatten().filter_map(|one| match one.state {
            State::Up { used } => Some(used),
            State::Offered { .. } | State::Draining { .. } => None,
        });
        let Some(used) = used.max() else { return false };
        if now - used >= self.config.idle {
            self.dismiss_oldest(id, |one| matches!(one.state, State::Up { .. }));
        }
        true
    }

    fn dismiss_oldest(&mut self, id: Id, of: impl Fn(&Accepted) -> bool) {
        let Some(entry) = self.peers.get_mut(id) else { return };
        let live = entry.connections.iter_mut().flatten().filter(|one| of(one));
        if let Some(oldest) = live.min_by_key(|one| one.number) {
            oldest.state = State::Draining { told: false };
            self.peers.push_back(DUE, id);
        }
    }

    /// The connection is there. It supersedes the neighbour's oldest one, if that makes one too many.
    pub fn established(&mut self, connection: Connection, now: Instant) {
        self.change(connection, |one| {
            if let State::Offered { .. } = one.state {
                one.state = State::Up { used: now };
            }
        });
        let stands = |one: &Accepted| matches!(one.state, State::Up { .. });
        let Some(id) = self.peers.find(&connection.peer) else { return };
        let standing = self
            .peers
            .get(id)
            .map_or(0, |entry| entry.connections.iter().flatten().filter(|one| stands(one)).count());
        if standing > LIVE {
            self.dismiss_oldest(id, stands);
        }
    }

    /// A message came on it.
    pub fn used(&mut self, connection: Connection, now: Instant) {
        self.change(connection, |one| {
            if one.is_live() {
                one.state = State::Up { used: now };
            }
        });
        if let Some(id) = self.peers.find(&connection.peer) {
            self.peers.push_back(RECENT, id);
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
        let Some(entry) = self.peers.get_mut(id) else { return };
        if let Some(one) = entry.connections.iter_mut().flatten().find(|one| one.number == connection.number)
        {
            change(one);
        }
        self.arm(id);
    }

    /// Nothing of it is left.
    pub fn drained(&mut self, connection: Connection) {
        let Some(id) = self.peers.find(&connection.peer) else { return };
        let Some(entry) = self.peers.get_mut(id) else { return };
        let is_it = |place: &&mut Option<Accepted>| place.is_some_and(|one| one.number == connection.number);
        if let Some(place) = entry.connections.iter_mut().find(is_it) {
            *place = None;
            self.held -= 1;
        }
        if entry.connections.iter().all(Option::is_none) {
            self.peers.remove(id);
        }
    }

    /// The link stops: every connection is dismissed, and nobody has to wait for that.
    pub fn stop(&mut self) {
        self.runs = false;
        let mut from = 0;
        while let Some((place, id)) = self.peers.next_from(from) {
            let Some(entry) = self.peers.get_mut(id) else { return };
            for one in entry.connections.iter_mut().flatten().filter(|one| one.is_live()) {
                one.state = State::Draining { told: false };
            }
            self.peers.push_back(DUE, id);
            self.arm(id);
            from = place + 1;
        }
    }

    /// When an offer ends.
    fn arm(&mut self, id: Id) {
        let Some(entry) = self.peers.get(id) else { return };
        let ends = entry.connections.iter().flatten().filter_map(|one| match one.state {
            State::Offered { until } => Some(until),
            State::Up { .. } | State::Draining { .. } => None,
        });
        let first = ends.min();
        self.peers.set_deadline(id, first);
    }

    /// When [`Self::poll_action`] has something to do again, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.peers.next_deadline()
    }

    /// The next connection to end, if there is one.
    pub fn poll_action(&mut self, now: Instant) -> Option<Dismissed> {
        while let Some(id) = self.peers.pop_due(now) {
            let Some(entry) = self.peers.get_mut(id) else { continue };
            for one in entry.connections.iter_mut().flatten() {
                if matches!(one.state, State::Offered { until } if until <= now) {
                    one.state = State::Draining { told: false };
                }
            }
            self.peers.push_back(DUE, id);
            self.arm(id);
        }
        loop {
            let id = self.peers.front(DUE)?;
            let peer = self.peers.key(id)?;
            let entry = self.peers.get_mut(id)?;
            let untold = |one: &&mut Accepted| one.state == State::Draining { told: false };
            if let Some(one) = entry.connections.iter_mut().flatten().find(untold) {
                one.state = State::Draining { told: true };
                return Some(Dismissed(Connection { peer, number: one.number }));
            }
            self.peers.unlist(DUE, id);
        }
    }
}

#[cfg(test)]
mod tests;
