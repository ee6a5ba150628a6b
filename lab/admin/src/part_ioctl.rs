//! The argument of the partition ioctls, laid out byte by byte as `sys/ibpart.h` has it for a 64-bit process.

use lab_gldv3::PointedTo;

use crate::status;
use crate::system::System;

const CREATE: u32 = 0x6171_0001;
const DELETE: u32 = 0x6171_0002;
const INFO: u32 = 0x6171_0003;

const INFO_PARTITION: u32 = 1;
const INFO_PORT: u32 = 2;
const INFO_TABLE: u32 = 3;

// Offsets of the fields.
const COMMAND: usize = 0;
const LINK: usize = 4;
const INSTANCE: usize = 8;
const PORT: usize = 12;
const HCA_GUID: usize = 16;
const PORT_GUID: usize = 24;
const STATUS: usize = 32;
const PARTITION_LINK: usize = 40;
const FORCE: usize = 44;
const PKEY: usize = 48;
const TABLE_SIZE: usize = 40;
const TABLE: usize = 48;
const SIZE: usize = 56;

/// A partition as the driver describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Link id of the port.
    pub(crate) port_link: u32,
    pub(crate) pkey: u16,
    pub(crate) forced: bool,
}

/// A port as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortInfo {
    pub(crate) port: u32,
    pub(crate) hca_guid: u64,
    pub(crate) port_guid: u64,
    pub(crate) pkeys: Vec<u16>,
}

struct Argument([u8; SIZE]);

impl Argument {
    fn new(words: &[(usize, u32)]) -> Self {
        let mut argument = Self([0; SIZE]);
        for (at, word) in words {
            argument.0[*at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        argument
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn long(&self, at: usize) -> u64 {
        let (low, high) = (self.word(at), self.word(at + 4));
        u64::from(low) | u64::from(high) << 32
    }

    /// A status other than zero tells more than the errno.
    fn run(
        &mut self,
        system: &dyn System,
        command: u32,
        table: Option<PointedTo<'_>>,
    ) -> Result<(), &'static str> {
        let result = system.ioctl(command, &mut self.0, table);
        let said = status::of_partition(self.word(STATUS) as i32);
        match (said, result) {
            (Some(said), _) => Err(said),
            (None, Err(errno)) => Err(status::of_errno(errno)),
            (None, Ok(_)) => Ok(()),
        }
    }
}

/// Has the driver make a partition of a port and become that link.
pub(crate) fn create(
    system: &dyn System,
    port: (u32, u32),
    link: u32,
    pkey: u16,
    force: bool,
) -> Result<(), &'static str> {
    let (port_link, instance) = port;
    let words = [
        (LINK, port_link),
        (INSTANCE, instance),
        (PARTITION_LINK, link),
        (FORCE, u32::from(force)),
        (PKEY, u32::from(pkey)),
    ];
    Argument::new(&words).run(system, CREATE, None)
}

/// Has it unmade.
pub(crate) fn delete(system: &dyn System, link: u32) -> Result<(), &'static str> {
    Argument::new(&[(PARTITION_LINK, link)]).run(system, DELETE, None)
}

/// What the driver knows of a partition.
pub(crate) fn partition(system: &dyn System, link: u32) -> Result<Partition, &'static str> {
    let mut argument = Argument::new(&[(COMMAND, INFO_PARTITION), (LINK, link)]);
    argument.run(system, INFO, None)?;
    Ok(Partition {
        port_link: argument.word(LINK),
        pkey: argument.word(PKEY) as u16,
        forced: argument.word(FORCE) != 0,
    })
}

/// What the driver knows of a port, which has this link, its P_Key table included.
pub(crate) fn port(system: &dyn System, link: u32, instance: u32) -> Result<PortInfo, &'static str> {
    let mut argument = Argument::new(&[(COMMAND, INFO_TABLE), (LINK, link), (INSTANCE, instance)]);
    argument.run(system, INFO, None)?;
    let entries = argument.word(TABLE_SIZE);
    let mut table = vec![0; entries as usize * 2];
    let words = [(COMMAND, INFO_PORT), (LINK, link), (INSTANCE, instance), (TABLE_SIZE, entries)];
    let mut argument = Argument::new(&words);
    argument.run(system, INFO, Some(PointedTo { at: TABLE, bytes: &mut table }))?;
    Ok(PortInfo {
        port: argument.word(PORT),
        hca_guid: argument.long(HCA_GUID),
        port_guid: argument.long(PORT_GUID),
        pkeys: table.chunks_exact(2).map(|pkey| u16::from_ne_bytes([pkey[0], pkey[1]])).collect(),
    })
}
