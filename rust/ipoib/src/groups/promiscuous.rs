//! Promiscuous mode: which groups there are, and which of them have a place.
//!
//! It has what others leave. Half of the table is for groups that the MAC layer wants and for groups that are sent to; of the adapter's places a
//! group of the MAC layer takes one away at once. Groups without a place are looked for again by another listing, after a pause.

use core::ops::DerefMut;

use super::room::CHANCES;
use super::{GroupSlot, Groups, JoinError, Listing, Mode, OVERHEARD, Operation};
use crate::addr::Mgid;
use crate::table::Id;
use crate::time::Instant;

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    pub(super) fn set_promiscuous(&mut self, on: bool) {
        if self.promiscuous == on {
            return;
        }
        self.promiscuous = on;
        self.room.listed_anew();
        self.list_again();
        if !on {
            self.for_each(|groups, id| {
                if let Some(group) = groups.table.get_mut(id) {
                    group.non = false;
                }
                groups.work(id);
            });
        }
    }

    pub(super) fn list_again(&mut self) {
        self.listing_failures = 0;
        self.listing_overtaken |= self.listing == Listing::Out;
        if self.listing != Listing::Out {
            self.listing = if self.promiscuous { Listing::Wanted } else { Listing::Off };
        }
    }

    pub(super) fn listed(&mut self, now: Instant, result: Result<(), JoinError>) {
        if self.listing != Listing::Out {
            return;
        }
        let overtaken = core::mem::take(&mut self.listing_overtaken);
        let refused = core::mem::take(&mut self.listing_refused);
        self.listing = match (self.promiscuous, result) {
            (false, _) => Listing::Off,
            (true, _) if overtaken => Listing::Wanted,
            (true, Ok(())) if !refused && !self.room.is_short() => Listing::Done,
            (true, _) => self.listing_after_a_pause(now),
        };
    }

    /// A group that was heard refuses the join that was to renew it. It may be there again, and a new SM refuses for a while what it lists: so
    /// not before a pause, which grows until something else asks for a listing.
    pub(super) fn list_later(&mut self, now: Instant) {
        match self.listing {
            Listing::Out => self.listing_refused = true,
            Listing::Done => self.listing = self.listing_after_a_pause(now),
            Listing::Off | Listing::Wanted | Listing::Retry(_) => {}
        }
    }

    fn listing_after_a_pause(&mut self, now: Instant) -> Listing {
        self.listing_failures = self.listing_failures.saturating_add(1);
        Listing::Retry(now + self.config.retry.delay(self.listing_failures, &mut self.jitter))
    }

    /// A group is there: promiscuous mode wants it, and a join that failed before is worth another try.
    pub(super) fn exists(&mut self, group: Mgid) {
        let Mode::Up(scope, pkey) = self.mode else { return };
        let ours =
            group.signature().is_some() && group.on_link(scope, pkey) == group && !group.is_broadcast();
        if !ours {
            return;
        }
        self.absent.forget(group);
        let known = self.table.find(&group.canonical());
        let id = match (known, self.promiscuous) {
            (Some(id), _) => id,
            (None, true) => match self.place_to_overhear(group) {
                Some(id) => id,
                None => return,
            },
            (None, false) => return,
        };
        let overhears = self.promiscuous && !self.room.has_no_place();
        if let Some(entry) = self.table.get_mut(id) {
            entry.non |= overhears;
            if let Operation::Joining { announced, .. } = &mut entry.operation {
                *announced = true;
            }
        }
        if overhears {
            self.keep(id);
            self.table.push_back(OVERHEARD, id);
        }
        self.try_now(id);
    }

    /// The adapter has no place for a group of promiscuous mode: it is left, and no other one is joined before the next listing.
    pub(super) fn displaced(&mut self, now: Instant, wire: Mgid) {
        let Some(id) = self.table.find(&wire.canonical()) else { return };
        let Some(group) = self.table.get(id) else { return };
        if group.full > 0 {
            // Wanted by the MAC layer meanwhile.
            return self.deaf(now, wire);
        }
        if group.non {
            self.room.lacks_a_place();
            self.overhear_no_more(id);
        }
    }

    /// Another link lacks a place of the adapter: the group that was listed longest ago gives its own up. The other link tries again after a
    /// pause, and must find the place free: groups are not listed anew before the longest pause is over.
    pub(super) fn give_up_a_place(&mut self, now: Instant) {
        let Some(id) = self.longest_overheard(|group| group.held.is_some()) else { return };
        self.room.lacks_a_place();
        self.overhear_no_more(id);
        self.listing_failures = u32::MAX;
        if matches!(self.listing, Listing::Wanted | Listing::Retry(_) | Listing::Done) {
            self.listing = self.listing_after_a_pause(now);
        }
    }

    /// The same of the table, for a group that is sent to or that the MAC layer wants. `false` if there is none.
    pub(super) fn give_up_room(&mut self) -> bool {
        // One that is sent to keeps its place.
        let Some(id) = self.longest_overheard(|group| !group.send) else { return false };
        self.room.misses_one();
        self.overhear_no_more(id);
        self.give_way(id);
        true
    }

    fn longest_overheard(&mut self, fits: impl Fn(&super::Group<G>) -> bool) -> Option<Id> {
        for _ in 0..CHANCES {
            let id = self.table.front(OVERHEARD)?;
            let group = self.table.get(id)?;
            if !group.is_overheard() {
                self.table.unlist(OVERHEARD, id);
            } else if group.operation != Operation::None || !fits(group) {
                self.table.push_back(OVERHEARD, id);
            } else {
                return Some(id);
            }
        }
        None
    }

    fn overhear_no_more(&mut self, id: Id) {
        if let Some(group) = self.table.get_mut(id) {
            group.non = false;
        }
        self.table.unlist(OVERHEARD, id);
        self.try_now(id);
    }

    /// One that is not joined yet is not joined any more once the last one found no place.
    pub(super) fn overhear_only_with_a_place(&mut self, id: Id) {
        let has_no_place = self.room.has_no_place();
        if let Some(group) = self.table.get_mut(id)
            && has_no_place
            && group.is_overheard()
            && group.held.is_none()
        {
            group.non = false;
            self.room.misses_one();
        }
    }

    /// Groups without a place are listed anew after a pause: places may be free by then.
    pub(super) fn look_again_if_short(&mut self, now: Instant) {
        if self.promiscuous && self.room.is_short() && self.listing == Listing::Done {
            self.listing = self.listing_after_a_pause(now);
        }
    }
}
