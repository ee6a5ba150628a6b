//! From a 20-byte link address to a way to send there.
//!
//! ```text
//!            submit                     LookedUp ok
//! (unknown) --------> Unresolved(lookup) ----------> Ready <--+ refresh in the background
//!                          |   ^                       |  |___|
//!                          |   | submit after `until`  | idle, forgotten, evicted: gone
//!                 no path  v   |                       v
//!                        Failed(until) -------------> (unknown)
//! ```
//!
//! Any number of addresses resolve side by side, at most one lookup each and a bounded number in all; packets wait in a small
//! queue per address, the oldest giving way. A lookup that failed is not repeated before its back-off has passed. The table is
//! bounded and evicts an address that was not used for long, in O(1).
//!
//! Transmit queues remember handles, without the table's lock. Whether a handle still holds is said in the handle, and by the table alone
//! ([`Validity`]): every change of what is known about an address goes through one function, which withdraws the handle that was known
//! before. Nobody is told, and nothing is taken out of the queues' memories.
//!
//! Whatever goes in as a packet comes out exactly once: from [`Paths::submit`] itself, or as [`Action::Send`] or
//! [`Action::Drop`].
//!
//! A host on the subnet can make IP answer addresses that no port has, as fast as it sends. So an answer has a [`Cause`] of its own,
//! with few places for packets and few lookups, and questions to the SA for answers alone are paid from a `bucket`. It is the same with
//! what IP asks a group because of a frame that any host may have made up, and each port that has proved nothing is paid from a larger one. One port has one
//! path: its addresses share one question, and the idle ones are forgotten first (`of_port`).

mod bucket;
mod cause;
mod config;
mod counts;
mod doubt;
mod leaving;
mod lists;
mod lookup;
mod of_port;
mod packets;
mod path;
mod room;
#[cfg(test)]
mod tests;
mod validity;

use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::addr::{Gid, LinkAddr};
use crate::backoff::Jitter;
use crate::table::{Id, Slot, Table};
use crate::time::Instant;
use bucket::Bucket;
pub use cause::{Cause, Shown};
pub use config::Config;
pub use counts::Counts;
use lists::LISTS;
pub use lookup::Next;
use packets::Packets;
pub use packets::{PacketSlot, TX_QUEUES, TxQueue, TxQueues};
pub use path::Path;
use path::{Lookup, State, Trust};
pub use validity::{DenialEpoch, Validity};

/// Room for one address.
pub type PathSlot<H> = Slot<LinkAddr, Path<H>, LISTS>;

/// How many addresses, at most, stay because they were used by queues' own memories when one has to go.
const SECOND_CHANCES: usize = 16;

/// How much an event undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The SM changed: handles are good until looked up again, which takes [`Config::spread`] at most; failures may be retried at once.
    Light,
    /// Paths may be wrong: every handle is dropped, packets that wait are looked up afresh.
    Normal,
    /// The queue pair is gone or the link is stopping: handles and waiting packets are dropped.
    Heavy,
}

/// Why a lookup brought no handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// There is no path: the SA said so.
    Absent,
    /// Nobody answered. Says nothing about the peer.
    Unanswered,
    /// The adapter gave no address handle, even after [`Paths::evict_idle`]. Says nothing about the peer.
    NoHandle,
}

/// How to send to an address: one thing that the table, the transmit queues and the sends share. Cheap to clone; equal if packets take the
/// same way.
pub trait Handle: Clone + PartialEq {
    /// Whether it still holds: the same of every clone, and of no other handle.
    fn validity(&self) -> &Validity;
}

/// A handle and how long to trust it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution<H> {
    /// What a transmit queue needs to send.
    pub handle: H,
    /// Look up again after this long instead of [`Config::refresh`]; for a stand-in such as the all-routers group.
    pub refresh: Option<Duration>,
    /// Whose way it is, unless the SA has just said so of this very address.
    pub followed: Option<Followed>,
}

/// What is thought of the way to a port that another of its addresses follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    since: Instant,
    trust: Trust,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event<H> {
    /// The lookup that [`Paths::next_lookup`] asked for has ended.
    LookedUp(LinkAddr, Result<Resolution<H>, LookupError>),
    /// Everything is in doubt.
    Invalidate(Severity),
    /// One address is in doubt to the point that its handle must not be used (its group was left or moved).
    Forget(LinkAddr),
    /// Every multicast address is in doubt.
    ForgetGroups,
    /// A GID came into service or went out of it: look up again what is known about it.
    GidChanged(Gid),
}

/// Why a packet was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The SA knows no path to the address, now or when it was last asked.
    Unreachable,
    /// The lookup was not answered.
    LookupFailed,
    /// Too many packets wait, for this address or in all; the oldest gave way.
    QueueFull,
    /// Too many addresses resolve at once.
    TableFull,
    /// It only answers, and too many answers wait for a path.
    Answers,
    /// It only asks for a neighbour, and too many questions wait for their groups.
    Questions,
    /// The link went down or was rebuilt while the packet waited.
    LinkReset,
}

/// What to do with a packet that waited.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<P, H> {
    /// Send it.
    Send(LinkAddr, P, H),
    /// Free it.
    Drop(LinkAddr, P, DropReason),
}

/// Nothing goes to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: DropReason,
    until: Instant,
    denial_epoch: u64,
}

impl Denial {
    /// Whether it still stands: its time has not come, and nobody was given another chance since. `denial_epoch` are those of the table that
    /// said it.
    pub fn stands(&self, now: Instant, denial_epoch: &DenialEpoch) -> bool {
        now < self.until && self.denial_epoch == denial_epoch.count()
    }
}

/// What became of a packet at once.
#[derive(Debug, PartialEq, Eq)]
pub enum Submitted<P, H> {
    /// Send it with this handle. The queue may remember the handle, and send by it as long as it [holds](Validity::holds).
    Ready(P, H),
    /// It waits. A packet that had to give way for it comes back.
    Queued(Option<P>),
    /// It does not go.
    Dropped(P, DropReason),
    /// It does not go, and nor does any other as long as this [stands](Denial::stands): the queue may remember it.
    Denied(P, Denial),
}

/// What is known about an address that somebody asks about.
#[derive(Debug, PartialEq, Eq)]
pub enum Known<H> {
    /// The handle, and how long ago it was looked up.
    Ready(H, Duration),
    /// A lookup is out, or will be as soon as there is room for one.
    Unresolved,
    /// The last lookup failed for this reason and may not be repeated yet.
    Failed(DropReason),
    /// Nothing, and no lookup is on its way: too many addresses resolve, or what was asked was given up.
    Nothing,
}

/// The machine. `P` is a packet, `H` a handle, `S` and `T` the memory for addresses and for packets that wait, `G` a reference to what
/// it shares with transmit queues that remember denials.
#[derive(Debug)]
pub struct Paths<P, H, S, T, G> {
    table: Table<LinkAddr, Path<H>, S, LISTS>,
    packets: Packets<P, T>,
    config: Config,
    /// Lookups that are out: of ports, and of groups.
    ports_out: u16,
    groups_out: u16,
    /// Those of ports that only answers wait for, of ports that have not spoken for themselves, and of groups that only questions wait for.
    answers_out: u16,
    unproved_out: u16,
    questions_out: u16,
    /// Lookups of ports so far, for whose turn it is.
    turn: u8,
    bucket: Bucket,
    bucket_of_unproved: Bucket,
    /// Of groups that only questions wait for: each can cost a join.
    bucket_of_questions: Bucket,
    /// Until then answers have lacked room a short while ago.
    scarce_until: Instant,
    /// SMs that there were before the one that is there.
    sms: u32,
    /// An SM has come, and these places of the table have not been looked at since.
    doubts: Option<doubt::Walk>,
    denial_epoch: G,
    jitter: Jitter,
    counts: Counts,
}

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    /// A machine that knows at most `addresses.len()` addresses and holds at most `packets.len()` packets. `seed` keys the
    /// hash and the jitter.
    pub fn new(config: Config, addresses: S, packets: T, denial_epoch: G, seed: u64) -> Self {
        Self {
            table: Table::new(addresses, seed),
            packets: Packets::new(packets),
            config,
            ports_out: 0,
            groups_out: 0,
            answers_out: 0,
            unproved_out: 0,
            questions_out: 0,
            turn: 0,
            bucket: Bucket::new(config.answers_at_once, config.answers_pace),
            bucket_of_unproved: Bucket::new(config.unproved_at_once, config.unproved_pace),
            bucket_of_questions: Bucket::new(config.answers_at_once, config.answers_pace),
            scarce_until: Instant::ZERO,
            sms: 0,
            doubts: None,
            denial_epoch,
            jitter: Jitter::new(seed),
            counts: Counts::default(),
        }
    }

    /// Other bounds from now on, for what is asked, put to wait, or found: [`Config::lookups`], [`Config::packets_per_address`] and
    /// [`Config::refresh`].
    pub fn set_bounds(&mut self, lookups: u16, packets_per_address: u16, refresh: Duration) {
        self.config = Config { lookups, packets_per_address, refresh, ..self.config };
    }

    /// How many addresses are known, resolved or not.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// How many addresses can be known.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Makes room for as many addresses as `addresses` has places, and gives back the memory used before, to be freed without a
    /// lock; gives `addresses` itself back if it is not larger. Takes time in proportion to it.
    pub fn grow(&mut self, addresses: S) -> S {
        let before = self.table.grow(addresses);
        self.count_siblings();
        before
    }

    /// Whether no address is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many packets are inside.
    pub fn packets_held(&self) -> usize {
        self.packets.held()
    }

    /// How many of them only answer.
    pub fn answers_held(&self) -> usize {
        self.packets.answers_held()
    }

    /// How many lookups are out.
    pub fn lookups_in_flight(&self) -> usize {
        usize::from(self.ports_out) + usize::from(self.groups_out)
    }

    /// Takes a packet to an address that its transmit queue does not remember; it leaves by `tx_queue`.
    pub fn submit(
        &mut self,
        now: Instant,
        to: LinkAddr,
        shown: Shown,
        tx_queue: TxQueue,
        packet: P,
    ) -> Submitted<P, H> {
        self.counts.asked += 1;
        let cause = match to.is_multicast() {
            true => shown.taken_for_group(),
            false => shown.taken_for(now < self.scarce_until),
        };
        let is_new = self.table.find(&to).is_none();
        if cause.is_answer() && is_new && !self.packets.have_room_for(&to, cause) {
            return self.no_room_for_answer(now, &to, packet);
        }
        let Some(id) = self.find_or_add(to, cause) else {
            return Submitted::Dropped(packet, DropReason::TableFull);
        };
        let Some(path) = self.table.get_mut(id) else {
            return Submitted::Dropped(packet, DropReason::TableFull);
        };
        // What a stranger makes IP answer keeps no address.
        path.used |= shown.is_use();
        path.cause = path.cause.or_better(cause);
        let cause = path.cause;
        match &path.state {
            State::Ready(handle) => {
                let submitted = match path.leaving {
                    0 => {
                        self.counts.ready += 1;
                        Submitted::Ready(packet, handle.clone())
                    }
                    _ => match self.packets.follow((to, cause), (tx_queue, packet)) {
                        Ok(()) => {
                            path.leaving += 1;
                            Submitted::Queued(None)
                        }
                        Err(packet) => Submitted::Dropped(packet, DropReason::QueueFull),
                    },
                };
                self.settle(id);
                return submitted;
            }
            State::Failed { until, reason } if now < *until => {
                self.counts.denied += 1;
                let (reason, until, denial_epoch) = (*reason, *until, self.denial_epoch.count());
                return Submitted::Denied(packet, Denial { reason, until, denial_epoch });
            }
            State::Failed { .. } => path.know(&self.denial_epoch, State::Unresolved),
            State::Unresolved => {}
        }
        let limit = match self.packets.is_crowded() {
            true => self.config.packets_when_crowded.min(self.config.packets_per_address),
            false => self.config.packets_per_address,
        };
        let submitted = match self.packets.enqueue(&mut path.packets, (to, cause), (tx_queue, packet), limit)
        {
            Ok(gave_way) => Submitted::Queued(gave_way),
            Err(packet) if cause.is_answer() => {
                self.settle(id);
                return self.no_room_for_answer(now, &to, packet);
            }
            Err(packet) => {
                // Whoever sent it sends it again; by then there may be a path.
                path.asked = true;
                Submitted::Dropped(packet, DropReason::QueueFull)
            }
        };
        self.want_lookup(id);
        submitted
    }

    fn no_room_for_answer(&mut self, now: Instant, to: &LinkAddr, packet: P) -> Submitted<P, H> {
        if to.is_multicast() {
            return Submitted::Dropped(packet, DropReason::Questions);
        }
        self.scarce_until = now + self.config.scarce;
        Submitted::Dropped(packet, DropReason::Answers)
    }

    /// What is known about an address, for somebody without a packet; looks it up as [`Paths::submit`] would, but behind the
    /// addresses whose packets wait. Counts as use.
    pub fn ask(&mut self, now: Instant, to: LinkAddr) -> Known<H> {
        let Some(id) = self.find_or_add(to, Cause::Own) else { return Known::Nothing };
        let Some(path) = self.table.get_mut(id) else { return Known::Nothing };
        path.used = true;
        path.cause = Cause::Own;
        match &path.state {
            State::Failed { until, .. } if now >= *until => {
                path.know(&self.denial_epoch, State::Unresolved);
            }
            State::Ready(_) | State::Failed { .. } | State::Unresolved => {}
        }
        if matches!(path.state, State::Unresolved) {
            path.asked = true;
            self.want_lookup(id);
        } else {
            self.settle(id);
        }
        self.known(now, &to)
    }

    /// The same, without a lookup and without counting as use: for somebody who has asked and waits.
    pub fn known(&self, now: Instant, to: &LinkAddr) -> Known<H> {
        let Some(path) = self.table.find(to).and_then(|id| self.table.get(id)) else { return Known::Nothing };
        match &path.state {
            State::Ready(handle) => Known::Ready(handle.clone(), now - path.since),
            State::Failed { reason, .. } => Known::Failed(*reason),
            State::Unresolved => Known::Unresolved,
        }
    }

    /// Takes an event.
    pub fn handle_event(&mut self, now: Instant, event: Event<H>) {
        match event {
            Event::LookedUp(to, result) => self.looked_up(now, to, result),
            Event::Invalidate(Severity::Light) => self.another_sm(now),
            Event::Invalidate(severity) => {
                self.take_back(|_| true);
                self.for_each(|paths, id| {
                    if severity == Severity::Heavy {
                        paths.drop_packets(id, DropReason::LinkReset);
                        paths.nobody_asks(id);
                    }
                    paths.forget(id);
                });
            }
            Event::Forget(to) => {
                if let Some(id) = self.table.find(&to) {
                    self.take_back_for(id);
                    self.forget(id);
                }
            }
            Event::ForgetGroups => {
                self.take_back(LinkAddr::is_multicast);
                self.for_each(|paths, id| {
                    if paths.table.key(id).is_some_and(|to| to.is_multicast()) {
                        paths.forget(id);
                    }
                });
            }
            Event::GidChanged(gid) => self.gid_changed(gid),
        }
    }

    /// When [`Paths::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let doubts = self.doubts.as_ref().map(doubt::Walk::since);
        let buckets = [&self.bucket, &self.bucket_of_unproved, &self.bucket_of_questions];
        let awaited = buckets.into_iter().filter_map(Bucket::awaited).min();
        [self.table.next_deadline(), awaited, doubts].into_iter().flatten().min()
    }

    /// Time has passed. Early and spurious calls are harmless. What takes long is done in steps: call as long as
    /// [`Paths::poll_timeout`] is over, and let go of the table's lock in between.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.go_on_doubting();
        while let Some(id) = self.table.pop_due(now) {
            let Some(path) = self.table.get_mut(id) else { continue };
            let used = path.take_use();
            match path.state {
                // What leaves counts as use.
                State::Ready(_) if used || path.leaving != 0 => self.want_lookup(id),
                State::Unresolved => {}
                State::Ready(_) | State::Failed { .. } => self.evict(id),
            }
        }
    }

    fn for_each(&mut self, f: impl Fn(&mut Self, Id)) {
        let mut from = 0;
        while let Some((at, id)) = self.table.next_from(from) {
            f(self, id);
            from = at + 1;
        }
    }
}
