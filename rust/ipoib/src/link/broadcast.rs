//! The broadcast group: where it is looked for, and how it is joined and left.

use core::time::Duration;

use super::search::{Next, Search};
use super::timers::Timer;
use super::{Action, BroadcastGroup, Confidence, Link, Membership, Note, SaError, Ticket};
use crate::addr::{Gid, Mgid};
use crate::numbers::{QKey, Scope};
use crate::paths::Severity;
use crate::time::Instant;

/// Joins not undone, by group and port GID.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Joins([Option<Entry>; JOINS]);

#[derive(Clone, Copy, Debug)]
struct Entry {
    mgid: Mgid,
    gid: Gid,
    /// The granted ones, which IBTF counts the same way. 0: the SA may have granted one that it has not answered.
    joins: u32,
    /// IBTF could not be asked to undo them, or the SA has not confirmed: they are owed, unless the group is joined again first.
    owed: bool,
}

impl Entry {
    fn is(&self, mgid: Mgid, gid: Gid) -> bool {
        (self.mgid, self.gid) == (mgid, gid)
    }
}

/// The group we are in, the one we were in, and what abandoned requests bring.
const JOINS: usize = 2 + ABANDONED as usize;

impl Joins {
    /// Whether there is nothing left to undo.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn add(&mut self, mgid: Mgid, gid: Gid, joins: u32, owed: bool) {
        match self.0.iter_mut().flatten().find(|entry| entry.is(mgid, gid)) {
            Some(entry) => {
                entry.joins = entry.joins.saturating_add(joins);
                entry.owed &= owed;
            }
            None => {
                // What is owed is handed out before anything else is asked for: there is room.
                if let Some(entry) = self.0.iter_mut().find(|entry| entry.is_none()) {
                    *entry = Some(Entry { mgid, gid, joins, owed });
                }
            }
        }
    }

    fn take_owed(&mut self, all: bool) -> Option<Entry> {
        self.0.iter_mut().find(|entry| entry.is_some_and(|entry| all || entry.owed))?.take()
    }

    fn take_except(&mut self, keep: Option<(Mgid, Gid)>) -> Option<Entry> {
        let spare = |entry: &Entry| !entry.owed && keep.is_none_or(|(mgid, gid)| !entry.is(mgid, gid));
        self.0.iter_mut().find(|entry| entry.as_ref().is_some_and(spare))?.take()
    }
}

/// A request to the SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// In the scope of this index into [`Scope::SEARCH_ORDER`].
    Find(usize),
    Join(Option<BroadcastGroup>),
}

/// A request to the SA that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    step: Step,
    /// Of a search: it was begun anew meanwhile, so that nobody has the group says nothing about the scope to look in next. Of a join:
    /// something has spoken against what it will bring.
    outdated: bool,
}

impl Asked {
    pub(super) fn is_search(&self) -> bool {
        matches!(self.step, Step::Find(_))
    }

    /// Whether it is a join of a group that is searched for after this scope.
    fn joins_after(&self, scope: Scope) -> bool {
        matches!(self.step, Step::Join(Some(group)) if group.scope.is_searched_after(scope))
    }
}

/// A request that was waited for as long as patience reached. Its answer is still good.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenUp {
    ticket: Ticket,
    step: Step,
    /// How often it is out, all with this ticket.
    out: u8,
}

/// Abandoned requests to wait for before a new one goes out: a stop and start in quick succession must not pile them up.
const ABANDONED: u8 = 2;

/// When a membership is asked for again whose record says something new. An SA that is wrong for a while does no harm for longer.
const VERIFY_SOON: Duration = Duration::from_secs(60);

/// Whether a join was granted with what it named, in the group that the link knew. A group that nobody knew is made with the usual values.
fn is_as_expected(candidate: Option<BroadcastGroup>, granted: &BroadcastGroup) -> bool {
    match candidate {
        Some(known) => known == *granted,
        None => {
            let BroadcastGroup { qkey, sl, tclass, flow_label, .. } = *granted;
            (qkey, sl, tclass, flow_label) == (QKey::IPOIB_DEFAULT, 0, 0, 0)
        }
    }
}

impl<G: Copy + PartialEq> Link<G> {
    pub(super) fn next_broadcast_step(&mut self, now: Instant) -> Option<Action<G>> {
        let port = self.port.filter(|port| port.is_usable())?;
        if let (Some(Membership { group, gid, .. }), true) = (self.membership, self.sa.out.is_none())
            && let Some(leave) = self.leave_except(Some((group.mgid, gid)))
        {
            return Some(leave);
        }
        let needed = self.membership.is_none_or(|membership| membership.confidence != Confidence::Current);
        if !needed || !self.sa.is_free(ABANDONED) || self.timers.is_set(Timer::Sa) {
            return None;
        }
        match self.search.next() {
            Next::Look(index, scope) => {
                let ticket = self.ask(now, Step::Find(index));
                Some(Action::Find(ticket, Mgid::broadcast(scope, self.config.pkey)))
            }
            // A leave that is out could undo this join.
            Next::Join(_) | Next::Nothing if self.leaving => None,
            Next::Join(group) => Some(self.join(now, port.gid, group.mgid, Some(group))),
            Next::Nothing => {
                let mgid = Mgid::broadcast(Scope::LinkLocal, self.config.pkey);
                Some(self.join(now, port.gid, mgid, None))
            }
        }
    }

    /// A question that was given up and is repeated keeps its ticket: an answer to either will do.
    fn ask(&mut self, now: Instant, step: Step) -> Ticket {
        let repeated = self.given_up.take().filter(|given_up| given_up.step == step);
        let ticket = repeated.map_or_else(|| self.ticket(), |given_up| given_up.ticket);
        self.earlier = repeated.map_or(0, |given_up| given_up.out);
        self.sa.out = Some((ticket, Asked { step, outdated: false }));
        match self.config.answer {
            Some(patience) => self.timers.set(Timer::GiveUp, now + patience),
            None => self.timers.clear(Timer::GiveUp),
        }
        ticket
    }

    /// What an answer of the SA's is about, if that is still wanted; `unanswered` if the SA was silent as long as IBTF waits.
    fn answered(&mut self, ticket: Ticket, unanswered: bool) -> Option<Asked> {
        let late =
            self.given_up.as_mut().filter(|given_up| self.sa.out.is_none() && given_up.ticket == ticket);
        if let Some(late) = late {
            self.sa.abandoned = self.sa.abandoned.saturating_sub(1);
            late.out -= 1;
            let (step, none_left) = (late.step, late.out == 0);
            if none_left || !unanswered {
                self.given_up = None;
            }
            // An answer was waited for too short a time, and is as good as one in time.
            return (!unanswered).then(|| {
                self.sa_retry.reset(&mut self.timers);
                Asked { step, outdated: false }
            });
        }
        let of_earlier =
            unanswered && self.earlier > 0 && matches!(self.sa.out, Some((out, _)) if out == ticket);
        if of_earlier {
            self.earlier -= 1;
            self.sa.abandoned = self.sa.abandoned.saturating_sub(1);
            return None;
        }
        self.sa.answered(ticket)
    }

    /// Nobody has answered in time: as if nobody ever would.
    pub(super) fn give_up(&mut self, now: Instant) {
        let Some((ticket, Asked { step, outdated })) = self.sa.out else { return };
        self.sa.abandon();
        self.given_up = (!outdated).then_some(GivenUp { ticket, step, out: self.earlier + 1 });
        match step {
            Step::Find(_) => {}
            Step::Join(None) => self.note(Note::CreateFailed(SaError::Unanswered(0))),
            Step::Join(Some(_)) => self.note(Note::JoinFailed(SaError::Unanswered(0))),
        }
        self.sa_retry.failed(now, &mut self.timers, &mut self.jitter);
    }

    fn join(&mut self, now: Instant, gid: Gid, mgid: Mgid, group: Option<BroadcastGroup>) -> Action<G> {
        let ticket = self.ask(now, Step::Join(group));
        Action::Join(ticket, gid, mgid, group)
    }

    pub(super) fn found(
        &mut self,
        now: Instant,
        ticket: Ticket,
        result: Result<Option<BroadcastGroup>, SaError>,
    ) {
        let silent = result.is_err_and(SaError::is_silence);
        let Some(asked) = self.answered(ticket, silent) else { return };
        self.timers.clear(Timer::GiveUp);
        match result {
            // What was asked before says nothing now.
            Ok(_) if asked.outdated => {}
            Ok(Some(group)) if self.fits_port(&group) => self.search.list(group),
            Ok(None) if !matches!(asked.step, Step::Find(index) if self.search.is_at(index)) => {}
            Ok(None) => self.pass(now, Search::pass),
            Ok(Some(group)) => {
                // The group carries something else since another SM has made it.
                self.lose_stale_membership(group.mgid);
                self.pass(now, Search::pass_useless);
            }
            Err(_) if asked.outdated => self.ask_again_later(now),
            Err(SaError::Refused(_)) if self.search.can_do_without(None) => {
                self.pass(now, Search::pass_useless);
            }
            Err(_) if self.search.can_do_without(None) => self.unanswered(now),
            Err(_) => self.search_again(now),
        }
    }

    /// The search goes on with the next scope, or ends with nothing.
    fn pass(&mut self, now: Instant, pass: fn(&mut Search)) {
        pass(&mut self.search);
        if self.search.next() != Next::Nothing {
            return;
        }
        let has_passed_a_group = self.search.has_passed_a_group();
        if has_passed_a_group || !self.config.create {
            if !has_passed_a_group {
                self.note(Note::BroadcastAbsent);
            }
            self.search_again(now);
        }
    }

    /// The SA has said nothing about a group that the link can do without.
    fn unanswered(&mut self, now: Instant) {
        if !self.search.pass_silent() {
            self.ask_again_later(now);
        }
    }

    /// From the first scope on, whatever is being asked now.
    pub(super) fn search_anew(&mut self) {
        self.search.restart();
        self.outdate(Asked::is_search);
    }

    /// What a request of this kind brings that is out may be untrue already.
    pub(super) fn outdate(&mut self, which: impl Fn(&Asked) -> bool) {
        if let Some((_, asked)) = &mut self.sa.out
            && which(asked)
        {
            asked.outdated = true;
        }
        self.given_up = None;
    }

    fn fits_port(&mut self, group: &BroadcastGroup) -> bool {
        match self.port {
            Some(port) if port.mtu < group.mtu => {
                self.note(Note::MtuTooLarge(group.mtu, port.mtu));
                false
            }
            _ => true,
        }
    }

    fn search_again(&mut self, now: Instant) {
        self.search.restart();
        self.ask_again_later(now);
    }

    fn ask_again_later(&mut self, now: Instant) {
        self.sa_retry.failed(now, &mut self.timers, &mut self.jitter);
    }

    pub(super) fn joined(
        &mut self,
        now: Instant,
        ticket: Ticket,
        gid: Gid,
        mgid: Mgid,
        result: Result<(BroadcastGroup, G), SaError>,
    ) {
        let asked = self.answered(ticket, result.is_err_and(SaError::is_silence));
        match &result {
            Ok(_) | Err(SaError::Unusable) => self.joins.add(mgid, gid, 1, false),
            // The SA may have granted it, and only its answer was lost.
            Err(SaError::Unanswered(_)) => self.joins.add(mgid, gid, 0, false),
            Err(SaError::Refused(_) | SaError::NotAsked(_)) => {}
        }
        let Some(Asked { step: Step::Join(candidate), outdated }) = asked else { return };
        self.timers.clear(Timer::GiveUp);
        match result {
            Ok((group, info)) if self.fits_port(&group) => {
                self.doubted = !is_as_expected(candidate, &group);
                self.note_move(mgid);
                self.member(now, Membership { group, info, gid, confidence: Confidence::Current });
                if outdated {
                    self.stale();
                }
            }
            Ok(_) if outdated => self.ask_again_later(now),
            Ok(_) => self.cannot_be_in(now, mgid),
            Err(error) => {
                self.note(if candidate.is_some() {
                    Note::JoinFailed(error)
                } else {
                    Note::CreateFailed(error)
                });
                let optional = self.search.can_do_without(Some(mgid));
                match error {
                    _ if outdated => self.ask_again_later(now),
                    SaError::Refused(_) => self.cannot_be_in(now, mgid),
                    SaError::Unusable if optional => self.cannot_be_in(now, mgid),
                    _ if optional => self.unanswered(now),
                    SaError::Unanswered(_) | SaError::NotAsked(_) | SaError::Unusable => {
                        self.ask_again_later(now);
                    }
                }
            }
        }
    }

    /// The SA refuses a group, or it is too large.
    fn cannot_be_in(&mut self, now: Instant, mgid: Mgid) {
        let is_listed = self.search.is_listed();
        // A refusal alone may be that of an SM which does not know its subnet yet. One that knows the group knows the port.
        if is_listed {
            self.lose_stale_membership(mgid);
        }
        let is_gone =
            |member: &mut Membership<G>| member.confidence == Confidence::Gone && member.group.mgid == mgid;
        self.lost_group |= self.membership.take_if(is_gone).is_some();
        if is_listed {
            self.pass(now, Search::pass_useless);
        } else {
            self.search_again(now);
        }
    }

    /// A link that changes to another group hears its neighbours of the one before only when they have followed.
    fn note_move(&mut self, to: Mgid) {
        let before = self.membership.map(|membership| membership.group.mgid);
        if let Some(before) = before.filter(|before| *before != to) {
            self.note(Note::Moved(before, to));
        }
    }

    /// The SA has the group and will not have the port in it: what the link believes of its membership is from an SM of before.
    fn lose_stale_membership(&mut self, mgid: Mgid) {
        let is_stale = |member: &mut Membership<G>| {
            member.confidence != Confidence::Current && member.group.mgid == mgid
        };
        self.lost_group |= self.membership.take_if(is_stale).is_some();
    }

    fn member(&mut self, now: Instant, membership: Membership<G>) {
        if self.port.is_some_and(|port| port.gid != membership.gid) {
            // The port's GID changed while the join was out: this membership is not the one we need.
            return;
        }
        self.membership = Some(membership);
        if core::mem::take(&mut self.lost_group) {
            // Who was asked for meanwhile could not be reached.
            self.invalidate(Severity::Light);
        }
        let verify = if self.doubted { self.config.verify.min(VERIFY_SOON) } else { self.config.verify };
        self.timers.set(Timer::Verify, now + verify);
        self.search.restart();
        self.sa_retry.reset(&mut self.timers);
    }

    /// Undoes joins other than those of `keep`, one group at a time.
    pub(super) fn leave_except(&mut self, keep: Option<(Mgid, Gid)>) -> Option<Action<G>> {
        if self.leaving {
            return None;
        }
        let Entry { mgid, gid, joins, .. } = self.joins.take_except(keep)?;
        self.leaving = true;
        Some(Action::Leave { mgid, gid, joins })
    }

    /// What a leave has not ended; for a stopped link that has no time for leaves, `all` that it has not begun to leave.
    pub(super) fn next_owed(&mut self, all: bool) -> Option<Action<G>> {
        let Entry { mgid, gid, joins, .. } = self.joins.take_owed(all)?;
        Some(Action::Owe { mgid, gid, joins })
    }

    /// A leave has ended. `owed`: it is not over, and so many joins that IBTF counts are still to be undone.
    pub(super) fn left(&mut self, mgid: Mgid, gid: Gid, owed: Option<u32>) {
        self.leaving = false;
        if let Some(joins) = owed {
            self.joins.add(mgid, gid, joins, true);
        }
    }

    /// Whether this is a broadcast group of the link's partition.
    fn is_ours(&self, mgid: Mgid) -> bool {
        mgid.is_broadcast() && mgid.pkey() == Some(self.config.pkey.to_full())
    }

    /// A trap: the group we look for may be there now, or one in a scope in front of ours.
    pub(super) fn appeared(&mut self, mgid: Mgid) {
        if !self.is_ours(mgid) {
            return;
        }
        match self.membership {
            None => {
                self.search_anew();
                self.outdate(|asked| mgid.scope().is_some_and(|scope| asked.joins_after(scope)));
            }
            Some(Membership { group, .. })
                if mgid.scope().is_some_and(|scope| group.scope.is_searched_after(scope)) =>
            {
                self.stale();
            }
            Some(_) => return,
        }
        self.sa_retry.reset(&mut self.timers);
    }

    /// A trap: everybody's membership in the group is gone; joining it again creates it.
    pub(super) fn gone(&mut self, mgid: Mgid) {
        if self.membership.map_or(self.is_ours(mgid), |membership| membership.group.mgid == mgid) {
            if let Some(membership) = &mut self.membership {
                membership.confidence = Confidence::Gone;
            }
            self.stale();
            self.sa_retry.reset(&mut self.timers);
        } else if self.is_ours(mgid) {
            // The link may be about to move there.
            self.outdate(|asked| !asked.is_search());
        }
    }
}
