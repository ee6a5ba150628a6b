//! What is not believed any more: looked up again at once, or in its turn, or forgotten.

use core::ops::{Deref, DerefMut};
use core::time::Duration;

use super::{DenialEpoch, Handle, Lookup, PacketSlot, PathSlot, Paths, State, Trust};
use crate::addr::{Gid, LinkAddr, Qpn};
use crate::table::Id;
use crate::time::Instant;

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    pub(super) fn gid_changed(&mut self, gid: Gid) {
        let mut next = self.table.siblings(&LinkAddr::unicast(Qpn::MULTICAST, gid));
        while let Some(id) = next {
            next = self.table.next_sibling(id);
            if self.table.key(id).is_some_and(|to| to.gid() == gid) {
                self.look_again(id);
            }
        }
    }

    /// The SM has changed: looks a handle up again some time soon, and uses it until then; forgives a failure.
    pub(super) fn doubt(&mut self, now: Instant, id: Id) {
        let Some(path) = self.table.get_mut(id) else { return };
        path.forgive();
        match path.state {
            State::Failed { .. } => path.expire_denials(&self.denial_epoch),
            // What is out is answered by the SM of before. Whoever waits for it waits for the next one.
            State::Unresolved if path.lookup == Lookup::Out => path.lookup = Lookup::OutOfDate,
            State::Unresolved => {}
            State::Ready(_) => {
                let before = core::mem::replace(&mut path.trust, Trust::Doubted);
                let trusted = matches!(before, Trust::Full | Trust::Reported);
                match path.lookup {
                    Lookup::Out => path.lookup = Lookup::OutOfDate,
                    // The SM that answers it is the new one.
                    Lookup::Wanted | Lookup::OutOfDate => {}
                    Lookup::None if trusted => self.look_soon(now, id),
                    Lookup::None => {}
                }
            }
        }
    }

    /// Looks a handle up again in its turn, which chance gives.
    pub(super) fn look_soon(&mut self, now: Instant, id: Id) {
        let known = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let most = self.config.pace.saturating_mul(known).min(self.config.spread);
        self.look_within(now, id, Duration::ZERO, most);
    }

    /// Looks a handle up again at a moment between `least` and `most` from now, or before that if it has to be anyway.
    pub(super) fn look_within(&mut self, now: Instant, id: Id, least: Duration, most: Duration) {
        let Some(path) = self.table.get_mut(id) else { return };
        // Transmit queues tell only from time to time.
        path.used = true;
        let at = now + least + self.jitter.below(most - least);
        let before = self.table.deadline(id);
        self.table.set_deadline(id, Some(before.map_or(at, |before| at.min(before))));
        self.settle(id);
    }

    /// The SM knows better about this address by now: looks a handle up again at once, and uses it until then; forgives a failure.
    pub(super) fn look_again(&mut self, id: Id) {
        let Some(path) = self.table.get_mut(id) else { return };
        path.forgive();
        match path.state {
            State::Failed { .. } => path.expire_denials(&self.denial_epoch),
            State::Unresolved => {}
            State::Ready(_) => {
                path.trust = Trust::Reported;
                match path.lookup {
                    Lookup::None => self.want_lookup(id),
                    Lookup::Out => path.lookup = Lookup::OutOfDate,
                    Lookup::Wanted | Lookup::OutOfDate => {}
                }
            }
        }
    }

    /// Drops the handle or the verdict; packets that wait are looked up afresh. The caller has taken back what leaves.
    pub(super) fn forget(&mut self, id: Id) {
        let Some(path) = self.table.get_mut(id) else { return };
        path.know(&self.denial_epoch, State::Unresolved);
        path.forgive();
        if path.lookup == Lookup::Out {
            path.lookup = Lookup::OutOfDate;
        }
        let packets_wait = !path.packets.is_empty();
        self.table.set_deadline(id, None);
        if packets_wait { self.want_lookup(id) } else { self.settle(id) }
    }

    pub(super) fn nobody_asks(&mut self, id: Id) {
        if let Some(path) = self.table.get_mut(id) {
            path.asked = false;
        }
    }
}
