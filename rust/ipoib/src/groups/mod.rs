//! Multicast memberships: what is wanted against what is held.
//!
//! The MAC layer says which groups it wants to hear, transmit says which it wants to reach, promiscuous mode wants every group
//! of the partition. All of that is kept from the first request on, whether or not the link is up. What is held is reconciled
//! with it by joins and leaves that run side by side, one at a time per group, and are retried with back-off. None of them
//! stands in the way of anything else.
//!
//! A group nobody has created cannot be joined for sending. Its packets go to the all-routers group instead (RFC 4391 section
//! 5), and whoever asked is told to ask again soon.
//!
//! The broadcast group is not here: [`crate::link`] keeps that membership, because the link stands and falls with it.

mod answers;
mod counts;
mod doubt;
#[cfg(test)]
mod doubt_tests;
mod promiscuous;
mod reconcile;
mod room;
#[cfg(test)]
mod room_tests;
mod stand_in;
#[cfg(test)]
mod stand_in_tests;
#[cfg(test)]
mod tests;

use core::ops::DerefMut;
use core::time::Duration;

use crate::addr::Mgid;
use crate::backoff::{Backoff, Jitter};
use crate::numbers::{PKey, Scope};
use crate::table::{Id, Key, Slot, Table, mix};
use crate::time::Instant;
pub use counts::Counts;
use room::Room;
use stand_in::Absent;

/// Room for one group.
pub type GroupSlot<G> = Slot<Mgid, Group<G>, LISTS>;

const LISTS: usize = 4;
/// Groups whose state may ask for a join, a leave, or for being forgotten.
const WORK: usize = 0;
/// Groups about which somebody has to be told.
const NOTICES: usize = 1;
/// Groups that are sent to, the one that was asked for longest ago first.
const SENT: usize = 2;
/// Groups that promiscuous mode wants to hear, the one that was listed longest ago first.
const OVERHEARD: usize = 3;

/// What bounds the machine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Joins and leaves in flight at once.
    pub operations: u16,
    /// After a failed join or leave.
    pub retry: Backoff,
    /// Leaves tried before a membership is [owed](Action::Owe); a machine that stops tries one.
    pub leave_attempts: u32,
    /// How long a membership that only transmit asked for outlives its last use.
    pub idle: Duration,
    /// How often a full membership is joined again, because an SM that lost it need not say so. One to send is joined again after `idle`.
    pub verify: Duration,
    /// How long the all-routers group stands in for a group nobody has created.
    pub stand_in: Duration,
    /// How long the answer to a join is waited for; `None`: as long as whoever asks waits.
    pub answer: Option<Duration>,
    /// Failed joins that are followed by the shortest pause before the pauses grow.
    pub quick: u32,
    /// How often the log is told of a lack of places, at most.
    pub told: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            operations: 3,
            retry: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) },
            leave_attempts: 3,
            idle: Duration::from_secs(900),
            verify: Duration::from_secs(900),
            stand_in: Duration::from_secs(30),
            answer: None,
            quick: 0,
            told: Duration::from_secs(60),
        }
    }
}

/// Roles a port can have in a group, as the bits of JoinState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// No membership.
    pub const NONE: Self = Self(0);
    /// Hears the group and keeps it alive.
    pub const FULL: Self = Self(1);
    /// Hears the group as long as somebody else keeps it alive.
    pub const NON: Self = Self(2);
    /// May send to the group.
    pub const SEND_ONLY: Self = Self(4);

    /// The JoinState bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether every role of `other` is among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These but not those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Both together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the queue pair must be attached to the group to play one of these.
    pub const fn hears(self) -> bool {
        self.0 & (Self::FULL.0 | Self::NON.0) != 0
    }
}

/// How a leave ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing is left of the membership that anybody could undo.
    Confirmed,
    /// IBTF counts no join any more, but the SA did not confirm that these roles are over.
    Unconfirmed(Roles),
    /// IBTF was not asked, and still counts the joins.
    NotAsked,
}

/// Why a group could not be joined or resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// There is no such group, or the port may not be in it: the SA does not tell which.
    Refused,
    /// Nobody answered: the SA may have done it all the same.
    Unanswered,
    /// The SA was not asked: the local side ran out of something, or took the question back.
    NotAsked,
    /// The broadcast group came into doubt, whose values the join names: the SA was not asked, or refused values that may be outdated.
    Outdated,
    /// The join of before may have made the group with outdated values, and it has others than the broadcast group: it is left, and joined anew.
    Unlike,
    /// The link is not up.
    LinkDown,
    /// Too many groups.
    NoRoom,
}

/// A join that the SA granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined<G> {
    /// What a queue pair or an address handle needs: MLID, rate, SL.
    pub info: G,
    /// Whether the queue pair is attached, where the role asks for it.
    pub attached: bool,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event<G> {
    /// The link is up: groups carry this scope and P_Key.
    Up(Scope, PKey),
    /// The link is down; memberships may still be there. Not told while only its queue pair is replaced: whoever attaches it to the
    /// groups does the same with the next one.
    Down,
    /// The queue pair cannot be attached to a group that was joined. MGID as on the wire.
    Deaf(Mgid),
    /// The SM forgot or may have forgotten everything: join again, without leaving.
    Renew,
    /// The link stops: leave everything, keep what the MAC layer wants.
    Stop,
    /// Promiscuous mode goes on or off.
    Promiscuous(bool),
    /// The join asked for by [`Action::Join`] in this role ended.
    Joined(Mgid, Roles, Result<Joined<G>, JoinError>),
    /// The leave asked for by [`Action::Leave`] ended.
    Left(Mgid, Left),
    /// A group of the partition exists (from a listing or a trap). MGID as on the wire.
    Exists(Mgid),
    /// A trap says that a group is gone, with everybody's membership. MGID as on the wire.
    Gone(Mgid),
    /// The queue pair is not attached to a group that only promiscuous mode wants to hear: the adapter has no place for it, or has given its
    /// place to a group that the MAC layer wants to hear. MGID as on the wire.
    Displaced(Mgid),
    /// Another link of the adapter wants to hear a group, and the adapter has no place for it.
    PlaceWanted,
    /// The listing asked for by [`Action::List`] ended; its groups came as [`Event::Exists`].
    Listed(Result<(), JoinError>),
}

/// What to do. MGIDs are as on the wire, except in `Resolved` and `Forget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<G> {
    /// Join, and attach the queue pair if the role hears; detach it from `before`'s MLID if the new one differs. Answer with
    /// [`Event::Joined`], always and once.
    Join {
        /// The group.
        group: Mgid,
        /// In which role.
        role: Roles,
        /// What the last join returned, if the membership is being renewed.
        before: Option<G>,
        /// The join of before named values that may be outdated, and may have made the group with them: see [`JoinError::Unlike`].
        outdated: bool,
    },
    /// Detach, then leave as often as was joined (IBTF counts joins; the last leave asks the SA to end `counted`, all together), then end
    /// the other roles one by one. Answer with [`Event::Left`], always and once.
    Leave {
        /// The group.
        group: Mgid,
        /// All roles that the SA may have the port in.
        roles: Roles,
        /// Those of the joins that IBTF counts. An SM that was restarted meanwhile may not know all of them, and refuses to end what it does
        /// not know.
        counted: Roles,
        /// Successful joins to undo; 0 if that was done and the SA did not confirm, or if no join was ever answered.
        joins: u32,
        /// What the last join returned; `None` if none was ever answered.
        info: Option<G>,
    },
    /// Nothing more is done about a membership that a leave has not ended: its debt is another one's from now on. As for [`Action::Leave`], but
    /// nothing is answered.
    Owe {
        /// The group.
        group: Mgid,
        /// All roles that the SA may have the port in.
        roles: Roles,
        /// Those of the joins that IBTF counts.
        counted: Roles,
        /// Successful joins to undo.
        joins: u32,
        /// What the last join returned; `None` if none was ever answered.
        info: Option<G>,
    },
    /// List all groups of the partition; answer with [`Event::Exists`] for each and [`Event::Listed`].
    List,
    /// Answers [`Groups::resolve`]; the group in canonical form.
    Resolved(Mgid, Result<Resolved<G>, JoinError>),
    /// What a transmit queue remembers about the group is out of date; canonical form. Told only where [`Action::Resolved`] has told a way since
    /// the last one, so that who asks again at once when this comes is answered before the next one.
    Forget(Mgid),
    /// The same for every group: a stand-in has changed.
    ForgetAll,
    /// A group that is wanted could not be joined and will be tried again. For the log.
    Failed {
        /// The group.
        group: Mgid,
        /// In which role.
        role: Roles,
        /// Whether it had been joined before.
        again: bool,
    },
    /// The table has no room for a group; at most once in [`Config::told`]. For the log.
    Full,
    /// Promiscuous mode does not hear so many groups, or more: the adapter or the table has no place for them. At most once in
    /// [`Config::told`]. For the log.
    Misses(u64),
}

/// How to send to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved<G> {
    /// Where to send.
    pub info: G,
    /// Ask again after this long, if the answer is a stand-in.
    pub refresh: Option<Duration>,
}

/// What is known about one group; opaque.
#[derive(Debug)]
pub struct Group<G> {
    /// So many times the MAC layer wants to hear it. It counts what it enables by all twenty bytes of an address, of which several are of
    /// one group.
    full: u32,
    /// Promiscuous mode wants to hear it.
    non: bool,
    /// Transmit wants to reach it.
    send: bool,
    /// Transmit has asked since the idle timer last looked.
    used: bool,
    /// Somebody who wants to send to a group nobody has created waits for this one instead.
    stands_in: bool,
    /// It is left to make room for another one.
    gives_way: bool,
    held: Option<Membership<G>>,
    operation: Operation,
    /// A join whose answer was waited for too long, and is still to come.
    late: Option<Late>,
    failures: u32,
    /// A retry timer runs: no operation before it fires.
    waiting: bool,
    /// What is held is to be owed.
    gives_up: bool,
    asker: Asker,
    /// Whoever asked was told the way to it, and may remember it.
    remembered: bool,
    forget: bool,
    failed: Option<(Roles, bool)>,
}

impl<G> Group<G> {
    const fn new() -> Self {
        Self {
            full: 0,
            non: false,
            send: false,
            used: false,
            stands_in: false,
            gives_way: false,
            held: None,
            operation: Operation::None,
            late: None,
            failures: 0,
            waiting: false,
            gives_up: false,
            asker: Asker::None,
            remembered: false,
            forget: false,
            failed: None,
        }
    }

    /// The role to have now. A full member may send; so may a non-member.
    fn role(&self) -> Roles {
        match self {
            Self { full: 1.., .. } => Roles::FULL,
            Self { non: true, .. } => Roles::NON,
            Self { send: true, .. } | Self { stands_in: true, .. } | Self { asker: Asker::Waits, .. } => {
                Roles::SEND_ONLY
            }
            _ => Roles::NONE,
        }
    }

    /// Whether one can send with what is held, now and for as long as nothing is done about it.
    fn is_ready(&self) -> bool {
        let role = self.role();
        let fits =
            |held: &Membership<G>| !held.stale && held.roles.contains(role) && !held.is_too_much_for(role);
        self.operation == Operation::None && role != Roles::NONE && self.held.as_ref().is_some_and(fits)
    }

    fn has_notice(&self) -> bool {
        self.forget || self.failed.is_some() || matches!(self.asker, Asker::Answer(_))
    }
}

#[derive(Debug)]
struct Membership<G> {
    /// The group as it was joined.
    group: Mgid,
    roles: Roles,
    /// Of the joins that IBTF counts, `joins` of them.
    counted: Roles,
    joins: u32,
    /// What the last join returned. `None`: nobody has answered one, and the SA may have granted it.
    info: Option<G>,
    /// The SM may have forgotten it, or the queue pair cannot be attached.
    stale: bool,
    values: Values,
    leaves_failed: u32,
}

impl<G> Membership<G> {
    /// One that only joins which nobody answered in time can have brought.
    const fn doubtful(group: Mgid) -> Self {
        Self {
            group,
            roles: Roles::NONE,
            counted: Roles::NONE,
            joins: 0,
            info: None,
            stale: true,
            values: Values::Known,
            leaves_failed: 0,
        }
    }

    /// A join like this may have brought it.
    fn named_by(&mut self, join: &Late) {
        if join.overtaken == Overtaken::Outdated && join.role == Roles::FULL {
            self.values = Values::Outdated;
        }
    }

    /// A port that only sends, or only listens in promiscuous mode, must not keep a group alive or hear it.
    fn is_too_much_for(&self, role: Roles) -> bool {
        match role {
            Roles::SEND_ONLY => self.roles.hears(),
            Roles::NON => self.roles.contains(Roles::FULL),
            _ => false,
        }
    }
}

/// What the joins of a membership have named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// What the broadcast group has, as far as the link knows.
    Known,
    /// Perhaps what it had earlier; a full join may have made the group so.
    Outdated,
    /// What it had earlier: the group is left, and made anew after a pause.
    Unlike,
}

/// What has happened since a join was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Overtaken {
    No,
    /// What it brings is stale by the time it comes.
    Stale,
    /// And it names what the broadcast group had before the SM forgot it.
    Outdated,
}

/// A join that was given up and not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Late {
    group: Mgid,
    role: Roles,
    overtaken: Overtaken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    None,
    Joining {
        group: Mgid,
        role: Roles,
        overtaken: Overtaken,
        /// The group was said to exist since it was asked for: a refusal may be older than the group.
        announced: bool,
        /// The group's timer is for giving it up.
        gives_up: bool,
    },
    Leaving,
}

/// Somebody who asked how to send to a group.
#[derive(Debug, PartialEq, Eq)]
enum Asker {
    None,
    /// Waits for this group.
    Waits,
    /// Waits for the all-routers group of this one's protocol.
    Redirected,
    /// To be told; the answer may be a stand-in.
    Answer(Result<StandIn, JoinError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandIn {
    No,
    AllRouters,
}

impl Key for Mgid {
    fn hash(&self, seed: u64) -> u64 {
        mix(mix(seed, self.gid().prefix), self.gid().guid)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Stopped,
    Down,
    Up(Scope, PKey),
}

/// Promiscuous mode's list of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Off,
    Wanted,
    Out,
    Retry(Instant),
    Done,
}

/// The machine. `G` is what a join returns (cheap to clone; equal if it leads the same way), `S` the memory.
#[derive(Debug)]
pub struct Groups<G, S> {
    table: Table<Mgid, Group<G>, S, LISTS>,
    config: Config,
    mode: Mode,
    in_flight: u16,
    /// Joins that were given up and are not answered yet; as many as may be in flight beside them.
    late: u16,
    promiscuous: bool,
    listing: Listing,
    /// A listing that is out was asked for before promiscuous mode went off, or before the last renewal.
    listing_overtaken: bool,
    /// A group that was heard has refused a join since the listing that is out was asked for.
    listing_refused: bool,
    listing_failures: u32,
    /// While the broadcast group is in doubt: when senders that wait are told next.
    doubt: Option<Instant>,
    room: Room,
    forget_all: bool,
    /// The all-routers groups that do not stand in.
    absent: Absent,
    jitter: Jitter,
}

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    /// A stopped machine that keeps at most `groups.len()` groups. `seed` keys the hash and the jitter.
    pub fn new(config: Config, groups: S, seed: u64) -> Self {
        Self {
            table: Table::new(groups, seed),
            config,
            mode: Mode::Stopped,
            in_flight: 0,
            late: 0,
            promiscuous: false,
            listing: Listing::Off,
            listing_overtaken: false,
            listing_refused: false,
            listing_failures: 0,
            doubt: None,
            room: Room::default(),
            forget_all: false,
            absent: Absent::default(),
            jitter: Jitter::new(seed),
        }
    }

    /// How many groups are known, held or not.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no group is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the answer to a join is waited for and how many failures are followed by a short pause; for what is asked from now
    /// on. A join that was given up is repeated while its answer may still come, once.
    pub fn set_patience(&mut self, answer: Option<Duration>, quick: u32) {
        self.config.answer = answer;
        self.config.quick = quick;
    }

    /// Whether anything is held or on its way: a stopped machine that is not `idle` still has leaves to do.
    pub fn is_idle(&self) -> bool {
        let busy = |g: &Group<G>| g.held.is_some() || g.operation != Operation::None || g.late.is_some();
        let mut from = 0;
        while let Some((at, id)) = self.table.next_from(from) {
            if self.table.get(id).is_some_and(busy) {
                return false;
            }
            from = at + 1;
        }
        true
    }

    /// How many groups the port is in, or may be.
    pub fn held(&self) -> usize {
        let (mut from, mut held) = (0, 0);
        while let Some((at, id)) = self.table.next_from(from) {
            held += usize::from(self.table.get(id).is_some_and(|group| group.held.is_some()));
            from = at + 1;
        }
        held
    }

    /// Whether nothing is held but what a join or a leave is out about.
    pub fn waits_for_answers_alone(&self) -> bool {
        let rests = |group: &Group<G>| group.held.is_some() && group.operation == Operation::None;
        let mut from = 0;
        while let Some((at, id)) = self.table.next_from(from) {
            if self.table.get(id).is_some_and(rests) {
                return false;
            }
            from = at + 1;
        }
        true
    }

    /// Whether the membership asked for by [`Groups::want`] is held and current.
    pub fn hears(&self, group: Mgid) -> bool {
        let entry = self.table.find(&group.canonical()).and_then(|id| self.table.get(id));
        entry.and_then(|g| g.held.as_ref()).is_some_and(|m| m.roles.contains(Roles::FULL) && !m.stale)
    }

    /// The MAC layer wants to hear a group, any form, until [`Groups::unwant`] was called as often; at any time, also before start. `Err` if
    /// there is no room.
    pub fn want(&mut self, group: Mgid) -> Result<(), JoinError> {
        let id = self.place_to_hear(group)?;
        if let Some(group) = self.table.get_mut(id) {
            group.full = group.full.saturating_add(1);
        }
        self.keep(id);
        self.try_now(id);
        Ok(())
    }

    /// The MAC layer no longer wants to hear a group: what undoes one [`Groups::want`].
    pub fn unwant(&mut self, group: Mgid) {
        let Some(id) = self.table.find(&group.canonical()) else { return };
        if let Some(group) = self.table.get_mut(id) {
            group.full = group.full.saturating_sub(1);
        }
        self.try_now(id);
    }

    /// Transmit wants to reach a group, any form. The answer comes as [`Action::Resolved`], always and once per call that
    /// returned `Ok` (calls before the answer share it). The group that was not asked for longest gives way if there is no room: `in_use` says
    /// whether transmit has used a way to a group, in canonical form, without asking here, since it was last called for that group.
    pub fn resolve(&mut self, group: Mgid, in_use: impl FnMut(Mgid) -> bool) -> Result<(), JoinError> {
        if !matches!(self.mode, Mode::Up(..)) {
            return Err(JoinError::LinkDown);
        }
        let id = self.place_to_send(group, in_use)?;
        self.ask(id);
        Ok(())
    }

    /// Takes an event.
    pub fn handle_event(&mut self, now: Instant, event: Event<G>) {
        match event {
            Event::Up(scope, pkey) => self.up(scope, pkey),
            Event::Down => self.down(Mode::Down),
            Event::Deaf(group) => self.deaf(now, group),
            Event::Renew => {
                self.absent = Absent::default();
                self.for_each(Self::renew);
                self.list_again();
            }
            Event::Stop => self.stop(),
            Event::Promiscuous(on) => self.set_promiscuous(on),
            Event::Joined(group, role, result) => self.joined(now, group, role, result),
            Event::Left(group, end) => self.left(now, group, end),
            Event::Exists(group) => self.exists(group),
            Event::Gone(group) => self.gone(group),
            Event::Displaced(group) => self.displaced(now, group),
            Event::PlaceWanted => self.give_up_a_place(now),
            Event::Listed(result) => self.listed(now, result),
        }
    }

    /// The next thing to do; call until `None` after every event, request and timeout.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action<G>> {
        if core::mem::take(&mut self.forget_all) {
            return Some(Action::ForgetAll);
        }
        if self.listing == Listing::Wanted && matches!(self.mode, Mode::Up(..)) {
            self.listing = Listing::Out;
            self.room.listed_anew();
            return Some(Action::List);
        }
        self.look_again_if_short(now);
        if let Some(news) = self.news_of_room(now) {
            return Some(news);
        }
        self.next_notice().or_else(|| self.next_operation(now))
    }

    /// When [`Groups::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let listing = if let Listing::Retry(at) = self.listing { Some(at) } else { None };
        [listing, self.doubt, self.table.next_deadline()].into_iter().flatten().min()
    }

    /// Time has passed. Early and spurious calls are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.listing, Listing::Retry(at) if at <= now) {
            self.listing = Listing::Wanted;
        }
        self.tell_of_doubt(now);
        while let Some(id) = self.table.pop_due(now) {
            self.timer_fired(now, id);
        }
    }

    fn timer_fired(&mut self, now: Instant, id: Id) {
        let Some(group) = self.table.get_mut(id) else { return };
        if core::mem::take(&mut group.waiting) {
            return self.work(id);
        }
        if let Operation::Joining { group, role, overtaken, gives_up: true, .. } = group.operation {
            return self.give_up(now, id, Late { group, role, overtaken });
        }
        let used = core::mem::take(&mut group.used);
        let Some(held) = &mut group.held else { return };
        if group.full > 0 || group.non {
            held.stale = true;
        } else if used {
            // Nobody tells a sender that its group was deleted and made again at another MLID, unless the SM's reports reach it.
            held.stale = true;
        } else {
            group.send = false;
        }
        self.work(id);
    }

    fn for_each(&mut self, f: impl Fn(&mut Self, Id)) {
        let mut from = 0;
        while let Some((at, id)) = self.table.next_from(from) {
            f(self, id);
            from = at + 1;
        }
    }

    fn work(&mut self, id: Id) {
        self.table.push_back(WORK, id);
    }

    /// Ends the wait after a failure: something has changed.
    fn try_now(&mut self, id: Id) {
        let Some(group) = self.table.get_mut(id) else { return };
        group.failures = 0;
        if core::mem::take(&mut group.waiting) {
            self.table.set_deadline(id, None);
        }
        self.work(id);
    }

    fn up(&mut self, scope: Scope, pkey: PKey) {
        self.mode = Mode::Up(scope, pkey);
        self.absent = Absent::default();
        self.for_each(Self::try_now);
        self.list_again();
    }

    fn down(&mut self, mode: Mode) {
        self.mode = mode;
        self.for_each(|groups, id| {
            groups.answer(id, Err(JoinError::LinkDown));
            if let Some(group) = groups.table.get_mut(id) {
                group.stands_in = false;
            }
        });
    }

    /// Joins again what is held; what is on its way is out of date.
    fn renew(&mut self, id: Id) {
        let Some(group) = self.table.get_mut(id) else { return };
        if let Some(held) = &mut group.held {
            held.stale = true;
        }
        if let Operation::Joining { overtaken, .. } = &mut group.operation {
            *overtaken = Overtaken::Outdated;
        }
        if let Some(late) = &mut group.late {
            late.overtaken = Overtaken::Outdated;
        }
        self.try_now(id);
    }

    fn stop(&mut self) {
        self.down(Mode::Stopped);
        self.list_again();
        self.for_each(|groups, id| {
            if let Some(group) = groups.table.get_mut(id) {
                group.send = false;
                group.non = false;
            }
            groups.renew(id);
        });
    }

    /// Everybody's membership is gone. Whoever wants to hear joins again, which creates the group; a sender asks again.
    fn gone(&mut self, group: Mgid) {
        let Some(id) = self.table.find(&group.canonical()) else { return };
        let Some(entry) = self.table.get_mut(id) else { return };
        if entry.held.as_ref().is_none_or(|held| held.group != group) {
            // A join that is out may have been granted before.
            if let Operation::Joining { group: joining, overtaken, .. } = &mut entry.operation
                && *joining == group
            {
                *overtaken = Overtaken::Stale.max(*overtaken);
            }
            return;
        }
        let listened = core::mem::take(&mut entry.non);
        entry.send = false;
        self.tell_to_forget(id);
        self.renew(id);
        if listened && !self.room.is_short() {
            // It may have been made again, and that have been told before. Who is short of places lists the groups again anyway.
            self.list_again();
        }
    }
}
