//! The machines of a link and what their actions mean here.
//!
//! [`Control`] is under one lock ([`super::Shared::control`]). Whoever knows something - a callback of the MAC layer, an event
//! of IBTF, a worker with an answer - takes the lock, tells a machine, and wakes the control thread. Only the control thread
//! turns actions into [`Effect`]s, which it carries out without the lock.

use core::time::Duration;

use ibtf::{Attachment, McgInfo, UdChannel};
use ipoib::groups::{self, Groups};
use ipoib::link::{self, Link, Status, Ticket, Up};
use ipoib::neighbours::{NeighbourSlot, Neighbours};
use ipoib::paths::{self, Lane, Lanes, Paths, Resolution, Severity};
use ipoib::{Instant, LinkAddr, Mgid, PKey};
use kernel::mblk::Mblk;
use kernel::{AllocError, KArc, KBox, KVec};

use super::calls::{Call, Membership};
use super::datapath::Traffic;
use super::failures::{Failure, Failures};
use super::group::Group;
use super::heard::Heard;
use super::incoming::{Guests, Hall};
use super::jobs::Job;
use super::neighbour::Neighbour;
use super::outgoing::{Complaint, Visits, Waited};
use super::pairs::Pairs;
use super::questions::{Answered, Questions};
use super::senders::{Senders, Verdict, Why};
use super::settings::Key;

/// Addresses known at once, at most: 16,384 ports with four queue pairs each.
const MOST_ADDRESSES: usize = 65_536;
/// How long memory that could not be had is not asked for again.
const GROWTH_PAUSE: Duration = Duration::from_secs(10);
/// Packets waiting for a path at once, in all.
const PACKETS: usize = 1024;
/// Groups at once.
const GROUPS: usize = 1280;
/// Joins and leaves in flight at once: twice what can be out, so that the next is at hand when an answer comes.
const OPERATIONS: u16 = 2 * ipoib::window::MOST as u16;

/// Neighbours remembered at once.
const NEIGHBOURS: usize = 512;

pub(crate) type Memberships = Groups<Group, KVec<groups::GroupSlot<Group>>>;
/// The transmit queue that a packet goes on from is its lane.
pub(crate) type Addresses = Paths<
    Mblk,
    Neighbour,
    KVec<paths::PathSlot<Neighbour>>,
    KVec<paths::PacketSlot<Mblk>>,
    KArc<paths::Pardons>,
>;

/// What the control thread does next, without the lock.
pub(crate) enum Effect {
    /// Something the link's worker has to do.
    Job(Job),
    /// Something the SA has to be asked.
    Call(Call),
    /// Packets have their path, or lost it.
    Packets,
    /// A packet has waited for a connection.
    Waited(Waited),
    /// Tell IP that a packet was too long.
    TooBig(Complaint),
    /// Tell the MAC layer the link's address.
    Address(LinkAddr),
    /// Tell the MAC layer.
    Announce(Status),
    /// Tell somebody who has asked about a neighbour.
    Answer(Answered),
    /// End the traffic.
    TearDown(Option<Traffic>),
    /// Tell the log.
    Note(Note),
}

/// For the log.
pub(crate) enum Note {
    Link(link::Note),
    /// A group could not be joined; whether it had been joined before.
    JoinFailed(Mgid, bool),
    /// Promiscuous mode could not join a group.
    Missed(Mgid),
    /// The adapter refused to send a packet.
    SendRefused(ibtf::Status),
}

pub(crate) struct Control {
    // Each in a block of its own: together they would not fit on a kernel stack while they are made.
    pub(crate) link: KBox<Link<McgInfo>>,
    pub(crate) paths: KBox<Addresses>,
    pub(crate) groups: KBox<Memberships>,
    pub(crate) neighbours: Neighbours<KVec<NeighbourSlot>>,
    pub(super) questions: Questions,
    /// The queue pairs, from the first one that is made to the stop.
    pub(super) pairs: Option<Pairs>,
    /// What they carry, once that is built.
    pub(super) traffic: Option<Traffic>,
    /// The groups that it is to be attached to.
    pub(super) heard: Heard<Attachment>,
    pub(super) failures: Failures,
    /// Connections from neighbours, once the link has listened.
    pub(super) guests: Option<KBox<Guests>>,
    /// Its queue pairs that only send.
    pub(crate) senders: KBox<Senders>,
    pub(super) pkey: PKey,
    /// The adapter is gone: nothing will ever be asked of it again.
    pub(crate) removed: bool,
    /// Transmit queues without room for packets that have their path.
    full: Lanes,
    /// A large send waits for buffers.
    pub(crate) large_buffers_wanted: bool,
    /// The adapter refused to send a packet, and takes others; for the log.
    pub(crate) send_refused: Option<ibtf::Status>,
    growth: Growth,
}

/// How the table of addresses comes to more room.
enum Growth {
    Idle,
    /// A worker is at it.
    Asked,
    /// There was no memory.
    NotBefore(Instant),
}

impl Control {
    pub(crate) fn new(pkey: PKey, pardons: KArc<paths::Pardons>, seed: u64) -> Result<Self, AllocError> {
        Ok(Self {
            link: new_link(pkey, seed)?,
            paths: new_paths(pardons, seed)?,
            groups: new_groups(seed)?,
            neighbours: Neighbours::new(KVec::from_fn(NEIGHBOURS, |_| NeighbourSlot::default())?, seed),
            questions: Questions::new()?,
            pairs: None,
            traffic: None,
            heard: Heard::new(),
            failures: Failures::new()?,
            guests: None,
            senders: KBox::new(Senders::default())?,
            pkey,
            removed: false,
            full: Lanes::NONE,
            large_buffers_wanted: false,
            send_refused: None,
            growth: Growth::Idle,
        })
    }

    /// What is held and which answers are awaited.
    pub(crate) fn outstanding(&self) -> Outstanding {
        Outstanding {
            link: !self.link.is_idle(),
            groups: !self.groups.is_idle(),
            lookups: self.paths.lookups_in_flight(),
            packets: self.paths.packets_held(),
            questions: self.questions.open(),
            queue_pair: self.pairs.is_some() || self.traffic.is_some(),
            connections: self.guests.as_ref().is_some_and(|guests| !guests.is_idle()),
        }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        self.link.handle_event(now, link::Event::Start);
    }

    /// Tells the connections from neighbours something, if the link has ever listened.
    pub(crate) fn tell_guests(&mut self, tell: impl FnOnce(&mut Guests)) {
        if let Some(guests) = &mut self.guests {
            tell(guests);
        }
    }

    /// Tells the connections to neighbours something, if the link was ever to open some.
    pub(crate) fn tell_visits(&mut self, tell: impl FnOnce(&mut Visits)) {
        if let Some(visits) = self.guests.as_mut().and_then(|guests| guests.visits.as_mut()) {
            tell(visits);
        }
    }

    /// Hands out the queue pairs, what they carry, and what connections share, for whoever stops the link to free.
    pub(crate) fn stop(&mut self, now: Instant) -> (Option<Pairs>, Option<Traffic>, Option<Hall>) {
        self.link.handle_event(now, link::Event::Stop);
        self.groups.handle_event(now, groups::Event::Stop);
        self.paths.handle_event(now, paths::Event::Invalidate(Severity::Heavy));
        self.neighbours.clear();
        self.heard.remove_all();
        self.full = Lanes::NONE;
        self.link.take_connections(false);
        let hall = self.guests.as_mut().and_then(|guests| guests.stop());
        (self.pairs.take(), self.take_traffic(), hall)
    }

    fn take_traffic(&mut self) -> Option<Traffic> {
        self.senders.clear();
        self.traffic.take()
    }

    /// The queue pair of a transmit queue, or of the link if there are no rings, has failed. `serial` names it.
    pub(crate) fn send_side_failed(&mut self, now: Instant, ring: usize, serial: u64, why: Why) {
        let verdict = match ring {
            0 if self.flows(serial) => Verdict::Link,
            // One that is gone.
            0 => Verdict::Nothing,
            ring => self.senders.failed(now, ring, serial, why),
        };
        self.replace(now, verdict, why);
    }

    /// The receive side of the traffic with this serial number has failed.
    pub(crate) fn receive_side_failed(&mut self, now: Instant, serial: u64) {
        if self.flows(serial) {
            self.replace(now, Verdict::Link, Why::Failed);
        }
    }

    /// Whether the traffic with this serial number flows.
    pub(super) fn flows(&self, serial: u64) -> bool {
        self.traffic.as_ref().is_some_and(|traffic| traffic.serial() == serial)
    }

    /// The next look at what IBTF has told of, or what follows at once.
    fn next_failure(&mut self, now: Instant) -> Option<Job> {
        // One of a queue pair that is being made is looked at when that has its place.
        if self.link.is_building() || self.senders.is_replacing() {
            return None;
        }
        while let Some(failure) = self.failures.take() {
            let Some(pairs) = &mut self.pairs else { continue };
            // Otherwise of one that is gone.
            let Some((ring, channel)) = pairs.ring_of(failure) else { continue };
            match (failure, &self.traffic) {
                (Failure::Channel(_), Some(traffic)) => {
                    return Some(Job::Inspect(ring, channel.clone(), traffic.serial()));
                }
                // Nothing follows until they are to carry something.
                (Failure::Channel(_), None) => pairs.failed_idle(),
                (Failure::Cq(_), Some(_)) if ring != 0 => {
                    let verdict = self.senders.failed_as_it_is(now, ring);
                    self.replace(now, verdict, Why::Failed);
                }
                (Failure::Cq(_), _) => {
                    pairs.lost();
                    self.replace(now, Verdict::Link, Why::Failed);
                }
            }
        }
        None
    }

    /// A queue pair has failed, if it still is that of the ring.
    pub(crate) fn channel_has_failed(&mut self, now: Instant, ring: usize, channel: &UdChannel, serial: u64) {
        let failure = Failure::Channel(channel.id());
        let stands = |pairs: &Pairs| pairs.ring_of(failure).is_some_and(|(at, _)| at == ring);
        if !self.flows(serial) || !self.pairs.as_ref().is_some_and(stands) {
            return;
        }
        let verdict = if ring == 0 { Verdict::Link } else { self.senders.failed_as_it_is(now, ring) };
        self.replace(now, verdict, Why::Failed);
    }

    fn replace(&mut self, now: Instant, verdict: Verdict, why: Why) {
        let event = match why {
            Why::Failed => link::Event::Broken,
            Why::Stalled => link::Event::Stalled,
        };
        if verdict == Verdict::Link {
            // A failure is told in several ways; the first one counts.
            if let Some(pairs) = self.pairs.as_mut().filter(|_| self.link.standing().is_some()) {
                pairs.failed(now);
            }
            self.link.handle_event(now, event);
        }
    }

    pub(crate) fn looked_up(
        &mut self,
        now: Instant,
        to: LinkAddr,
        result: Result<Resolution<Neighbour>, paths::LookupError>,
    ) {
        self.paths.handle_event(now, paths::Event::LookedUp(to, result));
    }

    /// A group exists: whoever was sent to the routers instead asks again.
    pub(crate) fn group_appeared(&mut self, now: Instant, mgid: Mgid) {
        self.link.handle_event(now, link::Event::Appeared(mgid));
        self.groups.handle_event(now, groups::Event::Exists(mgid));
        if !self.groups.hears(mgid) {
            self.paths.handle_event(now, paths::Event::Forget(address(mgid)));
        }
    }

    pub(crate) fn group_gone(&mut self, now: Instant, mgid: Mgid) {
        self.link.handle_event(now, link::Event::Gone(mgid));
        self.groups.handle_event(now, groups::Event::Gone(mgid));
    }

    /// Whether packets that have their path must wait for this transmit queue. Those of others do not.
    pub(crate) fn wait_for_room(&mut self, queue: Lane, wait: bool) {
        self.full.set(queue, wait);
    }

    /// The transmit queues that can go on with packets that have their path.
    pub(crate) fn can_go_on(&self) -> Lanes {
        self.paths.packets_out().without(self.full)
    }

    /// When [`Control::handle_timeout`] wants to be called next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let machines = [
            self.link.poll_timeout(),
            self.paths.poll_timeout(),
            self.groups.poll_timeout(),
            self.neighbours.poll_timeout(),
        ];
        machines.into_iter().flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.link.handle_timeout(now);
        self.paths.handle_timeout(now);
        self.groups.handle_timeout(now);
        self.neighbours.handle_timeout(now);
    }

    /// The next thing to do; `None` until something else is told.
    #[inline(never)]
    pub(crate) fn next_effect(&mut self, now: Instant) -> Option<Effect> {
        loop {
            if self.can_go_on() != Lanes::NONE {
                return Some(Effect::Packets);
            }
            if let Some(effect) = self.next_of_visits() {
                return Some(effect);
            }
            if let Some(answered) = self.next_answer(now) {
                return Some(Effect::Answer(answered));
            }
            if core::mem::take(&mut self.large_buffers_wanted) {
                return Some(Effect::Job(Job::LargeBuffers));
            }
            if let Some(status) = self.send_refused.take() {
                return Some(Effect::Note(Note::SendRefused(status)));
            }
            if let Some(job) = self.next_failure(now) {
                return Some(Effect::Job(job));
            }
            if let Some((ring, why)) = self.senders.next() {
                return Some(Effect::Job(Job::ReplaceSender(ring, why)));
            }
            if let Some(addresses) = self.room_wanted(now) {
                return Some(Effect::Job(Job::MakeRoom(addresses)));
            }
            if let Some(action) = self.link.poll_action(now) {
                match self.link_action(now, action) {
                    None => continue,
                    effect => return effect,
                }
            }
            if let Some(action) = self.groups.poll_action(now) {
                match self.groups_action(now, action) {
                    None => continue,
                    effect => return effect,
                }
            }
            let to = self.paths.next_lookup()?;
            if let Some(effect) = self.lookup(now, to) {
                return Some(effect);
            }
        }
    }

    /// What connections to neighbours have for the control thread.
    fn next_of_visits(&mut self) -> Option<Effect> {
        let visits = self.guests.as_mut()?.visits.as_mut()?;
        let waited = visits.next_packet().map(Effect::Waited);
        waited.or_else(|| visits.next_complaint().map(Effect::TooBig))
    }

    /// How many addresses there should be room for, if more than there is: asked once three quarters are in use.
    fn room_wanted(&mut self, now: Instant) -> Option<usize> {
        let (used, room) = (self.paths.len(), self.paths.capacity());
        let due = match self.growth {
            Growth::Idle => true,
            Growth::Asked => false,
            Growth::NotBefore(at) => now >= at,
        };
        if !due || room >= MOST_ADDRESSES || used < room - room / 4 {
            return None;
        }
        self.growth = Growth::Asked;
        Some((2 * room).min(MOST_ADDRESSES))
    }

    /// The answer to [`Job::MakeRoom`].
    pub(crate) fn room_made(&mut self, now: Instant, made: bool) {
        self.growth = if made { Growth::Idle } else { Growth::NotBefore(now + GROWTH_PAUSE) };
    }

    fn link_action(&mut self, now: Instant, action: link::Action<McgInfo>) -> Option<Effect> {
        let job = match action {
            link::Action::QueryPort(ticket) => Job::QueryPort(ticket),
            link::Action::Find(ticket, mgid) => return Some(Effect::Call(Call::Find(ticket, mgid))),
            link::Action::Join(ticket, gid, mgid, group) => {
                return Some(Effect::Call(Call::JoinBroadcast(ticket, gid, mgid, group)));
            }
            link::Action::Leave { mgid, gid, joins } => {
                return Some(Effect::Call(Call::LeaveBroadcast { mgid, gid, joins }));
            }
            link::Action::Make(ticket, pkey_index) => Job::Make(ticket, pkey_index),
            link::Action::Build(ticket, plan, group) => Job::Build(ticket, plan, group),
            link::Action::Attach(ticket, group) => return Some(self.attach(now, ticket, group)),
            link::Action::AskRate(gid) => return Some(Effect::Call(Call::AskRate(gid))),
            link::Action::TearDown => return Some(Effect::TearDown(self.take_traffic())),
            link::Action::Invalidate(severity) => {
                self.invalidate(now, severity);
                return None;
            }
            link::Action::Address(address) => return Some(Effect::Address(address)),
            link::Action::Announce(status) => {
                self.announced(now, status);
                return Some(Effect::Announce(self.as_the_mac_layer_sees(status)));
            }
            link::Action::Note(note) => return Some(Effect::Note(Note::Link(note))),
        };
        Some(Effect::Job(job))
    }

    /// Whoever remembers the broadcast group as it was before must ask again.
    fn attach(&mut self, now: Instant, ticket: Ticket, group: McgInfo) -> Effect {
        if let Some(mgid) = self.link.broadcast_group().map(|group| group.mgid) {
            self.paths.handle_event(now, paths::Event::Forget(address(mgid)));
        }
        Effect::Job(Job::AttachBroadcast(ticket, group))
    }

    fn invalidate(&mut self, now: Instant, severity: Severity) {
        self.paths.handle_event(now, paths::Event::Invalidate(severity));
        self.groups.handle_event(now, groups::Event::Renew);
    }

    fn announced(&mut self, now: Instant, status: Status) {
        let event = match status {
            Status::Up(Up { scope, .. }) => groups::Event::Up(scope, self.pkey),
            // Port and SA are there: who joins or leaves need not wait for the next queue pair, which hears what this one heard.
            Status::Down(link::WaitsFor::QueuePair) => return,
            Status::Down(_) => groups::Event::Down,
            Status::Stopped => groups::Event::Stop,
        };
        self.groups.handle_event(now, event);
    }

    /// The machine of a removed adapter's link is stopped; the MAC layer, which did not stop it, hears of a port that is down.
    fn as_the_mac_layer_sees(&self, status: Status) -> Status {
        match status {
            Status::Stopped if self.removed => Status::Down(link::WaitsFor::Port),
            other => other,
        }
    }

    fn groups_action(&mut self, now: Instant, action: groups::Action<Group>) -> Option<Effect> {
        let call = match action {
            groups::Action::Join { group, role, .. } => Call::JoinGroup(group, role),
            groups::Action::Leave { group, roles, counted, joins, info } => {
                Call::LeaveGroup(group, Membership { roles, counted, joins, port: info.port() })
            }
            groups::Action::List => Call::ListGroups,
            groups::Action::Resolved(group, result) => return self.group_resolved(now, group, result),
            groups::Action::Forget(group) => {
                self.paths.handle_event(now, paths::Event::Forget(address(group)));
                return None;
            }
            groups::Action::ForgetAll => {
                self.paths.handle_event(now, paths::Event::ForgetGroups);
                return None;
            }
            groups::Action::Failed { group, role, again } => {
                let missed = role == groups::Roles::NON;
                let note = if missed { Note::Missed(group) } else { Note::JoinFailed(group, again) };
                return Some(Effect::Note(note));
            }
        };
        Some(Effect::Call(call))
    }

    fn group_resolved(
        &mut self,
        now: Instant,
        group: Mgid,
        result: Result<groups::Resolved<Group>, groups::JoinError>,
    ) -> Option<Effect> {
        let to = address(group);
        match result {
            Ok(resolved) => Some(Effect::Job(Job::MakeDest(to, resolved.info.into_info(), resolved.refresh))),
            Err(error) => {
                self.looked_up(now, to, Err(lookup_error(error)));
                None
            }
        }
    }

    /// What answers a lookup, unless it is answered here.
    fn lookup(&mut self, now: Instant, to: LinkAddr) -> Option<Effect> {
        let Some(group) = to.mgid() else { return Some(Effect::Call(Call::Lookup(to))) };
        let broadcast = self.link.broadcast_group().is_some_and(|known| address(known.mgid) == to);
        if broadcast && let Some(info) = self.link.broadcast_info() {
            return Some(Effect::Job(Job::MakeDest(to, *info, None)));
        }
        if let Err(error) = self.groups.resolve(group) {
            self.looked_up(now, to, Err(lookup_error(error)));
        }
        None
    }
}

/// By which a group is known to those who send: without the scope and P_Key that the link's groups have now.
fn address(group: Mgid) -> LinkAddr {
    LinkAddr::multicast(group.canonical())
}

/// What of a link's machines is not at rest.
pub(crate) struct Outstanding {
    link: bool,
    groups: bool,
    lookups: usize,
    packets: usize,
    questions: usize,
    queue_pair: bool,
    connections: bool,
}

impl Outstanding {
    pub(crate) fn is_nothing(&self) -> bool {
        let waiting = self.lookups + self.packets + self.questions;
        !self.link && !self.groups && waiting == 0 && !self.queue_pair && !self.connections
    }
}

impl core::fmt::Display for Outstanding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} link, {} groups, {} lookups, {} packets, {} questions, {} queue pair, {} connections",
            u8::from(self.link),
            u8::from(self.groups),
            self.lookups,
            self.packets,
            self.questions,
            u8::from(self.queue_pair),
            u8::from(self.connections)
        )
    }
}

#[inline(never)]
fn new_link(pkey: PKey, seed: u64) -> Result<KBox<Link<McgInfo>>, AllocError> {
    KBox::new(Link::new(link::Config::new(pkey), seed))
}

#[inline(never)]
fn new_paths(pardons: KArc<paths::Pardons>, seed: u64) -> Result<KBox<Addresses>, AllocError> {
    let first = Key::NumAh.default_value() as usize;
    let addresses = KVec::from_fn(first, |_| paths::PathSlot::default())?;
    let packets = KVec::from_fn(PACKETS, |_| paths::PacketSlot::default())?;
    KBox::new(Paths::new(paths::Config::default(), addresses, packets, pardons, seed))
}

#[inline(never)]
fn new_groups(seed: u64) -> Result<KBox<Memberships>, AllocError> {
    let slots = KVec::from_fn(GROUPS, |_| groups::GroupSlot::default())?;
    let config = groups::Config { operations: OPERATIONS, ..groups::Config::default() };
    KBox::new(Groups::new(config, slots, seed))
}

fn lookup_error(error: groups::JoinError) -> paths::LookupError {
    match error {
        groups::JoinError::Refused => paths::LookupError::Absent,
        groups::JoinError::Unanswered | groups::JoinError::LinkDown | groups::JoinError::NoRoom => {
            paths::LookupError::Unanswered
        }
    }
}
