//! Ports and the partitions made on them (`dladm create-part`, `delete-part`, `show-part`).
//!
//! The list's lock is held for looking and for marking, never while a link is made or unmade: an entry that is being worked on
//! stays in the list without its value.

mod ioctl;
mod link;

pub(crate) use ioctl::ioctls;

use core::fmt;

use gldv3::LinkId;
use gldv3::ibpart::{Header, PartitionError, PartitionRecord};
use ibtf::{Partition, PartitionSource, PortState};
use ipoib::PKey;
use kernel::ddi::DevInfo;
use kernel::list::{List, Room};
use kernel::sync::Mutex;
use kernel::time::{Duration, Instant, sleep};
use kernel::user::GLOBAL_ZONE;
use kernel::{AllocError, ArcRoom, Errno, KArc, KVec, MayBlock, log};

use crate::common::Common;
use crate::node::Node;
use crate::port::Port;
use link::PartitionLink;

/// How often a detach looks whether an ioctl still looks at the port, and for how long: an adapter that answers at all answers by then.
const AGAIN: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// The zone that made it: no zone but this and the global one unmakes it, and dls has it as this one's.
    zone: i32,
    /// Its creation has failed, and it is still to be undone: it is no partition.
    failed: bool,
    /// `None` while it is being made or unmade.
    value: Option<PartitionLink>,
}

impl Ports {
    pub(crate) fn new(common: KArc<Common>, may_block: &MayBlock) -> KArc<Self> {
        let lists = Lists { ports: List::new(), partitions: List::new() };
        KArc::new_waiting(Self { common, lists: Mutex::new_waiting(lists, may_block) }, may_block)
    }

    /// Attaches a port. **May block.**
    pub(crate) fn attach(&self, dip: DevInfo, node: Node, may_block: &MayBlock) -> Result<(), Errno> {
        let waiting = || (ArcRoom::new_waiting(may_block), Room::new_waiting(may_block));
        let ((shared, room), spare) = (waiting(), Some(waiting()));
        let port = shared.fill(Port::attach(&self.common, dip, node, may_block)?);
        self.lists.lock().ports.put(room, Attached { instance: dip.instance(), dip, port, spare });
        Ok(())
    }

    /// Detaches a port, unless partitions are made on it. Who asks about it meanwhile finds it gone. **May block.**
    pub(crate) fn detach(&self, dip: DevInfo) -> Result<(), Errno> {
        self.undo_failed();
        let memberships = self.port(dip.instance()).map_or(0, |(_, port)| port.is_kept_by());
        if memberships != 0 {
            log!(
                note,
                dip,
                "busy, still to be ended at the SA: {memberships} memberships of links that are gone"
            );
            return Err(Errno::EBUSY);
        }
        let mut extra = spare().ok();
        let mut entry = self.take_port(dip, extra.is_some())?;
        // A port that has none is taken only if there is another.
        let Some((shared, room)) = entry.spare.take().or_else(|| extra.take()) else {
            return Err(Errno::ENOMEM);
        };
        let Attached { instance, dip, port, .. } = entry;
        let left = match alone(port) {
            Ok(port) => match port.detach() {
                Ok(()) => return Ok(()),
                Err(port) => shared.fill(port),
            },
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
    fn create(&self, record: &PartitionRecord, zone: i32, may_block: &MayBlock) -> Result<(), Refusal> {
        self.undo_failed();
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
        let made = Made { link, device_link, instance, node, pkey, forced, zone, failed: false, value: None };
        self.reserve(made, may_block)?;
        match PartitionLink::make(&self.common, dip, node, pkey, link, zone, may_block) {
            Ok(made) => {
                self.put(link, made);
                Ok(())
            }
            Err((refusal, left)) => {
                match left {
                    Some(left) => self.keep_failed(link, left),
                    None => self.forget(link),
                }
                log!(warn, dip, "no link for P_Key {:04x}: {}", pkey.get(), refusal.0);
                Err(refusal)
            }
        }
    }

    fn reserve(&self, made: Made, may_block: &MayBlock) -> Result<(), Refusal> {
        let room = Room::new_waiting(may_block);
        let mut lists = self.lists.lock();
        // It may be detaching by now.
        if !lists.ports.iter().any(|port| port.instance == made.instance) {
            return Err((Errno::EINVAL, Some(PartitionError::InvalidPort)));
        }
        if lists.partitions.iter().any(|known| known.link == made.link) {
            return Err((Errno::EEXIST, Some(PartitionError::Exists)));
        }
        lists.partitions.put(room, made);
        Ok(())
    }

    fn put(&self, link: LinkId, value: PartitionLink) {
        let mut lists = self.lists.lock();
        if let Some(made) = lists.partitions.find_mut(|made| made.link == link) {
            made.value = Some(value);
        }
    }

    /// The creation of a link has failed, and another client holds its mac: it is undone later.
    fn keep_failed(&self, link: LinkId, value: PartitionLink) {
        let mut lists = self.lists.lock();
        if let Some(made) = lists.partitions.find_mut(|made| made.link == link && made.value.is_none()) {
            made.failed = true;
            made.value = Some(value);
        }
    }

    /// Undoes links whose creation has failed, as far as no client holds them any more. **May block**, for some seconds.
    fn undo_failed(&self) {
        loop {
            let mut lists = self.lists.lock();
            let failed = lists.partitions.find_mut(|made| made.failed && made.value.is_some());
            let Some((link, value)) = failed.and_then(|made| Some((made.link, made.value.take()?))) else {
                return;
            };
            drop(lists);
            match value.undo(Duration::ZERO) {
                Ok(()) => self.forget(link),
                Err(value) => {
                    self.keep_failed(link, value);
                    return;
                }
            }
        }
    }

    fn forget(&self, link: LinkId) {
        let mut lists = self.lists.lock();
        let made = lists.partitions.take(|made| made.link == link);
        drop(lists);
        drop(made);
    }

    /// Unmakes a partition's link for somebody of `zone`. `ENOENT` if there is none that this zone may unmake, `EBUSY` while somebody
    /// uses it. **May block.**
    fn delete(&self, link: LinkId, zone: i32) -> Result<(), Errno> {
        let (value, owner) = {
            let mut lists = self.lists.lock();
            let may =
                |made: &Made| made.link == link && !made.failed && (zone == GLOBAL_ZONE || zone == made.zone);
            let made = lists.partitions.find_mut(may).ok_or(Errno::ENOENT)?;
            (made.value.take().ok_or(Errno::EBUSY)?, made.zone)
        };
        match value.unmake(link, owner) {
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
        let made = lists.partitions.iter().find(|made| made.link == link && !made.failed);
        let made = made.ok_or(Errno::ENOENT)?;
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

/// The port, once no ioctl looks at it any more: none begins now, and each asks the adapter once. **May block.**
fn alone(mut port: KArc<Port>) -> Result<Port, KArc<Port>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        port = match port.try_unwrap() {
            Ok(port) => return Ok(port),
            Err(port) if Instant::now() >= deadline => return Err(port),
            Err(port) => port,
        };
        sleep(AGAIN);
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

/// What other IB clients ask.
impl PartitionSource for Ports {
    fn get(&self, link: u32) -> Option<Partition> {
        let lists = self.lists.lock();
        lists.partitions.iter().find(|made| made.link.0 == link && !made.failed).map(Made::describe)
    }

    fn all(&self, may_block: &MayBlock) -> KVec<Partition> {
        let mut all = KVec::new();
        loop {
            let lists = self.lists.lock();
            let shown = || lists.partitions.iter().filter(|made| !made.failed);
            let count = shown().count();
            if count <= all.capacity() {
                for made in shown() {
                    // There is room for each.
                    let _ = all.push_within_capacity(made.describe());
                }
                return all;
            }
            drop(lists);
            all = KVec::with_capacity_waiting(count, may_block);
        }
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
