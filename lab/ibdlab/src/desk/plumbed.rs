//! One interface: an [`IpThread`] on an open link or over a group, and its address objects.

use std::net::IpAddr;
use std::sync::Arc;

use admin::{Address, AddressKind, AddressState, Class, Interface, Neighbour, NeighbourState};
use fakekernel::{HostMutex, Nanos};
use lab_gldv3::{LinkAddress, LinkState};
use lab_ip::dad::Standing;
use lab_ip::layer::{IpLink, LINK_LOCAL_PREFIX, Wanted};
use lab_ip::link_addr::LinkAddr;
use lab_ip::neighbours::State;
use lab_ip::stack::Stack;
use smoltcp::wire::IpCidr;

use super::status::IpStatus;
use crate::host::{IpThread, LinuxSide, Membership};
use crate::words::complain;

/// How long a DHCP server may take to say where it is when an address is given back.
const RELEASE_PATIENCE: Nanos = Nanos::from_secs(3);

/// What an interface is to others.
#[derive(Clone)]
pub(super) enum Role {
    Alone,
    /// An IPMP group's.
    Group(Arc<Membership>),
    /// Under one.
    Member {
        group: String,
    },
}

/// An interface, and what it has of addresses.
pub(super) struct Plumbed {
    pub(super) name: String,
    pub(super) ip: Arc<IpThread>,
    /// The TUN device in front of it, and the addresses Linux has given it. Gone before the interface is.
    pub(super) linux: HostMutex<Option<LinuxSide>>,
    pub(super) objects: HostMutex<Vec<(String, AddressKind)>>,
    role: HostMutex<Role>,
}

impl Plumbed {
    pub(super) fn new(name: &str, ip: IpThread, linux: Option<LinuxSide>, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            ip: Arc::new(ip),
            linux: HostMutex::new(linux),
            objects: HostMutex::new(Vec::new()),
            role: HostMutex::new(role),
        }
    }

    pub(super) fn role(&self) -> Role {
        self.role.lock().clone()
    }

    pub(super) fn set_role(&self, role: Role) {
        *self.role.lock() = role;
    }

    fn own(&self) -> LinkAddr {
        self.ip.with_upper(|upper| upper.link().info().own)
    }

    /// The addresses that are known now.
    pub(super) fn cidrs(&self) -> Vec<IpCidr> {
        self.ip.with_upper(|upper| upper.link().addresses().to_vec())
    }

    /// The address to send from, if the destination is on the link, or if asked for, a router leads to it. A group of the link is asked
    /// by the link-local address.
    pub(super) fn source_for(&self, to: IpAddr, by_router: bool) -> Option<IpAddr> {
        let own: Vec<IpCidr> = self.cidrs();
        let of_family = || own.iter().filter(|cidr| IpAddr::from(cidr.address()).is_ipv4() == to.is_ipv4());
        if let Some(subnet) = of_family().find(|cidr| cidr.contains_addr(&to.into())) {
            return Some(subnet.address().into());
        }
        let is_link_local = |cidr: &&IpCidr| match cidr {
            IpCidr::Ipv4(_) => false,
            IpCidr::Ipv6(cidr) => cidr.address().is_unicast_link_local(),
        };
        let source = of_family().find(is_link_local).or_else(|| of_family().next())?;
        if to.is_multicast() || self.is_for_many(to) {
            return Some(source.address().into());
        }
        // By a router that has said so; what it sends back comes to an address that it can reach.
        let now = std::time::Duration::from_nanos(fakekernel::now().0);
        let has_route = |stack: &mut Stack| stack.next_hop(now, to).is_some();
        let routed = by_router && self.ip.with_upper(|upper| upper.stack().is_some_and(has_route));
        let source = of_family().find(|cidr| !is_link_local(cidr)).filter(|_| routed)?;
        Some(source.address().into())
    }

    /// Whether it is a broadcast or a group.
    pub(super) fn is_for_many(&self, to: IpAddr) -> bool {
        let is_subnets = |cidr: &IpCidr| match (cidr, to) {
            (IpCidr::Ipv4(cidr), IpAddr::V4(to)) => cidr.broadcast() == Some(to),
            _ => false,
        };
        let is_broadcast = matches!(to, IpAddr::V4(to) if to.is_broadcast());
        to.is_multicast() || is_broadcast || self.cidrs().iter().any(is_subnets)
    }

    pub(super) fn kind_of(&self, object: &str) -> Option<AddressKind> {
        let objects = self.objects.lock();
        objects.iter().find(|(name, _)| name == object).map(|(_, kind)| kind.clone())
    }

    /// Tells the DHCP server that its address is not needed any more, and waits until that has left.
    pub(super) fn release(&self) {
        let now = std::time::Duration::from_nanos(fakekernel::now().0);
        let Some(server) = self.ip.change(|upper| upper.link_mut().release(now)) else { return };
        let deadline = fakekernel::now() + RELEASE_PATIENCE;
        let waits = || self.ip.with_upper(|upper| upper.link().is_asking(server.into()));
        while waits() && fakekernel::now() < deadline {
            fakekernel::sleep(Nanos::from_millis(10));
        }
    }

    /// Has the layer below use the address objects.
    pub(super) fn apply(&self, seed: u64) {
        let mut wanted = Wanted::default();
        for (_, kind) in &*self.objects.lock() {
            match kind {
                AddressKind::Static(ip, length) => wanted.fixed.push(IpCidr::new((*ip).into(), *length)),
                AddressKind::Addrconf => wanted.link_local = true,
                AddressKind::Dhcp => wanted.dhcp = Some(seed),
            }
        }
        self.ip.set_addresses(wanted);
        self.tell_linux();
    }

    /// Has the TUN device follow the interface at once.
    fn tell_linux(&self) {
        let Some(linux) = self.linux.lock().take() else { return };
        if let Err(error) = linux.follow() {
            complain(&format!("{}: {error:#}", self.name));
        }
        *self.linux.lock() = Some(linux);
    }

    pub(super) fn interface(&self, index: u32) -> Interface {
        let info = self.ip.with_upper(|upper| upper.link().info());
        let (counters, lost) = self.ip.counters();
        let link = self.ip.link_state();
        let objects = self.objects.lock().clone();
        let address_of = |(object, kind): (String, AddressKind)| {
            let address = self.ip.with_upper(|upper| address(&kind, upper.link()));
            let standing = |ip| self.ip.with_upper(|upper| upper.link().standing(ip));
            let state = match address.map(|(ip, _)| standing(ip)) {
                None if kind == AddressKind::Dhcp => AddressState::Down,
                Some(Standing::Duplicate) => AddressState::Duplicate,
                Some(_) | None if link == LinkState::Down => AddressState::Inaccessible,
                Some(Standing::Tentative) => AddressState::Tentative,
                Some(Standing::Good) => AddressState::Ok,
                None => AddressState::Inaccessible,
            };
            Address { object, kind, address, state }
        };
        Interface {
            name: self.name.clone(),
            index,
            link,
            class: match self.role() {
                Role::Alone => Class::Ip,
                Role::Member { group } => Class::Under { group },
                Role::Group(membership) => Class::Ipmp { members: membership.names() },
            },
            link_address: (info.own != LinkAddr::ZERO).then_some(LinkAddress(info.own.0)),
            mtu: u32::try_from(info.sdu).unwrap_or(u32::MAX),
            addresses: objects.into_iter().map(address_of).collect(),
            counters: [
                counters.received,
                lost.receive_queue_full,
                counters.transmitted,
                lost.transmit_refused,
            ],
        }
    }

    pub(super) fn counts(&self) -> IpStatus {
        let (counters, lost) = self.ip.counters();
        let (unresolved, device_refused) =
            self.ip.with_upper(|upper| (upper.link().neighbours().counters().unresolved, upper.refused()));
        IpStatus {
            received: counters.received,
            resolution: counters.resolution,
            unknown_sap: counters.unknown_sap,
            wrong_version: counters.wrong_version,
            device_refused,
            queue_full: lost.receive_queue_full,
            transmitted: counters.transmitted,
            transmit_refused: lost.transmit_refused,
            unresolved,
            unsendable: counters.unsendable,
        }
    }

    pub(super) fn neighbours(&self) -> Vec<Neighbour> {
        let own = self.own();
        let interface = match self.role() {
            // Its members know whom it knows.
            Role::Group(_) => return Vec::new(),
            Role::Member { group } => group,
            Role::Alone => self.name.clone(),
        };
        let row = |address: IpAddr, link: Option<LinkAddr>, state| Neighbour {
            interface: interface.clone(),
            address,
            link: link.map(|link| LinkAddress(link.0)),
            state,
        };
        let mut rows: Vec<Neighbour> = self
            .cidrs()
            .iter()
            .map(|cidr| row(IpAddr::from(cidr.address()), Some(own), NeighbourState::Local))
            .collect();
        self.ip.with_upper(|upper| {
            let link = upper.link();
            for (address, place, state) in link.neighbours().rows() {
                rows.push(row(address, place, shown(state)));
            }
            rows.extend(link.mappings().map(|(group, place)| row(group, Some(place), NeighbourState::Group)));
        });
        rows.sort_by_key(|row| row.address);
        rows
    }
}

fn shown(state: State) -> NeighbourState {
    match state {
        State::Incomplete { .. } => NeighbourState::Incomplete,
        State::Reachable { .. } => NeighbourState::Reachable,
        State::Stale => NeighbourState::Stale,
        State::Delay { .. } => NeighbourState::Delay,
        State::Probe { .. } => NeighbourState::Probe,
    }
}

/// The address that an object stands for on a link.
fn address(kind: &AddressKind, link: &IpLink) -> Option<(IpAddr, u8)> {
    let own = link.info().own;
    match kind {
        AddressKind::Static(ip, length) => Some((*ip, *length)),
        AddressKind::Addrconf if own == LinkAddr::ZERO => None,
        AddressKind::Addrconf => Some((own.link_local().into(), LINK_LOCAL_PREFIX)),
        AddressKind::Dhcp => {
            let address = link.lease()?.address;
            Some((address.address().into(), address.prefix_len()))
        }
    }
}
