//! `unix` and `genunix`, put together.

use crate::export::Export;
use crate::kernel::Kernel;
use crate::{assert, callb, callout, interleave, kthread_api, linkage, softintr, sync, taskq};

static PAGESIZE: [u8; 8] = 4096u64.to_le_bytes();
static HZ: [u8; 4] = 100i32.to_le_bytes();
static MINCLSYSPRI: [u8; 2] = 60i16.to_le_bytes();
static MAXCLSYSPRI: [u8; 2] = 99i16.to_le_bytes();
/// `struct proc p0`: only its address is used.
static P0: [u8; 4032] = [0; 4032];

/// Gives a new host its `unix` and `genunix`.
pub(crate) fn provide(kernel: &Kernel) {
    let mut unix = sync::unix_exports();
    unix.extend([
        Export::data("hz", &HZ),
        Export::data("_pagesize", &PAGESIZE),
        Export::data("minclsyspri", &MINCLSYSPRI),
        Export::data("maxclsyspri", &MAXCLSYSPRI),
        Export::data("panicstr", &[0; 8]),
        Export::data("p0", &P0),
    ]);
    unix.extend(assert::exports());
    kernel.provide("unix", "unix", unix);
    let mut genunix = sync::genunix_exports();
    genunix.extend(kthread_api::exports());
    genunix.extend(callb::exports());
    genunix.extend(taskq::exports());
    genunix.extend(callout::exports());
    genunix.extend(softintr::exports());
    genunix.extend(linkage::exports());
    genunix.extend(interleave::exports());
    kernel.provide("genunix", "genunix", genunix);
    crate::genunix::provide(kernel);
}
