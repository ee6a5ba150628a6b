//! How many connections there are, all told and of each port: kept, so that a REQ costs no walk through all of them.

use core::ops::DerefMut;

use super::peer::Accepted;
use super::room::LidCheck;
use crate::addr::{Gid, LinkAddr};
use crate::table::{Id, Key, Slot, Table, mix};

/// Room for one port's counts.
pub type PortSlot = Slot<Port, Members, 0>;

/// Connections of one port at most.
pub(super) const EACH_PORT: usize = 8;

/// Connections that have [`EACH_PORT`] places together; opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Those of somebody known: an identity has fewer.
    Known(LinkAddr),
    /// Those that match, in other identities of this GID.
    Of(Gid),
    /// Those that do not, at this LID.
    At(u16),
}

/// The identities of a port's connections, one entry for each connection; opaque.
#[derive(Clone, Copy, Debug, Default)]
pub struct Members {
    each: [Option<Id>; EACH_PORT],
    draining: u32,
}

/// What is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) held: u32,
    pub(super) draining: u32,
}

/// The counts; `P` is the memory for those of ports.
#[derive(Debug)]
pub(super) struct Tally<P> {
    all: Count,
    /// Those that are looked at because room is short everywhere.
    marked: u32,
    ports: Table<Port, Members, P, 0>,
}

impl Port {
    pub(super) fn new(identity: LinkAddr, lid: u16, check: LidCheck) -> Self {
        Self(match check {
            LidCheck::Known => Kind::Known(identity),
            LidCheck::Matches => Kind::Of(identity.gid()),
            LidCheck::Unknown | LidCheck::Differs => Kind::At(lid),
        })
    }
}

impl Key for Port {
    fn hash(&self, seed: u64) -> u64 {
        match self.0 {
            Kind::Known(identity) => identity.hash(seed),
            Kind::Of(gid) => mix(mix(mix(seed, 1), gid.prefix), gid.guid),
            Kind::At(lid) => mix(mix(seed, 2), lid.into()),
        }
    }
}

impl Count {
    pub(super) fn add(&mut self, one: &Accepted) {
        self.held += 1;
        self.draining += u32::from(one.is_draining());
    }

    fn take(&mut self, one: &Accepted) {
        self.held = self.held.saturating_sub(1);
        self.draining = self.draining.saturating_sub(u32::from(one.is_draining()));
    }

    /// Nobody has to give way where somebody goes already.
    pub(super) fn is_short(&self, most: u32) -> bool {
        self.held >= most && self.draining == 0
    }
}

impl<P: DerefMut<Target = [PortSlot]>> Tally<P> {
    /// Of nothing. There is room for as many ports as places, which are as many as there may be connections.
    pub(super) fn new(ports: P, seed: u64) -> Self {
        Self { all: Count::default(), marked: 0, ports: Table::new(ports, seed) }
    }

    pub(super) fn all(&self) -> Count {
        self.all
    }

    pub(super) fn marked(&self) -> u32 {
        self.marked
    }

    pub(super) fn of_port(&self, port: &Port) -> Count {
        let members = self.members(port);
        Count { held: members.each.iter().flatten().count() as u32, draining: members.draining }
    }

    /// The identities that have connections of this port; one may come twice.
    pub(super) fn members(&self, port: &Port) -> Members {
        self.ports.find(port).and_then(|at| self.ports.get(at)).copied().unwrap_or_default()
    }

    /// A connection of the identity at `id` is there, or is there in another state.
    pub(super) fn add(&mut self, id: Id, identity: LinkAddr, one: &Accepted) {
        self.all.add(one);
        self.marked += u32::from(one.is_marked_everywhere());
        let port = Port::new(identity, one.lid, one.check);
        let at = self.ports.find(&port).or_else(|| self.ports.insert(port, Members::default()));
        let Some(members) = at.and_then(|at| self.ports.get_mut(at)) else { return };
        members.draining += u32::from(one.is_draining());
        if let Some(free) = members.each.iter_mut().find(|place| place.is_none()) {
            *free = Some(id);
        }
    }

    /// It is gone, or was there in this state.
    pub(super) fn take(&mut self, id: Id, identity: LinkAddr, one: &Accepted) {
        self.all.take(one);
        self.marked = self.marked.saturating_sub(u32::from(one.is_marked_everywhere()));
        let at = self.ports.find(&Port::new(identity, one.lid, one.check));
        let Some((at, members)) = at.and_then(|at| Some((at, self.ports.get_mut(at)?))) else { return };
        members.draining = members.draining.saturating_sub(u32::from(one.is_draining()));
        if let Some(place) = members.each.iter_mut().find(|place| **place == Some(id)) {
            *place = None;
        }
        if members.is_empty() {
            self.ports.remove(at);
        }
    }

    #[cfg(test)]
    pub(super) fn visits(&self) -> usize {
        self.ports.visits()
    }
}

impl Members {
    pub(super) fn all(self) -> impl Iterator<Item = Id> {
        self.each.into_iter().flatten()
    }

    fn is_empty(&self) -> bool {
        self.each.iter().all(Option::is_none)
    }
}
