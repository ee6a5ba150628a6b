//! The IP layer of a host: its interfaces, each an [`IpThread`] on an open link, and their addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use admin::{Address, AddressKind, AddressState, Echo, Interface, Neighbour, NeighbourState, PingSpec};
use fakekernel::{Errno, HostMutex, Kernel, Nanos, SleepMutex};
use lab_gldv3::{LinkAddress, LinkState};
use smoltcp::wire::{IpAddress, IpCidr};

use crate::host::IpThread;
use crate::ip::apps::{Outcome, Ping};
use crate::ip::layer::LINK_LOCAL_PREFIX;
use crate::ip::link_addr::LinkAddr;
use crate::ip::stack::Stack;

/// `ENETUNREACH` and `EMSGSIZE` of `sys/errno.h`.
const UNREACHABLE: Errno = Errno(128);
const TOO_LONG: Errno = Errno(97);
/// Headers of an echo: IPv4 or IPv6, and ICMP.
const HEADERS: [usize; 2] = [28, 48];
const LOOPBACK_MTU: u32 = 8232;

/// A host's interfaces.
pub struct HostIp {
    kernel: Kernel,
    seed: u64,
    /// Held while an interface comes or goes or is given an address: those wait for the driver.
    changing: SleepMutex<()>,
    state: HostMutex<State>,
}

#[derive(Default)]
struct State {
    plumbed: BTreeMap<u32, Arc<Plumbed>>,
    last_index: u32,
}

struct Plumbed {
    name: String,
    ip: IpThread,
    objects: HostMutex<Vec<(String, AddressKind)>>,
}

impl HostIp {
    pub fn new(kernel: &Kernel, seed: u64) -> Self {
        let state = State { plumbed: BTreeMap::new(), last_index: 1 };
        let (changing, state) = (SleepMutex::new("the interfaces", ()), HostMutex::new(state));
        Self { kernel: kernel.clone(), seed, changing, state }
    }

    fn all(&self) -> Vec<(u32, Arc<Plumbed>)> {
        self.state.lock().plumbed.iter().map(|(index, plumbed)| (*index, plumbed.clone())).collect()
    }

    fn find(&self, name: &str) -> Option<(u32, Arc<Plumbed>)> {
        self.all().into_iter().find(|(_, plumbed)| plumbed.name == name)
    }

    pub fn plumb(&self, link: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        if self.find(link).is_some() {
            return Err(Errno::EEXIST);
        }
        let seed = self.seed;
        let ip =
            IpThread::open(&self.kernel, link, move |info| Box::new(Stack::new(info, Vec::new(), seed)))?;
        let objects = HostMutex::new(Vec::new());
        let mut state = self.state.lock();
        state.last_index += 1;
        let index = state.last_index;
        state.plumbed.insert(index, Arc::new(Plumbed { name: link.to_owned(), ip, objects }));
        Ok(())
    }

    pub fn unplumb(&self, name: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let (index, plumbed) = self.find(name).ok_or(Errno::ENXIO)?;
        self.state.lock().plumbed.remove(&index);
        plumbed.ip.close();
        Ok(())
    }

    /// Takes every interface away.
    pub fn close(&self) {
        for (_, plumbed) in self.all() {
            // Somebody else may have been quicker.
            let _ = self.unplumb(&plumbed.name);
        }
    }

    pub fn add_address(&self, interface: &str, object: &str, kind: AddressKind) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let (_, plumbed) = self.find(interface).ok_or(Errno::ENXIO)?;
        let mut objects = plumbed.objects.lock();
        let same = |other: &AddressKind| match (other, &kind) {
            (AddressKind::Static(one, _), AddressKind::Static(other, _)) => one == other,
            (one, other) => one == other,
        };
        if objects.iter().any(|(name, known)| name == object || same(known)) {
            return Err(Errno::EEXIST);
        }
        if objects.len() >= smoltcp::config::IFACE_MAX_ADDR_COUNT {
            return Err(Errno::ENOSPC);
        }
        objects.push((object.to_owned(), kind));
        drop(objects);
        plumbed.apply();
        Ok(())
    }

    pub fn remove_address(&self, object: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        for (_, plumbed) in self.all() {
            let mut objects = plumbed.objects.lock();
            let before = objects.len();
            objects.retain(|(name, _)| name != object);
            let found = objects.len() < before;
            drop(objects);
            if found {
                plumbed.apply();
                return Ok(());
            }
        }
        Err(Errno::ENOENT)
    }

    pub fn interfaces(&self) -> Vec<Interface> {
        let mut interfaces = vec![loopback()];
        interfaces.extend(self.all().iter().map(|(index, plumbed)| plumbed.interface(*index)));
        interfaces
    }

    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.all().iter().flat_map(|(_, plumbed)| plumbed.neighbours()).collect()
    }

    /// The first IPv4 address, by which others call this host.
    pub fn address(&self) -> Option<IpAddr> {
        let interfaces = self.interfaces();
        let all = interfaces.iter().skip(1).flat_map(|interface| &interface.addresses);
        all.filter_map(|address| Some(address.address?.0)).min_by_key(IpAddr::is_ipv6)
    }

    /// Is it an address of an interface?
    pub fn has(&self, address: IpAddr) -> bool {
        self.all()
            .iter()
            .any(|(_, plumbed)| plumbed.cidrs().iter().any(|cidr| IpAddr::from(cidr.address()) == address))
    }

    pub fn echo(&self, spec: &PingSpec) -> Result<Echo, Errno> {
        let own = |interface: &Interface| {
            interface.addresses.iter().any(|address| address.address.is_some_and(|(ip, _)| ip == spec.to))
        };
        if self.interfaces().iter().any(own) {
            return Ok(Echo::Answered(std::time::Duration::ZERO));
        }
        let (plumbed, source) = self.route(spec).ok_or(UNREACHABLE)?;
        let mtu = plumbed.ip.with_upper(|upper| upper.link().info().sdu);
        if spec.size + HEADERS[usize::from(spec.to.is_ipv6())] > mtu {
            return Err(TOO_LONG);
        }
        let ping = Ping::new(source, spec.to, 1, vec![spec.size])
            .numbered_from(spec.sequence)
            .identified(spec.ident);
        let begun = fakekernel::now();
        let patience = Nanos(u64::try_from(spec.patience.as_nanos()).unwrap_or(u64::MAX / 2));
        let id = plumbed.ip.start(Box::new(ping));
        match plumbed.ip.finish(id, begun + patience) {
            Some(Outcome::Ping { answered: 1.., .. }) => {
                Ok(Echo::Answered(std::time::Duration::from_nanos(fakekernel::now().since(begun).0)))
            }
            _ => Ok(Echo::Silence),
        }
    }

    /// The interface whose subnet the address is in, and its address there. There are no routers on the fabric.
    fn route(&self, spec: &PingSpec) -> Option<(Arc<Plumbed>, IpAddr)> {
        let wanted = |plumbed: &Plumbed| spec.interface.as_ref().is_none_or(|name| *name == plumbed.name);
        self.all().into_iter().filter(|(_, plumbed)| wanted(plumbed)).find_map(|(_, plumbed)| {
            let to = IpAddress::from(spec.to);
            let cidrs = plumbed.cidrs();
            let subnet = cidrs.iter().find(|cidr| cidr.contains_addr(&to))?;
            let source = IpAddr::from(subnet.address());
            Some((plumbed, source))
        })
    }
}

/// `lo0`, which every host has.
fn loopback() -> Interface {
    let address = |object: &str, ip: IpAddr, length| Address {
        object: object.to_owned(),
        kind: AddressKind::Static(ip, length),
        address: Some((ip, length)),
        state: AddressState::Ok,
    };
    Interface {
        name: "lo0".into(),
        index: 1,
        link: LinkState::Up,
        link_address: None,
        mtu: LOOPBACK_MTU,
        addresses: vec![
            address("lo0/v4", Ipv4Addr::LOCALHOST.into(), 8),
            address("lo0/v6", Ipv6Addr::LOCALHOST.into(), 128),
        ],
        counters: [0; 4],
    }
}

impl Plumbed {
    fn own(&self) -> LinkAddr {
        self.ip.with_upper(|upper| upper.link().info().own)
    }

    /// The addresses that are known now.
    fn cidrs(&self) -> Vec<IpCidr> {
        self.ip.with_upper(|upper| upper.link().addresses().to_vec())
    }

    /// Has the layer below use the address objects.
    fn apply(&self) {
        let (mut fixed, mut link_local) = (Vec::new(), false);
        for (_, kind) in &*self.objects.lock() {
            match kind {
                AddressKind::Static(ip, length) => fixed.push(IpCidr::new((*ip).into(), *length)),
                AddressKind::Addrconf => link_local = true,
            }
        }
        self.ip.set_addresses(fixed, link_local);
    }

    fn interface(&self, index: u32) -> Interface {
        let info = self.ip.with_upper(|upper| upper.link().info());
        let (counters, lost) = self.ip.counters();
        let address_of = |(object, kind): &(String, AddressKind)| {
            let address = address(kind, info.own);
            let state = if address.is_some() { AddressState::Ok } else { AddressState::Inaccessible };
            Address { object: object.clone(), kind: kind.clone(), address, state }
        };
        Interface {
            name: self.name.clone(),
            index,
            link: self.ip.link_state(),
            link_address: Some(LinkAddress(info.own.0)),
            mtu: u32::try_from(info.sdu).unwrap_or(u32::MAX),
            addresses: self.objects.lock().iter().map(address_of).collect(),
            counters: [
                counters.received,
                lost.receive_queue_full,
                counters.transmitted,
                lost.transmit_refused,
            ],
        }
    }

    fn neighbours(&self) -> Vec<Neighbour> {
        let own = self.own();
        let row = |address: IpAddr, link: Option<LinkAddr>, state| Neighbour {
            interface: self.name.clone(),
            address,
            link: link.map(|link| LinkAddress(link.0)),
            state,
        };
        let mut rows: Vec<Neighbour> = self
            .cidrs()
            .iter()
            .map(|cidr| row(IpAddr::from(cidr.address()), Some(own), NeighbourState::Local))
            .collect();
        let now = std::time::Duration::from_nanos(fakekernel::now().0);
        self.ip.with_upper(|upper| {
            let link = upper.link();
            for (address, place, fresh) in link.neighbours().rows(now) {
                let state = match (place, fresh) {
                    (None, _) => NeighbourState::Incomplete,
                    (Some(_), true) => NeighbourState::Reachable,
                    (Some(_), false) => NeighbourState::Stale,
                };
                rows.push(row(address, place, state));
            }
            rows.extend(link.mappings().map(|(group, place)| row(group, Some(place), NeighbourState::Group)));
        });
        rows.sort_by_key(|row| row.address);
        rows
    }
}

/// The address that an object stands for on a link with this address of its own.
fn address(kind: &AddressKind, own: LinkAddr) -> Option<(IpAddr, u8)> {
    match kind {
        AddressKind::Static(ip, length) => Some((*ip, *length)),
        AddressKind::Addrconf if own == LinkAddr::ZERO => None,
        AddressKind::Addrconf => Some((own.link_local().into(), LINK_LOCAL_PREFIX)),
    }
}
