//! The IP layer of a host: its interfaces, each an [`IpThread`] on an open link, and their addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use admin::{Address, AddressKind, AddressState, Echo, Interface, Neighbour, NeighbourState, PingSpec};
use fakekernel::{Errno, HostMutex, Kernel, Nanos, SleepMutex};
use lab_gldv3::{LinkAddress, LinkState};
use smoltcp::wire::{IpAddress, IpCidr};

use super::status::IpStatus;
use crate::host::{DEVICE_NAME, IpThread, LinuxSide, TunBridge, Upper};
use crate::ip::apps::{Outcome, Ping};
use crate::ip::layer::{IpLink, LINK_LOCAL_PREFIX, Wanted};
use crate::ip::link_addr::LinkAddr;
use crate::ip::stack::Stack;
use crate::linux::Namespace;

/// `ENETUNREACH` and `EMSGSIZE` of `sys/errno.h`.
const UNREACHABLE: Errno = Errno(128);
const TOO_LONG: Errno = Errno(97);
/// Headers of an echo: IPv4 or IPv6, and ICMP.
const HEADERS: [usize; 2] = [28, 48];
/// How long a DHCP server may take to say where it is when an address is given back.
const RELEASE_PATIENCE: Nanos = Nanos::from_secs(3);
const LOOPBACK_MTU: u32 = 8232;
/// Largest IP packet until the link says better.
const DEFAULT_SDU: usize = 2044;

/// A host's interfaces.
pub struct HostIp {
    kernel: Kernel,
    seed: u64,
    /// Where Linux's programs use the interfaces, if they do.
    namespace: Option<Arc<Namespace>>,
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
    /// The TUN device in front of it, and the addresses Linux has given it. Gone before the interface is.
    linux: HostMutex<Option<LinuxSide>>,
    objects: HostMutex<Vec<(String, AddressKind)>>,
}

impl HostIp {
    pub fn new(kernel: &Kernel, seed: u64, namespace: Option<Arc<Namespace>>) -> Self {
        let state = State { plumbed: BTreeMap::new(), last_index: 1 };
        let (changing, state) = (SleepMutex::new("the interfaces", ()), HostMutex::new(state));
        Self { kernel: kernel.clone(), seed, namespace, changing, state }
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
        let (ip, linux) = self.open(link)?;
        let (linux, objects) = (HostMutex::new(linux), HostMutex::new(Vec::new()));
        let mut state = self.state.lock();
        state.last_index += 1;
        let index = state.last_index;
        state.plumbed.insert(index, Arc::new(Plumbed { name: link.to_owned(), ip, linux, objects }));
        Ok(())
    }

    /// The layer of an interface: the lab's own stack, or a TUN device with Linux's.
    fn open(&self, link: &str) -> Result<(IpThread, Option<LinuxSide>), Errno> {
        let Some(namespace) = &self.namespace else {
            let seed = self.seed;
            let stack = move |info| -> Box<dyn Upper> { Box::new(Stack::new(info, Vec::new(), seed)) };
            return Ok((IpThread::open(&self.kernel, link, stack)?, None));
        };
        if link.len() > DEVICE_NAME {
            return Err(Errno::EINVAL);
        }
        let machine = self.kernel.machine();
        let linux = LinuxSide::inside(namespace.clone(), link, &[], DEFAULT_SDU, machine);
        let mut linux = linux.map_err(|error| {
            eprintln!("{link}: {error:#}");
            Errno::EIO
        })?;
        let (sender, receiver) = mpsc::channel();
        let tun = linux.tun.clone();
        let bridge =
            move |info| -> Box<dyn Upper> { Box::new(TunBridge::new(info, Vec::new(), tun, receiver)) };
        let ip = IpThread::open(&self.kernel, link, bridge)?;
        linux.read(sender, ip.waker());
        Ok((ip, Some(linux)))
    }

    pub fn unplumb(&self, name: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let (index, plumbed) = self.find(name).ok_or(Errno::ENXIO)?;
        self.state.lock().plumbed.remove(&index);
        let linux = plumbed.linux.lock().take();
        drop(linux);
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
        if kind == AddressKind::Dhcp && self.namespace.is_some() {
            // The lab's client is in the lab's own stack; Linux has clients of its own.
            return Err(Errno::ENOTSUP);
        }
        if objects.len() >= smoltcp::config::IFACE_MAX_ADDR_COUNT {
            return Err(Errno::ENOSPC);
        }
        objects.push((object.to_owned(), kind));
        drop(objects);
        plumbed.apply(self.seed);
        Ok(())
    }

    pub fn remove_address(&self, object: &str, release: bool) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        for (_, plumbed) in self.all() {
            let Some(kind) = plumbed.kind_of(object) else { continue };
            if release && kind == AddressKind::Dhcp {
                plumbed.release();
            }
            plumbed.objects.lock().retain(|(name, _)| name != object);
            plumbed.apply(self.seed);
            return Ok(());
        }
        Err(Errno::ENOENT)
    }

    pub fn interfaces(&self) -> Vec<Interface> {
        let mut interfaces = vec![loopback()];
        interfaces.extend(self.all().iter().map(|(index, plumbed)| plumbed.interface(*index)));
        interfaces
    }

    /// What passed IP on a link, if IP is on it.
    pub fn counts(&self, link: &str) -> Option<IpStatus> {
        self.find(link).map(|(_, plumbed)| plumbed.counts())
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
        if let Some(namespace) = &self.namespace {
            return Ok(linux_echo(namespace, spec));
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

/// An echo by Linux's own `ping`, whose stack it is.
fn linux_echo(namespace: &Namespace, spec: &PingSpec) -> Echo {
    let begun = Instant::now();
    let mut ping = namespace.command("ping");
    let patience = spec.patience.as_secs_f64().max(0.1).to_string();
    ping.args(["-n", "-q", "-c", "1", "-W", &patience, "-s", &spec.size.to_string(), &spec.to.to_string()]);
    match ping.output() {
        Ok(output) if output.status.success() => Echo::Answered(begun.elapsed()),
        _ => Echo::Silence,
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

    fn kind_of(&self, object: &str) -> Option<AddressKind> {
        let objects = self.objects.lock();
        objects.iter().find(|(name, _)| name == object).map(|(_, kind)| kind.clone())
    }

    /// Tells the DHCP server that its address is not needed any more, and waits until that has left.
    fn release(&self) {
        let now = std::time::Duration::from_nanos(fakekernel::now().0);
        let Some(server) = self.ip.change(|upper| upper.link_mut().release(now)) else { return };
        let deadline = fakekernel::now() + RELEASE_PATIENCE;
        let waits = || self.ip.with_upper(|upper| upper.link().is_asking(server.into()));
        while waits() && fakekernel::now() < deadline {
            fakekernel::sleep(Nanos::from_millis(10));
        }
    }

    /// Has the layer below use the address objects.
    fn apply(&self, seed: u64) {
        let mut wanted = Wanted::default();
        for (_, kind) in &*self.objects.lock() {
            match kind {
                AddressKind::Static(ip, length) => wanted.fixed.push(IpCidr::new((*ip).into(), *length)),
                AddressKind::Addrconf => wanted.link_local = true,
                AddressKind::Dhcp => wanted.dhcp = Some(seed),
            }
        }
        let before = self.cidrs();
        self.ip.set_addresses(wanted);
        self.tell_linux(&before);
    }

    /// Has the TUN device follow the interface's addresses, and its size.
    fn tell_linux(&self, before: &[IpCidr]) {
        let Some(linux) = self.linux.lock().take() else { return };
        let now = self.cidrs();
        let gone = before.iter().filter(|address| !now.contains(address)).map(|address| (address, false));
        let come = now.iter().filter(|address| !before.contains(address)).map(|address| (address, true));
        let changed = gone.chain(come).try_for_each(|(address, add)| linux.change_address(address, add));
        let info = self.ip.with_upper(|upper| upper.link().info());
        if let Err(error) = changed.and_then(|()| linux.follow(info)) {
            eprintln!("{}: {error:#}", self.name);
        }
        *self.linux.lock() = Some(linux);
    }

    fn interface(&self, index: u32) -> Interface {
        let info = self.ip.with_upper(|upper| upper.link().info());
        let (counters, lost) = self.ip.counters();
        let link = self.ip.link_state();
        let objects = self.objects.lock().clone();
        let address_of = |(object, kind): (String, AddressKind)| {
            let address = self.ip.with_upper(|upper| address(&kind, upper.link()));
            let state = match address {
                None if kind == AddressKind::Dhcp => AddressState::Down,
                Some(_) if link != LinkState::Down => AddressState::Ok,
                _ => AddressState::Inaccessible,
            };
            Address { object, kind, address, state }
        };
        Interface {
            name: self.name.clone(),
            index,
            link,
            link_address: Some(LinkAddress(info.own.0)),
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

    fn counts(&self) -> IpStatus {
        let (counters, lost) = self.ip.counters();
        let (unresolved, device_refused) =
            self.ip.with_upper(|upper| (upper.link().neighbours().counters().unresolved, upper.refused()));
        IpStatus {
            received: counters.received,
            resolution: counters.resolution,
            unknown_sap: counters.unknown_sap,
            device_refused,
            queue_full: lost.receive_queue_full,
            transmitted: counters.transmitted,
            transmit_refused: lost.transmit_refused,
            unresolved,
            unsendable: counters.unsendable,
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
