//! Connections that neighbours open to send on (RFC 4755): the link accepts them, and sends datagrams itself.
//!
//! | Who | Does | May wait for |
//! |---|---|---|
//! | the communication manager | asks and tells: recorded under the machines' lock | short locks |
//! | a thread of the link's, once it listens ([`work`]) | makes queue pairs, answers, frees | the adapter |
//! | another one | closes | its turn: the other side has said how long that can take |
//! | the thread on the receive path ([`super::delivery`]) | takes messages from the queue that all connections share ([`receive`]) | IP |
//!
//! Nobody else waits for any of it: a stop has the connections dismissed, and they are closed afterwards.
//!
//! Connections have a client of IBTF's of their own, which opens the adapter for them: when one is over, the number of its queue pair is
//! taken for seconds, and the adapter cannot be closed as long. The link's own client has none of that; the link is busy until the
//! thread has closed the adapter for the other one.

mod connection;
mod counters;
mod due;
mod listen;
mod receive;
mod shared_receive;
mod slabs;
mod told;
mod turns;
mod work;

use core::time::Duration;

use ibtf::{ChannelId, Hca, Pd, RcChannel, Reply, Session, Srq};
use ipoib::connections::{Connection, Incoming, IncomingConfig, IncomingSlot, LidCheck, PortSlot, Refusal};
use ipoib::{Instant, LinkAddr};
use kernel::list::{List, Room};
use kernel::{KArc, KBox, KVec, MayBlock};

use connection::State;
pub(crate) use connection::{Asker, IncomingConnection};
pub(crate) use counters::ConnectionCounters;
pub(crate) use listen::{Listener, Listening, adapter_event, listen, shared_queue_failed};
pub(crate) use receive::ConnectedReceiver;
use receive::Taken;
pub(crate) use shared_receive::SharedReceive;
pub(crate) use slabs::{Slabs, is_slab};
use turns::Turns;
pub(super) use work::adapter;

use super::outgoing::{self, ConnectedSender, OutgoingConnections};
use crate::kept::Resting;

/// How long a connection that was closed may hold receives that the adapter says nothing of.
const DRAIN: Duration = Duration::from_secs(1);
/// Before receives that could not be had are tried to be had again.
const GROW_AGAIN: Duration = Duration::from_secs(1);
/// Before a channel that the communication manager does not know yet is closed again, or one whose messages wait to be taken is freed.
const AGAIN: Duration = Duration::from_millis(100);
/// Before the adapter is closed. Twice as long after each time that it could not be, which costs a line on the console, up to
/// [`CLOSE_WITHIN`].
const CLOSE_AFTER: Duration = Duration::from_secs(1);
/// The longest pause before the adapter is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(8);
/// How long the memory stays that nobody sends to any more.
const UNUSED: Duration = Duration::from_secs(60);

/// The connections, under the machines' lock.
pub(crate) struct IncomingConnections {
    machine: Incoming<KVec<IncomingSlot>, KVec<PortSlot>>,
    runs: bool,
    /// Where the P_Key was when the link came up last, and since when it has been there.
    pkey: Option<(u16, Instant)>,
    connections: List<IncomingConnection>,
    /// What they share; made when the first one comes.
    shared_receive: Option<SharedReceive>,
    /// What they shared before, until the last of them is freed.
    ended: List<SharedReceive>,
    /// Room for one that ends.
    room: Option<Room<SharedReceive>>,
    /// Queues that the adapter did not free, to be used again.
    resting: List<Resting>,
    /// It is to have more receives, not before; and when it is seen whether it has too many.
    short_of_receives: bool,
    grow_at: Option<Instant>,
    shrink_at: Option<Instant>,
    /// It is of no use any more.
    lost: bool,
    /// Whoever stops the link has it, and counts what has come: until then no channel is freed, which would take that along.
    ends: bool,
    /// Connections to neighbours, once the link was to open some.
    pub(crate) outgoing: Option<KBox<OutgoingConnections>>,
    /// Since when there has been none.
    unused_since: Option<Instant>,
    /// The adapter as it was opened for connections.
    hca: Option<Hca>,
    /// As whom: see [`crate::kept`].
    number: u32,
    /// It is being closed; it was tried so often; and it is not tried before.
    lets_go: bool,
    /// Of connections to close.
    outgoing_is_next: bool,
    /// Of all else.
    turns: Turns,
    tries: u32,
    close_at: Option<Instant>,
}

/// What the thread does next.
pub(crate) enum Step {
    /// Answer with a queue pair: [`IncomingConnections::hold`] or [`IncomingConnections::forget`].
    Accept(Connection, Session),
    /// Answer that there is none.
    Refuse(Connection, Session),
    /// See how far the other side has sent, and have it wait less for a receive if it is new: [`IncomingConnections::looked`].
    Look(Connection, RcChannel, bool),
    /// Drop it: [`IncomingConnections::forget`]; or not yet: [`IncomingConnections::free_later`].
    Free(Connection, RcChannel, Option<KArc<ConnectedReceiver>>, Option<Taken>),
    /// End it.
    End(SharedReceive),
    /// Have more receives: [`IncomingConnections::grown`].
    Grow(KArc<ConnectedReceiver>, Srq),
    /// See whether there are too many: [`IncomingConnections::looked_at_receives`].
    Shrink(KArc<ConnectedReceiver>),
    /// Free it, or have it rest: [`IncomingConnections::rest`].
    Dissolve(SharedReceive),
    /// Close it, or park it with what rests on it: [`IncomingConnections::let_go`].
    LetGo(Hca, u32, List<Resting>),
    /// Of a connection to a neighbour.
    Outgoing(outgoing::Step),
}

/// What the thread that closes does next.
pub(crate) enum Close {
    /// One from a neighbour: [`IncomingConnections::closed`].
    Incoming(Connection, RcChannel),
    /// One from a neighbour of which nobody knows what comes of it: [`IncomingConnections::takes_back`].
    TakeBack(Connection, RcChannel),
    /// One to a neighbour.
    Outgoing(Connection, RcChannel, Option<ConnectedSender>),
}

impl IncomingConnections {
    /// None, and none is let in before [`IncomingConnections::run`].
    pub(crate) fn new(seed: u64, may_block: &MayBlock) -> Self {
        let config = IncomingConfig::default();
        let slots = KVec::from_fn_waiting(config.most as usize, may_block, |_| IncomingSlot::default());
        let ports = KVec::from_fn_waiting(config.most as usize, may_block, |_| PortSlot::default());
        Self {
            machine: Incoming::new(config, slots, ports, seed),
            runs: false,
            pkey: None,
            connections: List::new(),
            shared_receive: None,
            ended: List::new(),
            room: None,
            resting: List::new(),
            short_of_receives: false,
            grow_at: None,
            shrink_at: None,
            lost: false,
            ends: false,
            outgoing: None,
            unused_since: None,
            hca: None,
            number: 0,
            lets_go: false,
            outgoing_is_next: true,
            turns: Turns::default(),
            tries: 0,
            close_at: None,
        }
    }

    /// The link listens.
    pub(crate) fn run(&mut self) {
        self.runs = true;
        self.machine.run();
    }

    /// The link runs in the partition with this index. Connections of another index end. A link that does not listen opens none.
    pub(crate) fn run_in(&mut self, pkey_index: u16, now: Instant) {
        if self.pkey.is_none_or(|(index, _)| index != pkey_index) {
            self.pkey = Some((pkey_index, now));
        }
        for entry in self.connections.iter().filter(|entry| entry.is_elsewhere(pkey_index)) {
            self.machine.ended(entry.connection);
        }
        if self.runs {
            self.machine.run();
        }
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.pkey_is_at(Some(pkey_index), now);
            if self.runs {
                outgoing.run();
            }
        }
    }

    /// The port has the link's P_Key nowhere: whatever connections there are, they are in a partition that the link is not in, or in none.
    pub(crate) fn pkey_is_lost(&mut self, now: Instant) {
        for entry in self.connections.iter() {
            self.machine.ended(entry.connection);
        }
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.pkey_is_at(None, now);
        }
    }

    /// The link stops: all are dismissed. What they shared, to be ended without the lock.
    pub(crate) fn stop(&mut self) -> Option<SharedReceive> {
        self.runs = false;
        self.machine.stop();
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.stop();
        }
        self.lost = false;
        let shared_receive = self.shared_receive.take();
        self.ends |= shared_receive.is_some();
        shared_receive
    }

    /// What a stop handed out is ended. It goes when the last connection is freed.
    pub(crate) fn shared_receive_ended(&mut self, ended: SharedReceive) {
        self.ends = false;
        // Made with it; each ends once.
        if let Some(room) = self.room.take() {
            self.ended.put(room, ended);
        }
    }

    /// One that has ended, and that no connection is of any more.
    fn next_to_dissolve(&mut self) -> Option<SharedReceive> {
        let Self { connections, ended, .. } = self;
        let is_of = |entry: &IncomingConnection, of: &SharedReceive| {
            entry.receiver.as_ref().is_some_and(|receiver| KArc::ptr_eq(receiver, of.receiver()))
        };
        ended.take(|ended| !connections.iter().any(|entry| is_of(entry, ended)))
    }

    /// A queue that the adapter does not free.
    pub(crate) fn rest(&mut self, room: Room<Resting>, resting: Resting) {
        self.resting.put(room, resting);
    }

    /// The protection domain of the one that is [used](Self::wake) next.
    pub(crate) fn resting_pd(&self) -> Option<Pd> {
        self.resting.iter().next().map(|resting| resting.srq.pd().clone())
    }

    /// One of those, to be used again.
    pub(crate) fn wake(&mut self) -> Option<Resting> {
        self.resting.take(|_| true)
    }

    /// How many there are, to and from neighbours.
    fn count(&self) -> u32 {
        let outgoing = self.outgoing.as_ref().map_or(0, |outgoing| outgoing.count());
        self.connections.iter().count() as u32 + outgoing
    }

    /// Whether nothing is left to do or to free.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.hca.is_none() && !self.lets_go
    }

    fn is_empty(&self) -> bool {
        let no_outgoing = self.outgoing.as_ref().is_none_or(|outgoing| outgoing.is_empty());
        no_outgoing
            && self.connections.iter().next().is_none()
            && self.shared_receive.is_none()
            && self.ended.iter().next().is_none()
    }

    /// The adapter, if it is open for connections.
    pub(crate) fn hca(&self) -> Option<&Hca> {
        self.hca.as_ref()
    }

    /// The number of the client that has it open.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// It is open, as the client with this number; with what rests on it.
    pub(crate) fn put_hca(&mut self, hca: Hca, number: u32, resting: List<Resting>) {
        // Only the thread opens it, and only if it is not.
        (self.hca, self.number, self.resting) = (Some(hca), number, resting);
    }

    /// It is closed, or this is what could not be closed yet.
    pub(crate) fn let_go(&mut self, left: Option<Hca>, now: Instant) {
        self.lets_go = false;
        self.tries = if left.is_some() { self.tries.saturating_add(1) } else { 0 };
        self.hca = left;
        self.close_later(now);
    }

    /// A connection was, or will be, over.
    pub(crate) fn wait_for_numbers(&mut self, now: Instant) {
        self.tries = 0;
        self.close_later(now);
    }

    /// A connection is over, or the adapter could not be closed.
    fn close_later(&mut self, now: Instant) {
        let wait = CLOSE_AFTER.saturating_mul(1 << self.tries.min(8)).min(CLOSE_WITHIN);
        self.close_at = Some(now + wait);
    }

    /// A neighbour asks, who gives the base LID of a port. The memory is made before the lock is taken.
    pub(crate) fn requested(
        &mut self,
        room: Room<IncomingConnection>,
        asker: Asker,
        check: impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) -> Reply {
        match self.machine.requested(&asker.peer, asker.lid, check, now) {
            Ok(connection) => {
                self.connections.put(room, IncomingConnection::new(connection, asker.session));
                Reply::Later
            }
            Err(Refusal::NoRoom) => Reply::NoRoom,
            Err(Refusal::NotHere) => Reply::Refused,
        }
    }

    /// More messages come than there are receives for.
    pub(crate) fn want_receives(&mut self) {
        self.short_of_receives = true;
    }

    /// There are more, or there could not be.
    pub(crate) fn grown(&mut self, well: bool, now: Instant) {
        self.grow_at = (!well).then_some(now + GROW_AGAIN);
        if well {
            self.shrink_at = self.shrink_at.or(Some(now + UNUSED));
        }
    }

    /// There were too many, or not; whether to look again.
    pub(crate) fn looked_at_receives(&mut self, again: bool, now: Instant) {
        self.shrink_at = again.then_some(now + UNUSED);
    }

    fn next_of_receives(&mut self, now: Instant) -> Option<Step> {
        let has_come = |at: Instant| at <= now;
        let shared_receive = self.shared_receive.as_ref().filter(|_| !self.lost)?;
        if self.short_of_receives && self.grow_at.is_none_or(has_come) {
            self.short_of_receives = false;
            return Some(Step::Grow(shared_receive.receiver().clone(), shared_receive.srq()));
        }
        self.shrink_at.take_if(|at| has_come(*at))?;
        Some(Step::Shrink(shared_receive.receiver().clone()))
    }

    /// What they share, if there is any.
    pub(crate) fn shared_receive(&self) -> Option<&SharedReceive> {
        self.shared_receive.as_ref().filter(|_| !self.lost)
    }

    /// What they share is made; comes back if there is one, or the link does not listen any more.
    pub(crate) fn put_shared_receive(
        &mut self,
        shared_receive: SharedReceive,
        room: Room<SharedReceive>,
    ) -> Option<SharedReceive> {
        self.room = Some(room);
        if self.shared_receive.is_some() || !self.runs {
            return Some(shared_receive);
        }
        self.shared_receive = Some(shared_receive);
        (self.short_of_receives, self.grow_at, self.shrink_at) = (false, None, None);
        None
    }

    /// The queue pair of a connection that is about to be accepted. False if nobody wants it any more.
    #[must_use]
    pub(crate) fn hold(
        &mut self,
        connection: Connection,
        channel: &RcChannel,
        receiver: KArc<ConnectedReceiver>,
        now: Instant,
    ) -> bool {
        let Some(entry) = self.find(connection).filter(|entry| !entry.dismissed) else { return false };
        (entry.channel, entry.given, entry.receiver) = (Some(channel.id()), now, Some(receiver));
        entry.state = State::Held(channel.clone());
        true
    }

    /// An offer is to be taken back, or the communication manager does not know it yet. What comes of it is told.
    pub(crate) fn takes_back(
        &mut self,
        connection: Connection,
        channel: RcChannel,
        asked: bool,
        now: Instant,
    ) -> Option<RcChannel> {
        let Some(entry) = self.find(connection) else { return Some(channel) };
        entry.takes_back(channel, asked, now);
        None
    }

    /// A close has ended, and the channel is what is left; whether it succeeded.
    pub(crate) fn closed(
        &mut self,
        connection: Connection,
        channel: RcChannel,
        succeeded: bool,
        now: Instant,
    ) -> Option<RcChannel> {
        let Some(entry) = self.find(connection) else { return Some(channel) };
        if let Some(long) = entry.long.as_mut().filter(|_| succeeded && !entry.over) {
            long.closes(now);
        }
        // The communication manager tells of whatever it was given.
        let known = succeeded || entry.over;
        let wait = match (succeeded, entry.empty) {
            (true, true) => None,
            (true, false) => Some(DRAIN),
            // Nothing of it was ever connected; or it is about to be.
            (false, _) => Some(AGAIN).filter(|_| !known),
        };
        entry.not_before = wait.map(|wait| now + wait);
        entry.state = if known { State::Draining(channel) } else { State::Held(channel) };
        None
    }

    /// The channel of a connection that is closed and empty cannot be freed yet: the adapter would take with it what nobody has taken of its
    /// completions, and the buffers would never be posted again.
    pub(crate) fn free_later(
        &mut self,
        connection: Connection,
        channel: RcChannel,
        taken: Option<Taken>,
        now: Instant,
    ) -> Option<RcChannel> {
        let Some(entry) = self.find(connection) else { return Some(channel) };
        entry.taken = taken;
        (entry.state, entry.not_before) = (State::Draining(channel), Some(now + AGAIN));
        None
    }

    /// Nothing of a connection is left but this, which is to be dropped without the lock.
    pub(crate) fn forget(&mut self, connection: Connection, now: Instant) -> Option<IncomingConnection> {
        self.machine.drained(connection);
        let entry = self.connections.take(|entry| entry.connection == connection);
        if entry.as_ref().is_some_and(|entry| entry.channel.is_some()) {
            self.wait_for_numbers(now);
        }
        entry
    }

    fn find(&mut self, connection: Connection) -> Option<&mut IncomingConnection> {
        self.connections.find_mut(|entry| entry.connection == connection)
    }

    fn by_channel(&mut self, channel: ChannelId) -> Option<&mut IncomingConnection> {
        self.connections.find_mut(|entry| entry.channel == Some(channel))
    }
}
