//! Connections that the link opens to neighbours, to send on (RFC 4755), for a link with `linkmode=cm`.
//!
//! | Who | Does | May wait for |
//! |---|---|---|
//! | whoever sends | asks the machine, and posts on a connection that stands ([`ConnectedSender`]) | short locks |
//! | the control thread | sends packets that waited, or tells IP that they are too long ([`too_big`]) | short locks |
//! | the communication manager | tells: recorded under the machines' lock | short locks |
//! | a soft interrupt of the link's | takes what has completed ([`SendCompletions`]) | short locks |
//! | the thread that also accepts connections ([`super::incoming`]) | makes queue pairs and opens | the adapter |
//! | the one that closes | closes and frees | its turn |
//!
//! Datagrams carry what fits in one until a connection stands, and when none comes of it. What is done when is the machine's to say
//! ([`ipoib::connections::Outgoing`]).

mod connection;
mod send_completions;
mod send_pools;
mod sender;
mod told;
mod too_big;
mod work;

use core::time::Duration;

use ibtf::{AddressVector, ChannelId, Cq, RcChannel};
use ipoib::connections::{
    Action, Connection, OpenError, Outgoing, OutgoingConfig, OutgoingSlot, Service, Submitted, WaitingSlot,
};
use ipoib::{Instant, LinkAddr};
use kernel::list::{List, Room};
use kernel::mblk::Mblk;
use kernel::{AllocError, KArc, KBox, KVec, MayBlock};

use super::attempts::AttemptPlace;
use connection::{OutgoingConnection, Route, State};
pub(crate) use send_completions::SendCompletions;
pub(crate) use send_pools::SendPools;
pub(crate) use sender::{ConnectedSender, Sent};
use too_big::TooBigReports;
pub(crate) use too_big::{TooBigReport, answer};
pub(super) use work::{close, end, free_failed, open};

/// Connections that can be open at once; twice as many neighbours are known.
const NEIGHBOURS: usize = 1024;
/// Packets that wait for connections at once, in all.
const PACKETS: usize = 1024;
/// How long the memory stays that nobody sends from any more.
const UNUSED: Duration = Duration::from_secs(60);
/// Before a channel that could not be freed is tried again.
const AGAIN: Duration = Duration::from_millis(100);

type Machine = Outgoing<Mblk, ConnectedSender, KVec<OutgoingSlot<ConnectedSender>>, KVec<WaitingSlot<Mblk>>>;
/// What is to be done with a packet that waited.
pub(crate) type Waited = Action<Mblk, ConnectedSender>;

/// Under the machines' lock.
pub(crate) struct OutgoingConnections {
    machine: KBox<Machine>,
    connections: List<OutgoingConnection>,
    /// What connections send from; made with the first of them.
    send_pools: Option<KArc<SendPools>>,
    /// Since when there has been no connection that uses it.
    unused_since: Option<Instant>,
    reports: TooBigReports,
    runs: bool,
    /// One more is to be closed.
    news: bool,
}

/// What the thread does next.
pub(crate) enum Step {
    /// Make a queue pair and open a connection to this service: [`OutgoingConnections::hold`], [`OutgoingConnections::opens`] or [`OutgoingConnections::failed`].
    Open(Connection, Service),
    /// Nothing came of it: free the channel, and then [`OutgoingConnections::failed`].
    FreeFailed(Connection, RcChannel, Option<ConnectedSender>, OpenError),
    /// Send nothing more on one that is to be closed: its turn may come late, and its buffers are others'.
    Silence(ConnectedSender),
    /// Free it.
    End(KArc<SendPools>),
}

impl OutgoingConnections {
    /// None, and none is wanted before [`OutgoingConnections::run`]. **May block.**
    #[inline(never)]
    pub(crate) fn new(seed: u64, may_block: &MayBlock) -> KBox<Self> {
        let connections = Self {
            machine: new_machine(seed, may_block),
            connections: List::new(),
            send_pools: None,
            unused_since: None,
            reports: TooBigReports::new(seed, may_block),
            runs: false,
            news: false,
        };
        KBox::new_waiting(connections, may_block)
    }

    /// The link runs.
    pub(crate) fn run(&mut self) {
        self.runs = true;
        self.machine.run();
    }

    /// The link stops: all are closed.
    pub(crate) fn stop(&mut self) {
        self.runs = false;
        self.machine.stop();
        // The thread that closes does not wait until the other one has asked: nothing is opened now.
        let now = crate::now();
        while let Some(action) = self.machine.next_connection(now, || false) {
            if let Action::Close(connection) = action {
                self.note_close(connection, now);
            }
        }
        self.reports.clear();
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.connections.iter().count() as u32
    }

    /// Whom a connection, or an attempt, is to.
    pub(crate) fn peer(&self, channel: ChannelId) -> Option<LinkAddr> {
        let entry = self.connections.iter().find(|entry| entry.channel == Some(channel));
        entry.map(|entry| entry.connection.peer)
    }

    /// Whether nothing of them is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.machine.is_idle() && self.connections.iter().next().is_none() && self.send_pools.is_none()
    }

    /// A packet of `len` octets for a neighbour that takes connections, and to which a datagram carries so many; both with the IPoIB header.
    pub(crate) fn submit(
        &mut self,
        to: &LinkAddr,
        packet: Mblk,
        (len, datagram): (u32, u32),
        now: Instant,
    ) -> Submitted<Mblk, ConnectedSender> {
        self.machine.submit(to, (packet, len, datagram), now)
    }

    /// Whether a connection is to be opened or closed.
    pub(crate) fn wants_thread(&self) -> bool {
        self.machine.wants_work()
    }

    /// Whether [`OutgoingConnections::next_packet`] has something.
    pub(crate) fn has_packets(&self) -> bool {
        self.machine.has_packets()
    }

    /// What is to be done with the next packet that waited.
    pub(crate) fn next_packet(&mut self) -> Option<Waited> {
        self.machine.next_packet()
    }

    /// IP is told that a packet is longer than what goes to a neighbour, `mtu` octets without the IPoIB header; the packet comes back if
    /// too much is to be told already.
    pub(crate) fn report_too_big(
        &mut self,
        to: &LinkAddr,
        packet: Mblk,
        mtu: u32,
        now: Instant,
    ) -> Result<(), Mblk> {
        self.reports.push(to, packet, mtu, now)
    }

    /// What IP is to be told next.
    pub(crate) fn next_report(&mut self) -> Option<TooBigReport> {
        self.reports.pop()
    }

    /// The next thing for the thread that opens.
    pub(crate) fn next_step(&mut self, now: Instant) -> Option<Step> {
        let mut place = None;
        let attempts = self.connections.iter().filter(|entry| entry.place.is_some()).count() as u32;
        let mut may_open = || {
            place = AttemptPlace::take(attempts);
            place.is_some()
        };
        while let Some(action) = self.machine.next_connection(now, &mut may_open) {
            match action {
                Action::Open(connection, service) => match Room::new() {
                    Ok(room) => {
                        self.connections.put(room, OutgoingConnection::new(connection, place));
                        return Some(Step::Open(connection, service));
                    }
                    Err(AllocError) => self.machine.failed(connection, OpenError::Failed, now),
                },
                Action::Close(connection) => self.note_close(connection, now),
                // Those of packets are asked for apart.
                Action::Send(..) | Action::Tell(..) | Action::Drop(..) => {}
            }
        }
        self.next_silence().or_else(|| self.next_failed(now)).or_else(|| self.end_unused(now))
    }

    fn note_close(&mut self, connection: Connection, now: Instant) {
        match self.find(connection) {
            Some(entry) => {
                (entry.closing, entry.speaks) = (true, entry.sender.is_some());
                self.news = true;
            }
            None => self.machine.closed(connection, now),
        }
    }

    fn next_silence(&mut self) -> Option<Step> {
        let entry = self.connections.find_mut(|entry| entry.speaks && entry.sender.is_some())?;
        entry.speaks = false;
        entry.sender.clone().map(Step::Silence)
    }

    fn next_failed(&mut self, now: Instant) -> Option<Step> {
        let entry = self.connections.find_oldest_mut(|entry| entry.is_to_free() && entry.has_come(now))?;
        let (channel, error) = (entry.take()?, entry.failed?);
        Some(Step::FreeFailed(entry.connection, channel, entry.sender.take(), error))
    }

    /// What nobody has sent from for a while goes; of a link that is stopped at once.
    fn end_unused(&mut self, now: Instant) -> Option<Step> {
        let unused = self.send_pools.is_some() && self.connections.iter().next().is_none();
        self.unused_since = if unused { self.unused_since.or(Some(now)) } else { None };
        let since = self.unused_since?;
        if self.runs && now < since + UNUSED {
            return None;
        }
        self.unused_since = None;
        self.send_pools.take().map(Step::End)
    }

    /// Whether one more is to be closed since this was last asked, or packets wait no longer: other threads do not know.
    pub(crate) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news) || self.machine.has_packets()
    }

    /// The next connection to close.
    pub(crate) fn next_close(
        &mut self,
        now: Instant,
    ) -> Option<(Connection, RcChannel, Option<ConnectedSender>)> {
        let entry = self
            .connections
            .find_oldest_mut(|entry| entry.closing && entry.is_told() && entry.has_come(now))?;
        Some((entry.connection, entry.take()?, entry.sender.take()))
    }

    /// When [`OutgoingConnections::next_close`] has something again, if nothing happens before.
    pub(crate) fn close_deadline(&self) -> Option<Instant> {
        self.connections.iter().filter(|entry| entry.closing).filter_map(|entry| entry.not_before).min()
    }

    /// When [`OutgoingConnections::next_step`] has something again, if nothing happens before.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let unused = self.unused_since.map(|since| since + UNUSED);
        let later =
            self.connections.iter().filter(|entry| !entry.closing).filter_map(|entry| entry.not_before).min();
        [self.machine.next_deadline(), unused, later].into_iter().flatten().min()
    }

    /// What connections send from, if there is any.
    fn send_pools(&self) -> Option<KArc<SendPools>> {
        self.send_pools.clone()
    }

    fn put_send_pools(&mut self, send_pools: KArc<SendPools>) {
        // Only the thread makes one, and only if there is none.
        self.send_pools = Some(send_pools);
    }

    /// The channel of a connection that is about to be opened. False if nobody wants it any more.
    #[must_use]
    fn hold(
        &mut self,
        connection: Connection,
        channel: &RcChannel,
        sender: &ConnectedSender,
        route: Route,
    ) -> bool {
        let Some(entry) = self.find(connection).filter(|entry| !entry.closing) else { return false };
        (entry.channel, entry.sender, entry.route) = (Some(channel.id()), Some(sender.clone()), Some(route));
        entry.cq = channel.send_cq().map(Cq::id);
        true
    }

    /// The port has this base LID. What still sends by another one is lost: the neighbour's adapter drops it, and if an SM has dealt the LIDs
    /// anew, another port may acknowledge it.
    pub(crate) fn lid_is(&mut self, own_lid: u16, now: Instant) {
        self.lose(now, |_, route| route.own_lid != own_lid);
    }

    /// The P_Key has this place in the port's table, or none. What was made with another one carries nothing any more.
    pub(crate) fn pkey_is_at(&mut self, index: Option<u16>, now: Instant) {
        self.lose(now, |_, route| Some(route.pkey_index) != index);
    }

    /// Packets go to this neighbour in this way. A connection that goes another one is lost.
    pub(crate) fn path_is(&mut self, neighbour: &LinkAddr, to: &AddressVector, now: Instant) {
        let neighbour = neighbour.without_flags();
        self.lose(now, |connection, route| connection.peer == neighbour && route.to != *to);
    }

    fn lose(&mut self, now: Instant, is_out_of_date: impl Fn(&Connection, &Route) -> bool) {
        for entry in self.connections.iter() {
            if entry.route.is_some_and(|route| is_out_of_date(&entry.connection, &route)) {
                self.machine.lost(entry.connection, now);
            }
        }
    }

    /// It is being opened: what comes of it is told.
    fn opens(&mut self, connection: Connection, channel: RcChannel) -> Option<RcChannel> {
        let Some(entry) = self.find(connection) else { return Some(channel) };
        entry.state = State::Held(channel);
        None
    }

    /// The channel of one that is over cannot be freed yet: the communication manager is at it. It is tried again.
    fn free_later(&mut self, connection: Connection, channel: RcChannel, now: Instant) -> Option<RcChannel> {
        let Some(entry) = self.find(connection) else { return Some(channel) };
        (entry.state, entry.not_before) = (State::Held(channel), Some(now + AGAIN));
        None
    }

    /// Nothing came of an attempt, and nothing is left of it.
    fn failed(&mut self, connection: Connection, error: OpenError, now: Instant) {
        drop(self.connections.take(|entry| entry.connection == connection));
        self.machine.failed(connection, error, now);
    }

    /// Nothing of a connection is left.
    fn closed(&mut self, connection: Connection, now: Instant) {
        let mut entry = self.connections.take(|entry| entry.connection == connection);
        if let Some(entry) = entry.as_mut().filter(|entry| !entry.over)
            && let Some(long) = &mut entry.long
        {
            long.closes(now);
        }
        drop(entry);
        self.machine.closed(connection, now);
    }

    /// A send has failed.
    pub(crate) fn lost(&mut self, connection: Connection, now: Instant) {
        self.machine.lost(connection, now);
    }

    fn find(&mut self, connection: Connection) -> Option<&mut OutgoingConnection> {
        self.connections.find_mut(|entry| entry.connection == connection)
    }

    fn by_channel(&mut self, channel: ChannelId) -> Option<&mut OutgoingConnection> {
        self.connections.find_mut(|entry| entry.channel == Some(channel))
    }
}

#[inline(never)]
fn new_machine(seed: u64, may_block: &MayBlock) -> KBox<Machine> {
    let config = OutgoingConfig { most: NEIGHBOURS as u32, ..OutgoingConfig::default() };
    // Twice as many neighbours are known as have connections: one that does not answer is not forgotten, and asked again, for each new one.
    let peers = KVec::from_fn_waiting(2 * NEIGHBOURS, may_block, |_| OutgoingSlot::default());
    let waiting = KVec::from_fn_waiting(PACKETS, may_block, |_| WaitingSlot::default());
    KBox::new_waiting(Outgoing::new(config, peers, waiting, seed), may_block)
}
