//! Open files: what came for each, and what their programs make of it.

use std::collections::{BTreeMap, VecDeque};

use rustix::io::Errno;
use sm::mad::MAD_LEN;

use crate::header::{Header, Layout};
use crate::registration::AgentId;

/// An open file of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(crate) u64);

/// Messages that wait for a program that does not read; more are dropped, as on a wire.
pub(crate) const WAITING: usize = 4096;
/// Agents of a file.
pub(crate) const AGENTS: u32 = 32;

/// One open file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub layout: Layout,
    /// An agent was registered: the layout stays.
    pub used: bool,
    /// The device is gone.
    pub dead: bool,
    /// Its agents, by the high half of their transactions.
    pub agents: BTreeMap<AgentId, u32>,
    /// Header and MAD.
    received: VecDeque<(Header, Vec<u8>)>,
}

impl File {
    /// The lowest number that is free.
    pub fn free_agent(&self) -> Result<AgentId, Errno> {
        (0..AGENTS).map(AgentId).find(|id| !self.agents.contains_key(id)).ok_or(Errno::NOMEM)
    }

    /// False if there is no room for it.
    pub fn put(&mut self, header: Header, mad: Vec<u8>) -> bool {
        let room = self.received.len() < WAITING;
        if room {
            let length = u32::try_from(self.layout.size() + mad.len()).unwrap_or(u32::MAX);
            self.received.push_back((Header { length, ..header }, mad));
        }
        room
    }

    pub fn is_readable(&self) -> bool {
        self.dead || !self.received.is_empty()
    }

    /// `read(2)`: the next message. One that does not fit stays; of one that has several segments the header and the first segment
    /// are there all the same, and the header says how long it is.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        let header_size = self.layout.size();
        if into.len() < header_size {
            return Err(Errno::INVAL);
        }
        let Some((header, mad)) = self.received.front() else {
            return Err(if self.dead { Errno::IO } else { Errno::AGAIN });
        };
        let first = mad.len().min(MAD_LEN);
        if into.len() < header_size + first {
            return Err(Errno::INVAL);
        }
        into[..header_size].copy_from_slice(&header.emit(self.layout));
        let size = header_size + mad.len();
        if into.len() < size {
            into[header_size..header_size + first].copy_from_slice(&mad[..first]);
            return Err(Errno::NOSPC);
        }
        into[header_size..size].copy_from_slice(mad);
        self.received.pop_front();
        Ok(size)
    }
}
