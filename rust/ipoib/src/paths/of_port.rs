//! What is known of a port, by whatever address.

use core::ops::{Deref, DerefMut};

use super::{DenialEpoch, Followed, Handle, PacketSlot, Path, PathSlot, Paths, State, Trust};
use crate::addr::{Gid, LinkAddr, Qpn};

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
        self.known_way(gid).map(|(handle, _)| handle)
    }

    /// The way to the port of an address that is to be looked up, unless the SA says that there is none to this address. One that is in doubt is
    /// followed, too, as it is still used for the address that has it: the SA may be silent. But then the SA is asked at once.
    pub fn way_to_follow(&self, to: &LinkAddr) -> Option<(&H, Followed)> {
        let path = self.table.get(self.table.find(to)?)?;
        if path.absent || matches!(path.state, State::Ready(_)) {
            return None;
        }
        self.known_way(to.gid())
    }

    /// One that is in no doubt, if there is one.
    fn known_way(&self, gid: Gid) -> Option<(&H, Followed)> {
        /// Addresses of one port that are looked at: those of a port that the SA knows have a way.
        const MOST: usize = 64;
        let mut doubted = None;
        let mut next = self.table.siblings(&LinkAddr::unicast(Qpn::MULTICAST, gid));
        for _ in 0..MOST {
            let Some(id) = next else { break };
            next = self.table.next_sibling(id);
            let is_it = self.table.key(id).is_some_and(|to| to.gid() == gid);
            let Some(path) = self.table.get(id).filter(|_| is_it) else { continue };
            if let State::Ready(handle) = &path.state {
                let way = (handle, Followed { since: path.since, trust: path.trust });
                if path.trust == Trust::Full {
                    return Some(way);
                }
                doubted.get_or_insert(way);
            }
        }
        doubted
    }
}
