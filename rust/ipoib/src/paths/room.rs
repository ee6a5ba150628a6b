//! Which address is added, which may go, and which goes for another one.

use core::ops::{Deref, DerefMut};

use super::lists::IDLE;
use super::{Cause, DenialEpoch, Handle, PacketSlot, Path, PathSlot, Paths, SECOND_CHANCES, State};
use crate::addr::LinkAddr;
use crate::table::Id;

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    pub(super) fn find_or_add(&mut self, to: LinkAddr, cause: Cause) -> Option<Id> {
        if let Some(id) = self.table.find(&to) {
            return Some(id);
        }
        self.make_room_of_port(to.gid());
        if self.table.len() == self.table.capacity() {
            let idle = self.longest_idle()?;
            self.counts.evicted += 1;
            self.evict(idle);
        }
        let first = self.first_of(to.gid());
        let siblings = first.and_then(|id| self.table.get(id)).map_or(0, |path| path.siblings) + 1;
        self.table.insert(to, Path::new(cause, siblings))
    }

    /// The one to evict. A handle may be in use all the time without the table being asked: its address moves to the recent end.
    pub(super) fn longest_idle(&mut self) -> Option<Id> {
        for _ in 0..SECOND_CHANCES {
            let id = self.table.front(IDLE)?;
            if !self.table.get_mut(id)?.see_use() {
                return Some(id);
            }
            self.table.push_back(IDLE, id);
        }
        self.table.front(IDLE)
    }

    /// Moves the entry to the recent end of `IDLE` if it may be evicted, off it if not, and removes it if nothing is known.
    pub(super) fn settle(&mut self, id: Id) {
        let Some(path) = self.table.get(id) else { return };
        match (&path.state, path.rests()) {
            (State::Unresolved, true) if !path.asked => self.evict(id),
            (_, true) => self.table.push_back(IDLE, id),
            (_, false) => self.table.unlist(IDLE, id),
        }
    }

    /// Removes an entry that has neither packets nor a lookup out.
    pub(super) fn evict(&mut self, id: Id) {
        self.uncount_sibling(id);
        if let Some((_, mut path)) = self.table.remove(id) {
            path.know(&self.denial_epoch, State::Unresolved);
        }
    }
}
