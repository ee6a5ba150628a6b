//! What the instances of the module have in common.

use ibtf::Clients;
use kernel::{Errno, KArc, MayBlock};

use crate::directory::Directory;
use crate::dump::LinkRecords;
use crate::kept::KeptAdapters;
use crate::sa_pool::SaPool;

/// Made when the module is loaded, gone when it is unloaded.
pub(crate) struct Common {
    /// By what connections have their adapters. In front of the clients.
    pub(crate) kept: KArc<KeptAdapters>,
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
    pub(crate) fn new(may_block: &MayBlock) -> Result<KArc<Self>, Errno> {
        let common = Self {
            kept: KeptAdapters::new(may_block),
            clients: Clients::new(may_block)?,
            directory: Directory::new(may_block),
            pool: SaPool::new(may_block),
            records: LinkRecords::new(may_block),
        };
        Ok(KArc::new_waiting(common, may_block))
    }
}
