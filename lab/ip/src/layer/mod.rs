//! IP over one IPoIB link: address resolution, group mapping, and which frame carries which packet.
//!
//! Below smoltcp ([`super::stack`]) or a TUN device: IP packets go in and come out.

mod addresses;
mod frame;
mod hear_arp;
mod hear_nd;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use smoltcp::wire::{IpCidr, Ipv4Packet, Ipv6Packet};

use super::announce::Announcements;
use super::arp::Arp;
use super::dad::Dad;
use super::defence::{Defence, Notice};
use super::dhcp::Client;
use super::link_addr::LinkAddr;
use super::nd::{self, Nd};
use super::neighbours::{Lookup, Neighbours, Question};
use super::routers::Routers;
pub use frame::{Counters, Frame, LinkInfo, Packet, SAP_ARP, SAP_IPV4, SAP_IPV6, Wanted};

/// illumos has this length for the link-local prefix.
pub const LINK_LOCAL_PREFIX: u8 = 10;
/// Every host that hears IPv4 groups is in it (RFC 1112).
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Lines for the log that wait to be taken; more are dropped.
const NOTICES: usize = 64;

/// See the module's documentation.
#[derive(Debug)]
pub struct IpLink {
    info: LinkInfo,
    /// Those in use, as they are now.
    addresses: Vec<IpCidr>,
    /// Those that the interface shall have; `addresses` are the good ones of them.
    dad: Dad,
    defence: Defence,
    /// Other links of the host that serve the same addresses: what comes from there is no claim.
    siblings: BTreeSet<LinkAddr>,
    wanted: Wanted,
    dhcp: Option<Client>,
    up: bool,
    /// Packets go down as they are: somebody else knows their next hops.
    delegated: bool,
    groups: BTreeSet<IpAddr>,
    neighbours: Neighbours<Packet>,
    routers: Routers,
    announcements: Announcements,
    notices: VecDeque<Notice>,
    out: VecDeque<Frame>,
    counters: Counters,
}

impl IpLink {
    /// On such a link, which is down, with addresses that need no test for duplicates.
    pub fn new(info: LinkInfo, addresses: Vec<IpCidr>) -> Self {
        let mut link = Self {
            info,
            wanted: Wanted { fixed: addresses, ..Wanted::default() },
            addresses: Vec::new(),
            dad: Dad::trusting(),
            defence: Defence::default(),
            siblings: BTreeSet::new(),
            dhcp: None,
            up: false,
            delegated: false,
            groups: BTreeSet::new(),
            neighbours: Neighbours::default(),
            routers: Routers::default(),
            announcements: Announcements::default(),
            notices: VecDeque::new(),
            out: VecDeque::new(),
            counters: Counters::default(),
        };
        link.refresh();
        link
    }

    /// The link as it was when it last came up or changed.
    pub fn info(&self) -> LinkInfo {
        self.info
    }

    /// The same, and an address is used once nobody has answered for it.
    #[must_use]
    pub fn probing(mut self) -> Self {
        self.dad = Dad::default();
        self.refresh();
        self
    }

    /// The same of a group's interface, whose members resolve next hops: its packets go down as they are.
    pub fn delegated(info: LinkInfo) -> Self {
        Self { delegated: true, ..Self::new(info, Vec::new()) }
    }

    /// The link addresses of the host's other links that serve the same addresses.
    pub fn set_siblings(&mut self, siblings: BTreeSet<LinkAddr>) {
        self.siblings = siblings;
    }

    /// The groups this interface hears, and where each is on the link.
    pub fn mappings(&self) -> impl Iterator<Item = (IpAddr, LinkAddr)> {
        let mut groups = self.groups.clone();
        // Answers to probes come by groups as well.
        let probed = self.dad.addresses();
        let used = self.addresses.iter().map(|cidr| IpAddr::from(cidr.address()));
        for address in used.chain(probed) {
            match address {
                IpAddr::V4(_) => groups.extend([IpAddr::from(ALL_HOSTS)]),
                IpAddr::V6(ip) => groups.extend([nd::ALL_NODES, nd::solicited_node(ip)].map(IpAddr::from)),
            }
        }
        groups.into_iter().map(|group| (group, self.group_addr(group)))
    }

    /// Addresses in use now.
    pub fn addresses(&self) -> &[IpCidr] {
        &self.addresses
    }

    /// Who is known on the link.
    pub fn neighbours(&self) -> &Neighbours<Packet> {
        &self.neighbours
    }

    /// What has passed since the interface was made.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Groups that applications hear.
    pub fn groups(&self) -> &BTreeSet<IpAddr> {
        &self.groups
    }

    /// An application hears this group from now on.
    pub fn join(&mut self, group: IpAddr) {
        self.groups.insert(group);
    }

    /// No application hears it any more.
    pub fn leave(&mut self, group: IpAddr) {
        self.groups.remove(&group);
    }

    /// The link-layer groups that must be enabled at the link now: own, all-hosts, all-nodes, solicited-node.
    pub fn link_groups(&self) -> BTreeSet<LinkAddr> {
        self.mappings().map(|(_, place)| place).collect()
    }

    /// A frame came up from the link. The IP packet in it, if it is not for address resolution.
    pub fn receive(&mut self, now: Duration, sap: u16, payload: Vec<u8>) -> Option<Vec<u8>> {
        self.counters.received += 1;
        let version = match sap {
            SAP_ARP => {
                self.counters.resolution += 1;
                self.receive_arp(now, &payload);
                return None;
            }
            SAP_IPV4 => 4,
            SAP_IPV6 => 6,
            _ => {
                self.counters.unknown_sap += 1;
                return None;
            }
        };
        if payload.first().is_none_or(|first| first >> 4 != version) {
            self.counters.wrong_version += 1;
            return None;
        }
        if sap == SAP_IPV4 {
            return self.receive_dhcp(now, payload);
        }
        if nd::is_nd(&payload) {
            self.counters.resolution += 1;
            self.receive_nd(now, &payload);
            return None;
        }
        Some(payload)
    }

    /// Sends an IP packet to its destination, which is on the link.
    pub fn send(&mut self, now: Duration, packet: impl Into<Packet>) {
        self.send_by(now, packet.into(), None);
    }

    /// Sends an IP packet to its destination by a neighbour, or if that is none, on the link.
    pub(crate) fn send_by(&mut self, now: Duration, packet: Packet, router: Option<IpAddr>) {
        let Some((sap, dst)) = destination(&packet.bytes) else {
            self.counters.unsendable += 1;
            return;
        };
        if self.delegated {
            self.push(LinkAddr::ZERO, sap, [packet]);
        } else if matches!(dst, IpAddr::V4(ip) if ip.is_broadcast() || self.is_subnet_broadcast(ip)) {
            self.push(self.info.broadcast, sap, [packet]);
        } else if dst.is_multicast() {
            self.push(self.group_addr(dst), sap, [packet]);
        } else {
            self.send_to_neighbour(now, router.unwrap_or(dst), sap, packet);
        }
    }

    fn send_to_neighbour(&mut self, now: Duration, neighbour: IpAddr, sap: u16, packet: Packet) {
        match self.neighbours.lookup(now, neighbour, packet) {
            Lookup::Send(link, packet) => self.push(link, sap, [packet]),
            Lookup::Ask => self.ask(Question { ip: neighbour, at: None }),
            Lookup::Wait => {}
        }
    }

    /// Asks again for neighbours that did not answer, and for an address that is wanted or ends; announces new ones.
    pub fn poll(&mut self, now: Duration) {
        self.poll_dhcp(now);
        self.poll_dad(now);
        for ip in self.announcements.poll(now) {
            self.tell_neighbours(ip);
        }
        for question in self.neighbours.poll(now) {
            self.ask(question);
        }
    }

    /// When `poll` wants to be called if nothing else happens.
    pub fn poll_at(&self) -> Option<Duration> {
        let dhcp = self.dhcp.as_ref().and_then(Client::poll_at);
        let dad = self.is_running().then(|| self.dad.poll_at()).flatten();
        [self.neighbours.next_timeout(), self.announcements.poll_at(), dhcp, dad].into_iter().flatten().min()
    }

    /// It has a carrier and an address of its own.
    fn is_running(&self) -> bool {
        self.up && self.info.own != LinkAddr::ZERO
    }

    /// The next line for the host's log.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn note(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES {
            self.notices.push_back(notice);
        }
    }

    /// The next frame for the link.
    pub fn transmit(&mut self) -> Option<Frame> {
        let frame = self.out.pop_front()?;
        self.counters.transmitted += frame.packets();
        Some(frame)
    }

    /// A packet for the link turned out to be none.
    pub fn count_unsendable(&mut self) {
        self.counters.unsendable += 1;
    }

    fn ipv4s(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.addresses.iter().filter_map(|cidr| match cidr {
            IpCidr::Ipv4(cidr) => Some(cidr.address()),
            IpCidr::Ipv6(_) => None,
        })
    }

    /// The address to ask for another one with: one of its subnet if there is one.
    fn ipv4_for(&self, ip: Ipv4Addr) -> Option<Ipv4Addr> {
        let subnet = self.addresses.iter().find_map(|cidr| match cidr {
            IpCidr::Ipv4(cidr) if cidr.contains_addr(&ip) => Some(cidr.address()),
            _ => None,
        });
        subnet.or_else(|| self.ipv4s().next())
    }

    fn is_subnet_broadcast(&self, ip: Ipv4Addr) -> bool {
        self.addresses.iter().any(|cidr| match cidr {
            IpCidr::Ipv4(cidr) => cidr.broadcast() == Some(ip),
            IpCidr::Ipv6(_) => false,
        })
    }

    fn ask(&mut self, Question { ip, at }: Question) {
        match ip {
            IpAddr::V4(ip) => {
                if let Some(own) = self.ipv4_for(ip) {
                    let request = Arp::request((own, self.info.own), ip).emit().to_vec();
                    self.push(at.unwrap_or(self.info.broadcast), SAP_ARP, [request.into()]);
                }
            }
            IpAddr::V6(ip) => {
                let Some(own) = self.ipv6_for(ip).map(|own| (own, self.info.own)) else { return };
                let question = if at.is_some() { Nd::solicit_itself(own, ip) } else { Nd::solicit(own, ip) };
                let group = || self.group_addr(question.destination.into());
                self.push(at.unwrap_or_else(group), SAP_IPV6, [question.emit().into()]);
            }
        }
    }

    /// The address to ask for another one with: one of its subnet if there is one.
    fn ipv6_for(&self, ip: Ipv6Addr) -> Option<Ipv6Addr> {
        let subnet = self.addresses.iter().find(|cidr| cidr.contains_addr(&ip.into()));
        subnet.and_then(ipv6_of).or_else(|| self.addresses.iter().find_map(ipv6_of))
    }

    /// Tells the neighbours our link address from now on, for every address.
    fn announce(&mut self) {
        self.announcements.begin(self.addresses.iter().map(|cidr| IpAddr::from(cidr.address())));
    }

    /// A gratuitous request for an IPv4 address, an advertisement for an IPv6 address.
    fn tell_neighbours(&mut self, own: IpAddr) {
        match own {
            IpAddr::V4(own) => {
                let request = Arp::request((own, self.info.own), own).emit().to_vec();
                self.push(self.info.broadcast, SAP_ARP, [request.into()]);
            }
            IpAddr::V6(own) => {
                let advert = Nd::announce((own, self.info.own), false);
                self.push(self.group_addr(nd::ALL_NODES.into()), SAP_IPV6, [advert.emit().into()]);
            }
        }
    }

    fn group_addr(&self, group: IpAddr) -> LinkAddr {
        match group {
            IpAddr::V4(group) => LinkAddr::ipv4_group(&self.info.broadcast, group),
            IpAddr::V6(group) => LinkAddr::ipv6_group(&self.info.broadcast, group),
        }
    }

    fn push(&mut self, dst: LinkAddr, sap: u16, packets: impl IntoIterator<Item = Packet>) {
        let frame = |packet: Packet| Frame { dst, sap, payload: packet.bytes, offload: packet.offload };
        self.out.extend(packets.into_iter().map(frame));
    }
}

fn ipv6_of(cidr: &IpCidr) -> Option<Ipv6Addr> {
    match cidr {
        IpCidr::Ipv6(cidr) => Some(cidr.address()),
        IpCidr::Ipv4(_) => None,
    }
}

/// SAP and destination of an IP packet; `None` for what is too short to have them.
fn destination(packet: &[u8]) -> Option<(u16, IpAddr)> {
    match packet.first()? >> 4 {
        4 => Some((SAP_IPV4, IpAddr::V4(Ipv4Packet::new_checked(packet).ok()?.dst_addr()))),
        6 => Some((SAP_IPV6, IpAddr::V6(Ipv6Packet::new_checked(packet).ok()?.dst_addr()))),
        _ => None,
    }
}
