//! What is known of a port, by whatever address.

use core::ops::{Deref, DerefMut};

use super::{DenialEpoch, Handle, PacketSlot, PathSlot, Paths, State, Trust};
use crate::addr::{Gid, LinkAddr, Qpn};
use crate::time::Instant;

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

    /// The way to a port, as the SA has said it for one of its link addresses: for somebody who does not send.
    pub fn way_to(&self, gid: Gid) -> Option<&H> {
        self.known_way(gid, |_| true).map(|(handle, _)| handle)
    }

    /// The way to the port of an address that is to be looked up, and when the SA said so: only what is in no doubt, and only if the SA does not
    /// say that there is no way.
    pub fn way_to_follow(&self, to: &LinkAddr) -> Option<(&H, Instant)> {
        let path = self.table.get(self.table.find(to)?)?;
        if path.absent || matches!(path.state, State::Ready(_)) {
            return None;
        }
        self.known_way(to.gid(), |trust| trust == Trust::Full)
    }

    fn known_way(&self, gid: Gid, is_of_use: impl Fn(Trust) -> bool) -> Option<(&H, Instant)> {
        /// Addresses of one port that are looked at: those of a port that the SA knows have a way.
        const MOST: usize = 64;
        let mut next = self.table.siblings(&LinkAddr::unicast(Qpn::MULTICAST, gid));
        for _ in 0..MOST {
            let id = next?;
            next = self.table.next_sibling(id);
            let is_it = self.table.key(id).is_some_and(|to| to.gid() == gid);
            let Some(path) = self.table.get(id).filter(|path| is_it && is_of_use(path.trust)) else {
                continue;
            };
            if let State::Ready(handle) = &path.state {
                return Some((handle, path.since));
            }
        }
        None
    }
}
