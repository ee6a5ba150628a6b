//! Who has a place in the table.
//!
//! | | has a new place while |
//! |---|---|
//! | a group that the MAC layer wants to hear | there is one |
//! | a group that is sent to | a quarter is free; otherwise it takes the place of the one that was asked for longest ago |
//! | a group that promiscuous mode alone wants to hear | half is free |
//!
//! A group that gives way is left first. Its place is free when the leave has ended, and the other one does not wait for that: the
//! quarter that is free has room for some that are on their way out.

use core::ops::DerefMut;

use super::{Action, Asker, Group, GroupSlot, Groups, JoinError, Operation, SENT};
use crate::addr::Mgid;
use crate::table::Id;
use crate::time::Instant;

/// How many groups, at most, are looked at for one that gives way.
pub(super) const CHANCES: usize = 16;

/// What the machine knows of a lack of places.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Groups that give way and are not gone yet.
    pub(super) giving_way: usize,
    /// Groups that have given way.
    pub(super) gave_way: u64,
    /// Groups that found no room.
    pub(super) refused: u64,
    full: News,
    /// The adapter has no place for groups of promiscuous mode.
    no_place: bool,
    /// So many groups of promiscuous mode are without a place or room since groups were listed last.
    pub(super) missed: u64,
    misses: News,
}

/// Something that the log is told now and then.
#[derive(Debug, Default)]
struct News {
    due: bool,
    told: Option<Instant>,
}

impl Room {
    /// No other group of promiscuous mode is joined before the next listing.
    pub(super) const fn has_no_place(&self) -> bool {
        self.no_place
    }

    /// Promiscuous mode does not hear all that was listed.
    pub(super) const fn is_short(&self) -> bool {
        self.missed > 0
    }

    /// Another listing shows what has a place.
    pub(super) const fn listed_anew(&mut self) {
        self.no_place = false;
        self.missed = 0;
    }

    /// The adapter has no place for a group of promiscuous mode.
    pub(super) const fn lacks_a_place(&mut self) {
        self.no_place = true;
        self.misses_one();
    }

    /// A group of promiscuous mode is not heard.
    pub(super) const fn misses_one(&mut self) {
        self.missed = self.missed.saturating_add(1);
        self.misses.due = true;
    }

    /// A group found no room.
    const fn refuse(&mut self) -> JoinError {
        self.refused = self.refused.saturating_add(1);
        self.full.due = true;
        JoinError::NoRoom
    }
}

impl News {
    fn take(&mut self, now: Instant, pause: core::time::Duration) -> bool {
        let is_time = self.due && self.told.is_none_or(|told| now >= told + pause);
        if is_time {
            *self = Self { due: false, told: Some(now) };
        }
        is_time
    }
}

impl<G> Group<G> {
    /// Whether promiscuous mode alone wants to hear it.
    pub(super) const fn is_overheard(&self) -> bool {
        self.non && self.full == 0
    }

    /// Whether it is wanted for nothing but to be sent to.
    const fn is_only_sent_to(&self) -> bool {
        self.send && !self.non && self.full == 0
    }

    /// Whether something waits for it.
    fn is_busy(&self) -> bool {
        self.operation != Operation::None
            || self.late.is_some()
            || self.stands_in
            || self.asker != Asker::None
    }
}

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    /// A group that the MAC layer wants to hear. What it takes of the places that are kept for such groups is made good by others.
    pub(super) fn place_to_hear(&mut self, group: Mgid) -> Result<Id, JoinError> {
        if let Some(id) = self.table.find(&group.canonical()) {
            return Ok(id);
        }
        let id = self.add(group).ok_or_else(|| self.room.refuse())?;
        if self.free() < self.quarter() / 2 && self.may_give_way() {
            let _ = self.give_up_room() || self.give_up_sending(|_| false);
        }
        Ok(id)
    }

    /// A group that is sent to.
    pub(super) fn place_to_send(
        &mut self,
        group: Mgid,
        in_use: impl FnMut(Mgid) -> bool,
    ) -> Result<Id, JoinError> {
        if let Some(id) = self.table.find(&group.canonical()) {
            return Ok(id);
        }
        let has_room = self.free() > self.quarter()
            || self.may_give_way() && (self.give_up_sending(in_use) || self.give_up_room());
        if !has_room {
            return Err(self.room.refuse());
        }
        self.add(group).ok_or_else(|| self.room.refuse())
    }

    /// A group that stands in for those that nobody has created.
    pub(super) fn place_to_stand_in(&mut self, group: Mgid) -> Result<Id, JoinError> {
        let known = self.table.find(&group.canonical());
        known.or_else(|| self.add(group)).ok_or_else(|| self.room.refuse())
    }

    /// A group that promiscuous mode would hear.
    pub(super) fn place_to_overhear(&mut self, group: Mgid) -> Option<Id> {
        let has_room = !self.room.has_no_place() && self.free() > 2 * self.quarter();
        let id = if has_room { self.add(group) } else { None };
        if id.is_none() {
            self.room.misses_one();
        }
        id
    }

    fn add(&mut self, group: Mgid) -> Option<Id> {
        self.table.insert(group.canonical(), Group::new())
    }

    fn free(&self) -> usize {
        self.table.capacity() - self.table.len()
    }

    fn quarter(&self) -> usize {
        self.table.capacity() / 4
    }

    /// Few leave at a time: while the SA is silent none of them is gone.
    fn may_give_way(&self) -> bool {
        self.room.giving_way < (self.quarter() / 4).max(1)
    }

    /// The group that was asked for longest ago gives way; one whose way was used since has another chance. `false` if there is none.
    fn give_up_sending(&mut self, mut in_use: impl FnMut(Mgid) -> bool) -> bool {
        for left in (0..CHANCES).rev() {
            let Some(id) = self.table.front(SENT) else { return false };
            let Some((key, group)) = self.table.key(id).zip(self.table.get(id)) else { return false };
            if !group.is_only_sent_to() {
                self.table.unlist(SENT, id);
            } else if group.is_busy() || left > 0 && in_use(key) {
                self.table.push_back(SENT, id);
            } else {
                self.sent_to_no_more(id);
                self.give_way(id);
                return true;
            }
        }
        false
    }

    fn sent_to_no_more(&mut self, id: Id) {
        if let Some(group) = self.table.get_mut(id) {
            (group.send, group.used) = (false, false);
        }
        self.table.unlist(SENT, id);
        self.tell_to_forget(id);
        self.try_now(id);
    }

    /// Nobody wants it any more: its place is another one's as soon as it is left.
    pub(super) fn give_way(&mut self, id: Id) {
        if let Some(group) = self.table.get_mut(id)
            && !core::mem::replace(&mut group.gives_way, true)
        {
            self.room.giving_way += 1;
            self.room.gave_way += 1;
        }
    }

    /// It is wanted, after all, or gone.
    pub(super) fn keep(&mut self, id: Id) {
        if let Some(group) = self.table.get_mut(id)
            && core::mem::take(&mut group.gives_way)
        {
            self.room.giving_way -= 1;
        }
    }

    pub(super) fn news_of_room(&mut self, now: Instant) -> Option<Action<G>> {
        let pause = self.config.told;
        if self.room.full.take(now, pause) {
            return Some(Action::Full);
        }
        self.room.misses.take(now, pause).then_some(Action::Misses(self.room.missed))
    }
}
