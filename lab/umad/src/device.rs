//! An open umad device, wherever it is.

use std::time::Duration;

use rustix::io::Errno;
use sm::{Gid, Lid, PKey, Sl};

use crate::header::Layout;
use crate::registration::{AgentId, Registration};

/// What a port knows of itself and of its subnet administrator, now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Administrator {
    /// `MasterSMLID`; zero while there is none.
    pub lid: Lid,
    /// `MasterSMSL`.
    pub sl: Sl,
    /// The port's own LID.
    pub own_lid: Lid,
    /// Its first GID.
    pub own_gid: Gid,
    /// Its P_Key table.
    pub p_keys: Vec<PKey>,
}

impl Administrator {
    /// Where in the port's table the default partition is, as full a member of it as the port is.
    pub fn p_key_index(&self) -> Option<u16> {
        let member = |full: &PKey| self.p_keys.iter().position(|key| key == full);
        let index = member(&PKey::DEFAULT_FULL).or_else(|| member(&PKey::DEFAULT_LIMITED))?;
        u16::try_from(index).ok()
    }
}

/// An open file of a umad device; closed when dropped.
pub trait Device {
    /// The layout of headers in what is written and read.
    fn layout(&self) -> Layout;

    /// See [`Port::register`](crate::Port::register).
    ///
    /// # Errors
    /// As there.
    fn register(&mut self, wanted: &Registration) -> Result<AgentId, Errno>;

    /// See [`Port::unregister`](crate::Port::unregister).
    ///
    /// # Errors
    /// As there.
    fn unregister(&mut self, agent: AgentId) -> Result<(), Errno>;

    /// See [`Port::write`](crate::Port::write).
    ///
    /// # Errors
    /// As there.
    fn write(&mut self, message: &[u8]) -> Result<usize, Errno>;

    /// See [`Port::read`](crate::Port::read); waits for a message for so long.
    ///
    /// # Errors
    /// As there: `EAGAIN` once the time is over.
    fn read(&mut self, into: &mut [u8], patience: Duration) -> Result<usize, Errno>;

    /// What Linux tells in `/sys/class/infiniband/*/ports`.
    ///
    /// # Errors
    /// `ENODEV` once the port is gone.
    fn administrator(&self) -> Result<Administrator, Errno>;
}
