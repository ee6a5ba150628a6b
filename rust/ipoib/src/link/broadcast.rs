//! The broadcast group: where it is looked for, and how it is joined and left.

use super::{Action, BroadcastGroup, Link, Membership, Note, SaError, Ticket};
use crate::addr::{Gid, Mgid};
use crate::numbers::Scope;
use crate::time::Instant;

/// How far the search has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// A group to join: found, or held before.
    candidate: Option<BroadcastGroup>,
    /// Index into [`Scope::SEARCH_ORDER`] of the scope to look in next; past the end, nobody has the group.
    scope: usize,
    /// The search was begun anew while a question was out: that nobody has the group then says nothing about `scope`.
    overtaken: bool,
}

impl Search {
    pub(super) const START: Self = Self { candidate: None, scope: 0, overtaken: false };

    pub(super) fn restart(&mut self) {
        *self = Self::START;
    }

    pub(super) fn known(&mut self, group: BroadcastGroup) {
        self.candidate = Some(group);
    }
}

/// Successful joins not undone, by group and port GID. IBTF counts them the same way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Joins([Option<Entry>; JOINS]);

#[derive(Clone, Copy, Debug)]
struct Entry {
    mgid: Mgid,
    gid: Gid,
    joins: u32,
    /// IBTF could not be asked to undo them: they wait for the next join or the next start.
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
    /// Whether there is nothing left to undo now.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().flatten().all(|entry| entry.owed)
    }

    fn add(&mut self, mgid: Mgid, gid: Gid, joins: u32, owed: bool) {
        match self.0.iter_mut().flatten().find(|entry| entry.is(mgid, gid)) {
            Some(entry) => {
                entry.joins = entry.joins.saturating_add(joins);
                entry.owed &= owed;
            }
            None => {
                // Without room what is owed gives way: it may never be asked for again.
                let free = self.0.iter().position(Option::is_none);
                let waits = || self.0.iter().position(|entry| entry.is_some_and(|entry| entry.owed));
                if let Some(entry) = free.or_else(waits).and_then(|at| self.0.get_mut(at)) {
                    *entry = Some(Entry { mgid, gid, joins, owed });
                }
            }
        }
    }

    /// What is owed is tried again.
    pub(super) fn remind(&mut self) {
        for entry in self.0.iter_mut().flatten() {
            entry.owed = false;
        }
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

impl<G: Copy + PartialEq> Link<G> {
    pub(super) fn next_broadcast_step(&mut self, now: Instant) -> Option<Action<G>> {
        let port = self.port.filter(|port| port.is_usable())?;
        if let (Some(Membership { group, gid, .. }), true) = (self.membership, self.sa.out.is_none())
            && let Some(leave) = self.leave_except(Some((group.mgid, gid)))
        {
            return Some(leave);
        }
        let needed = self.membership.is_none_or(|membership| membership.stale);
        if !needed || !self.sa.is_free(ABANDONED) || self.sa_retry.is_waiting() {
            return None;
        }
        let next = Scope::SEARCH_ORDER.get(self.search.scope);
        match (self.search.candidate, next) {
            // A leave that is out could undo this join.
            (Some(_), _) | (None, None) if self.leaving => None,
            (Some(group), _) => Some(self.join(now, port.gid, group.mgid, Some(group))),
            (None, Some(scope)) => {
                let ticket = self.ask(now, Step::Find(self.search.scope));
                Some(Action::Find(ticket, Mgid::broadcast(*scope, self.config.pkey)))
            }
            (None, None) => {
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
        self.sa.out = Some((ticket, step));
        self.give_up_at = self.config.answer.map(|patience| now + patience);
        ticket
    }

    /// What an answer of the SA's is about, if that is still wanted; `unanswered` if the SA was silent as long as IBTF waits.
    fn answered(&mut self, ticket: Ticket, unanswered: bool) -> Option<Step> {
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
                self.sa_retry.reset();
                step
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
        self.give_up_at = None;
        let Some((ticket, step)) = self.sa.out else { return };
        self.sa.abandon();
        self.given_up = Some(GivenUp { ticket, step, out: self.earlier + 1 });
        self.search.overtaken = false;
        match step {
            Step::Find(_) => {}
            Step::Join(None) => self.note(Note::CreateFailed(SaError::Unanswered(0))),
            Step::Join(Some(_)) => self.note(Note::JoinFailed(SaError::Unanswered(0))),
        }
        self.sa_retry.failed(now, &mut self.jitter);
    }

    fn join(&mut self, now: Instant, gid: Gid, mgid: Mgid, group: Option<BroadcastGroup>) -> Action<G> {
        let ticket = self.ask(now, Step::Join(group));
        self.doubted = false;
        Action::Join(ticket, gid, mgid, group)
    }

    pub(super) fn found(
        &mut self,
        now: Instant,
        ticket: Ticket,
        result: Result<Option<BroadcastGroup>, SaError>,
    ) {
        if self.answered(ticket, matches!(result, Err(SaError::Unanswered(_)))).is_none() {
            return;
        }
        self.give_up_at = None;
        let overtaken = core::mem::take(&mut self.search.overtaken);
        match result {
            Ok(Some(group)) if !self.fits_port(now, &group) => {}
            Ok(Some(group)) => self.search.known(group),
            Ok(None) if overtaken => {}
            Ok(None) => {
                self.search.scope += 1;
                if self.search.scope >= Scope::SEARCH_ORDER.len() && !self.config.create {
                    self.note(Note::BroadcastAbsent);
                    self.search_again(now);
                }
            }
            Err(_) => self.search_again(now),
        }
    }

    /// From the first scope on, whatever is being asked now.
    pub(super) fn search_anew(&mut self) {
        self.search.restart();
        self.search.overtaken = matches!(self.sa.out, Some((_, Step::Find(_))));
        self.given_up = None;
    }

    fn fits_port(&mut self, now: Instant, group: &BroadcastGroup) -> bool {
        match self.port {
            Some(port) if port.mtu < group.mtu => {
                self.note(Note::MtuTooLarge(group.mtu, port.mtu));
                self.search_again(now);
                false
            }
            _ => true,
        }
    }

    fn search_again(&mut self, now: Instant) {
        self.search.restart();
        self.sa_retry.failed(now, &mut self.jitter);
    }

    pub(super) fn joined(
        &mut self,
        now: Instant,
        ticket: Ticket,
        gid: Gid,
        result: Result<(BroadcastGroup, G), SaError>,
    ) {
        let step = self.answered(ticket, matches!(result, Err(SaError::Unanswered(_))));
        match &result {
            Ok((BroadcastGroup { mgid, .. }, _)) | Err(SaError::Unusable(mgid)) => {
                self.joins.add(*mgid, gid, 1, false);
            }
            Err(_) => {}
        }
        let Some(Step::Join(candidate)) = step else { return };
        self.give_up_at = None;
        match result {
            Ok((group, info)) if self.fits_port(now, &group) => self.member(now, group, info, gid),
            Ok(_) => {}
            Err(error) => {
                self.note(if candidate.is_some() {
                    Note::JoinFailed(error)
                } else {
                    Note::CreateFailed(error)
                });
                match error {
                    SaError::Refused(_) => {
                        // A refusal alone may be that of an SM which does not know its subnet yet.
                        self.membership = self.membership.filter(|membership| !membership.gone);
                        self.search_again(now);
                    }
                    SaError::Unanswered(_) | SaError::Unusable(_) => {
                        self.sa_retry.failed(now, &mut self.jitter);
                    }
                }
            }
        }
    }

    fn member(&mut self, now: Instant, group: BroadcastGroup, info: G, gid: Gid) {
        if self.port.is_some_and(|port| port.gid != gid) {
            // The port's GID changed while the join was out: this membership is not the one we need.
            return;
        }
        self.membership = Some(Membership { group, info, gid, stale: false, gone: false });
        self.verify_at = Some(now + self.config.verify);
        self.search.restart();
        self.sa_retry.reset();
        if core::mem::take(&mut self.doubted) {
            self.stale();
        }
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

    /// A leave has ended; `owed` of the joins it was to undo still count, because IBTF was not asked.
    pub(super) fn left(&mut self, mgid: Mgid, gid: Gid, owed: u32) {
        self.leaving = false;
        if owed > 0 {
            self.joins.add(mgid, gid, owed, true);
        }
    }

    /// A trap: the group we look for may be there now.
    pub(super) fn appeared(&mut self, mgid: Mgid) {
        let ours = mgid.is_broadcast() && mgid.pkey() == Some(self.config.pkey.to_full());
        if ours && self.membership.is_none() {
            self.search_anew();
            self.sa_retry.reset();
        }
    }

    /// A trap: everybody's membership in the group is gone; joining it again creates it.
    pub(super) fn gone(&mut self, mgid: Mgid) {
        let ours = mgid.is_broadcast() && mgid.pkey() == Some(self.config.pkey.to_full());
        if ours || self.membership.is_some_and(|membership| membership.group.mgid == mgid) {
            if let Some(membership) = &mut self.membership {
                membership.gone = true;
            }
            self.stale();
            self.sa_retry.reset();
        }
    }
}
