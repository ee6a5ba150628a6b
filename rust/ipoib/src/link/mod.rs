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
mod events;
mod generation;
mod port;
mod queue_pair;
mod request;
mod search;
mod send_rings;
mod speed;
mod stall;
#[cfg(test)]
mod tests;
mod timers;

use core::time::Duration;

use crate::addr::{Gid, LinkAddr, Qpn};
use crate::backoff::Jitter;
use crate::paths::Severity;
use crate::time::Instant;

pub use events::{
    Action, BroadcastGroup, BroadcastState, Config, Event, Note, Plan, Port, SaError, Standing, Status,
    Ticket, Up, WaitsFor,
};
pub use generation::{Generation, Generations, Side};
pub use queue_pair::STEADY;
pub use send_rings::{Failed, SendRings, Why};
pub use stall::{GRACE, Look, Stall};

use queue_pair::{Building, Traffic};
use request::Request;
use search::Search;
use timers::{Retry, Timer, Timers};

#[derive(Clone, Copy, Debug)]
struct Membership<G> {
    group: BroadcastGroup,
    info: G,
    gid: Gid,
    confidence: Confidence,
}

/// What speaks for a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Confidence {
    /// The SA has granted it, and nothing has happened since.
    Current,
    /// The SM may have forgotten it.
    Stale,
    /// The SM says that the whole group is gone.
    Gone,
}

const NOTES: usize = 4;

/// The machine. `G` is what a join returns; equal if the group is reached in the same way.
#[derive(Debug)]
pub struct Link<G> {
    config: Config,
    running: bool,
    tickets: u32,
    timers: Timers,
    jitter: Jitter,

    // The port.
    port: Option<Port>,
    /// What it was when it was usable last.
    usable: Option<Port>,
    speed: speed::Speed,
    port_query: Request<()>,
    /// The port must be asked again.
    port_in_doubt: bool,
    poll: Retry,

    // The broadcast group.
    search: Search,
    membership: Option<Membership<G>>,
    /// There was a membership before, and whoever was asked for since could not be reached.
    lost_group: bool,
    /// The membership's record was not what was asked for.
    doubted: bool,
    joins: broadcast::Joins,
    leaving: bool,
    sa: Request<broadcast::Asked>,
    /// The last question that was given up, while nothing has made its answer worthless.
    given_up: Option<broadcast::GivenUp>,
    /// How often the question that is out was asked before, with the same ticket and without an answer yet.
    earlier: u8,
    sa_retry: Retry,

    // The queue pair.
    generations: Generations,
    /// Of the queue pair that is made, whether or not it carries anything.
    number: Option<Qpn>,
    traffic: Traffic<G>,
    building: Request<Building<G>>,
    build_retry: Retry,
    /// When the traffic that stands, or stood last, was built.
    stands_since: Instant,
    /// The plan that the known ways to others were made for, since the start.
    paths_fit: Option<Plan>,

    // What is told.
    /// Of the port when it was active last, or since the start.
    gid: Option<Gid>,
    takes_connections: bool,
    invalidate: Option<Severity>,
    notes: [Option<Note>; NOTES],
    told: Option<LinkAddr>,
    announced: Status,
}

impl<G: Copy + PartialEq> Link<G> {
    /// A stopped link. `seed` keys the jitter.
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            config,
            running: false,
            tickets: 0,
            timers: Timers::default(),
            jitter: Jitter::new(seed),
            port: None,
            usable: None,
            speed: speed::Speed::default(),
            port_query: Request::NONE,
            port_in_doubt: true,
            poll: Retry::new(Timer::Poll, config.poll),
            search: Search::START,
            membership: None,
            lost_group: false,
            doubted: false,
            joins: broadcast::Joins::default(),
            leaving: false,
            sa: Request::NONE,
            given_up: None,
            earlier: 0,
            sa_retry: Retry::new(Timer::Sa, config.retry),
            generations: Generations::default(),
            number: None,
            traffic: Traffic::None,
            building: Request::NONE,
            build_retry: Retry::new(Timer::Build, config.retry),
            stands_since: Instant::ZERO,
            paths_fit: None,
            gid: None,
            takes_connections: false,
            invalidate: None,
            notes: [None; NOTES],
            told: None,
            announced: Status::Stopped,
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
        match self.traffic {
            Traffic::Stands(carried) if Some(carried.standing.plan) == self.plan() => Status::Up(Up {
                address: self.called(carried.qpn, port.gid),
                mtu: carried.standing.plan.mtu,
                speed: match (self.speed.of(&port), membership.group.rate) {
                    (0, Some(rate)) => rate.bits_per_second(),
                    (speed, _) => speed,
                },
                scope: membership.group.scope,
            }),
            _ => Status::Down(WaitsFor::QueuePair),
        }
    }

    /// The link's address, which it has as long as it has a queue pair, up or not. A port that goes down takes none away.
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

    /// The broadcast group as the SM has it now; `None` if there is none or it is in doubt: the SM may be another one, or the group be gone.
    pub fn certain_broadcast_group(&self) -> Option<&BroadcastGroup> {
        let in_doubt =
            self.port_in_doubt || self.port_query.out.is_some() || self.timers.is_set(Timer::Renew);
        let certain = |member: &&Membership<G>| !in_doubt && member.confidence == Confidence::Current;
        self.membership.as_ref().filter(certain).map(|member| &member.group)
    }

    /// How the broadcast group is reached, while a membership is held.
    pub fn broadcast_info(&self) -> Option<&G> {
        self.membership.as_ref().map(|membership| &membership.info)
    }

    /// How far the membership in the broadcast group has come.
    pub fn broadcast_state(&self) -> BroadcastState {
        match (&self.membership, &self.sa.out) {
            (Some(membership), _) if membership.confidence == Confidence::Current => BroadcastState::Joined,
            (Some(_), _) => BroadcastState::Renewing,
            (None, Some((_, asked))) if asked.is_search() => BroadcastState::Searching,
            (None, Some(_)) => BroadcastState::Joining,
            (None, None) => BroadcastState::None,
        }
    }

    /// Whether nothing is held and no answer is awaited: true some time after a stop.
    pub fn is_idle(&self) -> bool {
        let awaited = self.sa.is_awaited() || self.leaving || self.building.is_awaited();
        !self.running && self.joins.is_empty() && !awaited && self.standing().is_none()
    }

    /// Whether nothing is held, and no answer awaited but the SA's, of a stopped link that has [handed over](Self::hand_over) all else.
    pub fn waits_for_the_sa_alone(&self) -> bool {
        let local = self.building.is_awaited() || self.standing().is_some();
        !self.running && self.joins.is_empty() && !local
    }

    /// Joins that a stopped link has not begun to undo: they are owed ([`Action::Owe`]) instead. Call until `None`, when the link has no time for leaves.
    pub fn hand_over(&mut self) -> Option<Action<G>> {
        if self.running { None } else { self.next_owed(true) }
    }

    /// Takes an event.
    pub fn handle_event(&mut self, now: Instant, event: Event<G>) {
        match event {
            Event::Start => self.start(),
            Event::Stop => self.stop(),
            Event::PortEvent => {
                self.doubt_port();
                self.sa_retry.reset(&mut self.timers);
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
            Event::Joined(ticket, gid, mgid, result) => self.joined(now, ticket, gid, mgid, result),
            Event::Left { mgid, gid, owed } => self.left(mgid, gid, owed),
            Event::Built(ticket, qpn) => self.built(now, ticket, qpn),
            Event::Broken(generation) => self.broken(now, generation, Note::Broken),
            Event::Stalled(generation) => self.broken(now, generation, Note::Stalled),
            Event::Rate(gid, rate) => self.speed.answered(gid, rate),
            Event::Appeared(mgid) => self.appeared(mgid),
            Event::Gone(mgid) => self.gone(mgid),
        }
    }

    /// The next thing to do; call until `None` after every event and timeout.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action<G>> {
        if let Some(tear_down) = self.next_tear_down() {
            return Some(tear_down);
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
        if let Some(owed) = self.next_owed(false) {
            return Some(owed);
        }
        if !self.running {
            return self.leave_except(None);
        }
        let next = self.next_port_query().or_else(|| self.next_broadcast_step(now));
        next.or_else(|| self.next_build()).or_else(|| self.next_rate_question(status))
    }

    /// When [`Link::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Time has passed. Early and spurious calls are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timers.fire(Timer::Poll, now) {
            self.port_in_doubt = true;
        }
        // What these held up is asked for when somebody looks.
        self.timers.fire(Timer::Sa, now);
        self.timers.fire(Timer::Build, now);
        if self.timers.fire(Timer::Verify, now) {
            self.stale();
        }
        if self.timers.fire(Timer::Renew, now) {
            self.renew(Severity::Light);
        }
        if self.timers.fire(Timer::GiveUp, now) {
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

    fn start(&mut self) {
        if self.running {
            return;
        }
        self.running = true;
        self.search.restart();
        self.doubt_port();
        self.sa_retry.reset(&mut self.timers);
        self.build_retry.reset(&mut self.timers);
    }

    fn stop(&mut self) {
        self.running = false;
        self.timers = Timers::default();
        self.number = None;
        self.gid = None;
        // Whoever opens the link next may be told something else first.
        self.told = None;
        self.traffic = Traffic::None;
        self.paths_fit = None;
        self.membership = None;
        self.given_up = None;
        self.sa.abandon();
        self.building.abandon();
        self.poll.reset(&mut self.timers);
        self.sa_retry.reset(&mut self.timers);
        self.build_retry.reset(&mut self.timers);
        self.invalidate(Severity::Heavy);
    }

    /// What is held may be lost, and so may what a join that is out has done: the SA may have carried it out before.
    fn stale(&mut self) {
        self.timers.clear(Timer::Verify);
        // What is answered is from before.
        self.outdate(|_| true);
        if let Some(membership) = &mut self.membership {
            if membership.confidence == Confidence::Current {
                membership.confidence = Confidence::Stale;
            }
            self.search.renew(membership.group);
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
        self.timers.set_once(Timer::Renew, soon);
    }

    /// The SM may have forgotten what it knew about this port.
    fn renew(&mut self, severity: Severity) {
        self.timers.clear(Timer::Renew);
        self.stale();
        self.sa_retry.reset(&mut self.timers);
        if self.running {
            self.invalidate(severity);
        }
    }
}
