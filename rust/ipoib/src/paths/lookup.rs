//! Which address is looked up next, and what an answer does.

use core::ops::{Deref, DerefMut};

use super::lists::{
    ASKED, BACKGROUND, GROUPS, GROUPS_OF_NEWCOMERS, GROUPS_OF_STRANGERS, NEWCOMERS, STRANGERS, UNPROVED,
    URGENT,
};
use super::{
    Cause, DenialEpoch, DropReason, Followed, Handle, Lookup, LookupError, PacketSlot, PathSlot, Paths,
    Resolution, State, Trust,
};
use crate::addr::{Gid, LinkAddr};
use crate::table::Id;
use crate::time::Instant;

/// The lists of ports that wait for a lookup, the most urgent first.
const OF_PORTS: [usize; 5] = [URGENT, UNPROVED, NEWCOMERS, STRANGERS, BACKGROUND];
/// Those of groups.
const OF_GROUPS: [usize; 3] = [GROUPS, GROUPS_OF_NEWCOMERS, GROUPS_OF_STRANGERS];

/// An address that is to be found a way to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<H> {
    /// The SA is asked, about a port or a group.
    Ask(LinkAddr),
    /// It is given a handle by the way of another address of its port.
    Follow(LinkAddr, H, Followed),
}

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    /// Lists the address for a lookup unless one is out; a port urgently if packets wait, in the background if it has a handle or
    /// is only asked about, and with others of its kind if only an answer waits.
    pub(super) fn want_lookup(&mut self, id: Id) {
        let is_group = self.table.key(id).is_some_and(|to| to.is_multicast());
        let Some(path) = self.table.get_mut(id) else { return };
        if matches!(path.lookup, Lookup::None | Lookup::Wanted) {
            path.lookup = Lookup::Wanted;
            let works = matches!(path.state, State::Ready(_));
            // One that has proved nothing is paid for although its packet had to go.
            let background = works || path.packets.is_empty() && path.cause != Cause::Unproved;
            let list = match path.cause {
                Cause::Own | Cause::Unproved if is_group => GROUPS,
                _ if is_group && works => GROUPS,
                Cause::Newcomer if is_group => GROUPS_OF_NEWCOMERS,
                Cause::Stranger if is_group => GROUPS_OF_STRANGERS,
                _ if background => BACKGROUND,
                Cause::Own => URGENT,
                Cause::Unproved => UNPROVED,
                Cause::Newcomer => NEWCOMERS,
                Cause::Stranger => STRANGERS,
            };
            let lists = if is_group { &OF_GROUPS[..] } else { &OF_PORTS[..] };
            for other in lists.iter().copied().filter(|other| *other != list) {
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
    /// `follow` says whether an address may be given the way of another one of its port.
    pub fn next_lookup(&mut self, now: Instant, follow: bool) -> Option<Next<H>> {
        for bucket in [&mut self.bucket, &mut self.bucket_of_unproved, &mut self.bucket_of_questions] {
            bucket.forget();
        }
        let (id, way) = match self.next_port(now, follow) {
            Some(next) => {
                self.ports_out += 1;
                self.turn = self.turn.wrapping_add(1);
                next
            }
            None => {
                let id = self.next_group(now)?;
                self.groups_out += 1;
                (id, None)
            }
        };
        let sms = self.sms;
        let path = self.table.get_mut(id)?;
        (path.lookup, path.asked_of) = (Lookup::Out, sms);
        // Ageing must not remove an entry whose answer is on its way; the answer sets the next deadline.
        self.table.set_deadline(id, None);
        let to = self.table.key(id)?;
        if way.is_none() && !to.is_multicast() {
            self.table.push_back(ASKED, id);
        }
        self.settle(id);
        Some(match way {
            Some((way, followed)) => Next::Follow(to, way, followed),
            None => Next::Ask(to),
        })
    }

    /// A port to look up, and the way that it follows if it need not be asked about. What IP begins goes first; of four lookups one is
    /// for answers and one is in the background, if there are such.
    fn next_port(&mut self, now: Instant, follow: bool) -> Option<(Id, Option<(H, Followed)>)> {
        let first = match self.turn % 4 {
            1 => [NEWCOMERS, STRANGERS, URGENT, UNPROVED, BACKGROUND],
            3 => [BACKGROUND, URGENT, UNPROVED, NEWCOMERS, STRANGERS],
            _ => OF_PORTS,
        };
        first.into_iter().find_map(|list| self.next_of(now, list, follow))
    }

    /// The next one of a list. Those that share the answer another one waits for are taken off it.
    fn next_of(&mut self, now: Instant, list: usize, follow: bool) -> Option<(Id, Option<(H, Followed)>)> {
        if !self.has_lookup_for(list) {
            return None;
        }
        loop {
            let id = self.table.front(list)?;
            let to = self.table.key(id)?;
            let way = if follow { self.way_to_follow(&to) } else { None };
            let way = way.map(|(way, followed)| (way.clone(), followed));
            if way.is_none() && self.is_asked_about(to.gid()) {
                self.table.unlist(list, id);
                self.table.get_mut(id)?.lookup = Lookup::Shares;
                self.settle(id);
                continue;
            }
            let out_for = match list {
                NEWCOMERS | STRANGERS => Cause::Stranger,
                UNPROVED => Cause::Unproved,
                _ => Cause::Own,
            };
            let bucket = match out_for {
                Cause::Unproved => Some(&mut self.bucket_of_unproved),
                Cause::Stranger | Cause::Newcomer => Some(&mut self.bucket),
                Cause::Own => None,
            };
            if way.is_none() && bucket.is_some_and(|bucket| !bucket.take(now)) {
                return None;
            }
            self.table.unlist(list, id);
            self.table.get_mut(id)?.out_for = out_for;
            self.answers_out += u16::from(out_for == Cause::Stranger);
            self.unproved_out += u16::from(out_for == Cause::Unproved);
            return Some((id, way));
        }
    }

    /// Whether another lookup may start. Refreshing leaves half of the room to ports whose packets wait, unless it is its turn; answers
    /// have a quarter, and what has proved nothing leaves an eighth.
    fn has_lookup_for(&self, list: usize) -> bool {
        let limit = self.config.lookups.max(1);
        self.ports_out < limit
            && match list {
                NEWCOMERS | STRANGERS => self.answers_out < limit.div_ceil(4),
                UNPROVED => self.unproved_out < limit - limit / 8,
                BACKGROUND => self.turn % 4 == 3 || self.ports_out < limit.div_ceil(2),
                _ => true,
            }
    }

    /// Whether the SA is being asked about a GID. Looks at the lookups that are out.
    fn is_asked_about(&self, gid: Gid) -> bool {
        let mut next = self.table.front(ASKED);
        while let Some(id) = next {
            if self.table.key(id).is_some_and(|to| to.gid() == gid) {
                return true;
            }
            next = self.table.next_listed(ASKED, id);
        }
        false
    }

    /// A group to look up: those first that no stranger has caused. The others have a quarter of the room, and their joins are paid for.
    fn next_group(&mut self, now: Instant) -> Option<Id> {
        let limit = self.config.lookups.max(1);
        if self.groups_out >= limit {
            return None;
        }
        if let Some(id) = self.table.pop_front(GROUPS) {
            self.table.get_mut(id)?.out_for = Cause::Own;
            return Some(id);
        }
        let waits = |list: &&usize| self.table.front(**list).is_some();
        let list = *[GROUPS_OF_NEWCOMERS, GROUPS_OF_STRANGERS].iter().find(waits)?;
        if self.questions_out >= limit.div_ceil(4) || !self.bucket_of_questions.take(now) {
            return None;
        }
        let id = self.table.pop_front(list)?;
        self.table.get_mut(id)?.out_for = Cause::Stranger;
        self.questions_out += 1;
        Some(id)
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
        let sms = self.sms;
        let Some(path) = self.table.get_mut(id) else { return };
        let current = match path.lookup {
            Lookup::Out => path.asked_of == sms,
            Lookup::OutOfDate => false,
            Lookup::None | Lookup::Wanted | Lookup::Shares => return,
        };
        path.lookup = Lookup::None;
        let out_for = core::mem::replace(&mut path.out_for, Cause::Own);
        if to.is_multicast() {
            self.groups_out -= 1;
            self.questions_out -= u16::from(out_for == Cause::Stranger);
        } else {
            self.ports_out -= 1;
            self.answers_out -= u16::from(out_for == Cause::Stranger);
            self.unproved_out -= u16::from(out_for == Cause::Unproved);
        }
        let again = !path.packets.is_empty() || path.asked || matches!(path.state, State::Ready(_));
        let was_asked = self.table.is_listed(ASKED, id);
        self.table.unlist(ASKED, id);
        let shared = result.as_ref().err().copied().filter(|_| current);
        let trust = self.trust_of(id);
        match result {
            _ if !current && matches!(trust, Some(Trust::Doubted | Trust::Missed)) => self.look_soon(now, id),
            _ if !current && again => self.want_lookup(id),
            _ if !current => self.settle(id),
            Ok(resolution) => self.resolved(now, id, resolution),
            Err(error) => self.failed(now, id, error),
        }
        if was_asked {
            self.share(now, to.gid(), shared);
        }
    }

    /// The others of a GID have waited for an answer: they follow the way that it has brought, or fail with it.
    fn share(&mut self, now: Instant, gid: Gid, error: Option<LookupError>) {
        let mut next = self.first_of(gid);
        while let Some(id) = next {
            next = self.next_of_port(id, gid);
            let Some(path) = self.table.get_mut(id).filter(|path| path.lookup == Lookup::Shares) else {
                continue;
            };
            path.lookup = Lookup::None;
            match error {
                Some(error) => self.failed(now, id, error),
                None => self.want_lookup(id),
            }
        }
    }

    fn resolved(&mut self, now: Instant, id: Id, resolution: Resolution<H>) {
        self.counts.found += 1;
        let sms = self.sms;
        let Some(path) = self.table.get_mut(id) else { return };
        let works = matches!(path.state, State::Ready(_));
        path.forgive();
        path.asked = false;
        path.cause = Cause::Own;
        path.told = resolution.followed.is_none();
        // One that follows another is as good as forgotten if nothing but what waits is sent to it.
        path.used &= works || path.told;
        (path.since, path.made) = (resolution.followed.map_or(now, |way| way.since), now);
        path.told_by = sms;
        let in_doubt = resolution.followed.is_some_and(|way| way.trust != Trust::Full);
        path.trust = if in_doubt { Trust::Reported } else { Trust::Full };
        // Of two that lead the same way the first one stays: queues have it.
        if !matches!(&path.state, State::Ready(known) if *known == resolution.handle) {
            path.know(&self.denial_epoch, State::Ready(resolution.handle));
        }
        // The answer to the question of another address of the port is as good as one of its own.
        let shares = works && !in_doubt && resolution.followed.is_some();
        let age = path.made - path.since;
        self.send_packets(id);
        let after = match resolution.refresh {
            Some(refresh) if !shares => refresh,
            _ => self.config.refresh.saturating_sub(age),
        };
        let after = self.jitter.shorten(after);
        self.table.set_deadline(id, Some(now + after));
        if in_doubt { self.want_lookup(id) } else { self.settle(id) }
    }

    fn failed(&mut self, now: Instant, id: Id, error: LookupError) {
        self.counts.failed += 1;
        self.counts.no_handle += u64::from(error == LookupError::NoHandle);
        let (is_doubted, sms) = (self.trust_of(id) == Some(Trust::Doubted), self.sms);
        let Some(path) = self.table.get_mut(id) else { return };
        path.asked = false;
        let works = matches!(path.state, State::Ready(_));
        if is_doubted && error == LookupError::Absent {
            (path.trust, path.told_by) = (Trust::Missed, sms);
            let spread = self.config.spread;
            return self.look_within(now, id, spread / 2, spread);
        }
        path.failures = path.failures.saturating_add(1);
        path.absent = error == LookupError::Absent;
        let until = now + self.config.retry.delay(path.failures, &mut self.jitter);
        let reason = match error {
            // No answer says nothing about a handle that works: keep it and ask again later. One that lacks another handle is as old as
            // it was: if it is not used, it goes.
            LookupError::Unanswered | LookupError::NoHandle if works => {
                path.used |= error == LookupError::Unanswered;
                self.table.set_deadline(id, Some(until));
                self.settle(id);
                return;
            }
            LookupError::Unanswered | LookupError::NoHandle => DropReason::LookupFailed,
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
