//! Who gets room, and who gives way.
//!
//! Who asks says himself which GID and queue pair he has, and which LID: acknowledgements go there. The SA, whose answers are in the table of
//! paths, says which LID a GID has; and that table says to which identities the link has sent, which a neighbour had told it by ARP or neighbour discovery
//! before. So a connection is of somebody [known](LidCheck::Known), or [matches](LidCheck::Matches), or [differs](LidCheck::Differs), or nobody knows.
//!
//! - An identity has four places; two connections of it may stand. Those of somebody known count for their identity alone. Other identities of one GID that match
//!   have eight together: the SA vouches for the GID, and the ports of many virtual machines share one LID. Those that do not match have eight by
//!   their LID. So what somebody claims takes no place of a port's own. The last quarter of all places is for those that match, and half of it for
//!   those that are known.
//! - One that differs takes one place of an identity, makes nobody give way, and goes at once when another one asks for its place, in use or not.
//! - Where all places are taken one that is known, or matches, takes that of one that never was so much, at once. Nobody makes somebody give way who
//!   is more than himself.
//! - One that is known, or matches, and stands beside two of its identity, has lost one of those: one on which nothing comes for 200 ms goes. Where its
//!   identity's four places are all in use the oldest goes.
//! - What else is in use gives way to nobody: where there is no room, connections are looked at, and one on which nothing has come for a while is
//!   dismissed. Nothing but the number of the packet that is due says whether something comes: they all share a receive queue.
//! - One at a time: nobody gives way while one that was dismissed drains, or once there is room.
//! - A REQ costs no walk through all of them: they are counted ([`super::tally`]), and a few are looked at, the next ones at the next REQ.

use core::ops::DerefMut;

use super::peer::{Accepted, State, Want};
use super::tally::{Count, EACH_PORT, Port};
use super::{DUE, EACH, Incoming, IncomingSlot, LIVE, LOOKS, PortSlot, RECENT, STANDS_WITHIN};
use crate::addr::LinkAddr;
use crate::table::Id;
use crate::time::Instant;

/// Neighbours that are looked at for one that is less, at a REQ, and places of the table that are looked through for one of them.
const LOOKS_FOR_LESS: usize = 16;
const PLACES_FOR_LESS: usize = 16;

/// What speaks for an identity and a LID: each is more than those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LidCheck {
    /// The SA says that the GID has another LID.
    Differs,
    /// Nobody has asked the SA for that GID, or it knows none.
    Unknown,
    /// The LID is that of the port with the GID, as the SA says.
    Matches,
    /// It is, and the link sends to that queue pair of it.
    Known,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) peer: LinkAddr,
    pub(super) lid: u16,
    pub(super) check: LidCheck,
}

impl Asker {
    fn port(&self) -> Port {
        Port::new(self.peer, self.lid, self.check)
    }

    fn matches(&self) -> bool {
        self.check >= LidCheck::Matches
    }
}

/// Where room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    Everywhere,
    OfPort,
}

impl<S: DerefMut<Target = [IncomingSlot]>, P: DerefMut<Target = [PortSlot]>> Incoming<S, P> {
    /// How many may be there before one like this comes: the last quarter is not for everybody.
    const fn most(&self, check: LidCheck) -> u32 {
        let most = self.config.most;
        match check {
            LidCheck::Known => most,
            LidCheck::Matches => most - most / 8,
            LidCheck::Unknown | LidCheck::Differs => most - most / 4,
        }
    }

    /// Whether there is room for one more beside its neighbour's own. If not, somebody may give way, and whoever asks again finds room.
    pub(super) fn has_room(
        &mut self,
        asker: &Asker,
        check: &impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) -> bool {
        let (all, of_port) = (self.tally.all(), self.tally.of_port(&asker.port()));
        let full = all.held >= self.most(asker.check);
        let port_is_full = of_port.held >= EACH_PORT as u32;
        let draining = if port_is_full { of_port.draining } else { all.draining };
        let short = match (port_is_full, full) {
            (true, _) => Short::OfPort,
            (false, true) => Short::Everywhere,
            (false, false) => return true,
        };
        if draining == 0 && asker.check != LidCheck::Differs {
            let may_look = self.tally.marked() < LOOKS as u32;
            self.make_room(short, may_look, asker, check, now);
        }
        false
    }

    /// Of the neighbours that were found in use longest ago, the first one with something to lose makes room if it can; of one port, all are looked at.
    fn make_room(
        &mut self,
        short: Short,
        may_look: bool,
        asker: &Asker,
        check: &impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) {
        if short == Short::OfPort {
            // Eight at most, so they are looked at however many are looked at elsewhere.
            let port = asker.port();
            let members = self.tally.members(&port);
            let of_port = |this: &Self, id| {
                let identity = this.peers.key(id);
                move |one: &Accepted| {
                    identity.is_some_and(|identity| Port::new(identity, one.lid, one.check) == port)
                }
            };
            let goes = |id| self.goes_at_once(id, of_port(self, id), asker, check, now);
            if !members.all().any(goes) {
                for id in members.all() {
                    self.look_at(id, of_port(self, id), Want::Place, now);
                }
            }
            return;
        }
        // Wherever it stands. Nobody else is asked until it is gone.
        if asker.matches() && self.less_goes_at_once(asker, check, now) {
            return;
        }
        let below = |one: &Accepted| one.check <= asker.check;
        for _ in 0..LOOKS {
            let Some(id) = self.peers.front(RECENT) else { return };
            self.peers.push_back(RECENT, id);
            if self.goes_at_once(id, |_| true, asker, check, now)
                || may_look && self.look_at(id, below, Want::AnyPlace, now)
            {
                return;
            }
        }
    }

    /// Some neighbours are looked at, the next ones when somebody asks again: one of them loses one that never was as much as who asks.
    fn less_goes_at_once(
        &mut self,
        asker: &Asker,
        check: &impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) -> bool {
        for _ in 0..LOOKS_FOR_LESS {
            let next = self.peers.next_until(self.next_look, self.next_look + PLACES_FOR_LESS);
            let Some((place, id)) = next else {
                let end = self.next_look + PLACES_FOR_LESS;
                self.next_look = if end < self.peers.capacity() { end } else { 0 };
                continue;
            };
            self.next_look = place + 1;
            if self.goes_at_once(id, |_| true, asker, check, now) {
                return true;
            }
        }
        false
    }

    /// A neighbour loses one that differs, or an offer that it does not take up; or if who asks matches, one that never was so much.
    fn goes_at_once(
        &mut self,
        id: Id,
        of_it: impl Fn(&Accepted) -> bool,
        asker: &Asker,
        check: &impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) -> bool {
        let Some(identity) = self.peers.key(id) else { return false };
        let is_live = |one: &Accepted| of_it(one) && one.is_live();
        let checked = |one: &Accepted| check(&identity, one.lid);
        self.dismiss_oldest(id, |one| is_live(one) && checked(one) == LidCheck::Differs)
            || self.dismiss_oldest(id, |one| is_live(one) && one.is_stale(STANDS_WITHIN, now))
            || asker.matches()
                && self.dismiss_oldest(id, |one| is_live(one) && one.check.max(checked(one)) < asker.check)
    }

    /// A place of its neighbour's for one more. If there is none, somebody may give way.
    pub(super) fn place(
        &mut self,
        id: Id,
        asker: &Asker,
        check: &impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) -> Option<usize> {
        let identity = asker.peer;
        let peer = self.peers.get(id)?;
        let free = peer.connections.iter().position(Option::is_none);
        if asker.check == LidCheck::Differs {
            let differs = |one: &Accepted| check(&identity, one.lid) == LidCheck::Differs;
            return free.filter(|_| !peer.all().any(differs));
        }
        if free.is_some() || peer.all().any(Accepted::is_draining) {
            return free;
        }
        if self.goes_at_once(id, |_| true, asker, check, now) {
            return None;
        }
        let all_in_use = self.peers.get(id)?.all().all(|one| one.was_in_use(now));
        if !(asker.matches() && all_in_use && self.dismiss_oldest(id, Accepted::is_up)) {
            let want = if asker.matches() { Want::PlaceSoon } else { Want::Place };
            self.look_at(id, |_| true, want, now);
        }
        None
    }

    /// A new one stands. If that makes one too many of its neighbour's, one of those before it goes when it is seen that nothing comes on it:
    /// soon if the new one matches, and at once if the new one does and that has another LID.
    pub(super) fn supersede(&mut self, id: Id, newest: &Accepted, now: Instant) {
        let matches = newest.check >= LidCheck::Matches;
        let before = |one: &Accepted| one.is_up() && one.number != newest.number;
        while self.peers.get(id).is_some_and(|peer| peer.standing() > LIVE) {
            if !(matches && self.dismiss_oldest(id, |one| before(one) && one.lid != newest.lid)) {
                let want = if matches { Want::OneTooManySoon } else { Want::OneTooMany };
                self.look_at(id, before, want, now);
                return;
            }
        }
    }

    /// Of what a neighbour has standing some is looked at. False if nothing is.
    fn look_at(&mut self, id: Id, of_it: impl Fn(&Accepted) -> bool, want: Want, now: Instant) -> bool {
        let is_it = |one: &Accepted| one.is_up() && of_it(one);
        if !self.peers.get(id).is_some_and(|peer| peer.all().any(is_it)) {
            return false;
        }
        let some = self.edit(id, |peer| {
            let mut some = false;
            for one in peer.all_mut().filter(|one| of_it(one)) {
                if let State::Up(up) = &mut one.state {
                    some |= up.want_look(want, now);
                }
            }
            some
        });
        self.arm(id);
        some == Some(true)
    }

    /// Whether somebody would get room if this one went, and nobody else goes.
    pub(super) fn is_short_of(&self, id: Id, one: &Accepted) -> bool {
        let mut own = Count::default();
        self.peers.get(id).into_iter().flat_map(|peer| peer.all()).for_each(|one| own.add(one));
        let port = self.peers.key(id).map(|identity| Port::new(identity, one.lid, one.check));
        let of_port = port.map_or(Count::default(), |port| self.tally.of_port(&port));
        self.tally.all().is_short(self.most(one.check))
            || of_port.is_short(EACH_PORT as u32)
            || own.is_short(EACH as u32)
    }

    /// Nobody needs its place any more.
    pub(super) fn spare(&mut self, id: Id, number: u64) {
        self.edit(id, |peer| {
            let one_too_many = peer.standing() > LIVE;
            let one = peer.all_mut().find(|one| one.number == number);
            if let Some(State::Up(up)) = one.map(|one| &mut one.state) {
                up.spare(one_too_many);
            }
        });
        self.arm(id);
    }

    pub(super) fn dismiss_oldest(&mut self, id: Id, of: impl Fn(&Accepted) -> bool) -> bool {
        let peer = self.peers.get(id);
        let oldest = peer.and_then(|peer| peer.all().filter(|one| of(one)).min_by_key(|one| one.number));
        let Some(number) = oldest.map(|oldest| oldest.number) else { return false };
        self.edit(id, |peer| {
            let goes = peer.all_mut().filter(|one| one.number == number);
            goes.for_each(|one| one.state = State::Draining { told: false });
        });
        self.peers.push_back(DUE, id);
        true
    }
}
