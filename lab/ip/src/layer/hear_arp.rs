//! What packets of ARP do, as in illumos's `arp_process_packet`.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::{IpLink, SAP_ARP, SAP_IPV4};
use crate::arp::{Arp, Operation};
use crate::dad::Standing;

impl IpLink {
    pub(super) fn receive_arp(&mut self, now: Duration, payload: &[u8]) {
        let heard = Arp::parse(payload).filter(|arp| !arp.is_martian() && !self.is_broadcast(arp.sender.0));
        match heard {
            Some(arp) if !self.is_own_place(arp.sender.1) => self.hear_arp(now, &arp),
            _ => self.counters.ignored += 1,
        }
    }

    fn hear_arp(&mut self, now: Duration, arp: &Arp) {
        let standing = |link: &Self, ip: Ipv4Addr| {
            link.dad.standing(&ip.into()).filter(|standing| *standing != Standing::Duplicate)
        };
        let (sender, place) = arp.sender;
        let is_probe = sender.is_unspecified();
        if standing(self, sender).is_some() {
            return self.claimed(now, sender.into(), Some(place));
        }
        let target = standing(self, arp.target.0);
        let for_us = target == Some(Standing::Good);
        if !is_probe {
            let waiting = self.neighbours.heard_arp(now, (sender.into(), place), arp.operation, for_us);
            self.push(place, SAP_IPV4, waiting);
        }
        match target {
            Some(Standing::Good) if arp.operation == Operation::Request => {
                // Who probes has no address yet: all are told.
                let to = if is_probe { self.info.broadcast } else { place };
                let reply = arp.reply((arp.target.0, self.info.own)).emit().to_vec();
                self.push(to, SAP_ARP, [reply.into()]);
            }
            Some(Standing::Tentative) if is_probe || arp.answers_for_target(self.info.own) => {
                self.claimed(now, arp.target.0.into(), Some(place));
            }
            _ => {}
        }
    }

    /// Whether it is the address of all hosts.
    fn is_broadcast(&self, ip: Ipv4Addr) -> bool {
        ip.is_broadcast() || self.is_subnet_broadcast(ip)
    }
}
