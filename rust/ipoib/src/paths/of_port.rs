//! What is known of a port, by whatever address.

use core::ops::{Deref, DerefMut};

use super::{DenialEpoch, Handle, PacketSlot, PathSlot, Paths, State};
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

    /// The way to a port, as the SA has said it for one of its link addresses: for somebody who does not send.
    pub fn way_to(&self, gid: Gid) -> Option<&H> {
        /// Addresses of one port that are looked at: those of a port that the SA knows have a way.
        const MOST: usize = 64;
        let mut next = self.table.siblings(&LinkAddr::unicast(Qpn::MULTICAST, gid));
        for _ in 0..MOST {
            let id = next?;
            next = self.table.next_sibling(id);
            let is_it = self.table.key(id).is_some_and(|to| to.gid() == gid);
            if let Some(State::Ready(handle)) = self.table.get(id).filter(|_| is_it).map(|path| &path.state) {
                return Some(handle);
            }
        }
        None
    }
}
