//! Ports and the partitions made on them (`dladm create-part`, `delete-part`, `show-part`).
//!
//! The list's lock is held for looking and for marking, never while a link is made or unmade: an entry that is being worked on
//! stays in the list without its value.

use core::fmt;

use gldv3::ibpart::{self, Header, PartitionError, PartitionRecord, PortRecord, PortRecord32};
use gldv3::ioctl::{Copy, Entry, Ioctl};
use gldv3::{InstanceNumber, LinkId};
use ibtf::{Partition, PartitionSource, PathRecord, PortState};
use ipoib::PKey;
use kernel::ddi::DevInfo;
use kernel::list::{List, Room};
use kernel::sync::Mutex;
use kernel::user::{Cred, UserMemory};
use kernel::{AllocError, ArcRoom, Errno, KArc, KVec, log};

use crate::common::Common;
use crate::directory::Identity;
use crate::link::Link;
use crate::node::Node;
use crate::port::Port;

/// All ports and partitions of the driver.
pub(crate) struct Ports {
    common: KArc<Common>,
    lists: Mutex<Lists>,
}

struct Lists {
    ports: List<Attached>,
    partitions: List<Made>,
}

struct Attached {
    instance: i32,
    dip: DevInfo,
    port: KArc<Port>,
    /// For putting it back should it not go: a detach needs no memory.
    spare: Option<Spare>,
}

type Spare = (ArcRoom<Port>, Room<Attached>);

/// A port in a log line, and how many links are made on it.
struct PortName {
    dip: DevInfo,
    node: Node,
    links: usize,
}

impl kernel::log::Source for PortName {}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dip, node, links } = self;
        write!(f, "{dip}: HCA GUID {:016x} port {} with {links} links", node.hca.get(), node.port)
    }
}

struct Made {
    link: LinkId,
    /// The link of the port instance, as the creator named it.
    device_link: u32,
    instance: i32,
    node: Node,
    pkey: PKey,
    forced: bool,
    /// `None` while it is being made or unmade.
    value: Option<Link>,
}

impl Ports {
    pub(crate) fn new(common: KArc<Common>) -> Result<KArc<Self>, AllocError> {
        KArc::new(Self { common, lists: Mutex::new(Lists { ports: List::new(), partitions: List::new() })? })
    }

    /// Attaches a port. **May block.**
    pub(crate) fn attach(&self, dip: DevInfo, node: Node) -> Result<(), Errno> {
        let (shared, room) = spare()?;
        let spare = Some(spare()?);
        let port = shared.fill(Port::attach(&self.common.clients, dip, node)?);
        self.lists.lock().ports.put(room, Attached { instance: dip.instance(), dip, port, spare });
        Ok(())
    }

    /// Detaches a port, unless partitions are made on it. **May block.**
    pub(crate) fn detach(&self, dip: DevInfo) -> Result<(), Errno> {
        let mut extra = spare().ok();
        let mut entry = self.take_port(dip, extra.is_some())?;
        // A port that has none is taken only if there is another.
        let Some((shared, room)) = entry.spare.take().or_else(|| extra.take()) else {
            return Err(Errno::ENOMEM);
        };
        let Attached { instance, dip, port, .. } = entry;
        let left = match port.try_unwrap() {
            Ok(port) => match port.detach() {
                Ok(()) => return Ok(()),
                Err(port) => shared.fill(port),
            },
            // An ioctl is looking at it.
            Err(port) => port,
        };
        self.lists.lock().ports.put(room, Attached { instance, dip, port: left, spare: extra });
        Err(Errno::EBUSY)
    }

    /// One line for whoever wants the system suspended. **May block**, for the list.
    pub(crate) fn refuse_suspend(&self, dip: DevInfo) {
        let Some((dip, port)) = self.port(dip.instance()) else { return };
        let links =
            self.lists.lock().partitions.iter().filter(|made| made.instance == dip.instance()).count();
        let name = PortName { dip, node: *port.node(), links };
        log!(warn, name, "cannot be suspended: the adapter would lose its queue pairs, memory and groups");
    }

    fn take_port(&self, dip: DevInfo, spare: bool) -> Result<Attached, Errno> {
        let mut lists = self.lists.lock();
        let instance = dip.instance();
        if lists.partitions.iter().any(|made| made.instance == instance) {
            return Err(Errno::EBUSY);
        }
        lists.ports.take(|entry| entry.dip == dip && (spare || entry.spare.is_some())).ok_or(Errno::ENXIO)
    }

    fn port(&self, instance: i32) -> Option<(DevInfo, KArc<Port>)> {
        let lists = self.lists.lock();
        let entry = lists.ports.iter().find(|entry| entry.instance == instance)?;
        Some((entry.dip, entry.port.clone()))
    }

    /// Makes a partition's link. **May block.**
    fn create(&self, record: &PartitionRecord, zone: i32) -> Result<(), Refusal> {
        let instance = record.header.port_instance;
        let (dip, port) = self.port(instance).ok_or((Errno::EINVAL, Some(PartitionError::InvalidPort)))?;
        let pkey =
            PKey::new(record.pkey).filter(|pkey| pkey.is_full_member()).ok_or((Errno::EINVAL, None))?;
        let forced = record.force != 0;
        if !forced {
            check_port(&port, pkey)?;
        }
        let link = LinkId(record.partition_link);
        let node = Node { pkey: Some(pkey), ..*port.node() };
        let device_link = record.header.link;
        self.reserve(Made { link, device_link, instance, node, pkey, forced, value: None })?;
        match self.make(dip, node, pkey, link, zone) {
            Ok(made) => {
                self.put(link, made);
                Ok(())
            }
            Err(refusal) => {
                self.forget(link);
                log!(warn, dip, "no link for P_Key {:04x}: {}", pkey.get(), refusal.0);
                Err(refusal)
            }
        }
    }

    fn make(&self, dip: DevInfo, node: Node, pkey: PKey, link: LinkId, zone: i32) -> Result<Link, Refusal> {
        let identity = Identity { number: link.0 as i32, zone };
        let made = Link::attach(dip, node, pkey, InstanceNumber::Allocate, &self.common, identity);
        let made = made.map_err(|error| match error {
            Errno::EIO => (error, Some(PartitionError::NoResource)),
            other => (other, None),
        })?;
        match made.registration().create_devnet(link, zone) {
            Ok(()) => Ok(made),
            Err(error) => {
                // Nobody has seen the link yet, so nobody holds it.
                let _ = made.detach();
                Err((error, None))
            }
        }
    }

    fn reserve(&self, made: Made) -> Result<(), Refusal> {
        let room = Room::new().map_err(|_| (Errno::ENOMEM, None))?;
        let mut lists = self.lists.lock();
        if lists.partitions.iter().any(|known| known.link == made.link) {
            return Err((Errno::EEXIST, Some(PartitionError::Exists)));
        }
        lists.partitions.put(room, made);
        Ok(())
    }

    fn put(&self, link: LinkId, value: Link) {
        let mut lists = self.lists.lock();
        if let Some(made) = lists.partitions.find_mut(|made| made.link == link) {
            made.value = Some(value);
        }
    }

    fn forget(&self, link: LinkId) {
        let mut lists = self.lists.lock();
        let made = lists.partitions.take(|made| made.link == link);
        drop(lists);
        drop(made);
    }

    /// Unmakes a partition's link, if nobody uses it. **May block.**
    fn delete(&self, link: LinkId, zone: i32) -> Result<(), Errno> {
        let value = {
            let mut lists = self.lists.lock();
            let made = lists.partitions.find_mut(|made| made.link == link).ok_or(Errno::ENOENT)?;
            made.value.take().ok_or(Errno::EBUSY)?
        };
        match unmake(value, link, zone) {
            Ok(()) => {
                self.forget(link);
                Ok(())
            }
            Err((value, error)) => {
                self.put(link, value);
                Err(error)
            }
        }
    }

    fn partition(&self, link: LinkId) -> Result<PartitionRecord, Errno> {
        let lists = self.lists.lock();
        let made = lists.partitions.iter().find(|made| made.link == link).ok_or(Errno::ENOENT)?;
        Ok(PartitionRecord {
            header: Header {
                link: made.device_link,
                port_instance: made.instance,
                port: u32::from(made.node.port),
                hca_guid: made.node.hca.get(),
                port_guid: made.node.port_guid.get(),
                ..Header::default()
            },
            partition_link: made.link.0,
            force: u32::from(made.forced),
            pkey: made.pkey.get(),
            ..PartitionRecord::default()
        })
    }
}

fn spare() -> Result<Spare, AllocError> {
    Ok((ArcRoom::new()?, Room::new()?))
}

/// An errno, and what `dladm` prints.
type Refusal = (Errno, Option<PartitionError>);

fn check_port(port: &Port, pkey: PKey) -> Result<(), Refusal> {
    let info = port.query().map_err(|_| (Errno::EINVAL, None))?;
    if info.state() != PortState::Active {
        return Err((Errno::ENETDOWN, Some(PartitionError::PortDown)));
    }
    if !info.pkeys().contains(&pkey.get()) {
        return Err((Errno::EINVAL, Some(PartitionError::PkeyNotPresent)));
    }
    Ok(())
}

fn unmake(link: Link, id: LinkId, zone: i32) -> Result<(), (Link, Errno)> {
    if let Err(error) = link.registration().destroy_devnet(true) {
        return Err((link, error));
    }
    let (link, error) = match link.detach() {
        Ok(()) => return Ok(()),
        Err(left) => left,
    };
    match link.registration().create_devnet(id, zone) {
        Ok(()) => Err((link, error)),
        Err(again) => Err((link, again)),
    }
}

/// The rows dld is told.
pub(crate) fn ioctls() -> Result<KVec<Entry<Ports>>, AllocError> {
    let mut rows = KVec::with_capacity(4)?;
    for row in [Entry::of::<Create>(), Entry::of::<Delete>(), Entry::of::<Info>(), Entry::of::<Path>()] {
        rows.push(row)?;
    }
    Ok(rows)
}

struct Create;

impl Ioctl<Ports> for Create {
    const COMMAND: u32 = ibpart::CREATE;
    const COPY: Copy = Copy::InOut;
    const PRIVILEGED: bool = true;
    type Record = PartitionRecord;

    fn call(
        ports: &Ports,
        record: &mut PartitionRecord,
        _: UserMemory<'_>,
        cred: Cred<'_>,
    ) -> Result<(), Errno> {
        record.header.status = 0;
        ports.create(record, cred.zone_id()).map_err(|(error, status)| {
            record.header.status = status.map_or(0, |status| status as i32);
            error
        })
    }
}

struct Delete;

impl Ioctl<Ports> for Delete {
    const COMMAND: u32 = ibpart::DELETE;
    const COPY: Copy = Copy::In;
    const PRIVILEGED: bool = true;
    type Record = PartitionRecord;

    fn call(
        ports: &Ports,
        record: &mut PartitionRecord,
        _: UserMemory<'_>,
        cred: Cred<'_>,
    ) -> Result<(), Errno> {
        ports.delete(LinkId(record.partition_link), cred.zone_id())
    }
}

struct Info;

impl Ioctl<Ports> for Info {
    const COMMAND: u32 = ibpart::INFO;
    const COPY: Copy = Copy::In;
    const PRIVILEGED: bool = false;
    type Record = Header;

    fn call(ports: &Ports, header: &mut Header, user: UserMemory<'_>, _: Cred<'_>) -> Result<(), Errno> {
        match header.command {
            ibpart::INFO_PARTITION => {
                let asked: PartitionRecord = user.read()?;
                let mut answer = ports.partition(LinkId(asked.header.link))?;
                answer.header.command = header.command;
                user.write(&[answer])
            }
            ibpart::INFO_PORT => ports.tell_port(header, user, true),
            ibpart::INFO_TABLE_SIZE => ports.tell_port(header, user, false),
            _ => Err(Errno::EINVAL),
        }
    }
}

struct Path;

impl Ioctl<Ports> for Path {
    const COMMAND: u32 = ibtf::PATH_INFO;
    const COPY: Copy = Copy::InOut;
    /// A question makes the SA work, and tells where others are.
    const PRIVILEGED: bool = true;
    type Record = PathRecord;

    fn call(ports: &Ports, record: &mut PathRecord, _: UserMemory<'_>, cred: Cred<'_>) -> Result<(), Errno> {
        ports.common.directory.tell_path(cred.zone_id(), record)
    }
}

impl Ports {
    /// Answers about a port; the P_Keys too if `keys`.
    fn tell_port(&self, header: &Header, user: UserMemory<'_>, keys: bool) -> Result<(), Errno> {
        let Some((_, port)) = self.port(header.port_instance) else {
            return refuse(header, user, PartitionError::InvalidPort);
        };
        let info = port.query().map_err(|_| Errno::EINVAL)?;
        let table = info.pkeys();
        let size = u32::try_from(table.len()).map_err(|_| Errno::EINVAL)?;
        let mut asked = read_port(user)?;
        if !keys {
            asked.table_size = size;
            return write_port(user, &asked);
        }
        if asked.table_size != size {
            return refuse(header, user, PartitionError::InvalidTableSize);
        }
        user.at(asked.pkeys).write(table)?;
        asked.header.port = u32::from(port.node().port);
        asked.header.hca_guid = port.node().hca.get();
        asked.header.port_guid = port.node().port_guid.get();
        asked.header.status = 0;
        write_port(user, &asked)
    }
}

fn refuse(header: &Header, user: UserMemory<'_>, status: PartitionError) -> Result<(), Errno> {
    user.write(&[Header { status: status as i32, ..*header }])?;
    Err(Errno::EINVAL)
}

fn read_port(user: UserMemory<'_>) -> Result<PortRecord, Errno> {
    if !user.is_ilp32() {
        return user.read();
    }
    let PortRecord32 { header, table_size, pkeys } = user.read()?;
    Ok(PortRecord { header, table_size, pad: 0, pkeys: u64::from(pkeys) })
}

fn write_port(user: UserMemory<'_>, record: &PortRecord) -> Result<(), Errno> {
    if !user.is_ilp32() {
        return user.write(&[*record]);
    }
    let PortRecord { header, table_size, pkeys, .. } = *record;
    // Came from such a caller, so it fits.
    user.write(&[PortRecord32 { header, table_size, pkeys: pkeys as u32 }])
}

/// What other IB clients ask.
impl PartitionSource for Ports {
    fn get(&self, link: u32) -> Option<Partition> {
        let lists = self.lists.lock();
        lists.partitions.iter().find(|made| made.link.0 == link).map(Made::describe)
    }

    fn all(&self) -> Result<KVec<Partition>, AllocError> {
        let lists = self.lists.lock();
        let mut all = KVec::new();
        for made in lists.partitions.iter() {
            all.push(made.describe())?;
        }
        Ok(all)
    }
}

impl Made {
    fn describe(&self) -> Partition {
        Partition {
            partition_link: self.link.0,
            device_link: self.device_link,
            port: self.node.port,
            hca_guid: self.node.hca.get(),
            port_guid: self.node.port_guid.get(),
            pkey: self.pkey.get(),
        }
    }
}
