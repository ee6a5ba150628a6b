//! The IP layer of a host: its interfaces and their addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, mpsc};

use admin::{Address, AddressKind, AddressState, Class, Interface, Neighbour, PingSpec};
use fakekernel::{Errno, HostMutex, Kernel, Nanos, SleepMutex};
use lab_gldv3::LinkState;
use lab_ip::apps::{App, Outcome};
use lab_ip::stack::Stack;

use super::plumbed::{Plumbed, Role};
use super::status::IpStatus;
use crate::host::{AppId, DEVICE_NAME, IpThread, LinuxSide, TunBridge, Upper};
use crate::linux::Namespace;
use crate::words::complain;

const LOOPBACK_MTU: u32 = 8232;
/// Largest IP packet until the link says better.
const DEFAULT_SDU: usize = 2044;

/// A host's interfaces.
pub struct HostIp {
    pub(super) kernel: Kernel,
    pub(super) seed: u64,
    /// Where Linux's programs use the interfaces, if they do.
    pub(super) namespace: Option<Arc<Namespace>>,
    /// Held while an interface comes or goes or is given an address: those wait for the driver.
    pub(super) changing: SleepMutex<()>,
    state: HostMutex<State>,
}

#[derive(Default)]
struct State {
    plumbed: BTreeMap<u32, Arc<Plumbed>>,
    last_index: u32,
}

impl HostIp {
    pub fn new(kernel: &Kernel, seed: u64, namespace: Option<Arc<Namespace>>) -> Self {
        let state = State { plumbed: BTreeMap::new(), last_index: 1 };
        let (changing, state) = (SleepMutex::new("the interfaces", ()), HostMutex::new(state));
        Self { kernel: kernel.clone(), seed, namespace, changing, state }
    }

    pub(super) fn all(&self) -> Vec<(u32, Arc<Plumbed>)> {
        self.state.lock().plumbed.iter().map(|(index, plumbed)| (*index, plumbed.clone())).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<(u32, Arc<Plumbed>)> {
        self.all().into_iter().find(|(_, plumbed)| plumbed.name == name)
    }

    pub fn plumb(&self, link: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        if self.find(link).is_some() {
            return Err(Errno::EEXIST);
        }
        let (ip, linux) = self.open(link)?;
        self.enter(Plumbed::new(link, ip, linux, Role::Alone));
        Ok(())
    }

    /// Gives an interface the next index.
    pub(super) fn enter(&self, plumbed: Plumbed) {
        let mut state = self.state.lock();
        state.last_index += 1;
        let index = state.last_index;
        state.plumbed.insert(index, Arc::new(plumbed));
    }

    /// The layer of an interface: the lab's own stack, or a TUN device with Linux's.
    fn open(&self, link: &str) -> Result<(IpThread, Option<LinuxSide>), Errno> {
        let Some(namespace) = &self.namespace else {
            let seed = self.seed;
            let stack =
                move |info| -> Box<dyn Upper> { Box::new(Stack::new(info, Vec::new(), seed).probing()) };
            return Ok((IpThread::open(&self.kernel, link, stack)?, None));
        };
        if link.len() > DEVICE_NAME {
            return Err(Errno::EINVAL);
        }
        let machine = self.kernel.machine();
        let linux = LinuxSide::inside(namespace.clone(), link, &[], DEFAULT_SDU, machine);
        let mut linux = linux.map_err(|error| {
            complain(&format!("{link}: {error:#}"));
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
        match plumbed.role() {
            Role::Alone => {}
            // It leaves its group first.
            Role::Member { .. } => return Err(Errno::EBUSY),
            Role::Group(_) => return Err(Errno::ENXIO),
        }
        self.take_away(index, &plumbed);
        Ok(())
    }

    pub(super) fn take_away(&self, index: u32, plumbed: &Plumbed) {
        self.state.lock().plumbed.remove(&index);
        let linux = plumbed.linux.lock().take();
        drop(linux);
        plumbed.ip.close();
    }

    /// Takes every interface away, groups first.
    pub fn close(&self) {
        let _alone = self.changing.lock();
        let (groups, others): (Vec<_>, Vec<_>) =
            self.all().into_iter().partition(|(_, plumbed)| matches!(plumbed.role(), Role::Group(_)));
        for (index, plumbed) in groups.into_iter().chain(others) {
            self.take_away(index, &plumbed);
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
        let possible = match (plumbed.role(), &kind) {
            // The lab's client is in the lab's own stack; Linux has clients of its own.
            (Role::Alone, AddressKind::Dhcp) => self.namespace.is_none(),
            (Role::Alone, _) | (Role::Group(_), AddressKind::Static(..)) => true,
            // A group has no link to make an address of; its members have no test addresses, as nobody probes.
            (Role::Group(_) | Role::Member { .. }, _) => false,
        };
        if !possible {
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

    /// The first IPv4 address, by which others call this host. One that another host has is not its own.
    pub fn address(&self) -> Option<IpAddr> {
        let interfaces = self.interfaces();
        let all = interfaces.iter().skip(1).flat_map(|interface| &interface.addresses);
        all.filter(|address| address.is_up())
            .filter_map(|address| Some(address.address?.0))
            .min_by_key(IpAddr::is_ipv6)
    }

    /// Is it an address of an interface that is in use?
    pub fn has(&self, address: IpAddr) -> bool {
        self.all()
            .iter()
            .any(|(_, plumbed)| plumbed.cidrs().iter().any(|cidr| IpAddr::from(cidr.address()) == address))
    }

    /// Starts an application on an interface.
    ///
    /// # Errors
    ///
    /// ENXIO when there is no such interface.
    pub fn start(&self, interface: &str, app: Box<dyn App>) -> Result<AppId, Errno> {
        let (_, plumbed) = self.find(interface).ok_or(Errno::ENXIO)?;
        Ok(plumbed.ip.start(app))
    }

    /// Waits for its end; see [`IpThread::finish`].
    pub fn finish(&self, interface: &str, app: AppId, deadline: Nanos) -> Option<Outcome> {
        self.find(interface)?.1.ip.finish(app, deadline)
    }

    /// The interface whose subnet the address is in, or for a group the first one of the family, or the one that has heard of a router,
    /// and its address there.
    pub(super) fn route(&self, spec: &PingSpec) -> Option<(Arc<Plumbed>, IpAddr)> {
        let wanted = |plumbed: &Plumbed| {
            let asked = spec.interface.as_ref().is_none_or(|name| *name == plumbed.name);
            asked && !matches!(plumbed.role(), Role::Member { .. })
        };
        let all: Vec<Arc<Plumbed>> = self.all().into_iter().map(|(_, plumbed)| plumbed).collect();
        let route = |by_router: bool| {
            let mut wanted = all.iter().filter(|plumbed| wanted(plumbed));
            wanted.find_map(|plumbed| Some((plumbed.clone(), plumbed.source_for(spec.to, by_router)?)))
        };
        route(false).or_else(|| route(true))
    }
}

/// Is it an address of `lo0`?
pub(super) fn is_loopback(address: IpAddr) -> bool {
    loopback().addresses.iter().any(|known| known.address.is_some_and(|(ip, _)| ip == address))
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
        class: Class::Loopback,
        link_address: None,
        mtu: LOOPBACK_MTU,
        addresses: vec![
            address("lo0/v4", Ipv4Addr::LOCALHOST.into(), 8),
            address("lo0/v6", Ipv6Addr::LOCALHOST.into(), 128),
        ],
        counters: [0; 4],
    }
}
