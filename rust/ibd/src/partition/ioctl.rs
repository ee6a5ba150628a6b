//! What `dladm` and others ask dld for (`/dev/dld`): partitions made, unmade and listed, ports, and paths to neighbours.
//!
//! A zone knows of the links that it made or has, and unmakes those that it made. The global zone knows of all and may unmake all.

use gldv3::LinkId;
use gldv3::ibpart::{self, Header, PartitionError, PartitionRecord, PortRecord, PortRecord32};
use gldv3::ioctl::{Copy, Entry, Ioctl};
use ibtf::PathRecord;
use kernel::user::{Cred, GLOBAL_ZONE, UserMemory};
use kernel::{Errno, KVec, MayBlock};

use super::Ports;

/// Whether somebody may know of a link. **May block.**
fn check_visible(link: LinkId, cred: Cred<'_>) -> Result<(), Errno> {
    let zone = cred.zone_id();
    if zone == GLOBAL_ZONE || gldv3::is_visible(link, zone) { Ok(()) } else { Err(Errno::ENOENT) }
}

/// The rows dld is told.
pub(crate) fn ioctls(may_block: &MayBlock) -> KVec<Entry<Ports>> {
    let mut rows = KVec::new();
    for row in [Entry::of::<Create>(), Entry::of::<Delete>(), Entry::of::<Info>(), Entry::of::<Path>()] {
        rows.push_waiting(row, may_block);
    }
    rows
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
        may_block: &MayBlock,
    ) -> Result<(), Errno> {
        record.header.status = 0;
        ports.create(record, cred.zone_id(), may_block).map_err(|(error, status)| {
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
        _: &MayBlock,
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

    fn call(
        ports: &Ports,
        header: &mut Header,
        user: UserMemory<'_>,
        cred: Cred<'_>,
        _: &MayBlock,
    ) -> Result<(), Errno> {
        match header.command {
            ibpart::INFO_PARTITION => {
                let asked: PartitionRecord = user.read()?;
                let link = LinkId(asked.header.link);
                check_visible(link, cred)?;
                let mut answer = ports.partition(link)?;
                answer.header.command = header.command;
                user.write(&[answer])
            }
            ibpart::INFO_PORT | ibpart::INFO_TABLE_SIZE => {
                // The port's own link, as dladm names it.
                check_visible(LinkId(header.link), cred)?;
                ports.tell_port(header, user, header.command == ibpart::INFO_PORT)
            }
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

    fn call(
        ports: &Ports,
        record: &mut PathRecord,
        _: UserMemory<'_>,
        cred: Cred<'_>,
        _: &MayBlock,
    ) -> Result<(), Errno> {
        check_visible(LinkId(record.link), cred)?;
        ports.common.directory.tell_path(record)
    }
}

impl Ports {
    /// Answers about a port; the P_Keys too if `keys`.
    fn tell_port(&self, header: &Header, user: UserMemory<'_>, keys: bool) -> Result<(), Errno> {
        // Copying waits for the caller's memory, perhaps for long, and a detach waits for who has the port.
        let Some((node, info)) =
            self.port(header.port_instance).map(|(_, port)| (*port.node(), port.query()))
        else {
            return refuse(header, user, PartitionError::InvalidPort);
        };
        let info = info.map_err(|_| Errno::EINVAL)?;
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
        asked.header.port = u32::from(node.port);
        asked.header.hca_guid = node.hca.get();
        asked.header.port_guid = node.port_guid.get();
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
