//! The machines of a link and what their actions mean here.
//!
//! [`Control`] is under one lock ([`super::Shared::control`]). Whoever knows something - a callback of the MAC layer, an event
//! of IBTF, a worker with an answer - takes the lock, tells a machine, and wakes the control thread. Only the control thread
//! turns actions into [`Effect`]s, which it carries out without the lock.

mod actions;
mod connections;
mod outstanding;
mod questions;
mod recovery;

use core::time::Duration;

use ibtf::{Attachment, McgInfo};
use ipoib::acquaintances::{AcquaintanceSlot, Acquaintances, AskedSlot};
use ipoib::debts::Debt;
use ipoib::groups::{self, Groups};
use ipoib::link::{self, Generation, Link, SendRings, Status};
use ipoib::neighbours::{NeighbourSlot, Neighbours};
use ipoib::paths::{self, Paths, Resolution, Severity, TxQueue, TxQueues};
use ipoib::{Instant, LinkAddr, Mgid, PKey};
use kernel::mblk::Mblk;
use kernel::{KArc, KBox, KVec, MayBlock};

use actions::address;
pub(crate) use outstanding::Outstanding;
pub(in crate::link) use outstanding::Reasons;
pub(in crate::link) use questions::Answered;
use questions::Questions;

use super::outgoing::{OutgoingConnections, TooBigReport, Waited};
use crate::counters::LinkState;
use crate::link::incoming::{IncomingConnections, SharedReceive};
use crate::link::job_queue::Job;
use crate::link::limits::MOST_TRANSMIT_RINGS;
use crate::link::mcg_attach::Attachments;
use crate::link::mcg_record::McgRecord;
use crate::link::neighbour::Neighbour;
use crate::link::qp_failures::Failures;
use crate::link::queue_pairs::QueuePairs;
use crate::link::sa_calls::Call;
use crate::link::settings::Key;

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

pub(crate) type Memberships = Groups<McgRecord, KVec<groups::GroupSlot<McgRecord>>>;
/// The transmit queue that a packet goes on from is the one that it was submitted by.
pub(crate) type Addresses = Paths<
    Mblk,
    Neighbour,
    KVec<paths::PathSlot<Neighbour>>,
    KVec<paths::PacketSlot<Mblk>>,
    KArc<paths::DenialEpoch>,
>;

type Known = Acquaintances<KVec<AcquaintanceSlot>, KVec<AskedSlot>>;

/// What the control thread does next, without the lock.
pub(crate) enum Effect {
    /// Something the link's worker has to do.
    Job(Job),
    /// Something the SA has to be asked.
    Call(Call),
    /// Something of a membership that another one ends.
    Owe(Debt),
    /// Packets have their path, or lost it.
    Packets,
    /// Packets have waited for a connection.
    Waited,
    /// Tell IP that a packet was too long.
    TooBig(TooBigReport),
    /// Tell the MAC layer the link's address.
    Address(LinkAddr),
    /// Tell the MAC layer.
    Announce(Status),
    /// Tell somebody who has asked about a neighbour.
    Answer(Answered),
    /// End the traffic of generations up to this one.
    TearDown(Generation),
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
    /// So many groups that promiscuous mode does not hear have no place, or more.
    Misses(u64),
    /// A group found no room in the table.
    NoRoom,
    /// The adapter refused to send a packet.
    SendRefused(ibtf::Status),
}

pub(crate) struct Control {
    // Each in a block of its own: together they would not fit on a kernel stack while they are made.
    pub(crate) link: KBox<Link<McgInfo>>,
    pub(crate) paths: KBox<Addresses>,
    pub(crate) groups: KBox<Memberships>,
    pub(crate) neighbours: KBox<Neighbours<KVec<NeighbourSlot>>>,
    /// Which of them have spoken for themselves.
    pub(crate) acquaintances: KBox<Known>,
    pub(in crate::link) questions: Questions,
    /// The queue pairs, from the first one that is made to the stop.
    pub(in crate::link) queue_pairs: Option<QueuePairs>,
    /// The groups that it is to be attached to.
    pub(in crate::link) attachments: Attachments<Attachment>,
    pub(in crate::link) failures: KBox<Failures>,
    /// Connections from neighbours, once the link has listened.
    pub(in crate::link) incoming: Option<KBox<IncomingConnections>>,
    /// Why the link is not up: what the log was told last since it was up or began.
    pub(in crate::link) reason: Option<link::Note>,
    /// Transmit rings beside the first.
    pub(crate) rings: KBox<SendRings<MOST_TRANSMIT_RINGS>>,
    pub(in crate::link) pkey: PKey,
    /// The adapter is gone, or is to go: nothing is asked of it until it is announced again.
    pub(crate) removed: bool,
    /// The MAC layer has started the link, and not stopped it since.
    pub(in crate::link) wanted: bool,
    /// The link has no time for leaves until it is started again: what is to be left is owed.
    pub(in crate::link) hands_over: bool,
    /// Transmit queues without room for packets that have their path.
    full: TxQueues,
    /// A large send waits for buffers.
    pub(crate) large_buffers_wanted: bool,
    /// The adapter refused to send a packet, and takes others; for the log.
    pub(crate) send_refused: Option<ibtf::Status>,
    /// How long a send may take was set: what that means for those that are out is to be seen now.
    pub(in crate::link) timeout_is_new: bool,
    /// Sends wait for completions that do not come.
    pub(in crate::link) sends_wait: bool,
    growth: Growth,
    /// The effect before was one of packets.
    packets_were_last: bool,
    /// The control thread carries something out, without the lock.
    pub(in crate::link) carries_out: bool,
}

/// What a link that is stopped leaves.
pub(in crate::link) struct Stopped {
    pub(in crate::link) pairs: Option<QueuePairs>,
    /// Something was sent and received, or was still to be ended.
    pub(in crate::link) had_traffic: bool,
    /// Every generation until this one is over.
    pub(in crate::link) up_to: Option<Generation>,
    /// What connections share.
    pub(in crate::link) shared_receive: Option<SharedReceive>,
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
    pub(crate) fn new(
        pkey: PKey,
        denial_epoch: KArc<paths::DenialEpoch>,
        seed: u64,
        may_block: &MayBlock,
    ) -> Self {
        Self {
            link: new_link(pkey, seed, may_block),
            paths: new_paths(denial_epoch, seed, may_block),
            groups: new_groups(seed, may_block),
            neighbours: new_neighbours(seed, may_block),
            acquaintances: new_acquaintances(seed, may_block),
            questions: Questions::new(may_block),
            queue_pairs: None,
            attachments: Attachments::new(),
            failures: new_failures(may_block),
            incoming: None,
            reason: None,
            rings: new_rings(may_block),
            pkey,
            removed: false,
            wanted: false,
            hands_over: false,
            full: TxQueues::NONE,
            large_buffers_wanted: false,
            send_refused: None,
            timeout_is_new: false,
            sends_wait: false,
            growth: Growth::Idle,
            packets_were_last: false,
            carries_out: false,
        }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        self.hands_over = false;
        self.link.handle_event(now, link::Event::Start);
    }

    /// Tells the connections from neighbours something, if the link has ever listened.
    pub(crate) fn tell_incoming(&mut self, tell: impl FnOnce(&mut IncomingConnections)) {
        if let Some(incoming) = &mut self.incoming {
            tell(incoming);
        }
    }

    /// Tells the connections to neighbours something, if the link was ever to open some.
    pub(crate) fn tell_outgoing(&mut self, tell: impl FnOnce(&mut OutgoingConnections)) {
        if let Some(outgoing) = self.incoming.as_mut().and_then(|incoming| incoming.outgoing.as_mut()) {
            tell(outgoing);
        }
    }

    /// For an administrator.
    pub(in crate::link) fn state(&self) -> LinkState {
        LinkState::of(self.link.status(), self.sends_wait)
    }

    /// Hands out what is to be ended and freed by whoever stops the link.
    pub(in crate::link) fn stop(&mut self, now: Instant) -> Stopped {
        let (had_traffic, up_to) = (self.link.has_traffic(), self.link.latest());
        self.link.handle_event(now, link::Event::Stop);
        self.groups.handle_event(now, groups::Event::Stop);
        self.paths.handle_event(now, paths::Event::Invalidate(Severity::Heavy));
        self.neighbours.clear();
        self.acquaintances.clear();
        self.attachments.remove_all();
        self.full = TxQueues::NONE;
        self.sends_wait = false;
        self.link.take_connections(false);
        let shared_receive = self.incoming.as_mut().and_then(|incoming| incoming.stop());
        self.rings.clear();
        Stopped { pairs: self.queue_pairs.take(), had_traffic, up_to, shared_receive }
    }

    /// The port has answered.
    pub(in crate::link) fn port_answered(
        &mut self,
        now: Instant,
        ticket: link::Ticket,
        port: Option<link::Port>,
    ) {
        self.link.handle_event(now, link::Event::Port(ticket, port));
        self.compare_routes(now);
        if self.link.has_lost_its_pkey() {
            self.tell_incoming(|incoming| incoming.pkey_is_lost(now));
        }
    }

    pub(crate) fn looked_up(
        &mut self,
        now: Instant,
        to: LinkAddr,
        result: Result<Resolution<Neighbour>, paths::LookupError>,
    ) {
        if let Ok(found) = &result {
            let by = *found.handle.address();
            self.tell_outgoing(|outgoing| outgoing.path_is(&to, &by, now));
            self.acquaintances.reach(&to);
        }
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
    pub(crate) fn wait_for_room(&mut self, queue: TxQueue, wait: bool) {
        self.full.set(queue, wait);
    }

    /// The transmit queues that can go on with packets that have their path.
    pub(crate) fn can_go_on(&self) -> TxQueues {
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

    /// The next thing to do; `None` until something else is told. Packets come first, and not twice in a row: however many there are, the rest
    /// has its turn.
    #[inline(never)]
    pub(crate) fn next_effect(&mut self, now: Instant) -> Option<Effect> {
        let is_packets_turn = !core::mem::take(&mut self.packets_were_last);
        let packets = if is_packets_turn { self.next_packets() } else { None };
        let effect = packets.or_else(|| self.next_of_machines(now)).or_else(|| self.next_packets());
        self.packets_were_last = matches!(effect, Some(Effect::Packets | Effect::Waited));
        self.carries_out = effect.is_some();
        effect
    }

    /// What the driver itself has to do beside the machines.
    #[inline(never)]
    fn next_of_driver(&mut self, now: Instant) -> Option<Effect> {
        if let Some(report) = self.outgoing().and_then(OutgoingConnections::next_report) {
            return Some(Effect::TooBig(report));
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
        if let Some(job) = self.next_erred() {
            return Some(Effect::Job(job));
        }
        if let Some(job) = self.next_failure(now) {
            return Some(Effect::Job(job));
        }
        if let Some((ring, why)) = self.rings.next_failed() {
            return Some(Effect::Job(Job::ReplaceSender(ring, why)));
        }
        if let Some(addresses) = self.path_table_wanted(now) {
            return Some(Effect::Job(Job::GrowPathTable(addresses)));
        }
        if self.removed
            && let Some(debt) = self.next_debt(now)
        {
            return Some(Effect::Owe(debt));
        }
        None
    }

    #[inline(never)]
    fn next_of_machines(&mut self, now: Instant) -> Option<Effect> {
        loop {
            if let Some(effect) = self.next_of_driver(now) {
                return Some(effect);
            }
            if let Some(action) = self.link.poll_action(now) {
                match self.link_action(now, action) {
                    None => continue,
                    effect => return effect,
                }
            }
            if let Some(action) = self.next_of_groups(now) {
                match self.groups_action(now, action) {
                    None => continue,
                    effect => return effect,
                }
            }
            let next = self.next_lookup(now)?;
            if let Some(effect) = self.lookup(now, next) {
                return Some(effect);
            }
        }
    }

    /// Apart, so that the frame of the caller stays small.
    #[inline(never)]
    fn next_of_groups(&mut self, now: Instant) -> Option<groups::Action<McgRecord>> {
        self.groups.set_doubt(now, self.link.certain_broadcast_group().is_none());
        self.groups.poll_action(now)
    }

    /// Packets that have waited for a path, or for a connection.
    fn next_packets(&self) -> Option<Effect> {
        if self.can_go_on() != TxQueues::NONE {
            return Some(Effect::Packets);
        }
        let outgoing = self.incoming.as_ref().and_then(|incoming| incoming.outgoing.as_ref());
        outgoing.is_some_and(|outgoing| outgoing.has_packets()).then_some(Effect::Waited)
    }

    /// What is to be done with the next packet that waited for a connection.
    pub(crate) fn next_waited(&mut self) -> Option<Waited> {
        self.outgoing()?.next_packet()
    }

    fn outgoing(&mut self) -> Option<&mut OutgoingConnections> {
        self.incoming.as_mut()?.outgoing.as_deref_mut()
    }

    /// How many addresses there should be room for, if more than there is: asked once three quarters are in use.
    fn path_table_wanted(&mut self, now: Instant) -> Option<usize> {
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

    /// The answer to [`Job::GrowPathTable`].
    pub(crate) fn path_table_grown(&mut self, now: Instant, made: bool) {
        self.growth = if made { Growth::Idle } else { Growth::NotBefore(now + GROWTH_PAUSE) };
    }
}

#[inline(never)]
fn new_neighbours(seed: u64, may_block: &MayBlock) -> KBox<Neighbours<KVec<NeighbourSlot>>> {
    let neighbours = KVec::from_fn_waiting(NEIGHBOURS, may_block, |_| NeighbourSlot::default());
    KBox::new_waiting(Neighbours::new(neighbours, seed), may_block)
}

#[inline(never)]
fn new_acquaintances(seed: u64, may_block: &MayBlock) -> KBox<Known> {
    let known = KVec::from_fn_waiting(NEIGHBOURS, may_block, |_| AcquaintanceSlot::default());
    let asked = KVec::from_fn_waiting(NEIGHBOURS, may_block, |_| AskedSlot::default());
    KBox::new_waiting(Acquaintances::new(known, asked, seed), may_block)
}

#[inline(never)]
fn new_failures(may_block: &MayBlock) -> KBox<Failures> {
    KBox::new_waiting(Failures::new(may_block), may_block)
}

#[inline(never)]
fn new_rings(may_block: &MayBlock) -> KBox<SendRings<MOST_TRANSMIT_RINGS>> {
    KBox::new_waiting(SendRings::default(), may_block)
}

#[inline(never)]
fn new_link(pkey: PKey, seed: u64, may_block: &MayBlock) -> KBox<Link<McgInfo>> {
    KBox::new_waiting(Link::new(link::Config::new(pkey), seed), may_block)
}

#[inline(never)]
fn new_paths(denial_epoch: KArc<paths::DenialEpoch>, seed: u64, may_block: &MayBlock) -> KBox<Addresses> {
    let first = Key::NumAh.default_value() as usize;
    let addresses = KVec::from_fn_waiting(first, may_block, |_| paths::PathSlot::default());
    let packets = KVec::from_fn_waiting(PACKETS, may_block, |_| paths::PacketSlot::default());
    let paths = Paths::new(paths::Config::default(), addresses, packets, denial_epoch, seed);
    KBox::new_waiting(paths, may_block)
}

#[inline(never)]
fn new_groups(seed: u64, may_block: &MayBlock) -> KBox<Memberships> {
    let slots = KVec::from_fn_waiting(GROUPS, may_block, |_| groups::GroupSlot::default());
    let config = groups::Config { operations: OPERATIONS, ..groups::Config::default() };
    KBox::new_waiting(Groups::new(config, slots, seed), may_block)
}
