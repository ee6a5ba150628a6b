//! Connections that the link opens, to send on.
//!
//! ```text
//!       large packet, or some small ones          open                 CM: established
//!  Off ----------------------------------> Wanted ----> Opening -----------------------> Up
//!   ^                                        ^             |                             | |
//!   |                another service, stale  +-------------+                             | |
//!   |                                                      | refused, silent, no memory  | |
//!   |                        its time has come             v                             | |
//!   +--------------------------------------------------- Resting <--- again soon --------|-|
//!   |                                                                                    | |
//!   +--------------------------- Closing <--- idle, makes room, first failure -----------+-+
//! ```
//!
//! While there is no connection packets that fit go as datagrams. A larger one waits while a connection is made, with a bounded number of
//! others; where none is to be had its sender is told how much a datagram carries. Nobody waits in a call, and no neighbour takes
//! what others need: a connection that gets no room is not opened, and the one that was not used for longest makes room.

mod due;
mod end;
mod interface;
mod peer;

use core::ops::DerefMut;

pub use interface::{Action, Channel, OpenError, OutgoingConfig, Submitted, TooBig};
pub use peer::Peer;
use peer::{After, Attempt, Kind, State};

use super::Connection;
use super::Service;
use super::waiting::{Queue, Waiting, WaitingSlot};
use crate::addr::LinkAddr;
use crate::backoff::Jitter;
use crate::table::{Id, Slot, Table};
use crate::time::Instant;

/// Room for one neighbour.
pub type OutgoingSlot<C> = Slot<LinkAddr, Peer<C>, LISTS>;

const LISTS: usize = 6;
/// Neighbours with an attempt to begin or a connection to close.
const DUE: usize = 0;
/// Neighbours whose packets wait no longer.
const LEAVING: usize = 1;
/// Connections, the one that was not used for longest first.
const RECENT: usize = 2;
/// Neighbours that may be forgotten, the one that was asked about longest ago first.
const SPARE: usize = 3;
/// Neighbours that wait for a place to be asked, the one that was needed longest ago first.
const FRESH: usize = 4;
/// The same of those with whom the last attempt failed.
const DOUBTFUL: usize = 5;

/// The machine: neighbours in slots of its creator's, packets in others.
#[derive(Debug)]
pub struct Outgoing<P, C, S, W> {
    config: OutgoingConfig,
    peers: Table<LinkAddr, Peer<C>, S, LISTS>,
    waiting: Waiting<P, W>,
    jitter: Jitter,
    /// Connections that are open, being opened or being closed.
    held: u32,
    /// Of them those that are being closed.
    closing: u32,
    /// Attempts that are out, or whose end is waited for.
    attempts: u32,
    /// Of them to neighbours with whom the last one failed.
    doubtful: u32,
    number: u64,
    runs: bool,
}

impl<P, C, S, W> Outgoing<P, C, S, W>
where
    C: Channel,
    S: DerefMut<Target = [OutgoingSlot<C>]>,
    W: DerefMut<Target = [WaitingSlot<P>]>,
{
    /// A link that is stopped.
    pub fn new(config: OutgoingConfig, peers: S, waiting: W, seed: u64) -> Self {
        Self {
            config,
            peers: Table::new(peers, seed),
            waiting: Waiting::new(waiting),
            jitter: Jitter::new(seed),
            held: 0,
            closing: 0,
            attempts: 0,
            doubtful: 0,
            number: 0,
            runs: false,
        }
    }

    /// The link runs.
    pub fn run(&mut self) {
        self.runs = true;
    }

    /// Connections that are open, being opened or being closed.
    pub const fn held(&self) -> u32 {
        self.held
    }

    /// A packet of `len` octets goes to a neighbour whose flag says that it takes connections, and to which a datagram carries so many; both with
    /// the IPoIB header.
    pub fn submit(
        &mut self,
        to: &LinkAddr,
        (packet, len, datagram): (P, u32, u32),
        now: Instant,
    ) -> Submitted<P, C> {
        let fits = len <= datagram;
        let without_connection = |packet| {
            if fits { Submitted::Datagram(packet) } else { Submitted::TooBig(packet, TooBig(datagram)) }
        };
        let Some(id) = self.peers.find(&to.without_flags()).or_else(|| self.enter(to)) else {
            return without_connection(packet);
        };
        self.rank(id);
        // The last of those that waited may be on its way to the queue: it is until the next one is asked for.
        let leaving = self.peers.is_listed(LEAVING, id);
        let Some(peer) = self.peers.get(id) else { return without_connection(packet) };
        let wanted = match &peer.state {
            // What waited for the connection goes first. Not many join those: what waits has to end, however fast more comes.
            State::Up { longest, .. } if len <= *longest && (leaving || !peer.waiting.is_empty()) => {
                if peer.joined >= self.config.waiting {
                    return Submitted::Full(packet);
                }
                let submitted = self.wait(id, packet, len);
                if let (Submitted::Waits, Some(peer)) = (&submitted, self.peers.get_mut(id)) {
                    peer.joined += 1;
                }
                return submitted;
            }
            State::Up { channel, longest, .. } if len <= *longest => {
                return Submitted::Connected(packet, channel.clone(), *longest);
            }
            State::Up { longest, .. } if !fits => {
                return Submitted::TooBig(packet, TooBig((*longest).max(datagram)));
            }
            state => matches!(state, State::Off),
        };
        if wanted && (!fits || self.is_eager(id, now)) {
            self.want(id, now);
        }
        if fits || !self.comes(id, now) {
            return without_connection(packet);
        }
        self.wait(id, packet, len)
    }

    /// A neighbour that was not known; `None` if there is no room.
    fn enter(&mut self, to: &LinkAddr) -> Option<Id> {
        if !self.runs || !to.is_port() {
            return None;
        }
        let peer = || Peer {
            state: State::Off,
            number: 0,
            service: None,
            failures: 0,
            small: (0, Instant::ZERO),
            attempt: None,
            waiting: Queue::default(),
            joined: 0,
            dropped: false,
        };
        if self.peers.len() == self.peers.capacity() {
            let spare = self.peers.pop_front(SPARE)?;
            self.peers.remove(spare);
        }
        let id = self.peers.insert(to.without_flags(), peer())?;
        self.rank(id);
        Some(id)
    }

    /// One more small packet: as many as a connection is worth?
    fn is_eager(&mut self, id: Id, now: Instant) -> bool {
        let (eager, within) = (self.config.eager, self.config.eager_within);
        let Some(peer) = self.peers.get_mut(id) else { return false };
        let (packets, since) = peer.small;
        peer.small =
            if packets == 0 || now - since > within { (1, now) } else { (packets.saturating_add(1), since) };
        peer.small.0 >= eager
    }

    /// Begins to make a connection, if there is room for one.
    fn want(&mut self, id: Id, now: Instant) {
        if !self.runs || self.held >= self.config.most {
            self.make_room(now);
            return;
        }
        let Some(peer) = self.peers.get_mut(id) else { return };
        let service = peer.service.unwrap_or(Service::Legacy);
        peer.small = (0, now);
        peer.state = State::Wanted(Attempt { service, other_tried: false, stale: 0 }, now);
        self.held += 1;
        self.due(id);
    }

    /// The connection that was not used for longest goes, if it was not used of late. Whoever wants its place asks again. One at a time: nobody
    /// goes while a place is about to come free.
    fn make_room(&mut self, now: Instant) {
        if self.closing != 0 {
            return;
        }
        let Some(id) = self.peers.front(RECENT) else { return };
        if let Some(State::Up { used, .. }) = self.peers.get(id).map(|peer| &peer.state)
            && now - *used >= self.config.busy
        {
            self.close(id, After::Off, now);
        }
    }

    /// Is a connection made, or about to be?
    fn comes(&self, id: Id, now: Instant) -> bool {
        match self.peers.get(id).map(|peer| &peer.state) {
            Some(State::Wanted(_, since)) => now - *since < self.config.patience,
            Some(State::Closing(After::Off, since)) => now - *since < self.config.patience,
            Some(State::Opening { since, .. }) => now - *since < self.config.asked_patience,
            _ => false,
        }
    }

    fn wait(&mut self, id: Id, packet: P, len: u32) -> Submitted<P, C> {
        let Some(peer) = self.peers.get_mut(id) else { return Submitted::Full(packet) };
        let queue = &mut peer.waiting;
        if queue.packets >= self.config.waiting || queue.bytes.saturating_add(len) > self.config.waiting_bytes
        {
            return Submitted::Full(packet);
        }
        match self.waiting.push(queue, packet, len) {
            Ok(()) => Submitted::Waits,
            Err(packet) => Submitted::Full(packet),
        }
    }

    /// A connection is there, and the neighbour takes `longest` octets. False if nobody wants it any more: its end was asked for
    /// ([`Action::Close`]).
    #[must_use]
    pub fn opened(&mut self, connection: Connection, channel: C, longest: u32, now: Instant) -> bool {
        let Some((id, attempt)) = self.attempt(connection) else { return false };
        self.attempt_is_over(id);
        let Some(peer) = self.peers.get_mut(id) else { return false };
        peer.service = Some(attempt.service);
        peer.joined = 0;
        peer.state = State::Up { channel, longest, since: now, used: now };
        self.peers.push_back(RECENT, id);
        self.peers.set_deadline(id, Some(now + self.config.look));
        self.leave(id);
        true
    }

    /// An attempt failed, and nothing of it is left.
    pub fn failed(&mut self, connection: Connection, error: OpenError, now: Instant) {
        let Some((id, attempt)) = self.attempt(connection) else {
            // Its end was asked for meanwhile.
            self.closed(connection, now);
            return;
        };
        self.attempt_is_over(id);
        let again = match error {
            OpenError::NoService if !attempt.other_tried => {
                Some((Attempt { service: attempt.service.other(), other_tried: true, ..attempt }, now))
            }
            OpenError::Stale if attempt.stale < self.config.stale_times => {
                Some((Attempt { stale: attempt.stale + 1, ..attempt }, now + self.config.stale))
            }
            _ => None,
        };
        if let (Some((attempt, at)), Some(peer)) = (again, self.peers.get_mut(id)) {
            peer.state = State::Wanted(attempt, at);
            self.peers.set_deadline(id, (at > now).then_some(at));
            if at <= now {
                self.due(id);
            }
            return;
        }
        self.held -= 1;
        self.fails(id, false);
        self.rest(id, now);
    }

    /// The attempt that is out, if it is this one.
    fn attempt(&self, connection: Connection) -> Option<(Id, Attempt)> {
        let id = self.known(connection)?;
        match self.peers.get(id)?.state {
            State::Opening { attempt, .. } => Some((id, attempt)),
            _ => None,
        }
    }

    fn attempt_is_over(&mut self, id: Id) {
        if let Some(kind) = self.peers.get_mut(id).and_then(|peer| peer.attempt.take()) {
            self.attempts -= 1;
            self.doubtful -= u32::from(kind == Kind::Doubtful);
        }
    }

    fn known(&self, connection: Connection) -> Option<Id> {
        let id = self.peers.find(&connection.peer)?;
        (self.peers.get(id)?.number == connection.number).then_some(id)
    }

    fn due(&mut self, id: Id) {
        self.peers.push_back(DUE, id);
        self.rank(id);
    }

    /// What waits for this neighbour waits no longer.
    fn leave(&mut self, id: Id) {
        if self.peers.get(id).is_some_and(|peer| !peer.waiting.is_empty()) {
            self.peers.push_back(LEAVING, id);
        }
        self.rank(id);
    }

    /// A neighbour of which nothing is out can be forgotten, the others before it.
    fn rank(&mut self, id: Id) {
        let Some(peer) = self.peers.get(id) else { return };
        if peer.waiting.is_empty() && matches!(peer.state, State::Off | State::Resting) {
            self.peers.push_back(SPARE, id);
        } else {
            self.peers.unlist(SPARE, id);
        }
    }

    /// Whether packets wait, or neighbours have connections or are to have some.
    pub fn is_idle(&self) -> bool {
        self.held == 0 && self.peers.front(LEAVING).is_none()
    }

    /// When [`Self::next_connection`] has something to do again, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.peers.next_deadline()
    }
}

#[cfg(test)]
mod tests;
