//! The IP stack of one host on one link: smoltcp over [`IpLink`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

use super::device::Device;
use super::echo;
use super::fragments::Fragments;
use super::ipv6_fragments::Reassembly;
use super::layer::{Frame, IpLink, LinkInfo, Wanted};
use super::offload;
use super::path_mtu::{PathMtus, may_be_cut};
use super::routes;

/// See the module's documentation.
pub struct Stack {
    iface: Interface,
    device: Device,
    fragments: Fragments,
    reassembly: Reassembly,
    /// Packets that go out beside smoltcp's.
    own: Vec<Vec<u8>>,
    path_mtus: PathMtus,
    /// The sockets of the applications; they survive a change of the link.
    pub sockets: SocketSet<'static>,
    link: IpLink,
    /// How many listen to each group.
    listeners: BTreeMap<IpAddr, u32>,
    seed: u64,
    echo_ident: u16,
}

/// The first identifier of echoes; zero is none.
const FIRST_ECHO_IDENT: u16 = 0x0b0d;
/// From one host's first identifier to the next host's.
const ECHO_IDENTS: u16 = 0x1000;

/// How long the fragments of a packet wait for each other (`_reassembly_timeout` of illumos's IPv4).
const REASSEMBLY: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(15);

impl Stack {
    /// An identifier for the echoes of one application: an answer goes to every socket with its identifier, and would crowd
    /// out those of the others.
    pub fn echo_ident(&mut self) -> u16 {
        let ident = self.echo_ident;
        self.echo_ident = ident.checked_add(1).unwrap_or(1);
        ident
    }

    /// `seed` feeds what smoltcp wants to be unpredictable (ports, sequence numbers).
    pub fn new(info: LinkInfo, addresses: Vec<IpCidr>, seed: u64) -> Self {
        Self::on(IpLink::new(info, addresses), seed)
    }

    /// The same, of the host with this number: hosts with different numbers give their echoes different identifiers. smoltcp
    /// puts the requests of others into a socket with the same identifier.
    #[must_use]
    pub fn of_host(self, number: u16) -> Self {
        let first = FIRST_ECHO_IDENT.wrapping_add(number.wrapping_mul(ECHO_IDENTS));
        Self { echo_ident: first.max(1), ..self }
    }

    /// The same, and an address is used once nobody has answered for it.
    #[must_use]
    pub fn probing(self) -> Self {
        Self { link: self.link.probing(), ..self }
    }

    /// The stack of a group; see [`IpLink::delegated`].
    pub fn of_group(info: LinkInfo, seed: u64) -> Self {
        Self::on(IpLink::delegated(info), seed)
    }

    fn on(link: IpLink, seed: u64) -> Self {
        let mut device = Device::new(link.info().sdu);
        let iface = interface(&mut device, link.addresses(), &BTreeSet::new(), seed);
        let fragments = Fragments::default();
        Self {
            iface,
            device,
            fragments,
            reassembly: Reassembly::default(),
            own: Vec::new(),
            path_mtus: PathMtus::default(),
            sockets: SocketSet::new(Vec::new()),
            link,
            listeners: BTreeMap::new(),
            seed,
            echo_ident: FIRST_ECHO_IDENT,
        }
    }

    /// The link has this address and size now. Neighbours are told at once if the address is new.
    pub fn set_info(&mut self, info: LinkInfo) {
        if info.sdu != self.link.info().sdu {
            self.device.restart(info.sdu);
            self.iface = interface(&mut self.device, self.link.addresses(), self.link.groups(), self.seed);
            self.fragments = Fragments::default();
        }
        self.link.set_info(info);
        self.follow_addresses();
    }

    /// Replaces the interface's addresses; see [`IpLink::set_addresses`]. Sockets stay.
    pub fn set_addresses(&mut self, wanted: Wanted) {
        self.link.set_addresses(wanted);
        self.follow_addresses();
    }

    /// Gives smoltcp the addresses of the link.
    fn follow_addresses(&mut self) {
        let addresses = self.link.addresses();
        if self.iface.ip_addrs() == addresses {
            return;
        }
        self.iface.update_ip_addrs(|list| {
            list.clear();
            for address in addresses {
                // Whoever gives addresses keeps to the size of the table, `IFACE_MAX_ADDR_COUNT`.
                let _ = list.push(*address);
            }
        });
    }

    /// What is below smoltcp.
    pub fn link(&self) -> &IpLink {
        &self.link
    }

    /// The same, to change.
    pub fn link_mut(&mut self) -> &mut IpLink {
        &mut self.link
    }

    /// smoltcp's context, which TCP needs to connect.
    pub fn parts(&mut self) -> (&mut Interface, &mut SocketSet<'static>) {
        (&mut self.iface, &mut self.sockets)
    }

    /// One more listens to `group`; IGMP or MLD reports it.
    pub fn join(&mut self, group: IpAddr) {
        // The interface's table has room for 64 groups; a scenario has fewer at a time.
        if self.iface.join_multicast_group(group).is_ok() {
            *self.listeners.entry(group).or_default() += 1;
            self.link.join(group);
        }
    }

    /// One listens to `group` no longer; the host does not once nobody does.
    pub fn leave(&mut self, group: IpAddr) {
        match self.listeners.get_mut(&group) {
            Some(listeners @ 2..) => {
                *listeners -= 1;
                return;
            }
            _ => drop(self.listeners.remove(&group)),
        }
        self.link.leave(group);
        // Refused only for an address that is no group, which `join` has not let in.
        let _ = self.iface.leave_multicast_group(group);
    }

    /// A frame came up from the link.
    pub fn receive(&mut self, now: Duration, sap: u16, payload: Vec<u8>) {
        let packet = self.link.receive(now, sap, payload);
        self.follow_addresses();
        let Some(packet) = packet.and_then(|packet| self.reassembly.take(now, packet)) else { return };
        let own = self.link.addresses();
        let is_own = |address| own.iter().any(|cidr| IpAddr::from(cidr.address()) == address);
        self.path_mtus.note(now, &packet, is_own);
        if self.link.hear_router(now, &packet) {
            return;
        }
        match self.answer(&packet) {
            Some(answer) => self.send(answer),
            None => self.device.rx.push_back(packet),
        }
    }

    /// The answer to an echo that smoltcp does not answer: of an IPv4 group, or of IPv6 and longer than the link carries.
    fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let is_group = |ip: &[u8]| {
            ip.first().is_some_and(|first| first >> 4 == 4)
                && ip.get(16).is_some_and(|octet| octet >> 4 == 0xe)
        };
        let is_long = packet.len() > self.link.info().sdu && packet[0] >> 4 == 6;
        if !is_long && !is_group(packet) {
            return None;
        }
        let (source, destination) = echo::request(packet)?;
        if destination.is_multicast() && !self.link.mappings().any(|(group, _)| group == destination) {
            return None;
        }
        let own = self.link.addresses();
        let is_destination = |cidr: &&IpCidr| IpAddr::from(cidr.address()) == destination;
        let is_near = |cidr: &&IpCidr| cidr.contains_addr(&source.into());
        let own = match destination.is_multicast() {
            true => own.iter().find(is_near)?,
            false => own.iter().find(is_destination)?,
        };
        echo::answer(packet, own.address().into())
    }

    /// The neighbour by which a destination is reached, if that is not itself. Outer `None`: there is no route.
    pub fn next_hop(&self, now: Duration, destination: IpAddr) -> Option<Option<IpAddr>> {
        if routes::is_on_link(destination, self.link.addresses()) {
            return Some(None);
        }
        self.link.first_hop(now, destination).map(Some)
    }

    /// Sends a packet of the host's own, of IPv6 also one that is longer than the link carries.
    pub fn send(&mut self, packet: Vec<u8>) {
        self.own.push(packet);
    }

    /// Runs the protocols. Call again after `poll_at`, after `receive`, and after a socket was used.
    pub fn poll(&mut self, now: Duration) {
        self.link.poll(now);
        self.follow_addresses();
        loop {
            let result = self.poll_sockets(instant(now));
            let sent = !self.device.tx.is_empty();
            let (own, sdu) = (std::mem::take(&mut self.own), self.link.info().sdu);
            let packets = own.into_iter().chain(self.device.tx.drain(..));
            let packets = packets.flat_map(|packet| self.path_mtus.cut(now, may_be_cut(packet), sdu));
            for packet in offload::to_the_link(packets, self.link.info().offload) {
                for packet in self.fragments.pass(packet) {
                    let to = routes::destination(&packet.bytes);
                    match to.and_then(|to| self.next_hop(now, to)) {
                        Some(hop) => self.link.send_by(now, packet, hop),
                        None => self.link.count_unsendable(),
                    }
                }
            }
            if result == PollResult::None && !sent {
                break;
            }
        }
    }

    /// What has come goes to smoltcp; then it sends until it has no more or the device takes no more.
    fn poll_sockets(&mut self, now: Instant) -> PollResult {
        self.iface.poll_maintenance(now);
        let mut result = PollResult::None;
        loop {
            match self.iface.poll_ingress_single(now, &mut self.device, &mut self.sockets) {
                PollIngressSingleResult::None => break,
                PollIngressSingleResult::PacketProcessed => {}
                PollIngressSingleResult::SocketStateChanged => result = PollResult::SocketStateChanged,
            }
        }
        loop {
            self.device.begin_round();
            match self.iface.poll_egress(now, &mut self.device, &mut self.sockets) {
                PollResult::None => return result,
                PollResult::SocketStateChanged => result = PollResult::SocketStateChanged,
            }
        }
    }

    /// The next frame for the link.
    pub fn transmit(&mut self) -> Option<Frame> {
        self.link.transmit()
    }

    /// When `poll` wants to be called if nothing else happens.
    pub fn poll_at(&mut self, now: Duration) -> Option<Duration> {
        let sockets = self.iface.poll_at(instant(now), &self.sockets);
        let sockets = sockets.map(|at| Duration::from_micros(at.total_micros().max(0).unsigned_abs()));
        [sockets, self.link.poll_at()].into_iter().flatten().min()
    }
}

fn interface(device: &mut Device, addresses: &[IpCidr], groups: &BTreeSet<IpAddr>, seed: u64) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut iface = Interface::new(config, device, Instant::ZERO);
    iface.set_reassembly_timeout(REASSEMBLY);
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
