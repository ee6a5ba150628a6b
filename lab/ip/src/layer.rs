//! IP over one IPoIB link: address resolution, group mapping, and which frame carries which packet.
//!
//! Below smoltcp ([`super::stack`]) or a TUN device: IP packets go in and come out.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use lab_gldv3::{Offload, OffloadCapability};
use smoltcp::wire::{IpCidr, Ipv4Packet, Ipv6Packet};

use super::announce::Announcements;
use super::arp::{Arp, Operation};
use super::dad::{Dad, Standing};
use super::dhcp::{self, Client, ClientId, Lease};
use super::link_addr::LinkAddr;
use super::nd::{self, Kind, Nd};
use super::neighbours::{Lookup, Neighbours};

/// Ethertype of IPv4.
pub const SAP_IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const SAP_ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const SAP_IPV6: u16 = 0x86dd;

/// illumos has this length for the link-local prefix.
pub const LINK_LOCAL_PREFIX: u8 = 10;
/// Every host that hears IPv4 groups is in it (RFC 1112).
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// A packet for the link: destination address, SAP (Ethertype), and what comes behind the link's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it goes, or where it was sent to.
    pub dst: LinkAddr,
    /// Ethertype, host byte order.
    pub sap: u16,
    /// What comes behind the link's header.
    pub payload: Vec<u8>,
    /// What the link is to compute.
    pub offload: Offload,
}

/// An IP packet to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The packet, from its IP header on.
    pub bytes: Vec<u8>,
    /// What the link is to compute.
    pub offload: Offload,
}

impl From<Vec<u8>> for Packet {
    /// A packet that is complete.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, offload: Offload::default() }
    }
}

impl Frame {
    /// How many packets it is on the wire; a large send is TCP over IPv4.
    fn packets(&self) -> u64 {
        let Some(mss) = self.offload.large_send else { return 1 };
        let header = |at: usize, nibble: u32| {
            self.payload.get(at).map_or(0, |byte| usize::from(byte >> nibble & 0xf) * 4)
        };
        let ip = header(0, 0);
        let data = self.payload.len().saturating_sub(ip + header(ip + 12, 4));
        data.div_ceil(usize::from(mss).max(1)).max(1) as u64
    }
}

/// What the link says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The link's own address.
    pub own: LinkAddr,
    /// With scope and P_Key as the link announces it (zero).
    pub broadcast: LinkAddr,
    /// Largest IP packet in bytes.
    pub sdu: usize,
    /// What it computes for those who send.
    pub offload: OffloadCapability,
}

/// Which addresses an interface is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Those that an administrator has given.
    pub fixed: Vec<IpCidr>,
    /// The one that is made of the link's address.
    pub link_local: bool,
    /// The one that a DHCP server gives; the seed of its client.
    pub dhcp: Option<u64>,
}

/// Frames that passed this layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All that the link handed up.
    pub received: u64,
    /// As the link counts them: a large send as the packets it becomes.
    pub transmitted: u64,
    /// Of those received: ARP and ND packets, consumed here.
    pub resolution: u64,
    /// Of those received: with a SAP that nobody wants.
    pub unknown_sap: u64,
    /// Of those for address resolution: with content that changes nothing.
    pub ignored: u64,
    /// Packets that were to go out and have no destination.
    pub unsendable: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct IpLink {
    info: LinkInfo,
    /// Those in use, as they are now.
    addresses: Vec<IpCidr>,
    /// Those that nobody else must have, if that is looked after; `addresses` are the good ones of them.
    dad: Option<Dad>,
    wanted: Wanted,
    dhcp: Option<Client>,
    up: bool,
    /// Packets go down as they are: somebody else knows their next hops.
    delegated: bool,
    groups: BTreeSet<IpAddr>,
    neighbours: Neighbours<Packet>,
    announcements: Announcements,
    out: VecDeque<Frame>,
    counters: Counters,
}

impl IpLink {
    /// On such a link, which is down, with addresses that need no test for duplicates.
    pub fn new(info: LinkInfo, addresses: Vec<IpCidr>) -> Self {
        Self {
            info,
            wanted: Wanted { fixed: addresses.clone(), ..Wanted::default() },
            addresses,
            dad: None,
            dhcp: None,
            up: false,
            delegated: false,
            groups: BTreeSet::new(),
            neighbours: Neighbours::default(),
            announcements: Announcements::default(),
            out: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The link has this address and size now. Neighbours are told if the address is new.
    pub fn set_info(&mut self, info: LinkInfo) {
        let announce = info.own != self.info.own;
        self.info = info;
        let new = self.refresh();
        if announce || new {
            self.announce();
        }
    }

    /// The link as it was when it last came up or changed.
    pub fn info(&self) -> LinkInfo {
        self.info
    }

    /// The same, and an address is used once nobody has answered for it.
    #[must_use]
    pub fn probing(self) -> Self {
        Self { dad: Some(Dad::default()), ..self }
    }

    /// How an address is that the interface shall have. Without probes every address is good.
    pub fn standing(&self, address: IpAddr) -> Standing {
        let tentative = |dad: &Dad| dad.standing(&address).unwrap_or(Standing::Tentative);
        self.dad.as_ref().map_or(Standing::Good, tentative)
    }

    /// The same of a group's interface, whose members resolve next hops: its packets go down as they are.
    pub fn delegated(info: LinkInfo) -> Self {
        Self { delegated: true, ..Self::new(info, Vec::new()) }
    }

    /// The link has told an address, be it a new one or not: illumos's IP takes the interface's addresses down, with the groups
    /// that are theirs and everybody it knew on the link (`ill_set_phys_addr` in `ip_if.c`). They come up by
    /// [`IpLink::set_info`], are probed for again where that is done, and neighbours hear of them.
    pub fn take_down(&mut self) {
        self.addresses.clear();
        self.announcements.keep(|_| false);
        if let Some(dad) = &mut self.dad {
            *dad = Dad::default();
        }
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
    fn refresh(&mut self) -> bool {
        let made = match (self.wanted.link_local, self.info.own) {
            (false, _) => None,
            (true, LinkAddr::ZERO) => self.addresses.iter().copied().find(is_link_local),
            (true, own) => Some(IpCidr::new(own.link_local().into(), LINK_LOCAL_PREFIX)),
        };
        let leased = self.lease().map(|lease| IpCidr::Ipv4(lease.address));
        let mut addresses: Vec<IpCidr> =
            self.wanted.fixed.iter().copied().chain(made).chain(leased).collect();
        if let Some(dad) = &mut self.dad {
            let wanted: Vec<IpAddr> = addresses.iter().map(|cidr| cidr.address().into()).collect();
            dad.want(&wanted);
            addresses.retain(|cidr| dad.standing(&cidr.address().into()) == Some(Standing::Good));
        }
        let new = addresses.iter().any(|address| !self.addresses.contains(address));
        self.addresses = addresses;
        let has = |ip: &IpAddr| self.addresses.iter().any(|cidr| IpAddr::from(cidr.address()) == *ip);
        self.announcements.keep(has);
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

    fn poll_dhcp(&mut self, now: Duration) {
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
    fn poll_dad(&mut self, now: Duration) {
        if !self.up || self.info.own == LinkAddr::ZERO {
            return;
        }
        let probes = self.dad.as_mut().map_or_else(Vec::new, |dad| dad.poll(now));
        for address in probes {
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
        if self.dad.is_some() {
            self.refresh_and_announce();
        }
    }

    /// Somebody at another place says that it has this address, or wants it; true if we therefore do not take it.
    fn is_conflict(&mut self, now: Duration, address: IpAddr, place: Option<LinkAddr>) -> bool {
        let Some(dad) = self.dad.as_mut().filter(|_| place != Some(self.info.own)) else { return false };
        if !dad.conflict(now, &address) {
            return false;
        }
        let leased = self.lease().map(|lease| IpAddr::from(lease.address.address()));
        if let Some(client) = self.dhcp.as_mut().filter(|_| leased == Some(address)) {
            client.decline(now);
            self.poll_dhcp(now);
        }
        true
    }

    /// Gives a DHCP server's answer to the client; other packets come back.
    fn receive_dhcp(&mut self, now: Duration, packet: Vec<u8>) -> Option<Vec<u8>> {
        let Some((client, message)) = self.dhcp.as_mut().zip(dhcp::for_client(&packet)) else {
            return Some(packet);
        };
        client.receive(now, message);
        self.poll_dhcp(now);
        None
    }

    /// The groups this interface hears, and where each is on the link.
    pub fn mappings(&self) -> impl Iterator<Item = (IpAddr, LinkAddr)> {
        let mut groups = self.groups.clone();
        // Answers to probes come by groups as well.
        let probed = self.dad.iter().flat_map(Dad::addresses);
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
        match sap {
            SAP_ARP => {
                self.counters.resolution += 1;
                self.receive_arp(now, &payload);
                None
            }
            SAP_IPV6 if nd::is_nd(&payload) => {
                self.counters.resolution += 1;
                self.receive_nd(now, &payload);
                None
            }
            SAP_IPV4 => self.receive_dhcp(now, payload),
            SAP_IPV6 => Some(payload),
            _ => {
                self.counters.unknown_sap += 1;
                None
            }
        }
    }

    /// Sends an IP packet to its next hop; every destination is on the link.
    pub fn send(&mut self, now: Duration, packet: impl Into<Packet>) {
        let packet = packet.into();
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
            match self.neighbours.lookup(now, dst, packet) {
                Lookup::Send(link, packet) => self.push(link, sap, [packet]),
                Lookup::SendAndAsk(link, packet) => {
                    self.push(link, sap, [packet]);
                    self.ask(dst);
                }
                Lookup::Ask => self.ask(dst),
                Lookup::Wait => {}
            }
        }
    }

    /// Asks again for neighbours that did not answer, and for an address that is wanted or ends; announces new ones.
    pub fn poll(&mut self, now: Duration) {
        self.poll_dhcp(now);
        self.poll_dad(now);
        for ip in self.announcements.poll(now) {
            self.tell_neighbours(ip);
        }
        for ip in self.neighbours.poll(now) {
            self.ask(ip);
        }
    }

    /// When `poll` wants to be called if nothing else happens.
    pub fn poll_at(&self) -> Option<Duration> {
        let dhcp = self.dhcp.as_ref().and_then(Client::poll_at);
        let probes = self.dad.as_ref().filter(|_| self.up && self.info.own != LinkAddr::ZERO);
        let dad = probes.and_then(Dad::poll_at);
        [self.neighbours.next_timeout(), self.announcements.poll_at(), dhcp, dad].into_iter().flatten().min()
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

    fn owns(&self, ip: Ipv6Addr) -> bool {
        self.addresses.iter().filter_map(ipv6_of).any(|own| own == ip)
    }

    fn receive_arp(&mut self, now: Duration, payload: &[u8]) {
        let arp = Arp::parse(payload);
        if arp.is_some_and(|arp| self.is_conflict(now, arp.claimed().into(), Some(arp.sender.1))) {
            return;
        }
        let Some(arp) = arp.filter(|_| self.ipv4s().next().is_some()) else {
            self.counters.ignored += 1;
            return;
        };
        if self.ipv4s().any(|own| own == arp.sender.0) {
            // Our own broadcast, or somebody with our address: neither may change the table.
            self.counters.ignored += 1;
            return;
        }
        let own = arp.target.0;
        let for_us = self.ipv4s().any(|known| known == own);
        if !arp.sender.0.is_unspecified() {
            let waiting = self.neighbours.learn(now, arp.sender.0.into(), arp.sender.1, for_us);
            self.push(arp.sender.1, SAP_IPV4, waiting);
        }
        if for_us && arp.operation == Operation::Request {
            let reply = arp.reply((own, self.info.own)).emit().to_vec();
            self.push(arp.sender.1, SAP_ARP, [reply.into()]);
        }
    }

    fn receive_nd(&mut self, now: Duration, payload: &[u8]) {
        let Some(nd) = Nd::parse(payload) else {
            self.counters.ignored += 1;
            return;
        };
        let claims = matches!(nd.kind, Kind::Advert { .. }) || nd.source.is_unspecified();
        if claims && self.is_conflict(now, nd.target.into(), nd.link) {
            return;
        }
        match (nd.kind, nd.link) {
            // Somebody probes for an address of ours: everybody is told whose it is.
            (Kind::Solicit, _) if self.owns(nd.target) && nd.source.is_unspecified() => {
                let advert = nd.advert((nd.target, self.info.own));
                self.push(self.group_addr(advert.destination.into()), SAP_IPV6, [advert.emit().into()]);
            }
            (Kind::Solicit, Some(link)) if self.owns(nd.target) && !self.owns(nd.source) => {
                let waiting = self.neighbours.learn(now, nd.source.into(), link, true);
                self.push(link, SAP_IPV6, waiting);
                let advert = nd.advert((nd.target, self.info.own)).emit();
                self.push(link, SAP_IPV6, [advert.into()]);
            }
            (Kind::Advert { .. }, Some(link)) if !self.owns(nd.target) => {
                let waiting = self.neighbours.learn(now, nd.target.into(), link, false);
                self.push(link, SAP_IPV6, waiting);
            }
            _ => self.counters.ignored += 1,
        }
    }

    fn is_subnet_broadcast(&self, ip: Ipv4Addr) -> bool {
        self.addresses.iter().any(|cidr| match cidr {
            IpCidr::Ipv4(cidr) => cidr.broadcast() == Some(ip),
            IpCidr::Ipv6(_) => false,
        })
    }

    fn ask(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => {
                if let Some(own) = self.ipv4_for(ip) {
                    let request = Arp::request((own, self.info.own), ip).emit().to_vec();
                    self.push(self.info.broadcast, SAP_ARP, [request.into()]);
                }
            }
            IpAddr::V6(ip) => {
                if let Some(own) = self.addresses.iter().find_map(ipv6_of) {
                    let solicit = Nd::solicit((own, self.info.own), ip);
                    self.push(self.group_addr(solicit.destination.into()), SAP_IPV6, [solicit.emit().into()]);
                }
            }
        }
    }

    /// Tells the neighbours our link address from now on, for every address.
    fn announce(&mut self) {
        self.announcements.begin(self.addresses.iter().map(|cidr| IpAddr::from(cidr.address())));
    }

    /// A gratuitous request for an IPv4 address, an advert for an IPv6 address.
    fn tell_neighbours(&mut self, own: IpAddr) {
        match own {
            IpAddr::V4(own) => {
                let request = Arp::request((own, self.info.own), own).emit().to_vec();
                self.push(self.info.broadcast, SAP_ARP, [request.into()]);
            }
            IpAddr::V6(own) => {
                let kind = Kind::Advert { solicited: false, overrides: true };
                let link = Some(self.info.own);
                let advert = Nd { kind, source: own, destination: nd::ALL_NODES, target: own, link };
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

fn is_link_local(cidr: &IpCidr) -> bool {
    matches!(cidr, IpCidr::Ipv6(cidr) if cidr.address().is_unicast_link_local())
}
