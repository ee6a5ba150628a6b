//! The addresses of an interface: which it shall have, which it has, and what it does for them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use smoltcp::wire::IpCidr;

use super::{IpLink, LINK_LOCAL_PREFIX, LinkInfo, SAP_ARP, SAP_IPV6, Wanted};
use crate::arp::Arp;
use crate::dad::Standing;
use crate::defence::Notice;
use crate::dhcp::{self, Client, ClientId, Lease};
use crate::link_addr::LinkAddr;
use crate::nd::Nd;

impl IpLink {
    /// The link has this address and size now. Neighbours are told if the address is new.
    pub fn set_info(&mut self, info: LinkInfo) {
        let announce = info.own != self.info.own;
        self.info = info;
        let new = self.refresh();
        if announce || new {
            self.announce();
        }
    }

    /// How an address is that the interface shall have.
    pub fn standing(&self, address: IpAddr) -> Standing {
        self.dad.standing(&address).unwrap_or(if self.dad.is_trusting() {
            Standing::Good
        } else {
            Standing::Tentative
        })
    }

    /// The link has told an address, be it a new one or not: illumos's IP takes the interface's addresses down, with the groups
    /// that are theirs and everybody it knew on the link (`ill_set_phys_addr` in `ip_if.c`). They come up by
    /// [`IpLink::set_info`], are probed for again where that is done, and neighbours hear of them.
    pub fn take_down(&mut self) {
        self.addresses.clear();
        self.announcements.keep(|_| false);
        self.dad.clear();
        self.forget();
    }

    /// Drops what waits to go out, and whom it knows.
    pub fn forget(&mut self) {
        self.out.clear();
        self.neighbours.clear();
    }

    /// Whether the link has a carrier, as far as it has said. Neighbours are told when it comes, as by illumos (`ill_restart_dad`): what
    /// they were told before nobody heard.
    pub fn set_up(&mut self, up: bool) {
        let comes = up && !self.up;
        self.up = up;
        if comes && self.info.own != LinkAddr::ZERO {
            self.announce();
        }
    }

    /// Replaces the interface's addresses. Those that are made of the link's address or given by a server come when they can.
    /// Neighbours hear of new ones.
    pub fn set_addresses(&mut self, wanted: Wanted) {
        match wanted.dhcp {
            None => self.dhcp = None,
            Some(seed) => drop(self.dhcp.get_or_insert_with(|| Client::new(seed))),
        }
        self.wanted = wanted;
        self.refresh_and_announce();
    }

    fn refresh_and_announce(&mut self) {
        if self.refresh() && self.info.own != LinkAddr::ZERO {
            self.announce();
        }
    }

    /// Makes `addresses` what it should be; true if one is new. The link-local address stays while the link has none to make
    /// it of.
    pub(super) fn refresh(&mut self) -> bool {
        let made = match (self.wanted.link_local, self.info.own) {
            (false, _) => None,
            (true, LinkAddr::ZERO) => self.addresses.iter().copied().find(is_link_local),
            (true, own) => Some(IpCidr::new(own.link_local().into(), LINK_LOCAL_PREFIX)),
        };
        let leased = self.lease().map(|lease| IpCidr::Ipv4(lease.address));
        let mut addresses: Vec<IpCidr> =
            self.wanted.fixed.iter().copied().chain(made).chain(leased).collect();
        let wanted: Vec<IpAddr> = addresses.iter().map(|cidr| cidr.address().into()).collect();
        self.dad.want(&wanted);
        addresses.retain(|cidr| self.dad.standing(&cidr.address().into()) == Some(Standing::Good));
        let new = addresses.iter().any(|address| !self.addresses.contains(address));
        self.addresses = addresses;
        let has = |ip: &IpAddr| self.addresses.iter().any(|cidr| IpAddr::from(cidr.address()) == *ip);
        self.announcements.keep(has);
        self.defence.keep(has);
        new
    }

    /// What a DHCP server has given.
    pub fn lease(&self) -> Option<Lease> {
        self.dhcp.as_ref()?.lease()
    }

    /// Gives the lease back; the server that is told so. The address stays until [`IpLink::set_addresses`] takes it away, as the
    /// message may still wait for the server's link address ([`IpLink::is_asking`]).
    pub fn release(&mut self, now: Duration) -> Option<Ipv4Addr> {
        let client = self.dhcp.as_mut()?;
        let server = client.release();
        while let Some(packet) = self.dhcp.as_mut().and_then(Client::transmit) {
            self.send(now, packet);
        }
        server
    }

    /// Does something wait for the link address of `ip`?
    pub fn is_asking(&self, ip: IpAddr) -> bool {
        self.neighbours.is_asking(&ip)
    }

    pub(super) fn poll_dhcp(&mut self, now: Duration) {
        let Some(client) = self.dhcp.as_mut() else { return };
        let known = self.up && self.info.own != LinkAddr::ZERO;
        client.set_link(now, known.then(|| ClientId::of(&self.info.own)));
        client.poll(now);
        while let Some(packet) = self.dhcp.as_mut().and_then(Client::transmit) {
            self.send(now, packet);
        }
        self.refresh_and_announce();
    }

    /// Probes for addresses that are not known to be ours alone, and uses those that are.
    pub(super) fn poll_dad(&mut self, now: Duration) {
        if !self.is_running() {
            return;
        }
        let due = self.dad.poll(now);
        for address in due.probes {
            match address {
                IpAddr::V4(ip) => {
                    let probe = Arp::probe(self.info.own, ip).emit().to_vec();
                    self.push(self.info.broadcast, SAP_ARP, [probe.into()]);
                }
                IpAddr::V6(ip) => {
                    let probe = Nd::probe(ip);
                    self.push(self.group_addr(probe.destination.into()), SAP_IPV6, [probe.emit().into()]);
                }
            }
        }
        for address in due.recovered {
            self.note(Notice::Recovered(address));
        }
        self.refresh_and_announce();
    }

    /// Whether a message comes from this host.
    pub(super) fn is_own_place(&self, place: LinkAddr) -> bool {
        place == self.info.own || self.siblings.contains(&place)
    }

    /// Somebody at another place says that it has this address of ours, which is tentative or in use.
    pub(super) fn claimed(&mut self, now: Duration, address: IpAddr, place: Option<LinkAddr>) {
        let leased = self.lease().is_some_and(|lease| IpAddr::from(lease.address.address()) == address);
        if self.standing(address) == Standing::Good && self.defence.claimed(now, address, leased) {
            self.note(match (address, place) {
                (IpAddr::V4(_), Some(place)) => Notice::Claimed(address, place),
                _ => Notice::Advertised(address, place),
            });
            if address.is_ipv4() {
                self.announcements.stop(&address);
            }
            self.announcements.once_more(address);
        } else {
            self.give_up(now, address, place, leased);
        }
    }

    fn give_up(&mut self, now: Duration, address: IpAddr, place: Option<LinkAddr>, leased: bool) {
        if self.dad.fail(now, &address) {
            self.note(Notice::Duplicate(address, place));
        }
        if let Some(client) = self.dhcp.as_mut().filter(|_| leased) {
            client.decline(now);
            self.poll_dhcp(now);
        }
        self.refresh();
    }

    /// Gives a DHCP server's answer to the client; other packets come back.
    pub(super) fn receive_dhcp(&mut self, now: Duration, packet: Vec<u8>) -> Option<Vec<u8>> {
        let Some((client, message)) = self.dhcp.as_mut().zip(dhcp::for_client(&packet)) else {
            return Some(packet);
        };
        client.receive(now, message);
        self.poll_dhcp(now);
        None
    }
}

fn is_link_local(cidr: &IpCidr) -> bool {
    matches!(cidr, IpCidr::Ipv6(cidr) if cidr.address().is_unicast_link_local())
}
