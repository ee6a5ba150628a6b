//! Which address is looked up next, and what an answer does.

use core::ops::{Deref, DerefMut};

use super::{
    BACKGROUND, DenialEpoch, DropReason, GROUPS, Handle, Lookup, LookupError, PacketSlot, PathSlot, Paths,
    Resolution, State, Trust, URGENT,
};
use crate::addr::LinkAddr;
use crate::table::Id;
use crate::time::Instant;

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    /// Lists the address for a lookup unless one is out; a port urgently if packets wait, in the background if it has a handle or
    /// is only asked about.
    pub(super) fn want_lookup(&mut self, id: Id) {
        let is_group = self.table.key(id).is_some_and(|to| to.is_multicast());
        let Some(path) = self.table.get_mut(id) else { return };
        if matches!(path.lookup, Lookup::None | Lookup::Wanted) {
            path.lookup = Lookup::Wanted;
            let background = matches!(path.state, State::Ready(_)) || path.packets.is_empty();
            let list = match (is_group, background) {
                (true, _) => GROUPS,
                (false, true) => BACKGROUND,
                (false, false) => URGENT,
            };
            for other in [URGENT, BACKGROUND].into_iter().filter(|other| *other != list) {
                self.table.unlist(other, id);
            }
            if !self.table.is_listed(list, id) {
                self.table.push_back(list, id);
            }
        }
        self.settle(id);
    }

    /// The next address to find a way to, to be answered with [`Event::LookedUp`](super::Event::LookedUp), always and once; `None` if
    /// there is none or no other lookup may start. Ports first. Call until `None` after every [`Paths::submit`], event and timeout.
    pub fn next_lookup(&mut self) -> Option<LinkAddr> {
        let id = match self.next_port() {
            Some(id) => {
                self.ports_out += 1;
                id
            }
            None => {
                let id = self.next_group()?;
                self.groups_out += 1;
                id
            }
        };
        self.table.get_mut(id)?.lookup = Lookup::Out;
        // Ageing must not remove an entry whose answer is on its way; the answer sets the next deadline.
        self.table.set_deadline(id, None);
        self.settle(id);
        self.table.key(id)
    }

    /// Refreshing leaves half of the room to ports whose packets wait.
    fn next_port(&mut self) -> Option<Id> {
        let limit = self.config.lookups.max(1);
        if self.ports_out >= limit {
            return None;
        }
        let urgent = self.table.pop_front(URGENT);
        if urgent.is_none() && self.ports_out < limit.div_ceil(2) {
            return self.table.pop_front(BACKGROUND);
        }
        urgent
    }

    fn next_group(&mut self) -> Option<Id> {
        if self.groups_out >= self.config.lookups.max(1) {
            return None;
        }
        self.table.pop_front(GROUPS)
    }

    pub(super) fn looked_up(
        &mut self,
        now: Instant,
        to: LinkAddr,
        result: Result<Resolution<H>, LookupError>,
    ) {
        let found = self.table.find(&to);
        debug_assert!(found.is_some(), "an answer about {to:?}, which nobody was asked about");
        let Some(id) = found else { return };
        let Some(path) = self.table.get_mut(id) else { return };
        let current = match path.lookup {
            Lookup::Out => true,
            Lookup::OutOfDate => false,
            Lookup::None | Lookup::Wanted => return,
        };
        path.lookup = Lookup::None;
        if to.is_multicast() {
            self.groups_out -= 1;
        } else {
            self.ports_out -= 1;
        }
        let again = !path.packets.is_empty() || path.asked || matches!(path.state, State::Ready(_));
        match result {
            _ if !current
                && matches!(path.trust, Trust::Doubted | Trust::Missed)
                && matches!(path.state, State::Ready(_)) =>
            {
                self.look_soon(now, id);
            }
            _ if !current && again => self.want_lookup(id),
            _ if !current => self.settle(id),
            Ok(resolution) => self.resolved(now, id, resolution),
            Err(error) => self.failed(now, id, error),
        }
    }

    fn resolved(&mut self, now: Instant, id: Id, resolution: Resolution<H>) {
        self.counts.found += 1;
        let Some(path) = self.table.get_mut(id) else { return };
        path.forgive();
        path.asked = false;
        path.since = resolution.followed.map_or(now, |way| way.since);
        let in_doubt = resolution.followed.is_some_and(|way| way.trust != Trust::Full);
        path.trust = if in_doubt { Trust::Reported } else { Trust::Full };
        // Of two that lead the same way the first one stays: queues have it.
        if !matches!(&path.state, State::Ready(known) if *known == resolution.handle) {
            path.know(&self.denial_epoch, State::Ready(resolution.handle));
        }
        self.send_packets(id);
        let after = self.jitter.shorten(resolution.refresh.unwrap_or(self.config.refresh));
        self.table.set_deadline(id, Some(now + after));
        if in_doubt { self.want_lookup(id) } else { self.settle(id) }
    }

    fn failed(&mut self, now: Instant, id: Id, error: LookupError) {
        self.counts.failed += 1;
        let Some(path) = self.table.get_mut(id) else { return };
        path.asked = false;
        let works = matches!(path.state, State::Ready(_));
        if works && error == LookupError::Absent && path.trust == Trust::Doubted {
            path.trust = Trust::Missed;
            let spread = self.config.spread;
            return self.look_within(now, id, spread / 2, spread);
        }
        path.failures = path.failures.saturating_add(1);
        path.absent = error == LookupError::Absent;
        let until = now + self.config.retry.delay(path.failures, &mut self.jitter);
        let reason = match error {
            // No answer says nothing about a handle that works: keep it and ask again later.
            LookupError::Unanswered if works => {
                path.used = true;
                self.table.set_deadline(id, Some(until));
                self.settle(id);
                return;
            }
            LookupError::Unanswered => DropReason::LookupFailed,
            LookupError::Absent => DropReason::Unreachable,
        };
        if works {
            self.take_back_for(id);
        }
        self.drop_packets(id, reason);
        if let Some(path) = self.table.get_mut(id) {
            path.know(&self.denial_epoch, State::Failed { until, reason });
        }
        self.table.set_deadline(id, Some(until + self.config.forget));
        self.settle(id);
    }
}
