//! What is known of a port, by whatever address.

use core::ops::{Deref, DerefMut};

use super::{DenialEpoch, Followed, Handle, PacketSlot, Path, PathSlot, Paths, State, Trust};
use crate::addr::{Gid, LinkAddr, Qpn};
use crate::table::Id;

/// Addresses of one GID at most, but for those that are used.
const MOST_OF_PORT: u32 = 256;
/// Of these, those that stay, used or not: the latest.
const KEPT_OF_PORT: u32 = 128;
/// Addresses of one GID that are looked at for some that can go.
const LOOKS_OF_PORT: u32 = 512;
/// Addresses that are looked at for one whose handle is not in use.
const LOOKS_FOR_IDLE: usize = 64;

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    /// The way to this address, if there is one, which something was sent to, or is to be: for somebody who does not send.
    pub fn way_to_address(&self, to: &LinkAddr) -> Option<&H> {
        match &self.table.get(self.table.find(to)?)?.state {
            State::Ready(handle) => Some(handle),
            State::Unresolved | State::Failed { .. } => None,
        }
    }

    /// Whether packets went by what is known of an address, since this was last asked.
    pub fn see_use_of(&mut self, to: &LinkAddr) -> bool {
        let path = self.table.find(to).and_then(|id| self.table.get_mut(id));
        path.is_some_and(Path::see_use)
    }

    /// The way to a port, as the SA has said it for one of its link addresses: for somebody who does not send.
    pub fn way_to(&self, gid: Gid) -> Option<&H> {
        self.known_way(gid, |way| way.trust == Trust::Full).map(|(handle, _)| handle)
    }

    /// The way to the port of an address that is to be looked up, unless the SA says that there is none to this address. One that is in doubt is
    /// followed, too, as it is still used for the address that has it: the SA may be silent. But then the SA is asked at once. An address
    /// that has a handle follows what the SA has said since that was made.
    pub(super) fn way_to_follow(&self, to: &LinkAddr) -> Option<(&H, Followed)> {
        let path = self.table.get(self.table.find(to)?)?;
        let after = match path.state {
            _ if path.absent => return None,
            State::Ready(_) => Some(path.made),
            State::Unresolved | State::Failed { .. } => None,
        };
        let is_news = |way: &Followed| way.trust == Trust::Full && after.is_none_or(|made| way.since > made);
        self.known_way(to.gid(), is_news).filter(|(_, way)| after.is_none() || is_news(way))
    }

    /// The first one that is good, or else one that is in doubt.
    fn known_way(&self, gid: Gid, is_good: impl Fn(&Followed) -> bool) -> Option<(&H, Followed)> {
        let mut doubted = None;
        let mut next = self.first_of(gid);
        for _ in 0..LOOKS_OF_PORT {
            let Some(id) = next else { break };
            next = self.next_of_port(id, gid);
            let (Some(path), Some(trust)) = (self.table.get(id), self.trust_of(id)) else { continue };
            if let State::Ready(handle) = &path.state {
                let way = Followed { since: path.since, trust };
                if is_good(&way) {
                    return Some((handle, way));
                }
                doubted = doubted.or(Some((handle, way)));
            }
        }
        doubted
    }

    /// What is thought of a handle: an SM that has come since is in doubt of it before the walk through the table comes by.
    pub(super) fn trust_of(&self, id: Id) -> Option<Trust> {
        let path = self.table.get(id).filter(|path| matches!(path.state, State::Ready(_)))?;
        let is_trusted = matches!(path.trust, Trust::Full | Trust::Reported);
        Some(if is_trusted && path.told_by != self.sms { Trust::Doubted } else { path.trust })
    }

    /// The address of a GID that was added last.
    pub(super) fn first_of(&self, gid: Gid) -> Option<Id> {
        let first = self.table.siblings(&LinkAddr::unicast(Qpn::MULTICAST, gid))?;
        self.this_or_next(Some(first), gid)
    }

    /// The one that was added before.
    pub(super) fn next_of_port(&self, id: Id, gid: Gid) -> Option<Id> {
        self.this_or_next(self.table.next_sibling(id), gid)
    }

    fn this_or_next(&self, mut next: Option<Id>, gid: Gid) -> Option<Id> {
        while let Some(id) = next {
            if self.table.key(id).is_some_and(|to| to.gid() == gid) {
                return Some(id);
            }
            next = self.table.next_sibling(id);
        }
        None
    }

    /// A port has few addresses, and a host that forges frames can give it sixteen million. When there are [`MOST_OF_PORT`], those go that
    /// are not used, but for the latest. One that is used once in the time in which [`KEPT_OF_PORT`] others come stays.
    pub(super) fn make_room_of_port(&mut self, gid: Gid) {
        let Some(first) = self.first_of(gid) else { return };
        let siblings = self.table.get(first).map_or(0, |path| path.siblings);
        if siblings < MOST_OF_PORT || !siblings.is_multiple_of(KEPT_OF_PORT) {
            return;
        }
        let mut next = Some(first);
        for n in 0..LOOKS_OF_PORT {
            let Some(id) = next else { return };
            next = self.next_of_port(id, gid);
            let goes = |path: &mut super::Path<H>| path.rests() && !path.take_use();
            if n >= KEPT_OF_PORT && self.table.get_mut(id).is_some_and(goes) {
                self.counts.evicted += 1;
                self.evict(id);
            }
        }
    }

    /// An address is about to go.
    pub(super) fn uncount_sibling(&mut self, id: Id) {
        let Some(gid) = self.table.key(id).map(|to| to.gid()) else { return };
        let Some(first) = self.first_of(gid) else { return };
        let Some(left) = self.table.get(first).map(|path| path.siblings.saturating_sub(1)) else { return };
        let counts = if first == id { self.next_of_port(id, gid) } else { Some(first) };
        if let Some(path) = counts.and_then(|id| self.table.get_mut(id)) {
            path.siblings = left;
        }
    }

    /// The chains have another order.
    pub(super) fn count_siblings(&mut self) {
        self.for_each(|paths, id| {
            if let Some(path) = paths.table.get_mut(id) {
                path.siblings = 0;
            }
        });
        self.for_each(|paths, id| {
            let first = paths.table.key(id).and_then(|to| paths.first_of(to.gid()));
            if let Some(path) = first.and_then(|first| paths.table.get_mut(first)) {
                path.siblings += 1;
            }
        });
    }

    /// Forgets addresses that are not in use, those first that the table was asked about longest ago; how many. So their handles come free
    /// for an address that gets none. Looks at `LOOKS_FOR_IDLE` for each.
    pub fn evict_idle(&mut self, most: usize) -> usize {
        for gone in 0..most {
            let idle = self.longest_idle_handle();
            let Some(id) = idle else { return gone };
            self.counts.evicted += 1;
            self.evict(id);
        }
        most
    }

    fn longest_idle_handle(&mut self) -> Option<Id> {
        for _ in 0..LOOKS_FOR_IDLE {
            let id = self.table.front(super::lists::IDLE)?;
            let path = self.table.get_mut(id)?;
            if path.has_idle_handle() && !path.take_use() {
                return Some(id);
            }
            self.table.push_back(super::lists::IDLE, id);
        }
        None
    }
}
