//! Which join or leave comes next, and what its end changes.

use core::ops::DerefMut;

use super::{
    Action, Asker, GroupSlot, Groups, JoinError, Joined, Late, Left, Membership, Mode, Operation, Overtaken,
    Roles, StandIn, Values, WORK,
};
use crate::addr::Mgid;
use crate::table::Id;
use crate::time::Instant;

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    pub(super) fn next_operation(&mut self, now: Instant) -> Option<Action<G>> {
        while self.in_flight < self.config.operations.max(1) {
            let id = self.table.pop_front(WORK)?;
            if let Some(debt) = self.given_up(id) {
                return Some(debt);
            }
            if let Some(action) = self.reconcile(now, id) {
                self.in_flight += 1;
                return Some(action);
            }
        }
        None
    }

    /// What is held of a group whose leave came to nothing.
    fn given_up(&mut self, id: Id) -> Option<Action<G>> {
        let group = self.table.get_mut(id)?;
        if group.operation != Operation::None || !core::mem::take(&mut group.gives_up) {
            return None;
        }
        let held = group.held.take()?;
        self.work(id);
        Some(owe(&held))
    }

    /// A membership that a stopped machine still has and asks nothing about just now: it is owed ([`Action::Owe`]) instead of left. Call until `None`, when
    /// the machine has no time for leaves.
    pub fn hand_over(&mut self) -> Option<Action<G>> {
        if self.mode != Mode::Stopped {
            return None;
        }
        let mut from = 0;
        while let Some((at, id)) = self.table.next_from(from) {
            from = at + 1;
            let Some(group) = self.table.get_mut(id) else { continue };
            if group.operation == Operation::None
                && let Some(held) = group.held.take()
            {
                (group.gives_up, group.waiting) = (false, false);
                self.table.set_deadline(id, None);
                self.work(id);
                return Some(owe(&held));
            }
        }
        None
    }

    fn reconcile(&mut self, now: Instant, id: Id) -> Option<Action<G>> {
        self.overhear_only_with_a_place(id);
        let key = self.table.key(id)?;
        let wire = self.on_wire(key);
        let (mode, in_doubt) = (self.mode, self.is_in_doubt());
        let group = self.table.get_mut(id)?;
        if group.operation != Operation::None || group.waiting {
            return None;
        }
        let role = group.role();
        match (&mut group.held, mode) {
            (None, _) if role == Roles::NONE => {
                if !group.has_notice() && group.asker == Asker::None && group.late.is_none() {
                    self.keep(id);
                    self.table.remove(id);
                }
                None
            }
            (_, Mode::Down) | (None, Mode::Stopped) => None,
            // The answer that is still to come says what there is to leave.
            (Some(_), Mode::Stopped) if group.late.is_some() => None,
            (Some(held), Mode::Stopped) => {
                group.operation = Operation::Leaving;
                Some(leave(held))
            }
            (Some(held), Mode::Up(..))
                if role == Roles::NONE
                    || held.values == Values::Unlike
                    || held.group != wire
                    || held.is_too_much_for(role) =>
            {
                if group.late.is_some() {
                    return None;
                }
                group.operation = Operation::Leaving;
                Some(leave(held))
            }
            (Some(held), Mode::Up(..)) if held.roles.contains(role) && !held.stale => {
                // The wait for another try may have taken the place of the next look at it.
                if self.table.deadline(id).is_none() {
                    self.watch(now, id);
                }
                // Somebody may wait for a join that is not needed any more.
                self.conclude(id, Ok(StandIn::No));
                None
            }
            // Two memberships of one group in two forms could not be told apart.
            (_, Mode::Up(..)) if group.late.is_some_and(|late| late.group != wire) => None,
            (_, Mode::Up(..)) if in_doubt => None,
            (held, Mode::Up(..)) => {
                let before = held.as_ref().and_then(|held| held.info.clone());
                let outdated = held.as_ref().is_some_and(|held| held.values == Values::Outdated);
                let patience = self.config.answer;
                let gives_up = patience.is_some();
                let overtaken = Overtaken::No;
                group.operation =
                    Operation::Joining { group: wire, role, overtaken, announced: false, gives_up };
                if let Some(patience) = patience {
                    self.table.set_deadline(id, Some(now + patience));
                }
                Some(Action::Join { group: wire, role, before, outdated })
            }
        }
    }

    pub(super) fn joined(
        &mut self,
        now: Instant,
        wire: Mgid,
        role: Roles,
        result: Result<Joined<G>, JoinError>,
    ) {
        let Some(id) = self.table.find(&wire.canonical()) else { return };
        let Some(group) = self.table.get_mut(id) else { return };
        let asked = match group.operation {
            Operation::Joining { group, role: wanted, overtaken, announced, gives_up }
                if (group, wanted) == (wire, role) =>
            {
                Some((overtaken, announced, gives_up))
            }
            _ => None,
        };
        let late = group.late.filter(|late| (late.group, late.role) == (wire, role));
        match (result, asked) {
            // Of two that ask for the same, one that is granted is as good as the other, unless the first may be of no use; one
            // that fails is the first.
            (Ok(grant), Some((overtaken, ..))) if late.is_none_or(|late| late.overtaken == Overtaken::No) => {
                self.end_operation(id);
                self.granted(now, id, wire, role, grant, overtaken);
            }
            (Err(error), Some((overtaken, announced, gives_up))) if late.is_none() => {
                self.end_operation(id);
                if gives_up {
                    self.watch(now, id);
                }
                match error {
                    JoinError::Outdated => {}
                    JoinError::Unlike => self.is_unlike(id),
                    JoinError::Refused if announced || overtaken != Overtaken::No => {}
                    error => self.refused(now, id, wire, role, error),
                }
                if error == JoinError::Unanswered {
                    self.may_be_granted(now, id, Late { group: wire, role, overtaken });
                }
            }
            (result, _) if let Some(late) = late => {
                group.late = None;
                self.late -= 1;
                match result {
                    Ok(grant) => {
                        let attached = grant.attached;
                        self.granted_late(id, late, grant);
                        if !attached && role.hears() {
                            // Whoever asked after it may have left the attaching to it, and said that it was done.
                            self.deaf(now, wire);
                        }
                    }
                    Err(JoinError::Unanswered) => self.may_be_granted(now, id, late),
                    Err(_) => {}
                }
            }
            // Nobody asked for it.
            _ => return,
        }
        self.work(id);
    }

    fn end_operation(&mut self, id: Id) {
        if let Some(group) = self.table.get_mut(id) {
            group.operation = Operation::None;
            self.in_flight -= 1;
        }
    }

    /// Nobody has answered in time: as if nobody ever would. What comes all the same is waited for beside what is asked next.
    pub(super) fn give_up(&mut self, now: Instant, id: Id, late: Late) {
        let most = self.config.operations.max(1);
        let Some(group) = self.table.get_mut(id) else { return };
        if group.late.is_some() || self.late >= most {
            // Enough questions are out: this one goes on waiting.
            let patience = self.config.answer.unwrap_or(self.config.retry.longest);
            return self.table.set_deadline(id, Some(now + patience));
        }
        group.late = Some(late);
        self.late += 1;
        self.end_operation(id);
        self.watch(now, id);
        self.refused(now, id, late.group, late.role, JoinError::Unanswered);
        self.work(id);
    }

    /// A join that was given up was granted all the same: IBTF counts it. Joined again if it is wanted, left if not: much may have
    /// happened since it was asked for.
    fn granted_late(&mut self, id: Id, late: Late, grant: Joined<G>) {
        let (wire, role) = (late.group, late.role);
        let Some(group) = self.table.get_mut(id) else { return };
        let held = group.held.get_or_insert_with(|| Membership::doubtful(wire));
        held.joins = held.joins.saturating_add(1);
        held.roles = held.roles.and(role);
        held.counted = held.counted.and(role);
        held.info.get_or_insert(grant.info);
        held.named_by(&late);
        // Whatever was known of its leaves, this is another membership.
        held.leaves_failed = 0;
    }

    /// Nobody has answered a join, and IBTF does not count it. The SA may have granted it, and only its answer was lost: what is wanted
    /// is asked for again; what is not is left after a pause, for an SA that is silent is not to be asked more than before.
    fn may_be_granted(&mut self, now: Instant, id: Id, asked: Late) {
        let (wire, role) = (asked.group, asked.role);
        let Some(group) = self.table.get_mut(id) else { return };
        let held = group.held.get_or_insert_with(|| Membership::doubtful(wire));
        held.named_by(&asked);
        held.stale |= !held.roles.contains(role);
        held.roles = held.roles.and(role);
        held.leaves_failed = 0;
        let is_out = group.operation != Operation::None;
        if group.role() == Roles::NONE && !group.waiting && !is_out && self.mode != Mode::Stopped {
            group.waiting = true;
            self.table.set_deadline(id, Some(now + self.config.retry.longest));
        }
    }

    /// A join with outdated values seems to have made the group, and not as the broadcast group is now. Ports that are in the latter might not get into it.
    fn is_unlike(&mut self, id: Id) {
        let Some(group) = self.table.get_mut(id) else { return };
        if let Some(held) = group.held.as_mut().filter(|held| held.values == Values::Outdated) {
            held.values = Values::Unlike;
        }
    }

    /// Looks at what is held again some time, as before the join that was given up.
    fn watch(&mut self, now: Instant, id: Id) {
        let Some(group) = self.table.get(id) else { return };
        let after = if group.full > 0 || group.non { self.config.verify } else { self.config.idle };
        let at = group.held.is_some().then_some(now + after);
        self.table.set_deadline(id, at);
    }

    fn granted(
        &mut self,
        now: Instant,
        id: Id,
        wire: Mgid,
        role: Roles,
        grant: Joined<G>,
        overtaken: Overtaken,
    ) {
        let Joined { info, attached } = grant;
        let Some(group) = self.table.get_mut(id) else { return };
        let before = group.held.take();
        let moved = before.as_ref().and_then(|held| held.info.as_ref()).is_some_and(|before| *before != info);
        let joins = before.as_ref().map_or(0, |held| held.joins).saturating_add(1);
        let (roles, counted) =
            before.map_or((role, role), |held| (held.roles.and(role), held.counted.and(role)));
        let stale = !attached || overtaken != Overtaken::No;
        let (info, values) = (Some(info), Values::Known);
        let mut held =
            Membership { group: wire, roles, counted, joins, info, stale, values, leaves_failed: 0 };
        held.named_by(&Late { group: wire, role, overtaken });
        group.held = Some(held);
        group.failures = if attached { 0 } else { group.failures.saturating_add(1) };
        group.waiting = !attached && self.mode != Mode::Stopped;
        let after = match (group.waiting, role) {
            (true, _) => self.config.retry.delay(pauses(group.failures, self.config.quick), &mut self.jitter),
            (false, Roles::SEND_ONLY) => self.config.idle,
            (false, _) => self.jitter.shorten(self.config.verify),
        };
        self.table.set_deadline(id, Some(now + after));
        if moved {
            self.changed(id, wire.canonical());
        }
        // Whoever only sends need not hear the group, and must not wait until it can be heard.
        if overtaken == Overtaken::No {
            self.conclude(id, Ok(StandIn::No));
        }
    }

    /// What is held cannot be heard: joined and attached again after a pause, and so is what a join that is out brings.
    pub(super) fn deaf(&mut self, now: Instant, wire: Mgid) {
        let Some(id) = self.table.find(&wire.canonical()) else { return };
        let Some(group) = self.table.get_mut(id) else { return };
        match (&mut group.operation, &mut group.held) {
            (Operation::Joining { overtaken, .. }, _) => *overtaken = Overtaken::Stale.max(*overtaken),
            (Operation::None, Some(held)) if held.group == wire && held.roles.hears() => {
                held.stale = true;
                group.failures = group.failures.saturating_add(1);
                let waits = self.mode != Mode::Stopped;
                group.waiting = waits;
                let delay =
                    self.config.retry.delay(pauses(group.failures, self.config.quick), &mut self.jitter);
                self.table.set_deadline(id, waits.then_some(now + delay));
                self.work(id);
            }
            _ => {}
        }
    }

    /// Where the group is reached has changed: whoever remembers it must ask again.
    fn changed(&mut self, id: Id, key: Mgid) {
        self.tell_to_forget(id);
        let (Mode::Up(scope, pkey), Some(signature)) = (self.mode, key.signature()) else { return };
        self.forget_all |= Mgid::all_routers(signature, scope, pkey).canonical() == key;
    }

    fn refused(&mut self, now: Instant, id: Id, wire: Mgid, role: Roles, error: JoinError) {
        let Some(group) = self.table.get_mut(id) else { return };
        if group.role() != role {
            // Something else is wanted by now, and has not been tried yet.
            return;
        }
        if role == Roles::SEND_ONLY {
            return self.refused_to_send(now, id, wire, error);
        }
        let again = group.held.as_ref().is_some_and(|held| held.info.is_some());
        let down = !matches!(self.mode, Mode::Up(..)) || error == JoinError::LinkDown;
        // A port too slow for a group is refused each time: what promiscuous mode misses is told once.
        let told = role == Roles::NON && group.failures > 0;
        let tells = !down && !told;
        if tells {
            group.failed = Some((role, again));
        }
        if role == Roles::NON && error == JoinError::Refused {
            // The listing was out of date, or the group is not for us; the next listing or trap brings it back. One that was heard may be
            // there again.
            group.non = false;
            let heard = group.held.as_ref().is_some_and(|held| held.info.is_some() && held.roles.hears());
            if heard {
                self.list_later(now);
            }
        } else {
            group.failures = group.failures.saturating_add(1);
            // A machine that stops joins nothing again, and leaves at once.
            group.waiting = self.mode != Mode::Stopped;
            let waits = group.waiting;
            let pauses = pauses(group.failures, self.config.quick);
            let delay = self.config.retry.delay(pauses, &mut self.jitter);
            self.table.set_deadline(id, waits.then_some(now + delay));
        }
        if tells {
            self.notice(id);
        }
        self.conclude(id, Err(error));
    }

    /// Nobody but the one who asked needs this group: no retry of its own. A membership that cannot be renewed is given up.
    fn refused_to_send(&mut self, now: Instant, id: Id, wire: Mgid, error: JoinError) {
        if error == JoinError::Refused && self.all_routers(wire) == Some(wire) {
            self.absent.note(wire, now + self.config.stand_in);
        }
        let Some(group) = self.table.get_mut(id) else { return };
        group.send = false;
        let asked = group.asker == Asker::Waits;
        self.tell_to_forget(id);
        match error {
            JoinError::Refused if asked => self.redirect(now, id, wire),
            _ => self.conclude(id, Err(error)),
        }
    }

    pub(super) fn left(&mut self, now: Instant, wire: Mgid, end: Left) {
        let Some(id) = self.table.find(&wire.canonical()) else { return };
        let on_wire = self.on_wire(wire.canonical());
        let Some(group) = self.table.get_mut(id) else { return };
        if group.operation != Operation::Leaving {
            return;
        }
        group.operation = Operation::None;
        self.in_flight -= 1;
        let stops = self.mode == Mode::Stopped;
        let role = group.role();
        let Some(held) = &mut group.held else { return };
        let is_made_anew = core::mem::replace(&mut held.values, Values::Known) == Values::Unlike;
        // The SA has failed only where it was asked.
        held.leaves_failed += u32::from(end != Left::NotAsked);
        if let Left::Unconfirmed(roles) = end {
            // IBTF has let go of its count even so.
            (held.roles, held.counted, held.joins) = (roles, Roles::NONE, 0);
        }
        if end == Left::Confirmed {
            group.held = None;
            // Another link whose join was outdated as well leaves meanwhile: the last one to leave ends the group.
            group.waiting = is_made_anew && !stops;
            let pause = group.waiting.then(|| self.jitter.shorten(self.config.retry.first));
            self.table.set_deadline(id, pause.map(|pause| now + pause));
        } else if stops || held.leaves_failed >= self.config.leave_attempts {
            (group.gives_up, group.waiting) = (true, false);
            self.table.set_deadline(id, None);
        } else {
            held.stale = true;
            // Wanted again by now: a join of what is still held is not for the leave's pause to put off.
            let joins_next = role != Roles::NONE && held.group == on_wire && !held.is_too_much_for(role);
            group.waiting = !joins_next;
            let delay = self.config.retry.delay(held.leaves_failed.max(1), &mut self.jitter);
            self.table.set_deadline(id, (!joins_next).then_some(now + delay));
        }
        self.tell_to_forget(id);
        self.work(id);
    }
}

/// The failures that count for the length of a pause, of which there is one at least.
fn pauses(failures: u32, quick: u32) -> u32 {
    failures.saturating_sub(quick).max(1)
}

fn leave<G: Clone>(held: &Membership<G>) -> Action<G> {
    let Membership { group, roles, counted, joins, ref info, .. } = *held;
    Action::Leave { group, roles, counted, joins, info: info.clone() }
}

fn owe<G: Clone>(held: &Membership<G>) -> Action<G> {
    let Membership { group, roles, counted, joins, ref info, .. } = *held;
    Action::Owe { group, roles, counted, joins, info: info.clone() }
}
