//! Who gets room, and who gives way.
//!
//! Who asks says himself which GID and queue pair he has, and which LID: acknowledgements go there. The SA, whose answers are in the table of
//! paths, says which LID a GID has. So a connection [matches](LidCheck::Matches), [differs](LidCheck::Differs), or nobody knows.
//!
//! - A name has four places; two connections of it may stand. Names of one GID that match have eight: the SA vouches for the GID, and the ports of
//!   many virtual machines share one LID. Those that do not match have eight by their LID, so what somebody claims takes no place of a port's own. The
//!   last quarter of all places is for those that match.
//! - One that differs takes one place of a name, makes nobody give way, and goes at once when another one asks for its place, in use or not.
//! - One that matches takes the place of the oldest of its name at once: its neighbour has lost that one. Where all places are taken it takes that of
//!   one that never matched. One that does not match makes none give way that does.
//! - What else is in use gives way to nobody: where there is no room, connections are looked at, and one on which nothing has come for a while is
//!   dismissed. Nothing but the number of the packet that is due says whether something comes: they all share a receive queue.
//! - One at a time: nobody gives way while one that was dismissed drains, or once there is room.

use core::ops::DerefMut;

use super::peer::{Accepted, Look, State};
use super::{DUE, EACH, Incoming, IncomingSlot, LIVE, LOOKS, RECENT, STANDS_WITHIN};
use crate::addr::{Gid, LinkAddr};
use crate::table::Id;
use crate::time::Instant;

/// Whether a LID is that of the port with a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LidCheck {
    /// It is, as the SA says.
    Matches,
    /// Nobody has asked the SA for that GID, or it knows none.
    Unknown,
    /// The SA says another one.
    Differs,
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
        Port::new(self.peer.gid(), self.lid, self.matches())
    }

    pub(super) fn matches(&self) -> bool {
        self.check == LidCheck::Matches
    }
}

/// Connections that have eight places together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// Those that match, in names of this GID.
    Of(Gid),
    /// Those that do not, at this LID.
    At(u16),
}

impl Port {
    fn new(gid: Gid, lid: u16, matched: bool) -> Self {
        if matched { Self::Of(gid) } else { Self::At(lid) }
    }
}

/// What is there, all told.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    held: u32,
    draining: u32,
}

impl Count {
    fn add(&mut self, one: &Accepted) {
        self.held += 1;
        self.draining += u32::from(one.is_draining());
    }

    /// Nobody has to give way where somebody goes already.
    fn is_short(&self, most: u32) -> bool {
        self.held >= most && self.draining == 0
    }
}

/// The same, of a connection or of who asks for one.
#[derive(Debug, Default)]
struct Survey {
    all: Count,
    of_port: Count,
    /// Those that give way if they are not in use.
    marked: u32,
}

/// Where room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    Everywhere,
    OfPort,
}

/// Which connections of a neighbour are counted with a port.
fn of_port<S: DerefMut<Target = [IncomingSlot]>>(
    incoming: &Incoming<S>,
    id: Id,
    port: Port,
) -> impl Fn(&Accepted) -> bool + use<S> {
    let gid = incoming.peers.key(id).map(|key| key.gid());
    move |one| gid.map(|gid| Port::new(gid, one.lid, one.matched)) == Some(port)
}

impl<S: DerefMut<Target = [IncomingSlot]>> Incoming<S> {
    /// A walk over all: their number is bounded.
    fn survey(&self, port: Port) -> Survey {
        let mut survey = Survey::default();
        let mut from = 0;
        while let Some((place, id)) = self.peers.next_from(from) {
            from = place + 1;
            for one in self.peers.get(id).into_iter().flat_map(|peer| peer.all()) {
                survey.all.add(one);
                if self.port_of(id, one) == Some(port) {
                    survey.of_port.add(one);
                }
                survey.marked += u32::from(one.gives_way());
            }
        }
        survey
    }

    fn port_of(&self, id: Id, one: &Accepted) -> Option<Port> {
        Some(Port::new(self.peers.key(id)?.gid(), one.lid, one.matched))
    }

    /// How many may be there before one that matches comes, or another one: the last quarter is not for those.
    const fn most(&self, matches: bool) -> u32 {
        if matches { self.config.most } else { self.config.most - self.config.most / 4 }
    }

    /// Whether there is room for one more beside its neighbour's own. If not, somebody may give way, and whoever asks again finds room.
    pub(super) fn has_room(
        &mut self,
        asker: &Asker,
        check: &impl Fn(Gid, u16) -> LidCheck,
        now: Instant,
    ) -> bool {
        let survey = self.survey(asker.port());
        let (all, of_port) = (&survey.all, &survey.of_port);
        let full = all.held >= self.most(asker.matches());
        let port_is_full = of_port.held >= self.config.each_port;
        let draining = if port_is_full { of_port.draining } else { all.draining };
        let short = match (port_is_full, full) {
            (true, _) => Short::OfPort,
            (false, true) => Short::Everywhere,
            (false, false) => return true,
        };
        if draining == 0 && asker.check != LidCheck::Differs {
            let may_look = survey.marked < LOOKS as u32;
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
        check: &impl Fn(Gid, u16) -> LidCheck,
        now: Instant,
    ) {
        if short == Short::OfPort {
            // Eight at most, so they are looked at however many are looked at elsewhere.
            let port = asker.port();
            let goes = self.any(|this, id| this.goes_at_once(id, of_port(this, id, port), asker, check, now));
            if !goes {
                self.any(|this, id| {
                    this.look_at(id, of_port(this, id, port), true, now);
                    false
                });
            }
            return;
        }
        // Wherever it stands. Nobody else is asked until it is gone.
        if asker.matches() && self.any(|this, id| this.goes_at_once(id, |_| true, asker, check, now)) {
            return;
        }
        let below = |one: &Accepted| asker.matches() || !one.matched;
        for _ in 0..LOOKS {
            let Some(id) = self.peers.front(RECENT) else { return };
            self.peers.push_back(RECENT, id);
            if self.goes_at_once(id, |_| true, asker, check, now)
                || may_look && self.look_at(id, below, true, now)
            {
                return;
            }
        }
    }

    fn any(&mut self, mut of: impl FnMut(&mut Self, Id) -> bool) -> bool {
        let mut from = 0;
        while let Some((place, id)) = self.peers.next_from(from) {
            from = place + 1;
            if of(self, id) {
                return true;
            }
        }
        false
    }

    /// A neighbour loses one that differs, or an offer that it does not take up; or if who asks matches, one that never did.
    fn goes_at_once(
        &mut self,
        id: Id,
        of_it: impl Fn(&Accepted) -> bool,
        asker: &Asker,
        check: &impl Fn(Gid, u16) -> LidCheck,
        now: Instant,
    ) -> bool {
        let Some(gid) = self.peers.key(id).map(|key| key.gid()) else { return false };
        let is_live = |one: &Accepted| of_it(one) && one.is_live();
        let checked = |one: &Accepted| check(gid, one.lid);
        self.dismiss_oldest(id, |one| is_live(one) && checked(one) == LidCheck::Differs)
            || self.dismiss_oldest(id, |one| is_live(one) && one.is_stale(STANDS_WITHIN, now))
            || asker.matches()
                && self.dismiss_oldest(id, |one| {
                    is_live(one) && !one.matched && checked(one) != LidCheck::Matches
                })
    }

    /// A place of its neighbour's for one more. If there is none, somebody may give way.
    pub(super) fn place(
        &mut self,
        id: Id,
        asker: &Asker,
        check: &impl Fn(Gid, u16) -> LidCheck,
        now: Instant,
    ) -> Option<usize> {
        let gid = asker.peer.gid();
        let peer = self.peers.get(id)?;
        let free = peer.connections.iter().position(Option::is_none);
        if asker.check == LidCheck::Differs {
            let differs = |one: &Accepted| check(gid, one.lid) == LidCheck::Differs;
            return free.filter(|_| !peer.all().any(differs));
        }
        if free.is_some() || peer.all().any(Accepted::is_draining) {
            return free;
        }
        let supersedes = asker.matches()
            && !peer
                .all()
                .any(|one| check(gid, one.lid) == LidCheck::Differs || one.is_stale(STANDS_WITHIN, now));
        let goes = supersedes && self.dismiss_oldest(id, Accepted::is_up)
            || self.goes_at_once(id, |_| true, asker, check, now);
        if !goes {
            self.look_at(id, |_| true, true, now);
        }
        None
    }

    /// A new one stands. If that makes one too many of its neighbour's, one of those before it goes at once if the new one matches, and else
    /// they are looked at.
    pub(super) fn supersede(&mut self, id: Id, newest: &Accepted, now: Instant) {
        while self.peers.get(id).is_some_and(|peer| peer.standing() > LIVE) {
            let before = |one: &Accepted| one.is_up() && one.number != newest.number;
            let goes = newest.matched
                && (self.dismiss_oldest(id, |one| before(one) && one.lid != newest.lid)
                    || self.dismiss_oldest(id, before));
            if !goes {
                self.look_at(id, before, false, now);
                return;
            }
        }
    }

    /// Of what a neighbour has standing some is looked at. False if nothing is.
    fn look_at(&mut self, id: Id, of_it: impl Fn(&Accepted) -> bool, gives_way: bool, now: Instant) -> bool {
        let Some(peer) = self.peers.get_mut(id) else { return false };
        let mut some = false;
        for one in peer.all_mut().filter(|one| of_it(one)) {
            if let State::Up(up) = &mut one.state {
                some |= up.want_look(gives_way, now);
            }
        }
        self.arm(id);
        some
    }

    /// Whether somebody would get room if this one went, and nobody else goes.
    pub(super) fn is_short_of(&self, id: Id, one: &Accepted) -> bool {
        let mut own = Count::default();
        self.peers.get(id).into_iter().flat_map(|peer| peer.all()).for_each(|one| own.add(one));
        let of_port = |survey: &Survey| survey.of_port.is_short(self.config.each_port);
        let survey = self.port_of(id, one).map(|port| self.survey(port)).unwrap_or_default();
        survey.all.is_short(self.most(one.matched)) || of_port(&survey) || own.is_short(EACH as u32)
    }

    /// Nobody needs its place any more.
    pub(super) fn spare(&mut self, id: Id, number: u64) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let one_too_many = peer.standing() > LIVE;
        if let Some(State::Up(up)) = peer.all_mut().find(|one| one.number == number).map(|one| &mut one.state)
        {
            up.gives_way = false;
            if !one_too_many {
                up.look = Look::No;
            }
        }
        self.arm(id);
    }

    pub(super) fn dismiss_oldest(&mut self, id: Id, of: impl Fn(&Accepted) -> bool) -> bool {
        let Some(peer) = self.peers.get_mut(id) else { return false };
        let Some(oldest) = peer.all_mut().filter(|one| of(one)).min_by_key(|one| one.number) else {
            return false;
        };
        oldest.state = State::Draining { told: false };
        self.peers.push_back(DUE, id);
        true
    }
}
