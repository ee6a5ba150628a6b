//! Which join or leave comes next, and what its end changes.

use core::ops::DerefMut;

use super::{
    Action, Asker, GroupSlot, Groups, JoinError, Joined, Left, Membership, Mode, Operation, Roles, StandIn,
    WORK,
};
use crate::addr::Mgid;
use crate::table::Id;
use crate::time::Instant;

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    pub(super) fn next_operation(&mut self) -> Option<Action<G>> {
        while self.in_flight < self.config.operations.max(1) {
            let id = self.table.pop_front(WORK)?;
            if let Some(action) = self.reconcile(id) {
                self.in_flight += 1;
                return Some(action);
            }
        }
        None
    }

    fn reconcile(&mut self, id: Id) -> Option<Action<G>> {
        let key = self.table.key(id)?;
        let wire = self.on_wire(key);
        let mode = self.mode;
        let group = self.table.get_mut(id)?;
        if group.operation != Operation::None || group.waiting {
            return None;
        }
        let role = group.role();
        match (&mut group.held, mode) {
            (None, _) if role == Roles::NONE => {
                if !group.has_notice() && group.asker == Asker::None {
                    self.table.remove(id);
                }
                None
            }
            (_, Mode::Down) | (None, Mode::Stopped) => None,
            (Some(held), Mode::Stopped) => {
                group.operation = Operation::Leaving;
                Some(leave(held))
            }
            (Some(held), Mode::Up(..))
                if role == Roles::NONE || held.group != wire || held.is_too_much_for(role) =>
            {
                group.operation = Operation::Leaving;
                Some(leave(held))
            }
            (Some(held), Mode::Up(..)) if held.roles.contains(role) && !held.stale => {
                // Somebody may wait for a join that is not needed any more.
                self.conclude(id, Ok(StandIn::No));
                None
            }
            (held, Mode::Up(..)) => {
                let before = held.as_ref().map(|held| held.info.clone());
                group.operation = Operation::Joining { group: wire, role, overtaken: false };
                Some(Action::Join { group: wire, role, before })
            }
        }
    }

    pub(super) fn joined(&mut self, now: Instant, wire: Mgid, result: Result<Joined<G>, JoinError>) {
        let Some(id) = self.table.find(&wire.canonical()) else { return };
        let Some(group) = self.table.get_mut(id) else { return };
        let Operation::Joining { group: joined, role, overtaken } = group.operation else { return };
        group.operation = Operation::None;
        self.in_flight -= 1;
        match result {
            Ok(grant) => self.granted(now, id, joined, role, grant, overtaken),
            Err(error) => self.refused(now, id, joined, role, error),
        }
        self.work(id);
    }

    fn granted(&mut self, now: Instant, id: Id, wire: Mgid, role: Roles, grant: Joined<G>, overtaken: bool) {
        let Joined { info, attached } = grant;
        let Some(group) = self.table.get_mut(id) else { return };
        let before = group.held.take();
        let moved = before.as_ref().is_some_and(|held| held.info != info);
        let joins = before.as_ref().map_or(0, |held| held.joins).saturating_add(1);
        let roles = before.map_or(Roles::NONE, |held| held.roles).and(role);
        let good = attached && !overtaken;
        group.held = Some(Membership { group: wire, roles, joins, info, stale: !good, leaves_failed: 0 });
        group.failures = if attached { 0 } else { group.failures.saturating_add(1) };
        group.waiting = !attached && self.mode != Mode::Stopped;
        let after = match (group.waiting, role) {
            (true, _) => self.config.retry.delay(group.failures, &mut self.jitter),
            (false, Roles::SEND_ONLY) => self.config.idle,
            (false, _) => self.jitter.shorten(self.config.verify),
        };
        self.table.set_deadline(id, Some(now + after));
        if moved {
            self.changed(id, wire.canonical());
        }
        if good {
            self.conclude(id, Ok(StandIn::No));
        }
    }

    /// Where the group is reached has changed: whoever remembers it must ask again.
    fn changed(&mut self, id: Id, key: Mgid) {
        if let Some(group) = self.table.get_mut(id) {
            group.forget = true;
        }
        self.notice(id);
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
            return self.refused_to_send(id, wire, error);
        }
        let again = group.held.is_some();
        let down = !matches!(self.mode, Mode::Up(..)) || error == JoinError::LinkDown;
        if !down {
            group.failed = Some((role, again));
        }
        if role == Roles::NON {
            // The listing was out of date, or the group is not for us; the next listing or trap brings it back.
            group.non = false;
        } else {
            group.failures = group.failures.saturating_add(1);
            group.waiting = true;
            let delay = self.config.retry.delay(group.failures, &mut self.jitter);
            self.table.set_deadline(id, Some(now + delay));
        }
        if !down {
            self.notice(id);
        }
        self.conclude(id, Err(error));
    }

    /// Nobody but the one who asked needs this group: no retry of its own. A membership that cannot be renewed is given up.
    fn refused_to_send(&mut self, id: Id, wire: Mgid, error: JoinError) {
        let Some(group) = self.table.get_mut(id) else { return };
        group.send = false;
        let asked = group.asker == Asker::Waits;
        if group.held.is_some() {
            group.forget = true;
            self.notice(id);
        }
        match error {
            JoinError::Refused if asked => self.redirect(id, wire),
            _ => self.conclude(id, Err(error)),
        }
    }

    pub(super) fn left(&mut self, now: Instant, wire: Mgid, end: Left) {
        let Some(id) = self.table.find(&wire.canonical()) else { return };
        let Some(group) = self.table.get_mut(id) else { return };
        if group.operation != Operation::Leaving {
            return;
        }
        group.operation = Operation::None;
        self.in_flight -= 1;
        let attempts = self.config.leave_attempts;
        let Some(held) = &mut group.held else { return };
        held.leaves_failed += 1;
        if end == Left::Confirmed || held.leaves_failed >= attempts {
            group.held = None;
            group.waiting = false;
            self.table.set_deadline(id, None);
        } else {
            held.joins = match end {
                Left::NotAsked(joins) => joins,
                // IBTF has let go of its count even so: what is retried is one leave.
                Left::Confirmed | Left::Unconfirmed => 0,
            };
            held.stale = true;
            group.waiting = true;
            let delay = self.config.retry.delay(held.leaves_failed, &mut self.jitter);
            self.table.set_deadline(id, Some(now + delay));
        }
        if let Some(group) = self.table.get_mut(id) {
            group.forget = true;
        }
        self.notice(id);
        self.work(id);
    }
}

fn leave<G: Clone>(held: &Membership<G>) -> Action<G> {
    Action::Leave { group: held.group, roles: held.roles, joins: held.joins.max(1), info: held.info.clone() }
}
