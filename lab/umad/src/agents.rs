//! The agents of a device, of all its files.

use std::collections::BTreeMap;

use rustix::io::Errno;
use sm::Mad;

use crate::files::FileId;
use crate::message;
use crate::registration::{AgentId, Registration};

/// Whose a MAD is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agent {
    pub file: FileId,
    pub id: AgentId,
    pub registration: Registration,
}

impl Agent {
    /// The device cuts and puts together for it.
    pub const fn has_rmpp(&self) -> bool {
        self.registration.rmpp_version == 1
    }
}

/// By the high half of their transactions, which no two agents of a device ever have in common.
#[derive(Debug)]
pub(crate) struct Agents {
    by_high_half: BTreeMap<u32, Agent>,
    last: u32,
    /// Somebody else's on this port.
    reserved: u32,
}

impl Agents {
    pub const fn new(reserved: u32) -> Self {
        Self { by_high_half: BTreeMap::new(), last: 0, reserved }
    }

    /// A new agent's number.
    pub fn add(&mut self, agent: Agent) -> Result<u32, Errno> {
        agent.registration.check()?;
        if self.by_high_half.values().any(|other| other.registration.clashes(&agent.registration)) {
            return Err(Errno::INVAL);
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != self.reserved && !self.by_high_half.contains_key(&self.last) {
                self.by_high_half.insert(self.last, agent);
                return Ok(self.last);
            }
        }
    }

    pub fn remove(&mut self, high_half: u32) {
        self.by_high_half.remove(&high_half);
    }

    pub fn get(&self, high_half: u32) -> Option<&Agent> {
        self.by_high_half.get(&high_half)
    }

    /// For whom a MAD came: the one who asked, or the one who takes such requests.
    pub fn addressee(&self, mad: &Mad) -> Option<(u32, &Agent)> {
        if message::is_response(mad) {
            let high_half = (message::transaction(mad) >> 32) as u32;
            return self.by_high_half.get(&high_half).map(|agent| (high_half, agent));
        }
        let takes = |agent: &Agent| {
            let wanted = &agent.registration;
            wanted.class == message::class(mad)
                && wanted.class_version == message::class_version(mad)
                && wanted.methods.has(message::method(mad))
        };
        self.by_high_half.iter().find(|(_, agent)| takes(agent)).map(|(high_half, agent)| (*high_half, agent))
    }
}
