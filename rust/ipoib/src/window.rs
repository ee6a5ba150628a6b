//! How many calls to subnet administration may be out at once.
//!
//! IBTF offers calls that wait for the answer, for minutes if there is none, and lets eight callers of the whole machine through at
//! a time: whoever comes later waits behind them, whichever port they ask. So a driver bounds its own calls, such that a port with
//! a silent administrator leaves places to the others:
//!
//! - **A port** begins with [`FIRST`] calls out. Each answer in time makes that one more, up to [`MOST`]. It is [`FIRST`] again as
//!   soon as a call is out for more than [`LATE`], and one alone after a call has ended without an answer, until there is one.
//!   The increase is additive: it takes four answers, which a healthy administrator gives within a few milliseconds, and a burst
//!   that an administrator cannot take is cut short.
//! - **A call that is lost** takes no place of its port's: one that is late although the administrator has answered, in time, what it
//!   was asked after it. An administrator that was away for a moment never saw it, and IBTF asks again only seconds later.
//! - **All ports** together have [`MOST`] calls out, as more would only wait in IBTF. Those that have given no answer in time since
//!   they were late have [`FIRST`] between them, and one each beyond. Where there are several ports no port takes the last place.
//! - **What no link waits for**, because the link is gone ([`Kind::Owed`]), is asked only while nothing else waits, and takes no place of the port's from what
//!   comes then; half of a port's places at most, and half of all.
//! - **Of a port's calls** paths leave one place to groups, and groups leave one to a path that waits; one alone is by turns a path and
//!   something else. Half at most are leaves, for which nobody waits.
//!
//! A pure machine: told the time, reads no clock.

use core::time::Duration;

use crate::Instant;

/// Calls that all ports may have out at once, and one port that answers: what IBTF lets through for the whole machine.
pub const MOST: usize = 8;
/// Calls that a port begins with, and one that is late may have out.
pub const FIRST: usize = 4;
/// An answer that takes longer is late.
pub const LATE: Duration = Duration::from_secs(1);

/// What a call is about. The first is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The broadcast group, without which a link is down.
    Broadcast,
    /// A group is joined, or groups are asked for.
    Group,
    /// A group is left.
    Leave,
    /// The path to a port.
    Path,
    /// How fast a port is.
    Rate,
    /// A group is left that no link has any more. It takes no place from anything else.
    Owed,
}

impl Kind {
    /// All that a link asks, in the order of their urgency.
    pub const ALL: [Self; 5] = [Self::Broadcast, Self::Group, Self::Leave, Self::Path, Self::Rate];

    const fn is_path(self) -> bool {
        matches!(self, Self::Path | Self::Rate)
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The administrator has answered, if only to refuse.
    Answered,
    /// It has not, or was not asked.
    Unanswered,
}

/// A call that is out; its place in the window.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Call(usize);

#[derive(Clone, Copy, Debug)]
struct Out {
    kind: Kind,
    since: Instant,
}

impl Out {
    fn is_late(&self, now: Instant) -> bool {
        now - self.since > LATE
    }
}

/// What is known of a port's administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing yet, or the last answer was late.
    Doubtful,
    /// It answers in time; so many calls may be out.
    Answers(usize),
    /// A call has ended without an answer.
    Silent,
}

/// The calls of one port.
#[derive(Clone, Debug)]
pub struct Window {
    standing: Standing,
    calls: [Option<Out>; MOST],
    /// When the call began that is the last one to begin of those that were answered in time.
    heard: Instant,
    /// Whether the last call that began was one for a path.
    path_was_last: bool,
}

/// What all ports of a driver have out, and what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    ports: usize,
    out: usize,
    /// Of ports that do not answer in time, without what no link waits for.
    doubtful: usize,
    /// What no link waits for.
    owed: usize,
}

impl Load {
    /// With another port's window in it.
    #[must_use]
    pub fn with(self, now: Instant, port: &Window) -> Self {
        let doubtful = if port.is_doubtful(now) { port.awaited() } else { 0 };
        Self {
            ports: self.ports + 1,
            out: self.out + port.out(),
            doubtful: self.doubtful + doubtful,
            owed: self.owed + port.out() - port.awaited(),
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    /// Of a port that was not asked yet.
    pub const fn new() -> Self {
        Self { standing: Standing::Doubtful, calls: [None; MOST], heard: Instant::ZERO, path_was_last: false }
    }

    /// How many calls are out.
    pub fn out(&self) -> usize {
        self.calls.iter().flatten().count()
    }

    /// How many of them a link waits for.
    fn awaited(&self) -> usize {
        self.out_of(|call| call.kind != Kind::Owed)
    }

    fn out_of(&self, is_it: impl Fn(&Out) -> bool) -> usize {
        self.calls.iter().flatten().filter(|call| is_it(call)).count()
    }

    fn is_late(&self, now: Instant) -> bool {
        self.calls.iter().flatten().any(|call| call.is_late(now))
    }

    fn is_lost(&self, now: Instant, call: &Out) -> bool {
        call.is_late(now) && call.since < self.heard
    }

    /// When the next call is lost, which may make room for another one though none has ended.
    pub fn next_lost(&self, now: Instant) -> Option<Instant> {
        let overtaken =
            self.calls.iter().flatten().filter(|call| call.since < self.heard && !call.is_late(now));
        let since = overtaken.map(|call| call.since).min()?;
        Some(since + LATE + Duration::from_nanos(1))
    }

    fn is_doubtful(&self, now: Instant) -> bool {
        let unheard = self.out_of(|call| call.is_late(now) && !self.is_lost(now, call)) > 0;
        unheard || !matches!(self.standing, Standing::Answers(_))
    }

    /// How many calls may be out now.
    pub fn limit(&self, now: Instant) -> usize {
        match self.standing {
            Standing::Silent => 1,
            Standing::Doubtful => FIRST,
            Standing::Answers(_) if self.is_late(now) => FIRST,
            Standing::Answers(limit) => limit,
        }
    }

    /// Whether a call may go out. `path_waits` says whether a path of this port does; `all` is what all ports have out, this one
    /// among them.
    pub fn admits(&self, now: Instant, kind: Kind, path_waits: bool, all: &Load) -> bool {
        self.has_room(now, kind, path_waits) && self.leaves_room(now, kind, all)
    }

    /// Among the port's own calls.
    fn has_room(&self, now: Instant, kind: Kind, path_waits: bool) -> bool {
        let lost = self.out_of(|call| self.is_lost(now, call));
        let limit = self.limit(now).min(MOST - lost);
        let live = |is_it: fn(Kind) -> bool| self.out_of(|call| is_it(call.kind) && !self.is_lost(now, call));
        let paths = live(Kind::is_path);
        let groups = live(|kind| !kind.is_path() && kind != Kind::Owed);
        let owed = live(|kind| kind == Kind::Owed);
        // Paths that are lost leave one place to groups as well.
        let no_path = lost > 0 && self.out_of(|call| call.kind.is_path()) + 1 == MOST;
        let turn = limit == 1 && self.path_was_last;
        let shared = !path_waits || no_path || paths > 0 || groups + 1 < limit || turn;
        let own = match kind {
            Kind::Broadcast => true,
            Kind::Group => shared,
            Kind::Leave => shared && live(|kind| kind == Kind::Leave) < (limit / 2).max(1),
            Kind::Path | Kind::Rate => (limit == 1 || paths + 1 < limit) && !no_path,
            Kind::Owed => !path_waits && owed < (limit / 2).max(1) && paths + groups + owed < limit,
        };
        own && paths + groups < limit
    }

    /// Among those of all ports.
    fn leaves_room(&self, now: Instant, kind: Kind, all: &Load) -> bool {
        let (out, none) = (self.out(), self.awaited() == 0);
        let doubt = none || !self.is_doubtful(now) || all.doubtful < FIRST;
        let last = none || all.ports < 2 || out + 1 < MOST;
        let owed = kind != Kind::Owed || all.owed < MOST / 2;
        all.out < MOST && doubt && last && owed
    }

    /// A call goes out; `None` if as many are out as there can ever be.
    pub fn begin(&mut self, now: Instant, kind: Kind) -> Option<Call> {
        let place = self.calls.iter().position(Option::is_none)?;
        *self.calls.get_mut(place)? = Some(Out { kind, since: now });
        self.path_was_last = kind.is_path();
        Some(Call(place))
    }

    /// The call asks once more: its answer is late when this one is.
    pub fn again(&mut self, now: Instant, call: &Call) {
        if let Some(Some(out)) = self.calls.get_mut(call.0) {
            out.since = now;
        }
    }

    /// The call has ended.
    pub fn end(&mut self, now: Instant, call: Call, end: End) {
        let Some(out) = self.calls.get_mut(call.0).and_then(Option::take) else { return };
        let in_time = !out.is_late(now);
        if end == End::Answered && in_time {
            self.heard = self.heard.max(out.since);
        }
        let lost = self.is_lost(now, &out);
        self.standing = match (end, in_time, self.standing) {
            // One that is out and late says more.
            (End::Answered, true, Standing::Answers(limit)) if self.is_late(now) => Standing::Answers(limit),
            (End::Answered, true, Standing::Answers(limit)) => Standing::Answers((limit + 1).min(MOST)),
            (End::Answered, true, Standing::Doubtful | Standing::Silent) => Standing::Answers(FIRST + 1),
            (End::Answered, false, _) => Standing::Doubtful,
            // It was refused without being asked.
            (End::Unanswered, true, standing) => standing,
            (End::Unanswered, false, standing) if lost => standing,
            (End::Unanswered, false, _) => Standing::Silent,
        };
    }
}

#[cfg(test)]
mod tests;
