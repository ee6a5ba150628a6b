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

use core::ops::DerefMut;

use super::peer::{Accepted, State, Want};
use super::{DUE, EACH, Incoming, IncomingSlot, LIVE, LOOKS, RECENT, STANDS_WITHIN};
use crate::addr::{Gid, LinkAddr};
use crate::table::Id;
use crate::time::Instant;

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

/// Connections that have eight places together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// Those of somebody known: an identity has fewer.
    Known(LinkAddr),
    /// Those that match, in other identities of this GID.
    Of(Gid),
    /// Those that do not, at this LID.
    At(u16),
}

impl Port {
    fn new(identity: LinkAddr, lid: u16, check: LidCheck) -> Self {
        match check {
            LidCheck::Known => Self::Known(identity),
            LidCheck::Matches => Self::Of(identity.gid()),
            LidCheck::Unknown | LidCheck::Differs => Self::At(lid),
        }
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
    /// Those that are looked at because room is short everywhere.
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
    let identity = incoming.peers.key(id);
    move |one| identity.map(|identity| Port::new(identity, one.lid, one.check)) == Some(port)
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
                survey.marked += u32::from(one.is_marked_everywhere());
            }
        }
        survey
    }

    fn port_of(&self, id: Id, one: &Accepted) -> Option<Port> {
        Some(Port::new(self.peers.key(id)?, one.lid, one.check))
    }

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
        let survey = self.survey(asker.port());
        let (all, of_port) = (&survey.all, &survey.of_port);
        let full = all.held >= self.most(asker.check);
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
        check: &impl Fn(&LinkAddr, u16) -> LidCheck,
        now: Instant,
    ) {
        if short == Short::OfPort {
            // Eight at most, so they are looked at however many are looked at elsewhere.
            let port = asker.port();
            let goes = self.any(|this, id| this.goes_at_once(id, of_port(this, id, port), asker, check, now));
            if !goes {
                self.any(|this, id| {
                    this.look_at(id, of_port(this, id, port), Want::Place, now);
                    false
                });
            }
            return;
        }
        // Wherever it stands. Nobody else is asked until it is gone.
        let less = |this: &mut Self, id| this.goes_at_once(id, |_| true, asker, check, now);
        if asker.matches() && self.any(less) {
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
        let Some(peer) = self.peers.get_mut(id) else { return false };
        let mut some = false;
        for one in peer.all_mut().filter(|one| of_it(one)) {
            if let State::Up(up) = &mut one.state {
                some |= up.want_look(want, now);
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
        survey.all.is_short(self.most(one.check)) || of_port(&survey) || own.is_short(EACH as u32)
    }

    /// Nobody needs its place any more.
    pub(super) fn spare(&mut self, id: Id, number: u64) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let one_too_many = peer.standing() > LIVE;
        if let Some(State::Up(up)) = peer.all_mut().find(|one| one.number == number).map(|one| &mut one.state)
        {
            up.spare(one_too_many);
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
