//! What packets of neighbour discovery do, as in illumos's `ndp_input`.

use std::net::IpAddr;
use std::time::Duration;

use super::{IpLink, SAP_IPV6, ipv6_of};
use crate::dad::Standing;
use crate::nd::{Kind, Nd};
use crate::neighbours::Flags;
use crate::routers::Message;

impl IpLink {
    pub(super) fn receive_nd(&mut self, now: Duration, payload: &[u8]) {
        let for_us = |nd: &Nd| nd.destination.is_multicast() || self.standing_of(nd.destination).is_some();
        let Some(nd) = Nd::parse(payload).filter(for_us) else {
            self.counters.ignored += 1;
            return;
        };
        match nd.kind {
            Kind::Solicit => self.hear_solicitation(now, &nd),
            Kind::Advert(flags) => self.hear_advert(now, &nd, flags),
        }
    }

    /// Follows a message of a router; false if the packet is none, or not one to be believed.
    pub fn hear_router(&mut self, now: Duration, packet: &[u8]) -> bool {
        let message =
            Message::parse(packet).filter(|_| self.addresses.iter().any(|cidr| ipv6_of(cidr).is_some()));
        let Some(message) = message else { return false };
        if !self.routers.hear(now, &message) {
            self.counters.ignored += 1;
            return false;
        }
        let told = match message {
            Message::Advertisement { router, link, .. } => Some((router, true)).zip(link),
            Message::Redirect { target, destination, link, .. } => {
                Some((target, target != destination)).zip(link)
            }
        };
        if let Some(((ip, is_router), link)) = told {
            let waiting = self.neighbours.told_by_router(now, ip.into(), link, is_router);
            self.push(link, SAP_IPV6, waiting);
        }
        true
    }

    /// The neighbour that packets to a destination of no subnet of ours go to, as routers have said.
    pub fn first_hop(&self, now: Duration, destination: IpAddr) -> Option<IpAddr> {
        match destination {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => self.routers.first_hop(now, ip).map(IpAddr::from),
        }
    }

    /// Of an address that is tentative or in use.
    fn standing_of(&self, ip: impl Into<IpAddr>) -> Option<Standing> {
        self.dad.standing(&ip.into()).filter(|standing| *standing != Standing::Duplicate)
    }

    fn hear_solicitation(&mut self, now: Duration, nd: &Nd) {
        let is_probe = nd.source.is_unspecified();
        match self.standing_of(nd.target) {
            Some(Standing::Tentative) if is_probe => self.claimed(now, nd.target.into(), None),
            Some(Standing::Good) if is_probe || self.standing_of(nd.source).is_none() => {
                if let Some(link) = nd.link.filter(|_| !is_probe) {
                    let waiting = self.neighbours.solicited(now, nd.source.into(), link);
                    self.push(link, SAP_IPV6, waiting);
                }
                let advert = nd.advert((nd.target, self.info.own), false);
                self.send(now, advert.emit());
            }
            _ => self.counters.ignored += 1,
        }
    }

    fn hear_advert(&mut self, now: Duration, nd: &Nd, flags: Flags) {
        if self.standing_of(nd.target).is_some() {
            if !nd.link.is_some_and(|place| self.is_own_place(place)) {
                self.claimed(now, nd.target.into(), nd.link);
            }
            return;
        }
        let (waiting, ceases) = self.neighbours.advertised(now, nd.target.into(), nd.link, flags);
        if ceases {
            self.routers.forget(&nd.target);
        }
        if let Some(link) = self.neighbours.get(&nd.target.into()) {
            self.push(link, SAP_IPV6, waiting);
        }
    }
}
