//! Connections that neighbours open to send on (RFC 4755): the link accepts them, and sends datagrams itself.
//!
//! | Who | Does | May wait for |
//! |---|---|---|
//! | the communication manager | asks and tells: recorded under the machines' lock | short locks |
//! | a thread of the link's, once it listens ([`work`]) | makes queue pairs, answers, frees | the adapter |
//! | another one | closes | its turn: the other side has said how long that can take |
//! | whoever is on the way up ([`super::upward`]) | takes messages from the queue that all connections share ([`receive`]) | IP |
//!
//! Nobody else waits for any of it: a stop has the connections dismissed, and they are closed afterwards.
//!
//! Connections have a client of IBTF's of their own, which opens the adapter for them: when one is over, the number of its queue pair is
//! taken for seconds, and the adapter cannot be closed as long. The link's own client has none of that; the link is busy until the
//! thread has closed the adapter for the other one.

mod counters;
mod guest;
mod hall;
mod listen;
mod receive;
mod work;

use core::time::Duration;

use ibtf::{ChannelId, CqId, Hca, RcChannel, Reply, Session};
use ipoib::connections::{Connection, Dismissed, Incoming, IncomingConfig, IncomingSlot, Refusal};
use ipoib::{Instant, LinkAddr};
use kernel::list::{List, Room};
use kernel::{AllocError, KBox, KVec};

pub(crate) use counters::GuestCounters;
use guest::{Guest, State};
pub(crate) use hall::Hall;
pub(crate) use listen::{Listening, Reception, listen};
pub(crate) use receive::GuestReceiver;
pub(super) use work::adapter;

use super::outgoing::{self, Visits};

/// How long a connection that was closed may hold receives that the adapter says nothing of.
const DRAIN: Duration = Duration::from_secs(1);
/// Before a channel that the communication manager does not know yet is closed again, or one whose messages wait to be taken is freed.
const AGAIN: Duration = Duration::from_millis(100);
/// Closing takes one of `ibcm`'s places until the neighbour answers, or as long as he has said that an answer takes. Of neighbours that say more
/// than 8.6 s, as a code, so many are closed at once. Usual are 4.3 s, which `ibcm` may round up.
const LONGEST_ANSWER: u8 = 21;
const SLOW_ONES: usize = 3;
/// Before the adapter is closed; twice as long each time that it could not be, which costs a line on the console, up to
const CLOSE_AFTER: Duration = Duration::from_secs(1);
/// so long.
const CLOSE_WITHIN: Duration = Duration::from_secs(8);
/// How long the memory stays that nobody sends to any more.
const UNUSED: Duration = Duration::from_secs(60);

/// The connections, under the machines' lock.
pub(crate) struct Guests {
    machine: Incoming<KVec<IncomingSlot>>,
    runs: bool,
    guests: List<Guest>,
    /// What they share; made when the first one comes.
    hall: Option<Hall>,
    /// It is of no use any more.
    lost: bool,
    /// Connections to neighbours, once the link was to open some.
    pub(crate) visits: Option<KBox<Visits>>,
    /// Until when connections of slow neighbours that are being closed have their places.
    slow_until: [Instant; SLOW_ONES],
    /// The adapter goes: everything is closed as soon as it can be.
    hurries: bool,
    /// Of the link's P_Key, which a queue pair keeps that it was made with.
    index: Option<u16>,
    /// Since when there has been none.
    unused_since: Option<Instant>,
    /// The adapter as it was opened for connections.
    hca: Option<Hca>,
    /// It is being closed; it was tried so often; and it is not tried before.
    lets_go: bool,
    tries: u32,
    close_at: Option<Instant>,
}

/// What the thread does next.
pub(crate) enum Step {
    /// Answer with a queue pair: [`Guests::hold`] or [`Guests::forget`].
    Accept(Connection, Session),
    /// Answer that there is none.
    Refuse(Session),
    /// Have the other side wait less for a receive, and look how long it takes to answer: [`Guests::answers_within`].
    Ease(Connection, RcChannel),
    /// Drop it: [`Guests::forget`]; or not yet: [`Guests::free_later`].
    Free(Connection, RcChannel),
    /// End it.
    End(Hall),
    /// Close it: [`Guests::let_go`].
    LetGo(Hca),
    /// Of a connection to a neighbour.
    Visit(outgoing::Step),
}

impl Guests {
    /// None, and none is let in before [`Guests::run`].
    pub(crate) fn new(seed: u64) -> Result<Self, AllocError> {
        let config = IncomingConfig::default();
        let slots = KVec::from_fn(config.most as usize, |_| IncomingSlot::default())?;
        Ok(Self {
            machine: Incoming::new(config, slots, seed),
            runs: false,
            guests: List::new(),
            hall: None,
            lost: false,
            visits: None,
            index: None,
            slow_until: [Instant::ZERO; SLOW_ONES],
            hurries: false,
            unused_since: None,
            hca: None,
            lets_go: false,
            tries: 0,
            close_at: None,
        })
    }

    /// The link listens.
    pub(crate) fn run(&mut self) {
        self.runs = true;
        self.machine.run();
    }

    /// The link runs in the partition with this index, and a datagram carries so many octets, with the IPoIB header. Connections of another
    /// partition end.
    pub(crate) fn run_in(&mut self, pkey_index: u16, datagram: u32) {
        let moved = self.index.replace(pkey_index).is_some_and(|before| before != pkey_index);
        if moved {
            self.machine.stop();
        }
        if self.runs {
            self.machine.run();
        }
        if let Some(visits) = &mut self.visits {
            if moved {
                visits.stop();
            }
            visits.run(datagram);
        }
    }

    /// The link stops: all are dismissed. What they shared, to be ended without the lock.
    pub(crate) fn stop(&mut self) -> Option<Hall> {
        self.runs = false;
        self.machine.stop();
        if let Some(visits) = &mut self.visits {
            visits.stop();
        }
        self.lost = false;
        self.hall.take()
    }

    /// Whether nothing is left to do or to free.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && self.hca.is_none() && !self.lets_go
    }

    fn is_empty(&self) -> bool {
        let no_visits = self.visits.as_ref().is_none_or(|visits| visits.is_empty());
        no_visits && self.guests.iter().next().is_none() && self.hall.is_none()
    }

    /// The adapter, if it is open for connections.
    pub(crate) fn hca(&self) -> Option<&Hca> {
        self.hca.as_ref()
    }

    /// It is open.
    pub(crate) fn put_hca(&mut self, hca: Hca) {
        // Only the thread opens it, and only if it is not.
        self.hca = Some(hca);
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

    /// A neighbour asks, with this session to answer him in. The memory is made before the lock is taken.
    pub(crate) fn requested(
        &mut self,
        room: Room<Guest>,
        peer: &LinkAddr,
        session: Session,
        now: Instant,
    ) -> Reply {
        match self.machine.requested(peer, now) {
            Ok(connection) => {
                self.guests.put(room, Guest::new(connection, session));
                Reply::Later
            }
            Err(Refusal::NoRoom) => Reply::NoRoom,
            Err(Refusal::NotHere) => Reply::Refused,
        }
    }

    /// The communication manager tells that a connection stands.
    /// True of one that this link has opened.
    pub(crate) fn established(&mut self, channel: ChannelId, now: Instant) -> bool {
        let Some(guest) = self.by_channel(channel) else {
            return self.visits.as_mut().is_some_and(|visits| visits.established(channel, now));
        };
        (guest.stands, guest.not_before) = (true, None);
        let connection = guest.connection;
        self.machine.established(connection, now);
        false
    }

    /// The communication manager tells that a connection is over, or that none has come of it.
    pub(crate) fn ended(&mut self, channel: ChannelId, now: Instant) {
        if let Some(visits) = &mut self.visits {
            visits.ended(channel, now);
        }
        let Some(guest) = self.by_channel(channel) else { return };
        (guest.over, guest.not_before) = (true, None);
        let connection = guest.connection;
        self.machine.ended(connection);
    }

    /// The communication manager tells that no connection has come of an attempt, and why.
    pub(crate) fn refused(&mut self, channel: ChannelId, reason: u16, now: Instant) {
        if let Some(visits) = &mut self.visits {
            visits.refused(channel, reason);
        }
        self.ended(channel, now);
    }

    /// The adapter tells that a queue pair has failed.
    pub(crate) fn failed(&mut self, channel: ChannelId, now: Instant) {
        if let Some(visits) = &mut self.visits {
            visits.ended(channel, now);
        }
        let connection = self.by_channel(channel).map(|guest| guest.connection);
        if let Some(connection) = connection {
            self.machine.ended(connection);
        }
    }

    /// The adapter tells that a queue pair holds no receive any more.
    pub(crate) fn emptied(&mut self, channel: ChannelId) {
        let Some(guest) = self.by_channel(channel) else { return };
        (guest.empty, guest.not_before) = (true, None);
        let connection = guest.connection;
        // A connection that carries messages has its receives: one that has none has failed, whether the adapter says so or not.
        self.machine.ended(connection);
    }

    /// The CQ of what they share is lost: all are dismissed, and the next one finds another.
    pub(crate) fn cq_failed(&mut self, cq: CqId, now: Instant) {
        if let Some(visits) = &mut self.visits {
            visits.cq_failed(cq, now);
        }
        if self.hall.as_ref().is_some_and(|hall| hall.cq() == cq) {
            self.machine.stop();
            self.lost = true;
        }
        if self.runs {
            self.machine.run();
        }
    }

    /// What they share, if there is any.
    pub(crate) fn hall(&self) -> Option<&Hall> {
        self.hall.as_ref().filter(|_| !self.lost)
    }

    /// What they share is made; comes back if there is one, or the link does not listen any more.
    pub(crate) fn put_hall(&mut self, hall: Hall) -> Option<Hall> {
        if self.hall.is_some() || !self.runs {
            return Some(hall);
        }
        self.hall = Some(hall);
        None
    }

    /// The queue pair of a connection that is about to be accepted. False if nobody wants it any more.
    #[must_use]
    pub(crate) fn hold(&mut self, connection: Connection, channel: &RcChannel, now: Instant) -> bool {
        let Some(guest) = self.find(connection).filter(|guest| !guest.dismissed) else { return false };
        (guest.channel, guest.given) = (Some(channel.id()), now);
        guest.state = State::Held(channel.clone());
        true
    }

    /// A close has ended, and the channel is what is left; whether it succeeded.
    pub(crate) fn closed(
        &mut self,
        connection: Connection,
        channel: RcChannel,
        succeeded: bool,
        now: Instant,
    ) -> Option<RcChannel> {
        let Some(guest) = self.find(connection) else { return Some(channel) };
        // The communication manager tells of whatever it was given.
        let known = succeeded || guest.over;
        let wait = match (succeeded, guest.empty) {
            (true, true) => None,
            (true, false) => Some(DRAIN),
            // Nothing of it was ever connected; or it is about to be.
            (false, _) => Some(AGAIN).filter(|_| !known),
        };
        guest.not_before = wait.map(|wait| now + wait);
        guest.state = if known { State::Draining(channel) } else { State::Held(channel) };
        None
    }

    /// The channel of a connection that is closed and empty cannot be freed yet: the adapter would take with it what nobody has taken of its
    /// completions, and the buffers would never be posted again.
    pub(crate) fn free_later(
        &mut self,
        connection: Connection,
        channel: RcChannel,
        now: Instant,
    ) -> Option<RcChannel> {
        let Some(guest) = self.find(connection) else { return Some(channel) };
        (guest.state, guest.not_before) = (State::Draining(channel), Some(now + AGAIN));
        None
    }

    /// Nothing of a connection is left but this, which is to be dropped without the lock.
    pub(crate) fn forget(&mut self, connection: Connection, now: Instant) -> Option<Guest> {
        self.machine.drained(connection);
        let guest = self.guests.take(|guest| guest.connection == connection);
        if guest.as_ref().is_some_and(|guest| guest.channel.is_some()) {
            self.wait_for_numbers(now);
        }
        guest
    }

    fn find(&mut self, connection: Connection) -> Option<&mut Guest> {
        self.guests.find_mut(|guest| guest.connection == connection)
    }

    fn by_channel(&mut self, channel: ChannelId) -> Option<&mut Guest> {
        self.guests.find_mut(|guest| guest.channel == Some(channel))
    }

    /// Those that the machine wants gone. Each thread does this: one of them may be waiting for something.
    fn dismiss(&mut self, now: Instant) {
        while let Some(Dismissed(connection)) = self.machine.poll_action(now) {
            match self.find(connection) {
                Some(guest) => guest.dismiss(),
                None => self.machine.drained(connection),
            }
        }
    }

    /// The next thing to do.
    pub(crate) fn next_step(&mut self, now: Instant) -> Option<Step> {
        self.dismiss(now);
        if core::mem::take(&mut self.lost)
            && let Some(hall) = self.hall.take()
        {
            return Some(Step::End(hall));
        }
        if let Some(guest) = self.guests.find_mut(|guest| guest.is_due(now)) {
            let refused = (guest.dismissed && guest.channel.is_none()).then_some(guest.connection);
            let step = guest.step();
            if let Some(connection) = refused {
                // Of one that was only asked for nothing is left.
                drop(self.forget(connection, now));
            }
            return step;
        }
        if let Some(step) = self.visits.as_mut().and_then(|visits| visits.next_step(now)) {
            self.wait_for_numbers(now);
            return Some(Step::Visit(step));
        }
        self.end_unused(now).or_else(|| self.close_adapter(now))
    }

    /// The next connection to close.
    pub(crate) fn next_close(&mut self, now: Instant) -> Option<(Connection, RcChannel)> {
        self.dismiss(now);
        let due = |guest: &Guest| guest.is_to_close() && guest.has_come(now);
        let hurries = self.hurries;
        if let Some(guest) = self.guests.find_mut(|guest| due(guest) && (hurries || guest.slow.is_none())) {
            return Some((guest.connection, guest.take_to_close()?));
        }
        let place = self.slow_until.iter_mut().find(|until| now >= **until)?;
        let guest = self.guests.find_mut(due)?;
        *place = now + guest.slow.unwrap_or_default();
        Some((guest.connection, guest.take_to_close()?))
    }

    /// A neighbour has said that an answer of his takes so long, as a code; whether that is longer than others say.
    pub(crate) fn answers_within(&mut self, connection: Connection, code: u8) -> bool {
        let slow = code > LONGEST_ANSWER;
        if let Some(guest) = self.find(connection).filter(|_| slow) {
            guest.slow = Some(Duration::from_nanos(4_096 << code.min(31)));
        }
        slow
    }

    /// The adapter goes.
    pub(crate) fn hurry(&mut self) {
        self.hurries = true;
    }

    /// When [`Guests::next_close`] has something again, if nothing happens before.
    pub(crate) fn close_deadline(&self) -> Option<Instant> {
        let guests = self.guests.iter().filter(|guest| guest.is_to_close());
        let next = guests.filter_map(|guest| guest.not_before).min();
        let waits = self.guests.iter().any(|guest| guest.is_to_close() && guest.slow.is_some());
        let slow = self.slow_until.iter().min().copied().filter(|_| waits);
        let visits = self.visits.as_ref().and_then(|visits| visits.close_deadline());
        [self.machine.next_deadline(), next, slow, visits].into_iter().flatten().min()
    }

    /// Of a link that is stopped nothing stays open.
    fn close_adapter(&mut self, now: Instant) -> Option<Step> {
        if self.runs || !self.is_empty() || self.close_at.is_some_and(|at| now < at) {
            return None;
        }
        let hca = self.hca.take()?;
        self.lets_go = true;
        Some(Step::LetGo(hca))
    }

    /// What nobody has sent to for a while goes.
    fn end_unused(&mut self, now: Instant) -> Option<Step> {
        let unused = self.hall.is_some() && self.guests.iter().next().is_none();
        self.unused_since = if unused { self.unused_since.or(Some(now)) } else { None };
        if self.unused_since.is_none_or(|since| now < since + UNUSED) {
            return None;
        }
        self.unused_since = None;
        self.hall.take().map(Step::End)
    }

    /// When [`Guests::next_step`] has something again, if nothing happens before.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let guests = self.guests.iter().filter(|guest| !guest.is_to_close());
        let guests = guests.filter_map(|guest| guest.not_before).min();
        let unused = self.unused_since.map(|since| since + UNUSED);
        let close = self.close_at.filter(|_| !self.runs && self.is_empty() && self.hca.is_some());
        let visits = self.visits.as_ref().and_then(|visits| visits.next_deadline());
        [self.machine.next_deadline(), guests, unused, close, visits].into_iter().flatten().min()
    }
}
