//! What the instances of the module have in common.

use ibtf::Clients;
use kernel::{Errno, KArc};

use crate::directory::Directory;

/// Made when the module is loaded, gone when it is unloaded.
pub(crate) struct Common {
    /// What IBTF calls them by.
    pub(crate) clients: Clients,
    /// Where those who ask about neighbours find them.
    pub(crate) directory: KArc<Directory>,
}

impl Common {
    pub(crate) fn new() -> Result<KArc<Self>, Errno> {
        Ok(KArc::new(Self { clients: Clients::new()?, directory: Directory::new()? })?)
    }
}
