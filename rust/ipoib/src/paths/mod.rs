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

mod counts;
mod doubt;
mod leaving;
mod lookup;
mod of_port;
mod packets;
#[cfg(test)]
mod tests;
mod validity;

use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::addr::{Gid, LinkAddr};
use crate::backoff::{Backoff, Jitter};
use crate::table::{Id, Key, Slot, Table, mix};
use crate::time::Instant;
pub use counts::Counts;
pub use packets::{PacketSlot, TX_QUEUES, TxQueue, TxQueues};
use packets::{Packets, Queue};
pub use validity::{DenialEpoch, Validity};

/// Room for one address.
pub type PathSlot<H> = Slot<LinkAddr, Path<H>, LISTS>;

const LISTS: usize = 4;
/// Addresses that may be evicted, the one that the table was asked about longest ago first.
const IDLE: usize = 0;
/// Ports whose packets wait for a lookup.
const URGENT: usize = 1;
/// Ports to look up again while their handle stays in use.
const BACKGROUND: usize = 2;
/// Groups to look up. Ports do not wait behind them: a group is joined for it, which can take minutes.
const GROUPS: usize = 3;
/// How many addresses, at most, stay because they were used by queues' own memories when one has to go.
const SECOND_CHANCES: usize = 16;

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Lookups of ports in flight at once, and of groups as many again.
    pub lookups: u16,
    /// Packets waiting per address while half of all the room is free: one IP datagram at least, in as many fragments as it may have.
    pub packets_per_address: u16,
    /// Packets waiting per address that others get while less is free. Those for groups get none then.
    pub packets_when_crowded: u16,
    /// Silence after a lookup that found no path.
    pub retry: Backoff,
    /// How long a handle is used before it is looked up again; an address not used for that long is forgotten.
    pub refresh: Duration,
    /// How long failures are remembered after their back-off.
    pub forget: Duration,
    /// Handles that are in doubt after a change of the SM are looked up again one in this time, on average: every host of the subnet
    /// does so then, when the SM has most to do.
    pub pace: Duration,
    /// But all of them within this time.
    pub spread: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lookups: 16,
            // 65,515 bytes behind an IPv4 header, 1,000 in each fragment at the MTU of 1,020 bytes, and what else is said.
            packets_per_address: 72,
            packets_when_crowded: 8,
            retry: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) },
            refresh: Duration::from_secs(300),
            forget: Duration::from_secs(60),
            pace: Duration::from_millis(100),
            spread: Duration::from_secs(60),
        }
    }
}

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
    /// Nobody answered, or the local side ran out of something. Says nothing about the peer.
    Unanswered,
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

/// What is known about one address; opaque.
#[derive(Debug)]
pub struct Path<H> {
    state: State<H>,
    trust: Trust,
    lookup: Lookup,
    /// Somebody asked without a packet: looked up, then kept, although none waits.
    asked: bool,
    /// When the handle was looked up.
    since: Instant,
    packets: Queue,
    /// Packets decided to be sent that have not been taken by [`Paths::next_packet`]; no later packet may overtake them. None unless
    /// there is a handle.
    leaving: u16,
    failures: u32,
    /// The SA has said that there is no path, and nothing has spoken for one since.
    absent: bool,
    /// The table was asked about it, or has seen that its handle was used, since it was last found idle or not.
    used: bool,
}

#[derive(Debug)]
enum State<H> {
    Unresolved,
    Ready(H),
    Failed { until: Instant, reason: DropReason },
}

/// What is thought of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The SM that is there has told it.
    Full,
    /// But it has reported since that the port comes or goes; or the address follows another one that was in doubt.
    Reported,
    /// The SM has changed since.
    Doubted,
    /// The new SM knew no path when it was asked: perhaps it had not looked around yet. The next such answer counts.
    Missed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    None,
    /// On the list `URGENT`, `BACKGROUND` or `GROUPS`.
    Wanted,
    Out,
    /// Out, but what it will answer is out of date.
    OutOfDate,
}

impl Key for LinkAddr {
    fn hash(&self, seed: u64) -> u64 {
        let gid = self.gid();
        let first = u64::from(self.flags()) << 24 | u64::from(self.qpn().get());
        mix(mix(mix(seed, first), gid.prefix), gid.guid)
    }

    /// Addresses of one GID, whatever their queue pairs.
    fn kin_hash(&self, seed: u64) -> u64 {
        let gid = self.gid();
        mix(mix(seed, gid.prefix), gid.guid)
    }
}

impl<H: Handle> Path<H> {
    /// What is known from now on. The only place where that changes: a handle that is not known any more is withdrawn.
    fn know(&mut self, denial_epoch: &DenialEpoch, state: State<H>) {
        match core::mem::replace(&mut self.state, state) {
            State::Ready(handle) => handle.validity().withdraw(),
            State::Failed { .. } => denial_epoch.add(),
            State::Unresolved => {}
        }
    }

    /// A failure is held against it no longer: the next packet has it looked up.
    fn expire_denials(&mut self, denial_epoch: &DenialEpoch) {
        if let State::Failed { until, .. } = &mut self.state {
            *until = Instant::ZERO;
            denial_epoch.add();
        }
    }

    /// What failed before says nothing about the next lookup.
    fn forgive(&mut self) {
        self.failures = 0;
        self.absent = false;
    }

    /// Whether it was used since this was last asked, by the table or without it.
    fn take_use(&mut self) -> bool {
        self.see_use();
        core::mem::take(&mut self.used)
    }

    /// Whether its handle was used without the table since this was last asked.
    fn see_use(&mut self) -> bool {
        let used = matches!(&self.state, State::Ready(handle) if handle.validity().take_use());
        self.used |= used;
        used
    }
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
        self.table.grow(addresses)
    }

    /// Whether no address is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many packets are inside.
    pub fn packets_held(&self) -> usize {
        self.packets.held()
    }

    /// How many lookups are out.
    pub fn lookups_in_flight(&self) -> usize {
        usize::from(self.ports_out) + usize::from(self.groups_out)
    }

    /// Takes a packet to an address that its transmit queue does not remember; it leaves by `tx_queue`.
    pub fn submit(&mut self, now: Instant, to: LinkAddr, tx_queue: TxQueue, packet: P) -> Submitted<P, H> {
        self.counts.asked += 1;
        let Some(id) = self.find_or_add(to) else {
            return Submitted::Dropped(packet, DropReason::TableFull);
        };
        let Some(path) = self.table.get_mut(id) else {
            return Submitted::Dropped(packet, DropReason::TableFull);
        };
        path.used = true;
        match &path.state {
            State::Ready(handle) => {
                let submitted = match path.leaving {
                    0 => {
                        self.counts.ready += 1;
                        Submitted::Ready(packet, handle.clone())
                    }
                    _ => match self.packets.follow(to, (tx_queue, packet)) {
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
        let submitted = match self.packets.enqueue(&mut path.packets, to, (tx_queue, packet), limit) {
            Ok(gave_way) => Submitted::Queued(gave_way),
            Err(packet) => {
                // Whoever sent it sends it again; by then there may be a path.
                path.asked = true;
                Submitted::Dropped(packet, DropReason::QueueFull)
            }
        };
        self.want_lookup(id);
        submitted
    }

    /// What is known about an address, for somebody without a packet; looks it up as [`Paths::submit`] would, but behind the
    /// addresses whose packets wait. Counts as use.
    pub fn ask(&mut self, now: Instant, to: LinkAddr) -> Known<H> {
        let Some(id) = self.find_or_add(to) else { return Known::Nothing };
        let Some(path) = self.table.get_mut(id) else { return Known::Nothing };
        path.used = true;
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
            Event::Invalidate(Severity::Light) => self.for_each(|paths, id| paths.doubt(now, id)),
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
        self.table.next_deadline()
    }

    /// Time has passed. Early and spurious calls are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
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

    fn find_or_add(&mut self, to: LinkAddr) -> Option<Id> {
        if let Some(id) = self.table.find(&to) {
            return Some(id);
        }
        if self.table.len() == self.table.capacity() {
            let idle = self.longest_idle()?;
            self.counts.evicted += 1;
            self.evict(idle);
        }
        let path = Path {
            state: State::Unresolved,
            trust: Trust::Full,
            lookup: Lookup::None,
            asked: false,
            since: Instant::ZERO,
            packets: Queue::default(),
            leaving: 0,
            failures: 0,
            absent: false,
            used: false,
        };
        self.table.insert(to, path)
    }

    /// The one to evict. A handle may be in use all the time without the table being asked: its address moves to the recent end.
    fn longest_idle(&mut self) -> Option<Id> {
        for _ in 0..SECOND_CHANCES {
            let id = self.table.front(IDLE)?;
            if !self.table.get_mut(id)?.see_use() {
                return Some(id);
            }
            self.table.push_back(IDLE, id);
        }
        self.table.front(IDLE)
    }

    /// Moves the entry to the recent end of `IDLE` if it may be evicted, off it if not, and removes it if nothing is known.
    fn settle(&mut self, id: Id) {
        let Some(path) = self.table.get(id) else { return };
        let packets = !path.packets.is_empty() || path.leaving != 0;
        let idle = !packets && matches!(path.lookup, Lookup::None | Lookup::Wanted);
        match (&path.state, idle) {
            (State::Unresolved, true) if !path.asked => {
                self.table.remove(id);
            }
            (_, true) => self.table.push_back(IDLE, id),
            (_, false) => self.table.unlist(IDLE, id),
        }
    }

    /// Removes an entry that has neither packets nor a lookup out.
    fn evict(&mut self, id: Id) {
        if let Some((_, mut path)) = self.table.remove(id) {
            path.know(&self.denial_epoch, State::Unresolved);
        }
    }
}
