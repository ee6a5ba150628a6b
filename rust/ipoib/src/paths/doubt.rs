//! What is not believed any more: looked up again at once, or in its turn, or forgotten.

use core::ops::{Deref, DerefMut};
use core::time::Duration;

use super::{DenialEpoch, Handle, Lookup, PacketSlot, Path, PathSlot, Paths, State, Trust};
use crate::addr::Gid;
use crate::table::Id;
use crate::time::Instant;

/// Places of the table that are looked at without a pause.
const STEP: usize = 256;

/// A walk through the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    since: Instant,
    /// The first place that it has not come to.
    from: usize,
}

impl Walk {
    /// When it began.
    pub(super) fn since(&self) -> Instant {
        self.since
    }
}

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    /// One address of the GID is asked about, and the others that are in use follow. Those that follow another one and are not used are
    /// forgotten.
    pub(super) fn gid_changed(&mut self, gid: Gid) {
        let mut next = self.first_of(gid);
        while let Some(id) = next {
            next = self.next_of_port(id, gid);
            let goes = |path: &mut Path<H>| path.has_idle_handle() && !path.told && !path.take_use();
            if self.table.get_mut(id).is_some_and(goes) {
                self.counts.evicted += 1;
                self.evict(id);
            } else {
                self.look_again(id);
            }
        }
    }

    /// The SM has changed. What the one before has told is in doubt at once; addresses are given their turns step by step.
    pub(super) fn another_sm(&mut self, now: Instant) {
        self.sms = self.sms.wrapping_add(1);
        self.doubts = Some(Walk { since: now, from: 0 });
        self.go_on_doubting();
    }

    /// The next step of the walk through the table, if one is under way.
    pub(super) fn go_on_doubting(&mut self) {
        let Some(Walk { since, mut from }) = self.doubts.take() else { return };
        let end = from + STEP;
        while let Some((at, id)) = self.table.next_until(from, end) {
            self.doubt(since, id);
            from = at + 1;
        }
        if end < self.table.capacity() {
            self.doubts = Some(Walk { since, from: end });
        }
    }

    /// Looks a handle up again some time soon, and uses it until then; forgives a failure. What the new SM has told already stays.
    fn doubt(&mut self, now: Instant, id: Id) {
        let sms = self.sms;
        let Some(path) = self.table.get_mut(id) else { return };
        if matches!(path.state, State::Ready(_)) && path.told_by == sms {
            return;
        }
        path.forgive();
        match path.state {
            State::Failed { .. } => path.expire_denials(&self.denial_epoch),
            // What is out is answered by the SM that was there when it was asked.
            State::Unresolved => {}
            State::Ready(_) => {
                path.told_by = sms;
                let before = core::mem::replace(&mut path.trust, Trust::Doubted);
                let trusted = matches!(before, Trust::Full | Trust::Reported);
                match path.lookup {
                    // The SM that answers it is the new one, or the answer is not believed.
                    Lookup::Out | Lookup::OutOfDate | Lookup::Wanted | Lookup::Shares => {}
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
                    Lookup::Wanted | Lookup::Shares | Lookup::OutOfDate => {}
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
