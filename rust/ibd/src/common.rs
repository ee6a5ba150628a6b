//! What the instances of the module have in common.

use ibtf::Clients;
use kernel::{Errno, KArc};

use crate::directory::Directory;
use crate::dump::LinkRecords;
use crate::sa_pool::SaPool;

/// Made when the module is loaded, gone when it is unloaded.
pub(crate) struct Common {
    /// What IBTF calls them by.
    pub(crate) clients: Clients,
    /// Where those who ask about neighbours find them.
    pub(crate) directory: KArc<Directory>,
    /// What asks the SA for them. Its threads end in `_fini`.
    pub(crate) pool: KArc<SaPool>,
    /// Where whoever reads a crash dump finds them.
    pub(crate) records: KArc<LinkRecords>,
}

impl Common {
    pub(crate) fn new() -> Result<KArc<Self>, Errno> {
        Ok(KArc::new(Self {
            clients: Clients::new()?,
            directory: Directory::new()?,
            pool: SaPool::new()?,
            records: LinkRecords::new()?,
        })?)
    }
}
