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
//! Anybody on the subnet can ask for a connection, and in anybody's name, so what one neighbour can have is bounded, and what all can have
//! together. What is in use gives way to nobody: where there is no room, connections are looked at, and those on which nothing has come for a
//! while are dismissed. Nothing but the number of the packet that is due says whether something comes: they all share a receive queue.

use core::ops::DerefMut;
use core::time::Duration;

use super::Connection;
use crate::addr::LinkAddr;
use crate::table::{Id, Slot, Table};
use crate::time::Instant;

/// Room for one neighbour.
pub type IncomingSlot = Slot<LinkAddr, Peer, LISTS>;

const LISTS: usize = 2;
/// Neighbours with a connection that is to be dismissed, or looked at.
const DUE: usize = 0;
/// Neighbours, the one that was found in use longest ago first.
const RECENT: usize = 1;
/// Neighbours that are looked at for one with a connection to lose.
const LOOKS: usize = 16;
/// Connections of one neighbour: two that carry something, and one that drains, or takes the place of one of them.
const EACH: usize = 3;
const LIVE: usize = 2;
/// What was only offered gives way to whoever asks after so long: the opener has had two seconds to take it up.
const STANDS_WITHIN: Duration = Duration::from_secs(2);

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct IncomingConfig {
    /// Connections, those that drain among them.
    pub most: u32,
    /// Those of one port, in whatever names: who asks says himself which queue pair he has.
    pub each_port: u32,
    /// A neighbour that opened a connection and did not go on with it has so long.
    pub offer: Duration,
    /// Where there is no room, one on which nothing has come for so long is dismissed.
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

/// What the link does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingAction {
    /// End this connection: its queue pair goes to the error state, and when it holds no receive any more, or after a while, say that it is
    /// [drained](Incoming::drained).
    Dismiss(Connection),
    /// See how far the neighbour has sent on it: [`Incoming::looked`].
    Look(Connection),
}

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
    Offered { since: Instant },
    Up(Up),
    Draining { told: bool },
}

/// One that stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Up {
    /// How far the neighbour had sent, and when that was first seen.
    sent: Option<(u32, Instant)>,
    look: Look,
    /// It goes if it is not in use, whatever else its neighbour has.
    gives_way: bool,
}

/// Whether one that stands is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Look {
    #[default]
    No,
    /// From then on; `again` if something had come on it since it was looked at before.
    Due { at: Instant, again: bool },
    /// The link does.
    Out { again: bool },
}

impl Accepted {
    fn is_live(&self) -> bool {
        !matches!(self.state, State::Draining { .. })
    }

    fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Whether the opener has had time to take it up, and has not.
    fn is_stale(&self, now: Instant) -> bool {
        matches!(self.state, State::Offered { since } if since + STANDS_WITHIN <= now)
    }

    /// When something is to be done about it.
    fn deadline(&self, offer: Duration) -> Option<Instant> {
        match self.state {
            State::Offered { since } => Some(since + offer),
            State::Up(Up { look: Look::Due { at, .. }, .. }) => Some(at),
            State::Up(_) | State::Draining { .. } => None,
        }
    }
}

impl Up {
    /// It is looked at, soon. False if it is being looked at.
    fn want_look(&mut self, gives_way: bool, now: Instant) -> bool {
        self.gives_way |= gives_way;
        let new = self.look == Look::No;
        if new {
            self.look = Look::Due { at: now, again: false };
        }
        new
    }

    /// The number of the packet that is due, if it could be seen. True if nothing has come for so long.
    fn looked(&mut self, sent: Option<u32>, idle: Duration, now: Instant) -> bool {
        let Look::Out { again } = self.look else {
            self.sent = self.sent.or(sent.map(|sent| (sent, now)));
            return false;
        };
        self.look = Look::No;
        match (self.sent, sent) {
            (Some((before, since)), Some(sent)) if before == sent => {
                if now - since >= idle {
                    return true;
                }
                self.look = Look::Due { at: since + idle, again };
            }
            (_, Some(sent)) => {
                self.sent = Some((sent, now));
                if !again {
                    // That may have been long ago.
                    self.look = Look::Due { at: now + idle, again: true };
                }
            }
            (_, None) => {}
        }
        self.gives_way &= self.look != Look::No;
        false
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
        if self.of_port(&peer) >= self.config.each_port {
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
        let Some(place) = entry.connections.iter().position(Option::is_none) else {
            self.make_room_of(id, now);
            return Err(Refusal::NoRoom);
        };
        self.number += 1;
        entry.connections[place] =
            Some(Accepted { number: self.number, state: State::Offered { since: now } });
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

    /// Connections of a neighbour's port, in whatever names.
    fn of_port(&self, peer: &LinkAddr) -> u32 {
        let mut count = 0;
        let mut next = self.peers.siblings(peer);
        while let Some(id) = next {
            next = self.peers.next_sibling(id);
            let of_it = self.peers.key(id).is_some_and(|key| key.gid() == peer.gid());
            let Some(entry) = self.peers.get(id).filter(|_| of_it) else { continue };
            count += entry.connections.iter().flatten().count() as u32;
        }
        count
    }

    /// Of the neighbours that were found in use longest ago, the first one with something to lose makes room if it can.
    fn make_room(&mut self, now: Instant) {
        for _ in 0..LOOKS {
            let Some(id) = self.peers.front(RECENT) else { return };
            self.peers.push_back(RECENT, id);
            if self.make_room_of(id, now) {
                return;
            }
        }
    }

    fn make_room_of_port(&mut self, peer: &LinkAddr, now: Instant) {
        let mut next = self.peers.siblings(peer);
        while let Some(id) = next {
            next = self.peers.next_sibling(id);
            let of_it = self.peers.key(id).is_some_and(|key| key.gid() == peer.gid());
            if of_it && self.make_room_of(id, now) {
                return;
            }
        }
    }

    /// A neighbour loses an offer that it does not take up; else what stands is looked at, and goes if it is not in use. False if it has
    /// neither, or is being looked at.
    fn make_room_of(&mut self, id: Id, now: Instant) -> bool {
        if self.dismiss_oldest(id, |one| one.is_stale(now)) {
            return true;
        }
        self.look_at(id, |_, up| up.want_look(true, now))
    }

    /// Of what a neighbour has standing it is said what is to be looked at. False if nothing is.
    fn look_at(&mut self, id: Id, want: impl Fn(u64, &mut Up) -> bool) -> bool {
        let Some(entry) = self.peers.get_mut(id) else { return false };
        let mut some = false;
        for one in entry.connections.iter_mut().flatten() {
            if let State::Up(up) = &mut one.state {
                some |= want(one.number, up);
            }
        }
        self.arm(id);
        some
    }

    fn dismiss_oldest(&mut self, id: Id, of: impl Fn(&Accepted) -> bool) -> bool {
        let Some(entry) = self.peers.get_mut(id) else { return false };
        let live = entry.connections.iter_mut().flatten().filter(|one| of(one));
        let Some(oldest) = live.min_by_key(|one| one.number) else { return false };
        oldest.state = State::Draining { told: false };
        self.peers.push_back(DUE, id);
        true
    }

    /// The connection is there. If that makes one too many, those before it are looked at: one that is not in use goes.
    pub fn established(&mut self, connection: Connection, now: Instant) {
        self.change(connection, |one| {
            if let State::Offered { .. } = one.state {
                one.state = State::Up(Up::default());
            }
        });
        let Some(id) = self.peers.find(&connection.peer) else { return };
        if self.standing(id) > LIVE {
            let is_other = |number| number != connection.number;
            self.look_at(id, |number, up| is_other(number) && up.want_look(false, now));
        }
    }

    fn standing(&self, id: Id) -> usize {
        let entry = self.peers.get(id);
        entry.map_or(0, |entry| entry.connections.iter().flatten().filter(|one| one.is_up()).count())
    }

    /// How far the neighbour has sent on it: the number of the packet that is due, or `None` if the adapter does not say.
    pub fn looked(&mut self, connection: Connection, sent: Option<u32>, now: Instant) {
        let Some(id) = self.peers.find(&connection.peer) else { return };
        let (standing, idle) = (self.standing(id), self.config.idle);
        let (mut goes, mut used) = (false, false);
        self.change(connection, |one| {
            let State::Up(up) = &mut one.state else { return };
            let before = up.sent;
            let unused = up.looked(sent, idle, now);
            used = up.sent != before;
            goes = unused && (standing > LIVE || up.gives_way);
            if goes {
                one.state = State::Draining { told: false };
            }
        });
        if goes {
            self.peers.push_back(DUE, id);
            // One is enough.
            self.look_at(id, |_, up| core::mem::take(&mut up.gives_way));
        } else if used {
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

    /// When an offer ends, or a connection is looked at.
    fn arm(&mut self, id: Id) {
        let Some(entry) = self.peers.get(id) else { return };
        let offer = self.config.offer;
        let first = entry.connections.iter().flatten().filter_map(|one| one.deadline(offer)).min();
        self.peers.set_deadline(id, first);
    }

    /// When [`Self::poll_action`] has something to do again, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.peers.next_deadline()
    }

    /// The next thing to do, if there is one.
    pub fn poll_action(&mut self, now: Instant) -> Option<IncomingAction> {
        while let Some(id) = self.peers.pop_due(now) {
            let Some(entry) = self.peers.get_mut(id) else { continue };
            for one in entry.connections.iter_mut().flatten() {
                match &mut one.state {
                    State::Offered { since } if *since + self.config.offer <= now => {
                        one.state = State::Draining { told: false };
                    }
                    _ => {}
                }
            }
            self.peers.push_back(DUE, id);
        }
        loop {
            let id = self.peers.front(DUE)?;
            let peer = self.peers.key(id)?;
            let entry = self.peers.get_mut(id)?;
            for one in entry.connections.iter_mut().flatten() {
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
            self.peers.unlist(DUE, id);
            self.arm(id);
        }
    }
}

#[cfg(test)]
mod tests;
