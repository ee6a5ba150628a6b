//! The other side of a router: what the administrator of one subnet knows of another one.
//!
//! In a real fabric the routers' own management makes two subnets known to one another, which the architecture leaves to their makers. Here
//! the owner of both subnets does ([`crate::Sm::set_beyond`], [`crate::Sm::set_routed`]), by what each administrator says of itself.

use std::collections::BTreeMap;

use super::groups::Member;
use super::{Endport, Query, Sa};
use crate::partition::SCOPE_LINK_LOCAL;
use crate::records::{McMemberRecord, PathRecord, mc_member_mask as mask};
use crate::types::{Gid, Guid, JoinState, Nanos};

/// OpenSM's hop limit of a path through a router (`IB_HOPLIMIT_MAX`).
const HOP_LIMIT: u8 = 255;
/// What a group of IPoIB has in common with the broadcast group that it follows.
const AS_BROADCAST: u64 =
    mask::Q_KEY | mask::P_KEY | mask::T_CLASS | mask::SL | mask::FLOW_LABEL | mask::HOP_LIMIT;

/// Another subnet, behind a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The router's port in this subnet.
    pub router: Guid,
    /// The router's port there.
    pub far: Endport,
    /// Of GIDs there.
    pub prefix: u64,
    /// The ports there.
    pub ports: BTreeMap<Guid, Endport>,
}

impl Sa {
    /// Another subnet is behind a router from now on, or none.
    pub(crate) fn set_beyond(&mut self, beyond: Option<Beyond>) {
        self.beyond = beyond;
    }

    /// The subnet behind a router.
    pub const fn beyond(&self) -> Option<&Beyond> {
        self.beyond.as_ref()
    }

    /// This subnet, as another one behind `router` sees it; `far` is the router's port there, which must know of both.
    pub fn seen_from_beyond(&self, router: Guid, far: Guid) -> Option<Beyond> {
        let here = self.ports.get(&router)?.clone();
        Some(Beyond { router: far, far: here, prefix: self.config.prefix, ports: self.ports.clone() })
    }

    /// The groups of a wider scope than the link's in which another port than `router` hears something.
    pub fn groups_heard_beside(&self, router: Guid) -> Vec<McMemberRecord> {
        let hears = |member: &Member| member.join_state.intersects(JoinState::FULL.union(JoinState::NON));
        let wide = self.groups.iter().filter(|group| group.record.mgid.scope() > SCOPE_LINK_LOCAL);
        let heard =
            wide.filter(|group| group.members.iter().any(|(port, member)| *port != router && hears(member)));
        heard.map(|group| group.record).collect()
    }

    /// Has the router's port in the groups that are `heard_there`, as a full member, in the groups that others hear here, to send to, and in
    /// no other. Whether that has changed anything. Nothing is `heard_there` and here while the router leads nowhere: `None`.
    pub(crate) fn set_routed(
        &mut self,
        now: Nanos,
        router: Guid,
        heard_there: Option<&[McMemberRecord]>,
    ) -> bool {
        let mut wanted = BTreeMap::new();
        if let Some(heard_there) = heard_there {
            let here = self.groups_heard_beside(router);
            wanted.extend(here.into_iter().map(|record| (record.mgid, (record, JoinState::SEND_ONLY_NON))));
            wanted.extend(heard_there.iter().map(|record| (record.mgid, (*record, JoinState::FULL))));
        }
        let mut changed = false;
        for mgid in self.groups.of_port(router) {
            let state = wanted.get(&mgid).map_or(JoinState::NONE, |(_, state)| *state);
            let more = self.router_is(mgid, router).without(state);
            if !more.is_empty() {
                self.depart(now, mgid, router, more);
                changed = true;
            }
        }
        for (mgid, (record, state)) in wanted {
            let is = self.router_is(mgid, router).contains(state);
            changed |= !is && self.join_router(now, router, &McMemberRecord { join_state: state, ..record });
        }
        changed
    }

    fn router_is(&self, mgid: Gid, router: Guid) -> JoinState {
        let member = self.groups.get(mgid).and_then(|group| group.members.get(&router));
        member.map_or(JoinState::NONE, |member| member.join_state)
    }

    /// In the join state of the record, in a group like that of the other subnet if there is none.
    fn join_router(&mut self, now: Nanos, router: Guid, there: &McMemberRecord) -> bool {
        let Some(port) = self.ports.get(&router) else { return false };
        let may = port.holds(there.p_key)
            && port.mtu().0 >= there.mtu.value
            && port.rate().cmp_speed(crate::RateCode(there.rate.value)).is_ge();
        let asked = McMemberRecord { port_gid: port.gid(self.config.prefix), proxy_join: false, ..*there };
        if !may {
            return false;
        }
        let group = match self.groups.get(there.mgid).map(|group| group.record) {
            Some(group) => group,
            None => {
                let Some(mlid) = self.groups.free_mlid(there.mlid) else { return false };
                if self.check_mgid(AS_BROADCAST, &asked).is_err() {
                    return false;
                }
                let group = McMemberRecord { mlid, ..asked };
                self.groups.insert(group);
                group
            }
        };
        self.enter(now, &group, router, &asked, false).is_ok()
    }

    /// Whether a GID is one of the subnet behind the router.
    pub(super) fn is_beyond(&self, gid: Gid) -> bool {
        self.beyond
            .as_ref()
            .is_some_and(|beyond| gid.prefix == beyond.prefix && gid.prefix != self.config.prefix)
    }

    /// The path from `source` to a port behind the router: to the router, as wide and fast as the narrowest and slowest link on the way.
    pub(super) fn path_beyond(
        &self,
        query: &Query<'_>,
        source: &Endport,
        requester: &Endport,
    ) -> Vec<PathRecord> {
        let Some(beyond) = &self.beyond else { return Vec::new() };
        let ends = (self.ports.get(&beyond.router), beyond.ports.get(&Guid(query.asked.dgid.guid)));
        let (Some(router), Some(destination)) = ends else { return Vec::new() };
        if destination.guid() == beyond.far.guid() || !super::path::may_meet(requester, source, destination) {
            return Vec::new();
        }
        let way = narrowed(destination, [router, &beyond.far]);
        let paths = self.between(query, source, &at(&way, router)).into_iter();
        paths.map(|path| PathRecord { dgid: query.asked.dgid, hop_limit: HOP_LIMIT, ..path }).collect()
    }
}

/// The port, with a link that is no wider and no faster than the others.
fn narrowed(port: &Endport, others: [&Endport; 2]) -> Endport {
    others.into_iter().fold(port.clone(), |mut way, other| {
        way.info.neighbor_mtu = way.mtu().min(other.mtu());
        if other.rate().cmp_speed(way.rate()).is_lt() {
            way.info.link_width_active = other.info.link_width_active;
            way.info.link_speed_active = other.info.link_speed_active;
            way.info.link_speed_ext_active = other.info.link_speed_ext_active;
            way.info.capability_mask = other.info.capability_mask;
        }
        way
    })
}

/// The port, at the LIDs of the router.
fn at(port: &Endport, router: &Endport) -> Endport {
    let mut there = port.clone();
    (there.info.lid, there.info.m_key_protect_lmc) = (router.info.lid, router.info.m_key_protect_lmc);
    there
}
