//! Memberships of a port that no link has any more and that the SA may still have: what a stop could not end in time.
//!
//! A link hands over what it cannot end while the SA is silent, and goes. The port's owner works through these debts, one leave after the other, as
//! long as the port is there: with pauses that grow while nothing is answered, several side by side otherwise. A link that joins
//! such a group pays a part of its debt: the membership is its own from then on.
//!
//! A pure machine with memory that is handed in; it reads no clock.

use core::ops::DerefMut;
use core::time::Duration;

use crate::addr::{Gid, Mgid};
use crate::backoff::{Backoff, Jitter};
use crate::groups::Roles;
use crate::numbers::PKey;
use crate::time::Instant;

/// Attempts that the SA has answered in part before a membership is left to it: it may refuse for good.
const TRIES: u8 = 8;
/// After an attempt that came to nothing: of one debt if the SA has answered something, of all of the port's if not.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// A membership to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// The group.
    pub group: Mgid,
    /// The GID that the port had when it joined.
    pub port: Gid,
    /// The group's partition.
    pub pkey: PKey,
    /// All roles that the SA may have the port in.
    pub roles: Roles,
    /// Those of the joins that IBTF counts.
    pub counted: Roles,
    /// So many.
    pub joins: u32,
}

impl Debt {
    fn is_nothing(&self) -> bool {
        self.joins == 0 && self.roles == Roles::NONE
    }

    fn add(&mut self, more: &Self) {
        self.pkey = more.pkey;
        self.roles = self.roles.and(more.roles);
        self.counted = self.counted.and(more.counted);
        self.joins = self.joins.saturating_add(more.joins);
    }
}

/// How an attempt has ended. IBTF counts none of its joins any more, whatever came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left of the membership.
    Over,
    /// The SA may have the port in these roles; whether it has answered anything.
    Remains(Roles, bool),
}

/// Room for one debt.
pub type DebtSlot = Option<Entry>;

/// What is known of one debt; opaque.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// While an attempt is out, what was added since it began.
    debt: Debt,
    out: bool,
    tries: u8,
    /// Not tried before.
    after: Instant,
}

/// An attempt that is out.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Place(usize);

/// The debts of one port.
#[derive(Debug)]
pub struct Debts<S> {
    slots: S,
    len: usize,
    /// Where to look for the next one.
    next: usize,
    /// Attempts in a row without any answer.
    failures: u32,
    /// Nothing is tried before.
    after: Instant,
    /// Debts that were given up since this was last asked.
    given_up: u32,
    jitter: Jitter,
}

impl<S: DerefMut<Target = [DebtSlot]>> Debts<S> {
    /// No debts, and room for `slots.len()`. `seed` keys the jitter.
    pub fn new(slots: S, seed: u64) -> Self {
        let (after, jitter) = (Instant::ZERO, Jitter::new(seed));
        Self { slots, len: 0, next: 0, failures: 0, after, given_up: 0, jitter }
    }

    /// How many there are, with the debts that are being ended.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn find(&mut self, group: Mgid, port: Gid) -> Option<&mut Entry> {
        let is = |entry: &&mut Entry| (entry.debt.group, entry.debt.port) == (group, port);
        self.slots.iter_mut().flatten().find(is)
    }

    /// One more; after a pause if the SA was just asked to end it, and did not. Without room the first one goes that IBTF counts no join of, or else this one: returned, as nothing is done about it any
    /// more.
    pub fn add(&mut self, now: Instant, debt: Debt) -> Option<Debt> {
        if debt.is_nothing() {
            return None;
        }
        let was_asked = debt.joins == 0;
        let after = if was_asked { now + RETRY.delay(1, &mut self.jitter) } else { now };
        if let Some(known) = self.find(debt.group, debt.port) {
            known.debt.add(&debt);
            (known.tries, known.after) = (0, after);
            return None;
        }
        let uncounted = |slot: &DebtSlot| slot.is_some_and(|entry| !entry.out && entry.debt.joins == 0);
        let free = self.slots.iter().position(Option::is_none);
        let place = free.or_else(|| self.slots.iter().position(uncounted));
        let Some(slot) = place.and_then(|at| self.slots.get_mut(at)) else {
            self.given_up = self.given_up.saturating_add(1);
            return Some(debt);
        };
        let entry = Entry { debt, out: false, tries: 0, after };
        let before = slot.replace(entry).map(|entry| entry.debt);
        match before {
            Some(_) => self.given_up = self.given_up.saturating_add(1),
            None => self.len += 1,
        }
        before
    }

    /// A link is in the group in this role, by a join that IBTF counts: its leave ends that.
    pub fn paid(&mut self, group: Mgid, port: Gid, role: Roles) {
        if self.is_empty() {
            return;
        }
        let Some(entry) = self.find(group, port) else { return };
        entry.debt.roles = entry.debt.roles.without(role).and(entry.debt.counted);
        self.forget_nothing();
    }

    /// The next one to be tried, unless `is_busy` with its group. Answer with [`Debts::ended`].
    pub fn next(&mut self, now: Instant, is_busy: impl Fn(Mgid) -> bool) -> Option<(Place, Debt)> {
        if self.is_empty() || now < self.after {
            return None;
        }
        let due = |entry: &Entry| !entry.out && entry.after <= now && !is_busy(entry.debt.group);
        let from = self.next;
        let order = (from..self.slots.len()).chain(0..from.min(self.slots.len()));
        let at = order
            .into_iter()
            .find(|at| self.slots.get(*at).is_some_and(|slot| slot.as_ref().is_some_and(due)))?;
        self.next = at + 1;
        let entry = self.slots.get_mut(at)?.as_mut()?;
        let debt = entry.debt;
        entry.out = true;
        (entry.debt.roles, entry.debt.counted, entry.debt.joins) = (Roles::NONE, Roles::NONE, 0);
        Some((Place(at), debt))
    }

    /// When [`Debts::next`] may have something that it has not now; `None` if only for another reason than time.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        let waiting = self.slots.iter().flatten().filter(|entry| !entry.out);
        waiting.map(|entry| entry.after.max(self.after)).min()
    }

    /// An attempt has ended.
    pub fn ended(&mut self, now: Instant, place: Place, outcome: Outcome) {
        let Some(Some(entry)) = self.slots.get_mut(place.0) else { return };
        entry.out = false;
        match outcome {
            Outcome::Over => self.answered(),
            Outcome::Remains(roles, true) => {
                entry.tries += 1;
                if entry.tries >= TRIES {
                    self.given_up = self.given_up.saturating_add(1);
                } else {
                    entry.debt.roles = entry.debt.roles.and(roles);
                    entry.after = now + RETRY.delay(entry.tries.into(), &mut self.jitter);
                }
                self.answered();
            }
            Outcome::Remains(roles, false) => {
                entry.debt.roles = entry.debt.roles.and(roles);
                self.failures = self.failures.saturating_add(1);
                self.after = now + RETRY.delay(self.failures, &mut self.jitter);
            }
        }
        self.forget_nothing();
    }

    /// The SA has answered this port something: a pause is over.
    pub fn answered(&mut self) {
        (self.failures, self.after) = (0, Instant::ZERO);
    }

    fn forget_nothing(&mut self) {
        for slot in self.slots.iter_mut() {
            if slot.take_if(|entry| !entry.out && entry.debt.is_nothing()).is_some() {
                self.len -= 1;
            }
        }
    }

    /// One that is given up because the port goes; what is being tried goes on.
    pub fn take(&mut self) -> Option<Debt> {
        let slot = self.slots.iter_mut().find(|slot| slot.is_some())?;
        self.len -= 1;
        slot.take().map(|entry| entry.debt)
    }

    /// How many were given up since this was asked last, but for those [taken](Debts::take).
    pub fn given_up(&mut self) -> u32 {
        core::mem::take(&mut self.given_up)
    }

    /// The same debts in other memory, of the same size.
    #[must_use]
    pub fn moved_to(self, mut slots: S) -> Self {
        for (to, from) in slots.iter_mut().zip(self.slots.iter()) {
            *to = *from;
        }
        Self { slots, ..self }
    }
}

#[cfg(test)]
mod tests;
