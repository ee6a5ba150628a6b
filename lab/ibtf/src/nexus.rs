//! The IB nexus: which device nodes are its children.

use fakekernel::{HostMutex, Kernel};
use illumos_sys_hdrs::dev_info_t;
use std::collections::BTreeSet;

/// Addresses of the nodes below the host's HCAs.
struct Children(HostMutex<BTreeSet<usize>>);

fn children(kernel: &Kernel) -> std::sync::Arc<Children> {
    kernel.state(|| Children(HostMutex::new(BTreeSet::new())))
}

/// Is `dip` a node of the IB nexus?
pub(crate) fn is_child(kernel: &Kernel, dip: *const dev_info_t) -> bool {
    !dip.is_null() && children(kernel).0.lock().contains(&dip.addr())
}
