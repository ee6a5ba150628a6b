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

use core::ops::DerefMut;
use core::time::Duration;

use super::waiting::{Queue, Waiting, WaitingSlot};
use super::{Connection, Service};
use crate::addr::LinkAddr;
use crate::backoff::{Backoff, Jitter};
use crate::paths::Validity;
use crate::table::{Id, Slot, Table};
use crate::time::Instant;

/// Room for one neighbour.
pub type OutgoingSlot<C> = Slot<LinkAddr, Peer<C>, LISTS>;

const LISTS: usize = 4;
/// Neighbours with an attempt to begin or a connection to close.
const DUE: usize = 0;
/// Neighbours whose packets wait no longer.
const LEAVING: usize = 1;
/// Connections, the one that was not used for longest first.
const RECENT: usize = 2;
/// Neighbours that may be forgotten, the one that was asked about longest ago first.
const SPARE: usize = 3;

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingConfig {
    /// Connections that are open, being opened or being closed, at most.
    pub most: u32,
    /// Attempts that are out at once, at most: `ibcm` makes 16 for the whole node, and each that is not answered keeps a place for seconds.
    pub attempts: u32,
    /// Of them to neighbours with whom the last one failed, at most: others do not wait for those that do not answer.
    pub doubtful: u32,
    /// After so long it is seen whether there is room for another one.
    pub attempts_look: Duration,
    /// Small packets to a neighbour within [`Self::eager_within`] for which a connection is opened.
    pub eager: u8,
    /// For [`Self::eager`].
    pub eager_within: Duration,
    /// Packets that wait for one connection, at most.
    pub waiting: u32,
    /// Octets that do.
    pub waiting_bytes: u32,
    /// How long packets wait for their neighbour's turn to be asked: then he is one without a connection, until he is.
    pub patience: Duration,
    /// A connection that carried nothing for so long is closed: before Linux does it, after 256 s.
    pub idle: Duration,
    /// One that carried something within this time makes no room for others.
    pub busy: Duration,
    /// A send that is not completed for so long is lost, and the connection with it.
    pub stuck: Duration,
    /// How often connections are looked at for both.
    pub look: Duration,
    /// Before an attempt that the neighbour took for one of before is repeated.
    pub stale: Duration,
    /// How often it is.
    pub stale_times: u8,
    /// After attempts that failed, and after connections that failed soon.
    pub retry: Backoff,
    /// A connection that lasted so long has failed for the first time.
    pub steady: Duration,
}

impl Default for OutgoingConfig {
    fn default() -> Self {
        Self {
            most: 1_024,
            attempts: 8,
            doubtful: 4,
            attempts_look: Duration::from_millis(100),
            eager: 4,
            eager_within: Duration::from_secs(1),
            waiting: 8,
            waiting_bytes: 256 << 10,
            patience: Duration::from_secs(1),
            idle: Duration::from_secs(240),
            busy: Duration::from_secs(10),
            stuck: Duration::from_secs(5),
            look: Duration::from_millis(2_500),
            stale: Duration::from_millis(10),
            stale_times: 2,
            retry: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) },
            steady: Duration::from_secs(10),
        }
    }
}

/// A connection as whoever sends has it: cheap to clone.
pub trait Channel: Clone {
    /// Whether it may still be sent on, and whether it was: the same of every clone.
    fn validity(&self) -> &Validity;

    /// Since when the oldest send that is not completed is out.
    fn owes_since(&self) -> Option<Instant>;
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Nobody listens there (REJ 8): perhaps at the other service.
    NoService,
    /// The neighbour takes it for one of before (REJ 10 and 30), and forgets that one.
    Stale,
    /// The neighbour refused, nobody answered, or the local side ran out of something.
    Failed,
}

impl OpenError {
    /// Of the reason in a REJ (InfiniBand Architecture volume 1, 12.6.7.2).
    pub const fn of_reject(reason: u16) -> Self {
        match reason {
            8 => Self::NoService,
            10 | 30 => Self::Stale,
            _ => Self::Failed,
        }
    }
}

/// A packet is longer than what goes to a neighbour: the most that does, in octets with the IPoIB header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig(pub u32);

/// What became of a packet at once.
#[derive(Debug, PartialEq, Eq)]
pub enum Submitted<P, C> {
    /// Send it on this connection, which carries so many octets at most: whoever sends may remember both as long as it holds.
    Connected(P, C, u32),
    /// Send it as a datagram.
    Datagram(P),
    /// It waits for a connection.
    Waits,
    /// It does not go: tell its sender.
    TooBig(P, TooBig),
    /// It does not go: too much waits already.
    Full(P),
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<P, C> {
    /// Open a connection to this service, and say how that ended: [`Outgoing::opened`], [`Outgoing::failed`].
    Open(Connection, Service),
    /// Close it, or give the attempt up, and say so when nothing of it is left: [`Outgoing::closed`].
    Close(Connection),
    /// Send a packet that waited.
    Send(P, C),
    /// Tell the sender of a packet that waited.
    Tell(LinkAddr, P, TooBig),
    /// Free a packet that waited: the link stopped, or the neighbour is gone.
    Drop(LinkAddr, P),
}

/// What is known of a neighbour.
#[derive(Debug)]
pub struct Peer<C> {
    state: State<C>,
    /// Of the attempt or connection.
    number: u64,
    /// Where the neighbour was found to listen.
    service: Option<Service>,
    /// Attempts and connections that failed, since one that lasted.
    failures: u32,
    /// Small packets, and since when.
    small: (u8, Instant),
    /// What it is counted as, if an attempt is out or its end is waited for.
    attempt: Option<Kind>,
    waiting: Queue,
    /// What waits is dropped.
    dropped: bool,
}

/// An attempt to open a connection to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fresh,
    /// The last one, or the last connection, has failed.
    Doubtful,
}

#[derive(Debug)]
enum State<C> {
    Off,
    /// Since then.
    Wanted(Attempt, Instant),
    Opening(Attempt),
    Up {
        channel: C,
        longest: u32,
        since: Instant,
        used: Instant,
    },
    /// What comes when it is closed.
    Closing(After),
    /// Until its deadline.
    Resting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// Another attempt, if packets wait for one.
    Off,
    Rest,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    service: Service,
    other_tried: bool,
    stale: u8,
}

/// The machine: neighbours in slots of its creator's, packets in others.
#[derive(Debug)]
pub struct Outgoing<P, C, S, W> {
    config: OutgoingConfig,
    peers: Table<LinkAddr, Peer<C>, S, LISTS>,
    waiting: Waiting<P, W>,
    jitter: Jitter,
    /// What a datagram carries, in octets with the IPoIB header.
    datagram: u32,
    /// Connections that are open, being opened or being closed.
    held: u32,
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
            datagram: 0,
            held: 0,
            attempts: 0,
            doubtful: 0,
            number: 0,
            runs: false,
        }
    }

    /// The link runs; a datagram carries so many octets, with the IPoIB header.
    pub fn run(&mut self, datagram: u32) {
        self.runs = true;
        self.datagram = datagram;
    }

    /// Connections that are open, being opened or being closed.
    pub const fn held(&self) -> u32 {
        self.held
    }

    /// A packet of `len` octets, with its IPoIB header, goes to a neighbour whose flag says that it takes connections.
    pub fn submit(&mut self, to: &LinkAddr, (packet, len): (P, u32), now: Instant) -> Submitted<P, C> {
        let fits = len <= self.datagram;
        let Some(id) = self.peers.find(&to.without_flags()).or_else(|| self.enter(to)) else {
            return self.without_connection(packet, fits);
        };
        self.rank(id);
        // The last of those that waited may be on its way to the queue: it is until the next one is asked for.
        let leaving = self.peers.is_listed(LEAVING, id);
        let Some(peer) = self.peers.get(id) else { return self.without_connection(packet, fits) };
        let wanted = match &peer.state {
            // What waited for the connection goes first.
            State::Up { longest, .. } if len <= *longest && (leaving || !peer.waiting.is_empty()) => {
                return self.wait(id, packet, len);
            }
            State::Up { channel, longest, .. } if len <= *longest => {
                return Submitted::Connected(packet, channel.clone(), *longest);
            }
            State::Up { longest, .. } if !fits => {
                return Submitted::TooBig(packet, TooBig((*longest).max(self.datagram)));
            }
            state => matches!(state, State::Off),
        };
        if wanted && (!fits || self.is_eager(id, now)) {
            self.want(id, now);
        }
        if fits || !self.comes(id, now) {
            return self.without_connection(packet, fits);
        }
        self.wait(id, packet, len)
    }

    fn without_connection(&self, packet: P, fits: bool) -> Submitted<P, C> {
        if fits { Submitted::Datagram(packet) } else { Submitted::TooBig(packet, TooBig(self.datagram)) }
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

    /// The connection that was not used for longest goes, if it was not used of late. Whoever wants its place asks again.
    fn make_room(&mut self, now: Instant) {
        let Some(id) = self.peers.front(RECENT) else { return };
        if let Some(State::Up { used, .. }) = self.peers.get(id).map(|peer| &peer.state)
            && now - *used >= self.config.busy
        {
            self.close(id, After::Off);
        }
    }

    /// Is a connection made, or about to be?
    fn comes(&self, id: Id, now: Instant) -> bool {
        match self.peers.get(id).map(|peer| &peer.state) {
            Some(State::Wanted(_, since)) => now - *since < self.config.patience,
            Some(State::Opening(_) | State::Closing(After::Off)) => true,
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
            if at > now {
                self.peers.set_deadline(id, Some(at));
            } else {
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
            State::Opening(attempt) => Some((id, attempt)),
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
        self.close(id, if again { After::Rest } else { After::Off });
    }

    /// One more attempt or connection has failed; how many have, since one that lasted.
    fn fails(&mut self, id: Id, lasted: bool) -> u32 {
        let Some(peer) = self.peers.get_mut(id) else { return 0 };
        peer.failures = if lasted { 1 } else { peer.failures.saturating_add(1) };
        peer.failures
    }

    /// The neighbour is not there any more, or takes no connections: what waits for one is dropped.
    pub fn gone(&mut self, peer: &LinkAddr) {
        let Some(id) = self.peers.find(&peer.without_flags()) else { return };
        self.end(id);
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

    fn end(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        (peer.failures, peer.dropped) = (0, !peer.waiting.is_empty());
        match peer.state {
            State::Up { .. } | State::Opening(_) => self.close(id, After::Off),
            State::Wanted(..) => {
                self.held -= 1;
                self.off(id);
            }
            State::Resting => self.off(id),
            State::Closing(_) => {
                peer.state = State::Closing(After::Off);
            }
            State::Off => {}
        }
        self.leave(id);
    }

    /// Nothing of a connection is left.
    pub fn closed(&mut self, connection: Connection, now: Instant) {
        let Some(id) = self.known(connection) else { return };
        let Some(State::Closing(after)) = self.peers.get(id).map(|peer| &peer.state) else { return };
        let after = *after;
        self.attempt_is_over(id);
        self.held -= 1;
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

    fn close(&mut self, id: Id, after: After) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if let State::Up { channel, .. } = &peer.state {
            channel.validity().withdraw();
        }
        peer.state = State::Closing(after);
        self.peers.unlist(RECENT, id);
        self.peers.set_deadline(id, None);
        self.due(id);
    }

    fn rest(&mut self, id: Id, now: Instant) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.state = State::Resting;
        let delay = self.config.retry.delay(peer.failures, &mut self.jitter);
        self.peers.set_deadline(id, Some(now + delay));
        self.peers.unlist(DUE, id);
        self.leave(id);
        self.rank(id);
    }

    fn off(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.state = State::Off;
        self.peers.set_deadline(id, None);
        self.peers.unlist(DUE, id);
        self.rank(id);
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

    /// The next thing to do, if there is one.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action<P, C>> {
        // Time may have passed for packets.
        self.next_packet().or_else(|| self.next_connection(now)).or_else(|| self.next_packet())
    }

    /// Whether a connection is to be opened or closed now.
    pub fn wants_work(&self) -> bool {
        self.peers.front(DUE).is_some()
    }

    /// Whether [`Self::next_packet`] has something.
    pub fn has_packets(&self) -> bool {
        self.peers.front(LEAVING).is_some()
    }

    /// The next thing to do about a connection, [`Action::Open`] or [`Action::Close`], if there is one.
    pub fn next_connection(&mut self, now: Instant) -> Option<Action<P, C>> {
        while let Some(id) = self.peers.pop_due(now) {
            self.timer(id, now);
        }
        self.next_due(now)
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
                    self.close(id, After::Rest);
                } else if idle {
                    peer.failures = if lasted { 0 } else { peer.failures };
                    self.close(id, After::Off);
                } else {
                    if recently {
                        self.peers.push_back(RECENT, id);
                    }
                    self.peers.set_deadline(id, Some(now + look));
                }
            }
            State::Off | State::Opening(_) | State::Closing(_) => {}
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
            let most = self.datagram;
            return Some(match &peer.state {
                _ if peer.dropped => Action::Drop(to, packet),
                State::Up { channel, longest, .. } if len <= *longest => {
                    Action::Send(packet, channel.clone())
                }
                State::Up { longest, .. } => Action::Tell(to, packet, TooBig((*longest).max(most))),
                _ => Action::Tell(to, packet, TooBig(most)),
            });
        }
    }

    fn next_due(&mut self, now: Instant) -> Option<Action<P, C>> {
        loop {
            let id = self.peers.pop_front(DUE)?;
            let to = self.peers.key(id)?;
            let peer = self.peers.get_mut(id)?;
            let kind = if peer.failures == 0 { Kind::Fresh } else { Kind::Doubtful };
            let full = self.attempts >= self.config.attempts
                || kind == Kind::Doubtful && self.doubtful >= self.config.doubtful;
            match peer.state {
                State::Wanted(..) if full => {
                    self.peers.set_deadline(id, Some(now + self.config.attempts_look));
                }
                State::Wanted(attempt, _) => {
                    self.number += 1;
                    self.attempts += 1;
                    self.doubtful += u32::from(kind == Kind::Doubtful);
                    peer.attempt = Some(kind);
                    peer.number = self.number;
                    peer.state = State::Opening(attempt);
                    return Some(Action::Open(Connection { peer: to, number: peer.number }, attempt.service));
                }
                State::Closing(_) => {
                    return Some(Action::Close(Connection { peer: to, number: peer.number }));
                }
                State::Off | State::Opening(_) | State::Up { .. } | State::Resting => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
