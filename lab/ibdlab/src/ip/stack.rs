//! The IP stack of one host on one link.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Packet, Ipv6Packet};

use super::arp::{Arp, Operation};
use super::device::Device;
use super::link_addr::LinkAddr;
use super::nd::{self, Kind, Nd};
use super::neighbours::{Lookup, Neighbours};

pub const SAP_IPV4: u16 = 0x0800;
pub const SAP_ARP: u16 = 0x0806;
pub const SAP_IPV6: u16 = 0x86dd;

const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// A packet for the link: destination address, SAP (Ethertype), and what comes behind the link's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub dst: LinkAddr,
    pub sap: u16,
    pub payload: Vec<u8>,
}

/// What the link says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    pub own: LinkAddr,
    /// With scope and P_Key as the link announces it (zero).
    pub broadcast: LinkAddr,
    /// Largest IP packet in bytes.
    pub sdu: usize,
}

/// Frames seen by this stack, per protocol, as the wire would count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub received: u64,
    pub transmitted: u64,
    /// Frames with a SAP or content that nobody here wants.
    pub ignored: u64,
}

/// See the module's documentation.
pub struct Stack {
    iface: Interface,
    device: Device,
    /// The sockets of the applications; they survive a change of the link.
    pub sockets: SocketSet<'static>,
    link: LinkInfo,
    addresses: Vec<IpCidr>,
    groups: BTreeSet<IpAddr>,
    neighbours: Neighbours,
    out: VecDeque<Frame>,
    counters: Counters,
    seed: u64,
}

impl Stack {
    /// `seed` feeds what smoltcp wants to be unpredictable (ports, sequence numbers).
    pub fn new(link: LinkInfo, addresses: Vec<IpCidr>, seed: u64) -> Self {
        let mut device = Device::new(link.sdu);
        let iface = interface(&mut device, &addresses, &BTreeSet::new(), seed);
        Self {
            iface,
            device,
            sockets: SocketSet::new(Vec::new()),
            link,
            addresses,
            groups: BTreeSet::new(),
            neighbours: Neighbours::default(),
            out: VecDeque::new(),
            counters: Counters::default(),
            seed,
        }
    }

    /// The link has this address and size now. Neighbours are told at once if the address is new.
    pub fn set_link(&mut self, link: LinkInfo) {
        if link == self.link {
            return;
        }
        let announce = link.own != self.link.own;
        if link.sdu != self.link.sdu {
            self.device.sdu = link.sdu;
            self.iface = interface(&mut self.device, &self.addresses, &self.groups, self.seed);
        }
        self.link = link;
        if announce {
            self.announce();
        }
    }

    pub fn link(&self) -> LinkInfo {
        self.link
    }

    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// smoltcp's context, which TCP needs to connect.
    pub fn parts(&mut self) -> (&mut Interface, &mut SocketSet<'static>) {
        (&mut self.iface, &mut self.sockets)
    }

    /// Adds `group` to those this host listens to; IGMP or MLD reports it.
    pub fn join(&mut self, group: IpAddr) {
        // The interface's table has room for 64 groups; a scenario is checked against that when it is read.
        if self.iface.join_multicast_group(group).is_ok() {
            self.groups.insert(group);
        }
    }

    pub fn leave(&mut self, group: IpAddr) {
        if self.groups.remove(&group) {
            let _ = self.iface.leave_multicast_group(group);
        }
    }

    /// The link-layer groups that must be enabled at the link now: own, all-hosts, all-nodes, solicited-node.
    pub fn link_groups(&self) -> BTreeSet<LinkAddr> {
        let mut groups: BTreeSet<LinkAddr> = self.groups.iter().map(|g| self.group_addr(*g)).collect();
        for address in &self.addresses {
            match address.address() {
                smoltcp::wire::IpAddress::Ipv4(_) => {
                    groups.insert(self.group_addr(ALL_HOSTS.into()));
                }
                smoltcp::wire::IpAddress::Ipv6(ip) => {
                    groups.insert(self.group_addr(nd::ALL_NODES.into()));
                    groups.insert(self.group_addr(nd::solicited_node(ip).into()));
                }
            }
        }
        groups
    }

    /// A frame came up from the link.
    pub fn receive(&mut self, now: Duration, sap: u16, payload: Vec<u8>) {
        self.counters.received += 1;
        match sap {
            SAP_ARP => self.receive_arp(now, &payload),
            SAP_IPV6 if nd::is_nd(&payload) => self.receive_nd(now, &payload),
            SAP_IPV4 | SAP_IPV6 => self.device.rx.push_back(payload),
            _ => self.counters.ignored += 1,
        }
    }

    /// Runs the protocols. Call again after `poll_at`, after `receive`, and after a socket was used.
    pub fn poll(&mut self, now: Duration) {
        for ip in self.neighbours.poll(now) {
            self.ask(ip);
        }
        let instant = instant(now);
        loop {
            let result = self.iface.poll(instant, &mut self.device, &mut self.sockets);
            let sent = !self.device.tx.is_empty();
            while let Some(packet) = self.device.tx.pop_front() {
                self.route(now, packet);
            }
            if result == PollResult::None && !sent {
                break;
            }
        }
    }

    /// The next frame for the link.
    pub fn transmit(&mut self) -> Option<Frame> {
        let frame = self.out.pop_front()?;
        self.counters.transmitted += 1;
        Some(frame)
    }

    /// When `poll` wants to be called if nothing else happens.
    pub fn poll_at(&mut self, now: Duration) -> Option<Duration> {
        let sockets = self.iface.poll_at(instant(now), &self.sockets);
        let sockets = sockets.map(|at| Duration::from_micros(at.total_micros().max(0).unsigned_abs()));
        [sockets, self.neighbours.next_timeout()].into_iter().flatten().min()
    }

    fn ipv4(&self) -> Option<Ipv4Addr> {
        self.iface.ipv4_addr()
    }

    fn owns(&self, ip: Ipv6Addr) -> bool {
        self.iface.has_ip_addr(ip)
    }

    fn receive_arp(&mut self, now: Duration, payload: &[u8]) {
        let (Some(arp), Some(own)) = (Arp::parse(payload), self.ipv4()) else {
            self.counters.ignored += 1;
            return;
        };
        if arp.sender.0 == own {
            // Our own broadcast, or somebody with our address: neither may change the table.
            self.counters.ignored += 1;
            return;
        }
        let for_us = arp.target.0 == own;
        let waiting = self.neighbours.learn(now, arp.sender.0.into(), arp.sender.1, for_us);
        self.send_to(arp.sender.1, SAP_IPV4, waiting);
        if for_us && arp.operation == Operation::Request {
            let reply = arp.reply((own, self.link.own)).emit().to_vec();
            self.send_to(arp.sender.1, SAP_ARP, [reply]);
        }
    }

    fn receive_nd(&mut self, now: Duration, payload: &[u8]) {
        let Some(nd) = Nd::parse(payload) else {
            self.counters.ignored += 1;
            return;
        };
        match (nd.kind, nd.link) {
            (Kind::Solicit, Some(link)) if self.owns(nd.target) && !self.owns(nd.source) => {
                let waiting = self.neighbours.learn(now, nd.source.into(), link, true);
                self.send_to(link, SAP_IPV6, waiting);
                let advert = nd.advert((nd.target, self.link.own)).emit();
                self.send_to(link, SAP_IPV6, [advert]);
            }
            (Kind::Advert { .. }, Some(link)) if !self.owns(nd.target) => {
                let waiting = self.neighbours.learn(now, nd.target.into(), link, false);
                self.send_to(link, SAP_IPV6, waiting);
            }
            _ => self.counters.ignored += 1,
        }
    }

    /// Sends an IP packet to its next hop; every destination of this stack is on the link.
    fn route(&mut self, now: Duration, packet: Vec<u8>) {
        let (sap, dst) = match packet.first().map(|byte| byte >> 4) {
            Some(4) => (SAP_IPV4, IpAddr::V4(Ipv4Packet::new_unchecked(&packet).dst_addr())),
            Some(6) => (SAP_IPV6, IpAddr::V6(Ipv6Packet::new_unchecked(&packet).dst_addr())),
            _ => return,
        };
        let broadcast = matches!(dst, IpAddr::V4(ip) if ip.is_broadcast() || self.is_subnet_broadcast(ip));
        if broadcast {
            self.send_to(self.link.broadcast, sap, [packet]);
        } else if dst.is_multicast() {
            self.send_to(self.group_addr(dst), sap, [packet]);
        } else {
            match self.neighbours.lookup(now, dst, packet) {
                Lookup::Send(link, packet) => self.send_to(link, sap, [packet]),
                Lookup::SendAndAsk(link, packet) => {
                    self.send_to(link, sap, [packet]);
                    self.ask(dst);
                }
                Lookup::Ask => self.ask(dst),
                Lookup::Wait => {}
            }
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
                if let Some(own) = self.ipv4() {
                    let request = Arp::request((own, self.link.own), ip).emit().to_vec();
                    self.send_to(self.link.broadcast, SAP_ARP, [request]);
                }
            }
            IpAddr::V6(ip) => {
                let own = self.iface.get_source_address_ipv6(&ip);
                let solicit = Nd::solicit((own, self.link.own), ip);
                self.send_to(self.group_addr(solicit.destination.into()), SAP_IPV6, [solicit.emit()]);
            }
        }
    }

    /// Tells the neighbours our link address: a gratuitous request per IPv4 address, an advert per IPv6 address.
    fn announce(&mut self) {
        if let Some(own) = self.ipv4() {
            let request = Arp::request((own, self.link.own), own).emit().to_vec();
            self.send_to(self.link.broadcast, SAP_ARP, [request]);
        }
        let owned: Vec<Ipv6Addr> = self.addresses.iter().filter_map(ipv6_of).collect();
        for own in owned {
            let kind = Kind::Advert { solicited: false, overrides: true };
            let advert =
                Nd { kind, source: own, destination: nd::ALL_NODES, target: own, link: Some(self.link.own) };
            self.send_to(self.group_addr(nd::ALL_NODES.into()), SAP_IPV6, [advert.emit()]);
        }
    }

    fn group_addr(&self, group: IpAddr) -> LinkAddr {
        match group {
            IpAddr::V4(group) => LinkAddr::ipv4_group(&self.link.broadcast, group),
            IpAddr::V6(group) => LinkAddr::ipv6_group(&self.link.broadcast, group),
        }
    }

    fn send_to(&mut self, dst: LinkAddr, sap: u16, packets: impl IntoIterator<Item = Vec<u8>>) {
        self.out.extend(packets.into_iter().map(|payload| Frame { dst, sap, payload }));
    }
}

fn ipv6_of(cidr: &IpCidr) -> Option<Ipv6Addr> {
    match cidr {
        IpCidr::Ipv6(cidr) => Some(cidr.address()),
        IpCidr::Ipv4(_) => None,
    }
}

fn interface(device: &mut Device, addresses: &[IpCidr], groups: &BTreeSet<IpAddr>, seed: u64) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut iface = Interface::new(config, device, Instant::ZERO);
    iface.update_ip_addrs(|list| {
        for address in addresses {
            // The table holds `IFACE_MAX_ADDR_COUNT`; a scenario is checked against that when it is read.
            let _ = list.push(*address);
        }
    });
    for group in groups {
        let _ = iface.join_multicast_group(*group);
    }
    iface
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}
