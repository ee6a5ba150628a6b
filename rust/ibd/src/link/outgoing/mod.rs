//! Connections that the link opens to neighbours, to send on (RFC 4755), for a link with `linkmode=cm`.
//!
//! | Who | Does | May wait for |
//! |---|---|---|
//! | whoever sends | asks the machine, and posts on a connection that stands ([`Pipe`]) | short locks |
//! | the control thread | sends packets that waited, or tells IP that they are too long ([`complaint`]) | short locks |
//! | the communication manager | tells: recorded under the machines' lock | short locks |
//! | a soft interrupt of the link's | takes what has completed ([`Departures`]) | short locks |
//! | the thread that also accepts connections ([`super::incoming`]) | makes queue pairs and opens | the adapter |
//! | the one that closes | closes and frees | its turn |
//!
//! Datagrams carry what fits in one until a connection stands, and when none comes of it. What is done when is the machine's to say
//! ([`ipoib::connections::Outgoing`]).

mod complaint;
mod departures;
mod outfit;
mod pipe;
mod work;

use core::time::Duration;

use ibtf::{ChannelId, CqId, RcChannel};
use ipoib::connections::{
    Action, Connection, Hello, OpenError, Outgoing, OutgoingConfig, OutgoingSlot, Service, Submitted,
    WaitingSlot,
};
use ipoib::{Instant, LinkAddr};
use kernel::list::{List, Room};
use kernel::mblk::Mblk;
use kernel::{AllocError, KArc, KBox, KVec};

use complaint::Complaints;
pub(crate) use complaint::{Complaint, answer};
pub(crate) use departures::Departures;
pub(crate) use outfit::Outfit;
pub(crate) use pipe::{Pipe, Sent};
pub(super) use work::{bury, close, open};

/// Neighbours that are known at once; as many connections can be open.
const NEIGHBOURS: usize = 1024;
/// Packets that wait for connections at once, in all.
const PACKETS: usize = 1024;
/// How long the memory stays that nobody sends from any more.
const UNUSED: Duration = Duration::from_secs(60);
/// Before a channel that could not be freed is tried again.
const AGAIN: Duration = Duration::from_millis(100);

type Machine = Outgoing<Mblk, Pipe, KVec<OutgoingSlot<Pipe>>, KVec<WaitingSlot<Mblk>>>;
/// What is to be done with a packet that waited.
pub(crate) type Waited = Action<Mblk, Pipe>;

/// Under the machines' lock.
pub(crate) struct Visits {
    machine: KBox<Machine>,
    visits: List<Visit>,
    /// What connections send from; made with the first of them.
    outfit: Option<KArc<Outfit>>,
    /// Since when there has been no connection that uses it.
    unused_since: Option<Instant>,
    complaints: Complaints,
    runs: bool,
    /// One more is to be closed.
    news: bool,
}

/// One connection, or an attempt to make one.
struct Visit {
    connection: Connection,
    channel: Option<ChannelId>,
    pipe: Option<Pipe>,
    /// Octets of the longest message that the neighbour takes; 0 before it has said so.
    longest: u32,
    state: State,
    /// What the communication manager has told of an attempt that came to nothing.
    failed: Option<OpenError>,
    /// It stands, or has stood.
    stands: bool,
    /// The machine wants it closed.
    closing: bool,
    /// Its channel is not freed before.
    not_before: Option<Instant>,
}

enum State {
    /// A thread is at it.
    Busy,
    Held(RcChannel),
}

/// What the thread does next.
pub(crate) enum Step {
    /// Make a queue pair and open a connection to this service: [`Visits::hold`], [`Visits::opens`] or [`Visits::failed`].
    Open(Connection, Service),
    /// Nothing came of it: free the channel, and then [`Visits::failed`].
    Bury(Connection, RcChannel, Option<Pipe>, OpenError),
    /// Free it.
    End(KArc<Outfit>),
}

impl Visits {
    /// None, and none is wanted before [`Visits::run`]. **May block.**
    #[inline(never)]
    pub(crate) fn new(seed: u64) -> Result<KBox<Self>, AllocError> {
        KBox::new(Self {
            machine: new_machine(seed)?,
            visits: List::new(),
            outfit: None,
            unused_since: None,
            complaints: Complaints::new(seed)?,
            runs: false,
            news: false,
        })
    }

    /// The link runs; a datagram carries so many octets, with the IPoIB header.
    pub(crate) fn run(&mut self, datagram: u32) {
        self.runs = true;
        self.machine.run(datagram);
    }

    /// The link stops, or is in another partition: all are closed.
    pub(crate) fn stop(&mut self) {
        self.runs = false;
        self.machine.stop();
        self.complaints.clear();
    }

    /// Whether nothing of them is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.machine.is_idle() && self.visits.iter().next().is_none() && self.outfit.is_none()
    }

    /// A packet of `len` octets, IPoIB header included, for a neighbour that takes connections.
    pub(crate) fn submit(
        &mut self,
        to: &LinkAddr,
        packet: Mblk,
        len: u32,
        now: Instant,
    ) -> Submitted<Mblk, Pipe> {
        self.machine.submit(to, (packet, len), now)
    }

    /// Whether a connection is to be opened or closed.
    pub(crate) fn wants_thread(&self) -> bool {
        self.machine.wants_work()
    }

    /// What is to be done with the next packet that waited.
    pub(crate) fn next_packet(&mut self) -> Option<Waited> {
        self.machine.next_packet()
    }

    /// IP is told that a packet is longer than what goes to a neighbour, `mtu` octets without the IPoIB header; the packet comes back if
    /// too much is to be told already.
    pub(crate) fn complain(
        &mut self,
        to: &LinkAddr,
        packet: Mblk,
        mtu: u32,
        now: Instant,
    ) -> Result<(), Mblk> {
        self.complaints.push(to, packet, mtu, now)
    }

    /// What IP is to be told next.
    pub(crate) fn next_complaint(&mut self) -> Option<Complaint> {
        self.complaints.pop()
    }

    /// The next thing for the thread that opens.
    pub(crate) fn next_step(&mut self, now: Instant) -> Option<Step> {
        while let Some(action) = self.machine.next_connection(now) {
            match action {
                Action::Open(connection, service) => match Room::new() {
                    Ok(room) => {
                        self.visits.put(room, Visit::new(connection));
                        return Some(Step::Open(connection, service));
                    }
                    Err(AllocError) => self.machine.failed(connection, OpenError::Failed, now),
                },
                Action::Close(connection) => match self.find(connection) {
                    Some(visit) => {
                        visit.closing = true;
                        self.news = true;
                    }
                    None => self.machine.closed(connection, now),
                },
                // Those of packets are asked for apart.
                Action::Send(..) | Action::Tell(..) | Action::Drop(..) => {}
            }
        }
        self.next_to_bury(now).or_else(|| self.end_unused(now))
    }

    fn next_to_bury(&mut self, now: Instant) -> Option<Step> {
        let visit =
            self.visits.find_mut(|visit| visit.failed.is_some() && !visit.closing && visit.has_come(now))?;
        let (channel, error) = (visit.take()?, visit.failed?);
        Some(Step::Bury(visit.connection, channel, visit.pipe.take(), error))
    }

    /// What nobody has sent from for a while goes; of a link that is stopped at once.
    fn end_unused(&mut self, now: Instant) -> Option<Step> {
        let unused = self.outfit.is_some() && self.visits.iter().next().is_none();
        self.unused_since = if unused { self.unused_since.or(Some(now)) } else { None };
        let since = self.unused_since?;
        if self.runs && now < since + UNUSED {
            return None;
        }
        self.unused_since = None;
        self.outfit.take().map(Step::End)
    }

    /// Whether one more is to be closed since this was last asked: the thread that closes does not know.
    pub(crate) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// The next connection to close.
    pub(crate) fn next_close(&mut self, now: Instant) -> Option<(Connection, RcChannel, Option<Pipe>)> {
        let visit = self.visits.find_mut(|visit| visit.closing && visit.has_come(now))?;
        Some((visit.connection, visit.take()?, visit.pipe.take()))
    }

    /// When [`Visits::next_close`] has something again, if nothing happens before.
    pub(crate) fn close_deadline(&self) -> Option<Instant> {
        self.visits.iter().filter(|visit| visit.closing).filter_map(|visit| visit.not_before).min()
    }

    /// When [`Visits::next_step`] has something again, if nothing happens before.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let unused = self.unused_since.map(|since| since + UNUSED);
        let later =
            self.visits.iter().filter(|visit| !visit.closing).filter_map(|visit| visit.not_before).min();
        [self.machine.next_deadline(), unused, later].into_iter().flatten().min()
    }

    /// What connections send from, if there is any.
    fn outfit(&self) -> Option<KArc<Outfit>> {
        self.outfit.clone()
    }

    fn put_outfit(&mut self, outfit: KArc<Outfit>) {
        // Only the thread makes one, and only if there is none.
        self.outfit = Some(outfit);
    }

    /// The channel of a connection that is about to be opened. False if nobody wants it any more.
    #[must_use]
    fn hold(&mut self, connection: Connection, channel: &RcChannel, pipe: &Pipe) -> bool {
        let Some(visit) = self.find(connection).filter(|visit| !visit.closing) else { return false };
        (visit.channel, visit.pipe) = (Some(channel.id()), Some(pipe.clone()));
        true
    }

    /// It is being opened: what comes of it is told.
    fn opens(&mut self, connection: Connection, channel: RcChannel) -> Option<RcChannel> {
        let Some(visit) = self.find(connection) else { return Some(channel) };
        visit.state = State::Held(channel);
        None
    }

    /// The channel of one that is over cannot be freed yet: the communication manager is at it. It is tried again.
    fn free_later(&mut self, connection: Connection, channel: RcChannel, now: Instant) -> Option<RcChannel> {
        let Some(visit) = self.find(connection) else { return Some(channel) };
        (visit.state, visit.not_before) = (State::Held(channel), Some(now + AGAIN));
        None
    }

    /// Nothing came of an attempt, and nothing is left of it.
    fn failed(&mut self, connection: Connection, error: OpenError, now: Instant) {
        drop(self.visits.take(|visit| visit.connection == connection));
        self.machine.failed(connection, error, now);
    }

    /// Nothing of a connection is left.
    fn closed(&mut self, connection: Connection, now: Instant) {
        drop(self.visits.take(|visit| visit.connection == connection));
        self.machine.closed(connection, now);
    }

    /// A send has failed.
    pub(crate) fn lost(&mut self, connection: Connection, now: Instant) {
        self.machine.lost(connection, now);
    }

    fn find(&mut self, connection: Connection) -> Option<&mut Visit> {
        self.visits.find_mut(|visit| visit.connection == connection)
    }

    fn by_channel(&mut self, channel: ChannelId) -> Option<&mut Visit> {
        self.visits.find_mut(|visit| visit.channel == Some(channel))
    }

    /// The neighbour has accepted, and says what it takes; whether that is any good.
    pub(crate) fn replied(&mut self, channel: ChannelId, private: &[u8]) -> bool {
        let Some(visit) = self.by_channel(channel).filter(|visit| !visit.closing) else { return false };
        match Hello::from_bytes(private) {
            Ok(hello) => visit.longest = hello.longest,
            Err(_) => return false,
        }
        true
    }

    /// A connection stands.
    pub(crate) fn established(&mut self, channel: ChannelId, now: Instant) -> bool {
        let Some(visit) = self.by_channel(channel) else { return false };
        visit.stands = true;
        let (connection, longest) = (visit.connection, visit.longest);
        match visit.pipe.clone() {
            // If nobody wants it any more it is about to be closed.
            Some(pipe) => self.machine.opened(connection, pipe, longest, now),
            None => false,
        }
    }

    /// The communication manager tells why no connection has come of it.
    pub(crate) fn refused(&mut self, channel: ChannelId, reason: u16) {
        if let Some(visit) = self.by_channel(channel) {
            visit.failed = Some(OpenError::of_reject(reason));
        }
    }

    /// The communication manager, or the adapter, tells that a connection is over; whether it was one of these that stood.
    pub(crate) fn ended(&mut self, channel: ChannelId, now: Instant) -> bool {
        let Some(visit) = self.by_channel(channel) else { return false };
        let (connection, stood) = (visit.connection, visit.stands);
        if stood {
            self.machine.lost(connection, now);
        } else if visit.failed.is_none() {
            visit.failed = Some(OpenError::Failed);
        }
        stood
    }

    /// A CQ is lost, and the connection with it.
    pub(crate) fn cq_failed(&mut self, cq: CqId, now: Instant) {
        let of = |visit: &Visit| visit.pipe.as_ref().is_some_and(|pipe| pipe.cq() == Some(cq));
        if let Some(visit) = self.visits.find_mut(of) {
            let connection = visit.connection;
            self.machine.lost(connection, now);
        }
    }
}

impl Visit {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            channel: None,
            pipe: None,
            longest: 0,
            state: State::Busy,
            failed: None,
            stands: false,
            closing: false,
            not_before: None,
        }
    }

    /// Whether no thread is at it, and it is time for what is to be done.
    fn has_come(&self, now: Instant) -> bool {
        matches!(self.state, State::Held(_)) && self.not_before.is_none_or(|at| now >= at)
    }

    fn take(&mut self) -> Option<RcChannel> {
        self.not_before = None;
        match core::mem::replace(&mut self.state, State::Busy) {
            State::Held(channel) => Some(channel),
            State::Busy => None,
        }
    }
}

#[inline(never)]
fn new_machine(seed: u64) -> Result<KBox<Machine>, AllocError> {
    let config = OutgoingConfig { most: NEIGHBOURS as u32, ..OutgoingConfig::default() };
    // Twice as many neighbours are known as have connections: one that does not answer is not forgotten, and asked again, for each new one.
    let peers = KVec::from_fn(2 * NEIGHBOURS, |_| OutgoingSlot::default())?;
    let waiting = KVec::from_fn(PACKETS, |_| WaitingSlot::default())?;
    KBox::new(Outgoing::new(config, peers, waiting, seed))
}
