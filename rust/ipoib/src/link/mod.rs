//! One IPoIB link: from "the MAC layer wants it started" to "up", and back up after whatever happens.
//!
//! The link is up when four things hold: the port is active and has the P_Key; the broadcast group is joined; a queue pair
//! stands that fits both; and somebody wants the link. Each of them is looked at on its own and repaired on its own:
//!
//! | What is missing | What is done | Again |
//! |---|---|---|
//! | the port | nothing; ask the port | on an event, or when the poll timer fires |
//! | the broadcast group | find it by scope, create it if nobody has, join it | on a trap, or after back-off |
//! | the queue pair | make it, as soon as the port tells its GID and where the P_Key is; have it carry the group | after back-off |
//!
//! A membership that may have been lost (SM restart, reregistration) is renewed while the link stays up: unicast needs no
//! broadcast group. A group that the SM reports as gone and then refuses takes the link down, so that whoever has another link
//! (IPMP) uses that. An SA that does not answer is not an SA without a group: nothing is created then.
//!
//! A stopped link forgets what it asked for; answers that come late are recognised by their [`Ticket`], and a join granted too
//! late is left again.

mod broadcast;
mod speed;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::addr::{Gid, LinkAddr, Mgid, Qpn};
use crate::backoff::{Backoff, Jitter};
use crate::numbers::{Mlid, Mtu, PKey, QKey, Rate, Scope};
use crate::paths::Severity;
use crate::time::Instant;

/// What the machine is told once.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The link's partition; the full member's form.
    pub pkey: PKey,
    /// Whether to create a broadcast group that nobody has.
    pub create: bool,
    /// After a failed search, join or build.
    pub retry: Backoff,
    /// How often a port that is not usable is asked.
    pub poll: Backoff,
    /// How often the broadcast group is joined again, because an SM that lost the membership need not say so.
    pub verify: Duration,
    /// How long after a change of the SM a link that is in its broadcast group joins again, and at least half of it: a new SM makes
    /// itself known in several ways, one behind the other, and to every host. Short, as the SM may have forgotten the memberships.
    pub renew: Duration,
    /// How long an answer about the broadcast group is waited for; `None`: as long as whoever asks waits.
    pub answer: Option<Duration>,
    /// Failed searches and joins that are followed by the shortest pause before the pauses grow.
    pub quick: u32,
}

impl Config {
    /// The usual bounds.
    pub const fn new(pkey: PKey) -> Self {
        let retry = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
        let poll = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
        let (verify, renew) = (Duration::from_secs(900), Duration::from_millis(8));
        Self { pkey, create: true, retry, poll, verify, renew, answer: None, quick: 0 }
    }
}

/// Names one request, so that its answer can be told from a later one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// The port as a query shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether its state is ACTIVE.
    pub active: bool,
    /// GID at index 0.
    pub gid: Gid,
    /// Base LID; 0 while the port has none.
    pub lid: u16,
    /// The SM's LID; 0 while the port has none.
    pub sm_lid: u16,
    /// Where the P_Key is in the port's table.
    pub pkey_index: Option<u16>,
    /// What the port can carry.
    pub mtu: Mtu,
    /// Payload bits per second; 0 if the port does not tell, and the broadcast group's rate counts.
    pub speed: u64,
    /// It may be faster than it can tell: the SA is asked.
    pub speed_is_least: bool,
}

impl Port {
    fn is_usable(&self) -> bool {
        self.active && self.pkey_index.is_some()
    }
}

/// The broadcast group as its member record shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastGroup {
    /// Its MGID, scope and P_Key included.
    pub mgid: Mgid,
    /// The scope every group of the link has.
    pub scope: Scope,
    /// Where its frames go.
    pub mlid: Mlid,
    /// The key of every datagram on the link.
    pub qkey: QKey,
    /// The link's MTU.
    pub mtu: Mtu,
    /// `None` if the record has none.
    pub rate: Option<Rate>,
    /// Service level, 0..=15.
    pub sl: u8,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

/// What a queue pair must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The broadcast group, whose scope every group of the link has.
    pub mgid: Mgid,
    /// Index of the P_Key in the port's table.
    pub pkey_index: u16,
    /// Queue key.
    pub qkey: QKey,
    /// The link's MTU, for buffers.
    pub mtu: Mtu,
    /// The port's GID, which is in the link's address.
    pub gid: Gid,
}

impl Plan {
    /// Whether what is known about the ways to others is of no use for the other plan. Where the P_Key is in the port's table is
    /// nobody else's concern.
    fn leads_elsewhere(&self, other: &Self) -> bool {
        Self { pkey_index: other.pkey_index, ..*self } != *other
    }
}

/// Why a request failed; the number is the status for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaError {
    /// The SA said no.
    Refused(i32),
    /// The SA said nothing that makes sense, or the request never reached it.
    Unanswered(i32),
    /// The SA granted the join of this group in a record that makes no sense: what it did has to be undone one day.
    Unusable(Mgid),
}

/// Something happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<G> {
    /// The MAC layer starts the link.
    Start,
    /// The MAC layer stops the link. Its queue pair is taken down by whoever says so.
    Stop,
    /// Something about the port may have changed.
    PortEvent,
    /// The port came up, after a time in which the SM may have forgotten it.
    Renew,
    /// The SM asks for registrations anew, or changed; often both, one after the other.
    SmChanged,
    /// Answers [`Action::QueryPort`]; `None` if the query failed.
    Port(Ticket, Option<Port>),
    /// Answers [`Action::Find`]; `Ok(None)` if there is no such group.
    Found(Ticket, Result<Option<BroadcastGroup>, SaError>),
    /// Answers [`Action::Join`], with the GID it named: the group, and what is needed to hear it and to send there.
    Joined(Ticket, Gid, Result<(BroadcastGroup, G), SaError>),
    /// Answers [`Action::Leave`].
    Left {
        /// As in the action.
        mgid: Mgid,
        /// As in the action.
        gid: Gid,
        /// Joins that IBTF still counts, because it was not asked.
        owed: u32,
    },
    /// Answers [`Action::Make`], [`Action::Build`] and [`Action::Attach`]; `None` if it failed.
    Built(Ticket, Option<Qpn>),
    /// The queue pair that was reported with [`Event::Built`] no longer works.
    Broken,
    /// It takes sends and does not complete them.
    Stalled,
    /// Answers [`Action::AskRate`]; `None` if the SA does not tell.
    Rate(Gid, Option<Rate>),
    /// A trap says that a group exists.
    Appeared(Mgid),
    /// A trap says that a group is gone.
    Gone(Mgid),
}

/// What to do. Every request but the last five is answered, always and once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<G> {
    /// Ask the port.
    QueryPort(Ticket),
    /// Ask the SA for the broadcast group with this MGID.
    Find(Ticket, Mgid),
    /// Join as a full member with this port GID, with every parameter of the record given.
    Join(Ticket, Gid, Mgid, Option<BroadcastGroup>),
    /// Leave as often as was joined.
    Leave {
        /// The group.
        mgid: Mgid,
        /// The port GID it was joined with.
        gid: Gid,
        /// Successful joins to undo.
        joins: u32,
    },
    /// Make a queue pair at this index of the P_Key, which carries nothing yet: its number is the link's, whatever comes.
    Make(Ticket, u16),
    /// Have the queue pair that is made, or another one if it is of no use, carry this: give it buffers and attach it to the broadcast
    /// group.
    Build(Ticket, Plan, G),
    /// The broadcast group is reached in another way than before: attach the queue pair to it as it is now.
    Attach(Ticket, G),
    /// Ask the SA how fast the way from the port with this GID to itself is. No answer is waited for.
    AskRate(Gid),
    /// End the traffic of the queue pair; keep it.
    TearDown,
    /// Tell paths and groups.
    Invalidate(Severity),
    /// Tell the MAC layer the link's address. In front of the status that goes with it.
    Address(LinkAddr),
    /// Tell the MAC layer.
    Announce(Status),
    /// Tell the log.
    Note(Note),
}

/// What the MAC layer and the log are told about the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nobody wants it.
    Stopped,
    /// It is wanted and waits.
    Down(WaitsFor),
    /// It carries traffic.
    Up(Up),
}

/// What a link that is not up waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The port to become active.
    Port,
    /// The P_Key to come into the port's table.
    PKey,
    /// The broadcast group to be found and joined.
    BroadcastGroup,
    /// Queue pair and buffers.
    QueuePair,
}

/// A link that carries traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Up {
    /// Its address.
    pub address: LinkAddr,
    /// Its MTU.
    pub mtu: Mtu,
    /// Payload bits per second.
    pub speed: u64,
    /// Its groups' scope.
    pub scope: Scope,
}

/// How far the membership in the broadcast group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BroadcastState {
    /// Nothing is asked now.
    None = 0,
    /// The SA is asked for the group.
    Searching = 1,
    /// The SA is asked to join or create it.
    Joining = 2,
    /// The port is a member.
    Joined = 3,
    /// The port was a member, which the SM may have forgotten: it joins again.
    Renewing = 4,
}

/// Something an administrator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// There is no broadcast group, and none may be created.
    BroadcastAbsent,
    /// There is no broadcast group, and creating it failed.
    CreateFailed(SaError),
    /// The broadcast group was found and could not be joined.
    JoinFailed(SaError),
    /// The broadcast group's MTU, and the port's which is smaller.
    MtuTooLarge(Mtu, Mtu),
    /// Queue pair or buffers could not be had.
    BuildFailed,
    /// The queue pair failed; it is made ready again, or replaced.
    Broken,
    /// The same, because it did not complete sends.
    Stalled,
}

#[derive(Clone, Copy, Debug)]
struct Membership<G> {
    group: BroadcastGroup,
    info: G,
    gid: Gid,
    /// The SM may have forgotten it.
    stale: bool,
    /// The SM says that the whole group is gone.
    gone: bool,
}

#[derive(Clone, Copy, Debug)]
struct QueuePair<G> {
    plan: Plan,
    qpn: Qpn,
    attached: G,
}

#[derive(Clone, Copy, Debug)]
enum Building<G> {
    Number,
    QueuePair(Plan, G),
    Attachment(G),
}

/// A request out, or answers of abandoned ones still to come.
#[derive(Clone, Copy, Debug)]
struct Request<T> {
    out: Option<(Ticket, T)>,
    abandoned: u8,
}

impl<T> Request<T> {
    const NONE: Self = Self { out: None, abandoned: 0 };

    fn abandon(&mut self) {
        if self.out.take().is_some() {
            self.abandoned = self.abandoned.saturating_add(1);
        }
    }

    fn is_free(&self, limit: u8) -> bool {
        self.out.is_none() && self.abandoned < limit
    }

    /// What an answer with this ticket answers, if it is still wanted.
    fn answered(&mut self, ticket: Ticket) -> Option<T> {
        match self.out.take() {
            Some((out, request)) if out == ticket => Some(request),
            other => {
                self.out = other;
                self.abandoned = self.abandoned.saturating_sub(1);
                None
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    backoff: Backoff,
    failures: u32,
    /// Failures that are followed by the first pause before it grows.
    quick: u32,
    at: Option<Instant>,
}

impl Retry {
    const fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: 0, quick: 0, at: None }
    }

    fn reset(&mut self) {
        self.failures = 0;
        self.at = None;
    }

    fn failed(&mut self, now: Instant, jitter: &mut Jitter) {
        self.failures = self.failures.saturating_add(1);
        let grown = self.failures.saturating_sub(self.quick).max(1);
        self.at = Some(now + self.backoff.delay(grown, jitter));
    }

    /// As [`Retry::failed`], but there is no delay after the first failure.
    fn failed_again(&mut self, now: Instant, jitter: &mut Jitter) {
        match self.failures {
            0 => self.failures = 1,
            _ => self.failed(now, jitter),
        }
    }

    fn fire(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.at = None;
        }
        due
    }

    fn is_waiting(&self) -> bool {
        self.at.is_some()
    }
}

const NOTES: usize = 4;

/// A queue pair that lasted so long was of use: the next one that fails is replaced alone, and without a pause.
pub const STEADY: Duration = Duration::from_secs(10);

/// The machine. `G` is what a join returns; equal if the group is reached in the same way.
#[derive(Debug)]
pub struct Link<G> {
    config: Config,
    running: bool,
    tickets: u32,
    port: Option<Port>,
    speed: speed::Speed,
    port_query: Request<()>,
    /// The port must be asked again.
    port_in_doubt: bool,
    poll: Retry,
    search: broadcast::Search,
    membership: Option<Membership<G>>,
    /// Something has spoken against what the join that is out will bring.
    doubted: bool,
    joins: broadcast::Joins,
    leaving: bool,
    sa: Request<broadcast::Step>,
    /// The last question that was given up, while nothing has made its answer worthless.
    given_up: Option<broadcast::GivenUp>,
    /// How often the question that is out was asked before, with the same ticket and without an answer yet.
    earlier: u8,
    sa_retry: Retry,
    /// Of the queue pair that is made, whether or not it carries anything.
    number: Option<Qpn>,
    /// Of the port when it was active last, or since the start.
    gid: Option<Gid>,
    takes_connections: bool,
    queue_pair: Option<QueuePair<G>>,
    building: Request<Building<G>>,
    build_retry: Retry,
    /// When the request to the SA that is out is given up.
    give_up_at: Option<Instant>,
    /// When the queue pair was built.
    stands_since: Instant,
    /// When the broadcast group is joined again though nothing speaks against the membership.
    verify_at: Option<Instant>,
    /// When what a changed SM may have forgotten is renewed.
    renew_at: Option<Instant>,
    tear_down: bool,
    invalidate: Option<Severity>,
    notes: [Option<Note>; NOTES],
    told: Option<LinkAddr>,
    announced: Status,
    jitter: Jitter,
}

impl<G: Copy + PartialEq> Link<G> {
    /// A stopped link. `seed` keys the jitter.
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            config,
            running: false,
            tickets: 0,
            port: None,
            speed: speed::Speed::default(),
            port_query: Request::NONE,
            port_in_doubt: true,
            poll: Retry::new(config.poll),
            search: broadcast::Search::START,
            membership: None,
            doubted: false,
            joins: broadcast::Joins::default(),
            leaving: false,
            sa: Request::NONE,
            given_up: None,
            earlier: 0,
            sa_retry: Retry::new(config.retry),
            number: None,
            gid: None,
            takes_connections: false,
            queue_pair: None,
            building: Request::NONE,
            build_retry: Retry::new(config.retry),
            give_up_at: None,
            stands_since: Instant::from_nanos(0),
            verify_at: None,
            renew_at: None,
            tear_down: false,
            invalidate: None,
            notes: [None; NOTES],
            told: None,
            announced: Status::Stopped,
            jitter: Jitter::new(seed),
        }
    }

    /// Whether to create a broadcast group that nobody has; takes effect at the next search.
    pub fn set_create(&mut self, create: bool) {
        self.config.create = create;
    }

    /// How long an answer about the broadcast group is waited for and how many failures are followed by a short pause; for what
    /// is asked from now on.
    pub fn set_patience(&mut self, answer: Option<Duration>, quick: u32) {
        self.config.answer = answer;
        self.config.quick = quick;
        self.sa_retry.quick = quick;
    }

    /// The link as it is.
    pub fn status(&self) -> Status {
        if !self.running {
            return Status::Stopped;
        }
        let Some(port) = self.port.filter(|port| port.active) else { return Status::Down(WaitsFor::Port) };
        if !port.is_usable() {
            return Status::Down(WaitsFor::PKey);
        }
        let Some(membership) = self.membership else { return Status::Down(WaitsFor::BroadcastGroup) };
        match self.queue_pair {
            Some(qp) if Some(qp.plan) == self.plan() => Status::Up(Up {
                address: self.called(qp.qpn, port.gid),
                mtu: qp.plan.mtu,
                speed: match (self.speed.of(&port), membership.group.rate) {
                    (0, Some(rate)) => rate.bits_per_second(),
                    (speed, _) => speed,
                },
                scope: membership.group.scope,
            }),
            _ => Status::Down(WaitsFor::QueuePair),
        }
    }

    /// The link's address, which it has as soon as it has a queue pair, up or not. A port that goes down takes none away.
    pub fn address(&self) -> Option<LinkAddr> {
        Some(self.called(self.number?, self.gid?))
    }

    fn called(&self, qpn: Qpn, gid: Gid) -> LinkAddr {
        let address = LinkAddr::unicast(qpn, gid);
        if self.takes_connections { address.with_connections() } else { address }
    }

    /// Whether somebody listens for connections with this link: its address says so (RFC 4755 section 3.1).
    pub fn take_connections(&mut self, take: bool) {
        self.takes_connections = take;
    }

    /// The port's GID in the link's address, known before there is one.
    pub fn gid(&self) -> Option<Gid> {
        self.gid
    }

    /// The port as it was asked last.
    pub fn port(&self) -> Option<&Port> {
        self.port.as_ref()
    }

    /// The broadcast group, while a membership is held.
    pub fn broadcast_group(&self) -> Option<&BroadcastGroup> {
        self.membership.as_ref().map(|membership| &membership.group)
    }

    /// How the broadcast group is reached, while a membership is held.
    pub fn broadcast_info(&self) -> Option<&G> {
        self.membership.as_ref().map(|membership| &membership.info)
    }

    /// What the queue pair that stands was built for.
    pub fn standing(&self) -> Option<Plan> {
        self.queue_pair.map(|qp| qp.plan)
    }

    /// Whether the membership is held and nothing speaks against it.
    pub fn is_broadcast_current(&self) -> bool {
        self.membership.is_some_and(|membership| !membership.stale)
    }

    /// How far the membership in the broadcast group has come.
    pub fn broadcast_state(&self) -> BroadcastState {
        match (&self.membership, &self.sa.out) {
            (Some(membership), _) if !membership.stale => BroadcastState::Joined,
            (Some(_), _) => BroadcastState::Renewing,
            (None, Some((_, broadcast::Step::Find(_)))) => BroadcastState::Searching,
            (None, Some((_, broadcast::Step::Join(_)))) => BroadcastState::Joining,
            (None, None) => BroadcastState::None,
        }
    }

    /// Whether the answer to this request is still wanted. Whoever built a queue pair for a ticket that is not must take it
    /// down again.
    pub fn is_wanted(&self, ticket: Ticket) -> bool {
        self.building.out.is_some_and(|(out, _)| out == ticket)
    }

    /// Whether a queue pair is being made or built.
    pub fn is_building(&self) -> bool {
        matches!(self.building.out, Some((_, Building::Number | Building::QueuePair(..))))
    }

    /// Whether nothing is held and no answer is awaited: true some time after a stop.
    pub fn is_idle(&self) -> bool {
        let asked = self.sa.out.is_some() || self.sa.abandoned > 0 || self.leaving;
        let building = self.building.out.is_some() || self.building.abandoned > 0;
        !self.running && self.joins.is_empty() && !asked && !building && self.queue_pair.is_none()
    }

    /// Takes an event.
    pub fn handle_event(&mut self, now: Instant, event: Event<G>) {
        match event {
            Event::Start => self.start(),
            Event::Stop => self.stop(),
            Event::PortEvent => {
                self.doubt_port();
                self.sa_retry.reset();
            }
            Event::Renew => {
                self.doubt_port();
                self.renew(Severity::Light);
            }
            Event::SmChanged => {
                self.doubt_port();
                self.renew_soon(now);
            }
            Event::Port(ticket, port) => self.port_answered(now, ticket, port),
            Event::Found(ticket, result) => self.found(now, ticket, result),
            Event::Joined(ticket, gid, result) => self.joined(now, ticket, gid, result),
            Event::Left { mgid, gid, owed } => self.left(mgid, gid, owed),
            Event::Built(ticket, qpn) => self.built(now, ticket, qpn),
            Event::Broken => self.broken(now, Note::Broken),
            Event::Stalled => self.broken(now, Note::Stalled),
            Event::Rate(gid, rate) => self.speed.answered(gid, rate),
            Event::Appeared(mgid) => self.appeared(mgid),
            Event::Gone(mgid) => self.gone(mgid),
        }
    }

    /// The next thing to do; call until `None` after every event and timeout.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action<G>> {
        if core::mem::take(&mut self.tear_down) {
            return Some(Action::TearDown);
        }
        if let Some(severity) = self.invalidate.take() {
            return Some(Action::Invalidate(severity));
        }
        if let Some(note) = self.notes.iter_mut().find_map(Option::take) {
            return Some(Action::Note(note));
        }
        if let Some(address) = self.address().filter(|address| self.told != Some(*address)) {
            self.told = Some(address);
            return Some(Action::Address(address));
        }
        let status = self.status();
        if status != self.announced {
            self.announced = status;
            return Some(Action::Announce(status));
        }
        if !self.running {
            return self.leave_except(None);
        }
        let next = self.next_port_query().or_else(|| self.next_broadcast_step(now));
        next.or_else(|| self.next_build()).or_else(|| self.next_rate_question(status))
    }

    /// When [`Link::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let retries = [self.poll.at, self.sa_retry.at, self.build_retry.at];
        retries.into_iter().chain([self.verify_at, self.renew_at, self.give_up_at]).flatten().min()
    }

    /// Time has passed. Early and spurious calls are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll.fire(now) {
            self.port_in_doubt = true;
        }
        self.sa_retry.fire(now);
        self.build_retry.fire(now);
        if self.verify_at.is_some_and(|at| at <= now) {
            self.stale();
        }
        if self.renew_at.is_some_and(|at| at <= now) {
            self.renew(Severity::Light);
        }
        if self.give_up_at.is_some_and(|at| at <= now) {
            self.give_up(now);
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets = self.tickets.wrapping_add(1);
        Ticket(self.tickets)
    }

    /// Keeps the first notes until they are taken; a full log says the same thing often enough.
    fn note(&mut self, note: Note) {
        if let Some(free) = self.notes.iter_mut().find(|note| note.is_none()) {
            *free = Some(note);
        }
    }

    fn invalidate(&mut self, severity: Severity) {
        self.invalidate = self.invalidate.max(Some(severity));
    }

    fn plan(&self) -> Option<Plan> {
        let port = self.port.as_ref().filter(|port| port.is_usable())?;
        let group = self.membership.as_ref()?.group;
        let BroadcastGroup { mgid, qkey, mtu, .. } = group;
        Some(Plan { mgid, pkey_index: port.pkey_index?, qkey, mtu, gid: port.gid })
    }

    fn start(&mut self) {
        if self.running {
            return;
        }
        self.running = true;
        self.joins.remind();
        self.search.restart();
        self.doubt_port();
        self.sa_retry.reset();
        self.build_retry.reset();
    }

    fn stop(&mut self) {
        self.running = false;
        self.verify_at = None;
        self.renew_at = None;
        self.give_up_at = None;
        self.number = None;
        self.gid = None;
        // Whoever opens the link next may be told something else first.
        self.told = None;
        self.queue_pair = None;
        self.tear_down = false;
        self.membership = None;
        self.given_up = None;
        self.sa.abandon();
        self.building.abandon();
        self.poll.reset();
        self.sa_retry.reset();
        self.build_retry.reset();
        self.invalidate(Severity::Heavy);
    }

    fn doubt_port(&mut self) {
        self.port_in_doubt = true;
        self.poll.reset();
        self.build_retry.reset();
    }

    fn next_port_query(&mut self) -> Option<Action<G>> {
        if !self.port_in_doubt || !self.port_query.is_free(1) {
            return None;
        }
        let ticket = self.ticket();
        self.port_in_doubt = false;
        self.port_query.out = Some((ticket, ()));
        Some(Action::QueryPort(ticket))
    }

    fn port_answered(&mut self, now: Instant, ticket: Ticket, port: Option<Port>) {
        if self.port_query.answered(ticket).is_none() || !self.running {
            // A query of an earlier start says nothing about the port now.
            self.port_in_doubt |= self.running;
            return;
        }
        let before = core::mem::replace(&mut self.port, port);
        if let Some(port) = port.filter(|port| port.active || self.gid.is_none()) {
            self.gid = Some(port.gid);
        }
        self.speed.port_answered(port.as_ref());
        match port {
            Some(port) if port.is_usable() => {
                self.poll.reset();
                self.port_changed(now, before, port);
            }
            _ => {
                self.poll.failed(now, &mut self.jitter);
                self.stale();
            }
        }
    }

    /// A usable port: what differs from before says how much has to be done again.
    fn port_changed(&mut self, now: Instant, before: Option<Port>, port: Port) {
        let moved = self.membership.is_some_and(|membership| membership.gid != port.gid);
        if moved {
            // The membership was another GID's.
            self.membership = None;
            self.search_anew();
        }
        match before {
            Some(before) if !before.is_usable() || before.lid != port.lid => self.renew(Severity::Normal),
            Some(before) if before.sm_lid != port.sm_lid => self.renew_soon(now),
            None => self.renew(Severity::Normal),
            Some(_) => {}
        }
    }

    /// What is held may be lost, and so may what a join that is out has done: the SA may have carried it out before.
    fn stale(&mut self) {
        self.verify_at = None;
        self.doubted = true;
        // What is answered to that is from before.
        self.given_up = None;
        if let Some(membership) = &mut self.membership {
            membership.stale = true;
            self.search.known(membership.group);
        }
    }

    /// The SM has changed, for every port of the subnet. Whoever has a broadcast group takes a moment of its own; the others wait for
    /// it.
    fn renew_soon(&mut self, now: Instant) {
        if self.membership.is_none() {
            return self.renew(Severity::Light);
        }
        let half = self.config.renew / 2;
        let soon = now + half + self.jitter.below(half);
        self.renew_at.get_or_insert(soon);
    }

    /// The SM may have forgotten what it knew about this port.
    fn renew(&mut self, severity: Severity) {
        self.renew_at = None;
        self.stale();
        self.sa_retry.reset();
        if self.running {
            self.invalidate(severity);
        }
    }

    /// Once the link is up: nothing waits for the answer.
    fn next_rate_question(&mut self, status: Status) -> Option<Action<G>> {
        let port = self.port.as_ref().filter(|_| matches!(status, Status::Up(_)))?;
        self.speed.question(port).map(Action::AskRate)
    }

    fn next_build(&mut self) -> Option<Action<G>> {
        if !self.building.is_free(1) || self.build_retry.is_waiting() {
            return None;
        }
        let (Some(plan), Some(Membership { info, .. })) = (self.plan(), self.membership) else {
            return self.next_make();
        };
        let building = match self.queue_pair {
            Some(qp) if qp.plan != plan => {
                self.queue_pair = None;
                if qp.plan.leads_elsewhere(&plan) {
                    self.invalidate(Severity::Heavy);
                }
                return Some(Action::TearDown);
            }
            Some(qp) if qp.attached == info => return None,
            Some(_) => Building::Attachment(info),
            None => Building::QueuePair(plan, info),
        };
        let ticket = self.ticket();
        self.building.out = Some((ticket, building));
        Some(match building {
            Building::QueuePair(plan, info) => Action::Build(ticket, plan, info),
            Building::Attachment(info) => Action::Attach(ticket, info),
            Building::Number => return None,
        })
    }

    /// Nothing can be carried yet; but the link can have its address.
    fn next_make(&mut self) -> Option<Action<G>> {
        // What is known of the port may be of an earlier start.
        let is_current = !self.port_in_doubt && self.port_query.out.is_none();
        let index = self.port?.pkey_index.filter(|_| self.number.is_none() && is_current)?;
        let ticket = self.ticket();
        self.building.out = Some((ticket, Building::Number));
        Some(Action::Make(ticket, index))
    }

    fn built(&mut self, now: Instant, ticket: Ticket, qpn: Option<Qpn>) {
        let Some(building) = self.building.answered(ticket) else { return };
        match (building, qpn) {
            (Building::Number, Some(qpn)) => {
                self.number = Some(qpn);
                self.build_retry.reset();
            }
            (Building::QueuePair(plan, attached), Some(qpn)) => {
                self.number = Some(qpn);
                self.queue_pair = Some(QueuePair { plan, qpn, attached });
                self.stands_since = now;
            }
            (Building::Attachment(info), Some(_)) => {
                if let Some(qp) = &mut self.queue_pair {
                    qp.attached = info;
                }
                self.build_retry.reset();
            }
            (_, None) => {
                self.note(Note::BuildFailed);
                self.build_retry.failed(now, &mut self.jitter);
            }
        }
    }

    fn broken(&mut self, now: Instant, note: Note) {
        if self.queue_pair.take().is_some() {
            // It may be being attached.
            self.building.abandon();
            self.replace(now, note);
        }
    }

    /// The queue pair goes and another one comes: at once the first time in a while, then after pauses that grow.
    fn replace(&mut self, now: Instant, note: Note) {
        self.tear_down = true;
        self.note(note);
        if now - self.stands_since >= STEADY {
            self.build_retry.reset();
        }
        self.build_retry.failed_again(now, &mut self.jitter);
    }
}
