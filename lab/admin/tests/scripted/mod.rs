//! A host that answers by rote: two ports, partitions on them in both modes, two neighbours. What a driver would say is said as
//! the kernel's headers lay it out, so the commands' own reading and writing of it is what is tried.
#![allow(dead_code)] // Each test file uses its part.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use admin::{
    Address, AddressKind, AddressState, Capture, Class, EchoAnswer, FileError, Group, Interface, Kstat,
    Neighbour, NeighbourState, PingSpec, Pinger, Port, Session, System, Terminal, Zone,
};
use fakekernel::Errno;
use fakekernel::genunix::{KstatId, KstatValue};
use lab_gldv3::{
    Datalink, LinkAddress, LinkState, LinkSummary, Permission, PointedTo, PropertyId, PropertyInfo,
    PropertyValue,
};

pub const HCA: u64 = 0x0002_c903_000a_1b2c;

/// A link of the sample: name, P_Key and port of a partition, state, largest payload, speed in Mb/s, forced.
#[derive(Clone)]
pub struct Link {
    pub id: u32,
    pub name: String,
    pub part: Option<(u16, u32, bool)>,
    pub instance: u32,
    pub state: LinkState,
    pub mtu: u32,
    pub speed: u64,
    pub counters: [u64; 6],
}

impl Link {
    fn port(id: u32, instance: u32, state: LinkState, speed: u64) -> Self {
        let name = format!("ibp{instance}");
        Self { id, name, part: None, instance, state, mtu: 65520, speed, counters: [0; 6] }
    }

    fn part(id: u32, name: &str, part: (u16, u32, bool), state: LinkState) -> Self {
        let counters = if name == "pFFFF.ibp0" { [1234, 105_780, 0, 1210, 101_664, 0] } else { [0; 6] };
        let name = name.to_owned();
        Self { id, name, part: Some(part), instance: 997 + id, state, mtu: 65520, speed: 32_000, counters }
    }
}

/// See the module's documentation.
pub struct Scripted {
    pub links: RefCell<Vec<Link>>,
    pub guids: (u64, [u64; 2]),
    pub pkeys: [Vec<u16>; 2],
    pub privileged: bool,
    pub busy: Vec<u32>,
    pub files: RefCell<BTreeMap<String, String>>,
    pub captures: RefCell<BTreeMap<String, Vec<u8>>>,
    pub ioctls: RefCell<Vec<(u32, Vec<u8>)>>,
    /// What the IB nexus was told.
    pub services: RefCell<Vec<String>>,
    /// What a new link was to be given when it comes.
    pub given: RefCell<Vec<(PropertyId, PropertyValue)>>,
    pub interfaces: Vec<Interface>,
    pub neighbours: Vec<Neighbour>,
    pub groups: Vec<Group>,
    /// The clock, which goes on where a command waits.
    pub now: Cell<Duration>,
    /// How long bob takes to answer an echo.
    pub round_trip: Duration,
    /// So many echo requests are not sent.
    pub refused_echoes: usize,
}

pub fn link_address(qpn: u32, port: u64) -> LinkAddress {
    let mut address = [0; 20];
    address[..4].copy_from_slice(&qpn.to_be_bytes());
    address[4..6].copy_from_slice(&[0xfe, 0x80]);
    address[12..].copy_from_slice(&port.to_be_bytes());
    LinkAddress(address)
}

fn static_address(object: &str, ip: &str, length: u8) -> Address {
    let ip: IpAddr = ip.parse().expect("an address");
    Address {
        object: object.into(),
        kind: AddressKind::Static(ip, length),
        address: Some((ip, length)),
        state: AddressState::Ok,
    }
}

impl Scripted {
    pub fn new() -> Self {
        use LinkState::{Down, Up};
        let links = vec![
            Link::port(1, 0, Up, 32_000),
            Link::port(2, 1, Down, 2_000),
            Link::part(3, "pFFFF.ibp0", (0xffff, 1, false), Up),
        ];
        Self {
            links: RefCell::new(links),
            guids: (HCA, [HCA + 1, HCA + 2]),
            pkeys: [vec![0xffff, 0x8001], vec![0xffff]],
            privileged: true,
            busy: Vec::new(),
            files: RefCell::default(),
            captures: RefCell::default(),
            ioctls: RefCell::default(),
            services: RefCell::default(),
            given: RefCell::default(),
            interfaces: vec![loopback(), partition_interface()],
            neighbours: neighbours(),
            groups: Vec::new(),
            now: Cell::default(),
            round_trip: Duration::from_micros(412),
            refused_echoes: 0,
        }
    }

    /// The partitions that `show-part` has in its sample.
    pub fn with_more_partitions(self) -> Self {
        self.links.borrow_mut().extend([
            Link::part(4, "p8001.ibp0", (0x8001, 1, true), LinkState::Down),
            Link::part(5, "pFFFF.ibp1", (0xffff, 2, true), LinkState::Down),
        ]);
        self
    }

    fn find(&self, name: &str) -> Result<Link, Errno> {
        self.links.borrow().iter().find(|link| link.name == name).cloned().ok_or(Errno::ENOENT)
    }

    fn info(&self, argument: &mut [u8], table: Option<PointedTo<'_>>) -> Result<i32, Errno> {
        let word = |at: usize| u32::from_ne_bytes(argument[at..at + 4].try_into().expect("four bytes"));
        let (command, id, instance) = (word(0), word(4), word(8) as usize);
        if command == 1 {
            let links = self.links.borrow();
            let link = links.iter().find(|link| link.id == id).ok_or(Errno::ENOENT)?;
            let (pkey, over, forced) = link.part.ok_or(Errno::ENOENT)?;
            put(argument, 4, over);
            put(argument, 40, id);
            put(argument, 44, u32::from(forced));
            argument[48..50].copy_from_slice(&pkey.to_ne_bytes());
            return Ok(0);
        }
        let Some(pkeys) = self.pkeys.get(instance) else {
            put(argument, 32, 1);
            return Err(Errno::EINVAL);
        };
        put(argument, 12, instance as u32 + 1);
        argument[16..24].copy_from_slice(&self.guids.0.to_ne_bytes());
        argument[24..32].copy_from_slice(&self.guids.1[instance].to_ne_bytes());
        if command == 3 {
            put(argument, 40, pkeys.len() as u32);
        } else if let Some(table) = table {
            for (at, pkey) in pkeys.iter().enumerate() {
                table.bytes[at * 2..at * 2 + 2].copy_from_slice(&pkey.to_ne_bytes());
            }
        }
        Ok(0)
    }

    fn create(&self, argument: &mut [u8]) -> Result<i32, Errno> {
        let word = |at: usize| u32::from_ne_bytes(argument[at..at + 4].try_into().expect("four bytes"));
        let pkey = u16::from_ne_bytes([argument[48], argument[49]]);
        let (over, instance, id, forced) = (word(4), word(8) as usize, word(40), word(44) != 0);
        if !forced && self.links.borrow()[instance].state != LinkState::Up {
            put(argument, 32, 2);
            return Err(Errno(127));
        }
        if !forced && !self.pkeys[instance].contains(&pkey) {
            put(argument, 32, 3);
            return Err(Errno::EINVAL);
        }
        let mut links = self.links.borrow_mut();
        let link = links.iter_mut().find(|link| link.id == id).ok_or(Errno::ENOENT)?;
        link.part = Some((pkey, over, forced));
        Ok(0)
    }

    fn delete(&self, argument: &[u8]) -> Result<i32, Errno> {
        let id = u32::from_ne_bytes(argument[40..44].try_into().expect("four bytes"));
        if self.busy.contains(&id) {
            return Err(Errno::EBUSY);
        }
        Ok(0)
    }
}

fn put(argument: &mut [u8], at: usize, word: u32) {
    argument[at..at + 4].copy_from_slice(&word.to_ne_bytes());
}

fn loopback() -> Interface {
    Interface {
        name: "lo0".into(),
        index: 1,
        link: LinkState::Up,
        class: Class::Loopback,
        link_address: None,
        mtu: 8232,
        addresses: vec![static_address("lo0/v4", "127.0.0.1", 8), static_address("lo0/v6", "::1", 128)],
        counters: [0; 4],
    }
}

fn partition_interface() -> Interface {
    let link_local = Address {
        object: "pFFFF.ibp0/v6".into(),
        kind: AddressKind::Addrconf,
        address: Some(("fe80::202:c903:a:1b2d".parse().expect("an address"), 10)),
        state: AddressState::Ok,
    };
    Interface {
        name: "pFFFF.ibp0".into(),
        index: 2,
        link: LinkState::Up,
        class: Class::Ip,
        link_address: Some(link_address(0x8000_0048, HCA + 1)),
        mtu: 65520,
        addresses: vec![static_address("pFFFF.ibp0/v4", "10.0.0.1", 24), link_local],
        counters: [0; 4],
    }
}

fn neighbours() -> Vec<Neighbour> {
    let peer = link_address(0x8000_0049, 0x0002_c903_000a_1c11);
    let mut group = LinkAddress([0; 20]);
    group.0[..8].copy_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b]);
    group.0[19] = 0x16;
    let own = link_address(0x8000_0048, HCA + 1);
    let row = |address: &str, link: Option<LinkAddress>, state| Neighbour {
        interface: "pFFFF.ibp0".into(),
        address: address.parse().expect("an address"),
        link,
        state,
    };
    vec![
        row("10.0.0.1", Some(own), NeighbourState::Local),
        row("10.0.0.2", Some(peer), NeighbourState::Reachable),
        row("10.0.0.9", None, NeighbourState::Incomplete),
        row("224.0.0.22", Some(group), NeighbourState::Group),
        row("fe80::202:c903:a:1b2d", Some(own), NeighbourState::Local),
        row("fe80::202:c903:a:1c11", Some(peer), NeighbourState::Stale),
    ]
}

impl System for Scripted {
    fn privileged(&self) -> bool {
        self.privileged
    }

    fn datalinks(&self) -> Vec<Datalink> {
        let links = self.links.borrow();
        let entry =
            |link: &Link| Datalink { id: link.id, name: link.name.clone(), partition: link.part.is_some() };
        links.iter().map(entry).collect()
    }

    fn links(&self) -> Vec<LinkSummary> {
        let links = self.links.borrow();
        let summary = |link: &Link| LinkSummary {
            name: link.name.clone(),
            mac: format!("ibp{}", link.instance),
            id: link.id,
            partition: link.part.is_some(),
            zone: 0,
            owner: 0,
            state: link.state,
            instance: link.instance,
            max_sdu: link.mtu,
        };
        links.iter().map(summary).collect()
    }

    fn create_datalink(
        &self,
        name: &str,
        _partition: bool,
        properties: &[(PropertyId, PropertyValue)],
    ) -> Result<u32, Errno> {
        if self.find(name).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.given.borrow_mut().extend_from_slice(properties);
        let id = self.links.borrow().len() as u32 + 1;
        let state = LinkState::Unknown;
        self.links.borrow_mut().push(Link::part(id, name, (0, 0, false), state));
        Ok(id)
    }

    fn destroy_datalink(&self, id: u32) {
        self.links.borrow_mut().retain(|link| link.id != id);
    }

    fn rename_datalink(&self, id: u32, name: &str) -> Result<(), Errno> {
        if self.busy.contains(&id) {
            return Err(Errno::EBUSY);
        }
        let mut links = self.links.borrow_mut();
        name.clone_into(&mut links.iter_mut().find(|link| link.id == id).ok_or(Errno::ENOENT)?.name);
        Ok(())
    }

    fn ioctl(
        &self,
        command: u32,
        argument: &mut [u8],
        pointed_to: Option<PointedTo<'_>>,
    ) -> Result<i32, Errno> {
        assert_eq!(argument.len(), 56);
        self.ioctls.borrow_mut().push((command, argument.to_vec()));
        match command {
            0x6171_0001 => self.create(argument),
            0x6171_0002 => self.delete(argument),
            0x6171_0003 => self.info(argument, pointed_to),
            _ => Err(Errno::ENOTSUP),
        }
    }

    fn get_property(&self, link: &str, id: &PropertyId) -> Result<PropertyValue, Errno> {
        let link = self.find(link)?;
        match id {
            PropertyId::IbLinkMode => Ok(PropertyValue::U32(u32::from(link.mtu == 65520))),
            PropertyId::Mtu => Ok(PropertyValue::U32(link.mtu)),
            PropertyId::Status => Ok(PropertyValue::U32(1)),
            PropertyId::Private(name) if name == "_ibd_rc_num_swqe" => Ok(PropertyValue::Text("511".into())),
            PropertyId::Private(name) if name == "_ibd_broadcast_group" => {
                Ok(PropertyValue::Text("1".into()))
            }
            _ => Err(Errno::ENOTSUP),
        }
    }

    fn set_property(&self, link: &str, id: &PropertyId, _value: &PropertyValue) -> Result<(), Errno> {
        let link = self.find(link)?;
        match id {
            PropertyId::IbLinkMode if self.busy.contains(&link.id) => Err(Errno::EBUSY),
            PropertyId::IbLinkMode => Ok(()),
            PropertyId::Private(name) if name == "_ibd_rc_num_swqe" => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTSUP),
        }
    }

    fn property_info(&self, link: &str, id: &PropertyId) -> Result<PropertyInfo, Errno> {
        let link = self.find(link)?;
        let info = |permission, default, ranges| Ok(PropertyInfo { permission, default, ranges });
        match id {
            PropertyId::IbLinkMode => info(Permission::ReadWrite, None, vec![]),
            PropertyId::Status => info(Permission::ReadOnly, None, vec![]),
            PropertyId::Mtu => info(
                Permission::ReadOnly,
                Some(PropertyValue::U32(link.mtu)),
                vec![if link.part.is_some() { (link.mtu, link.mtu) } else { (1500, 65520) }],
            ),
            PropertyId::Private(name) if name == "_ibd_rc_num_swqe" => {
                info(Permission::ReadWrite, Some(PropertyValue::Text("511".into())), vec![])
            }
            PropertyId::Private(name) if name == "_ibd_broadcast_group" => {
                info(Permission::ReadOnly, None, vec![])
            }
            _ => Err(Errno::ENOTSUP),
        }
    }

    fn kstats(&self) -> Vec<KstatId> {
        let id = |link: &Link| KstatId { module: "link".into(), instance: 0, name: link.name.clone() };
        self.links.borrow().iter().map(id).collect()
    }

    fn read_kstat(&self, id: &KstatId) -> Result<Kstat, Errno> {
        let link = self.find(&id.name)?;
        let state = match link.state {
            LinkState::Up => 1,
            LinkState::Down => 0,
            LinkState::Unknown => u32::MAX,
        };
        let mut values = vec![
            ("link_state".to_owned(), KstatValue::U32(state)),
            ("ifspeed".to_owned(), KstatValue::U64(link.speed * 1_000_000)),
        ];
        let names = ["ipackets64", "rbytes64", "ierrors", "opackets64", "obytes64", "oerrors"];
        values.extend(
            names.iter().zip(link.counters).map(|(name, value)| ((*name).to_owned(), KstatValue::U64(value))),
        );
        let created = Duration::new(85, 123_456_789);
        Ok(Kstat { class: "net".into(), created, read: Duration::new(90, 5), values })
    }

    fn ports(&self) -> Vec<Port> {
        self.guids.1.iter().map(|guid| Port { hca: self.guids.0, guid: *guid, configured: true }).collect()
    }

    fn walk_devices(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn set_services(&self, text: &str) -> Result<(), Errno> {
        if !self.privileged {
            return Err(Errno::EPERM);
        }
        self.services.borrow_mut().push(text.to_owned());
        Ok(())
    }

    fn read_file(&self, path: &str) -> Option<String> {
        self.files.borrow().get(path).cloned()
    }

    fn change_file_and(
        &self,
        path: &str,
        change: &mut dyn FnMut(String) -> String,
        act: &mut dyn FnMut() -> bool,
    ) -> Result<(), FileError> {
        let new = change(self.read_file(path).unwrap_or_default());
        if act() {
            self.files.borrow_mut().insert(path.to_owned(), new);
        }
        Ok(())
    }

    fn remove_file(&self, path: &str) -> Result<(), FileError> {
        let below = format!("{path}/");
        self.files.borrow_mut().retain(|name, _| name != path && !name.starts_with(&below));
        Ok(())
    }

    fn interfaces(&self) -> Vec<Interface> {
        self.interfaces.clone()
    }

    fn plumb(&self, link: &str) -> Result<(), Errno> {
        let link = self.find(link)?;
        if link.part.is_some() { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn unplumb(&self, interface: &str) -> Result<(), Errno> {
        let known = self.interfaces.iter().any(|known| known.name == interface);
        if known { Ok(()) } else { Err(Errno::ENXIO) }
    }

    fn add_address(&self, interface: &str, object: &str, _kind: AddressKind) -> Result<(), Errno> {
        let known = self.interfaces.iter().find(|known| known.name == interface).ok_or(Errno::ENXIO)?;
        let taken = known.addresses.iter().any(|address| address.object == object);
        if taken { Err(Errno::EEXIST) } else { Ok(()) }
    }

    fn remove_address(&self, object: &str, _release: bool) -> Result<(), Errno> {
        let mut all = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        if all.any(|address| address.object == object) { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn create_group(&self, _name: &str) -> Result<(), Errno> {
        Err(Errno::ENOTSUP)
    }

    fn delete_group(&self, _name: &str) -> Result<(), Errno> {
        Err(Errno::ENXIO)
    }

    fn add_to_group(&self, _group: &str, _interface: &str) -> Result<(), Errno> {
        Err(Errno::ENXIO)
    }

    fn remove_from_group(&self, _group: &str, _interface: &str) -> Result<(), Errno> {
        Err(Errno::ENXIO)
    }

    fn zone(&self) -> Zone {
        Zone::global()
    }

    fn zones(&self) -> Vec<Zone> {
        vec![Zone::global()]
    }

    fn boot_zone(&self, _name: &str, _links: &[String]) -> Result<(), Errno> {
        Err(Errno::ENOTSUP)
    }

    fn halt_zone(&self, _name: &str) -> Result<(), Errno> {
        Err(Errno::ENXIO)
    }

    fn groups(&self) -> Vec<Group> {
        self.groups.clone()
    }

    fn neighbours(&self) -> Vec<Neighbour> {
        self.neighbours.clone()
    }

    fn pinger(&self, spec: &PingSpec) -> Result<Box<dyn Pinger + '_>, Errno> {
        if spec.to.is_ipv6() {
            return Err(Errno(128));
        }
        Ok(Box::new(Peer {
            system: self,
            answers: match spec.to {
                IpAddr::V4(ip) if ip.octets() == [10, 0, 0, 2] => vec![spec.to],
                IpAddr::V4(ip) if ip.octets() == [10, 0, 0, 255] => {
                    [2, 3].map(|n| IpAddr::from([10, 0, 0, n])).to_vec()
                }
                _ => Vec::new(),
            },
            refuses: self.refused_echoes,
            out: VecDeque::new(),
        }))
    }

    fn resolve(&self, name: &str) -> Option<IpAddr> {
        (name == "bob").then(|| IpAddr::from([10, 0, 0, 2]))
    }

    fn open_file(&self, path: &str) -> Result<Vec<u8>, FileError> {
        self.captures.borrow().get(path).cloned().ok_or_else(|| FileError(format!("{path}: No such file")))
    }

    fn create_file(&self, path: &str) -> Result<Box<dyn std::io::Write>, FileError> {
        Err(FileError(format!("{path}: Permission denied")))
    }

    fn listen(&self, link: &str, _promiscuous: bool) -> Result<Box<dyn Capture>, Errno> {
        self.find(link).and_then(|_| Err(Errno::EINVAL))
    }

    fn name_of(&self, address: IpAddr) -> Option<String> {
        (address == IpAddr::from([10, 0, 0, 2])).then(|| "bob".to_owned())
    }

    fn process_id(&self) -> u32 {
        1234
    }

    fn now(&self) -> Duration {
        self.now.get()
    }

    /// It boots at 21:04:02 on 6 November 2026.
    fn time(&self) -> Duration {
        Duration::from_secs(1_793_999_042) + self.now.get()
    }

    fn wait(&self, span: Duration) -> bool {
        self.now.set(self.now.get() + span);
        false
    }
}

/// Somebody who may answer, each echo after [`Scripted::round_trip`].
struct Peer<'a> {
    system: &'a Scripted,
    answers: Vec<IpAddr>,
    /// So many requests are not sent.
    refuses: usize,
    out: VecDeque<(Duration, EchoAnswer)>,
}

impl Pinger for Peer<'_> {
    fn send(&mut self, sequence: u16, size: usize) -> Result<(), Errno> {
        let after = self.system.round_trip;
        if self.refuses > 0 {
            self.refuses -= 1;
            return Err(Errno(132));
        }
        for from in &self.answers {
            let answer = EchoAnswer { from: *from, sequence, size, after };
            self.out.push_back((self.system.now() + after, answer));
        }
        Ok(())
    }

    fn answer(&mut self, deadline: Duration) -> Option<EchoAnswer> {
        let now = &self.system.now;
        let due = self.out.front().map(|(at, _)| *at).filter(|at| *at <= deadline);
        now.set(due.unwrap_or(deadline).max(now.get()));
        due.and_then(|_| self.out.pop_front()).map(|(_, answer)| answer)
    }
}

#[derive(Default)]
struct Paper {
    out: String,
    err: String,
}

impl Terminal for Paper {
    fn out(&mut self, text: &str) {
        self.out += text;
    }

    fn err(&mut self, text: &str) {
        self.err += text;
    }

    fn rows(&self) -> usize {
        24
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// Standard output, standard error and exit code of a command line; words are divided by blanks.
pub fn run(system: &Scripted, line: &str) -> (String, String, i32) {
    let mut words = line.split(' ').map(str::to_owned);
    let name = words.next().expect("a command");
    let mut paper = Paper::default();
    let mut session = Session { system, terminal: &mut paper };
    let exit = admin::run(&mut session, &name, &words.collect::<Vec<_>>()).expect("a command of the crate");
    (paper.out, paper.err, exit.0)
}
