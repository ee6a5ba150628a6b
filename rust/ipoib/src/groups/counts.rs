//! How many groups are in which state: for whoever reads statistics.

use core::ops::DerefMut;

use super::room::Room;
use super::{GroupSlot, Groups, Operation, Roles};

/// Groups, each in as many of these as hold for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Known at all.
    pub known: u64,
    /// The MAC layer, or promiscuous mode, wants to hear them.
    pub wanted: u64,
    /// Joined so that they are heard.
    pub heard: u64,
    /// Joined for sending only.
    pub send_only: u64,
    /// Joined, and to be joined again because the SM may have forgotten it.
    pub stale: u64,
    /// A join or a leave is out.
    pub out: u64,
    /// A join or a leave has failed, and is tried again after a pause.
    pub retrying: u64,
    /// Groups that were left so that another one has their place, since the machine was made.
    pub gave_way: u64,
    /// Groups that found no room, since the machine was made.
    pub no_room: u64,
    /// Groups that promiscuous mode does not hear because the adapter or the table has no place for them, since it listed the groups last.
    pub missed: u64,
}

impl<G, S> Groups<G, S>
where
    G: Clone + PartialEq,
    S: DerefMut<Target = [GroupSlot<G>]>,
{
    /// How many groups can be known.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Looks at every group there is: takes time in proportion to the room for them.
    pub fn counts(&self) -> Counts {
        let Room { gave_way, refused: no_room, missed, .. } = self.room;
        let mut counts = Counts { gave_way, no_room, missed, ..Counts::default() };
        let mut from = 0;
        while let Some((at, id)) = self.table.next_from(from) {
            from = at + 1;
            let Some(group) = self.table.get(id) else { continue };
            let held = group.held.as_ref().filter(|held| held.info.is_some());
            let hears = held.is_some_and(|held| held.roles.hears());
            counts.known += 1;
            counts.wanted += u64::from(group.full > 0 || group.non);
            counts.heard += u64::from(hears);
            counts.send_only += u64::from(held.is_some_and(|held| held.roles == Roles::SEND_ONLY));
            counts.stale += u64::from(held.is_some_and(|held| held.stale));
            counts.out += u64::from(group.operation != Operation::None || group.late.is_some());
            counts.retrying += u64::from(group.waiting);
        }
        counts
    }
}
