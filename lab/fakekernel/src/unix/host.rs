//! One host's `unix` and `genunix`, put together: what the loader binds modules to.

use std::any::Any;
use std::sync::Arc;

use sim::{HostMutex, Rule};

use crate::loader::cx::Cx;
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::kernels::Machine;
use crate::loader::services::{LiveObject, Services};
use crate::unix::callout::Callouts;
use crate::unix::genunix::{self, Genunix};
use crate::unix::interrupt::Interrupts;
use crate::unix::locks::Locks;
use crate::unix::{assert, callb, callout, interleave, kthread_api, linkage, races, softintr, sync, taskq};

static PAGESIZE: [u8; 8] = 4096u64.to_le_bytes();
static HZ: [u8; 4] = 100i32.to_le_bytes();
static MINCLSYSPRI: [u8; 2] = 60i16.to_le_bytes();
static MAXCLSYSPRI: [u8; 2] = 99i16.to_le_bytes();
/// Where the addresses of a host's memory may begin: nowhere in a process of Linux is below.
static KERNELBASE: [u8; 8] = 0x1_0000_u64.to_le_bytes();
/// `struct proc p0`: only its address is used.
static P0: [u8; 4032] = [0; 4032];

/// What they know.
struct Unix {
    locks: Locks,
    callouts: Callouts,
    interrupts: Interrupts,
    genunix: HostMutex<Option<Arc<Genunix>>>,
}

impl Machine {
    /// Adds a host with `unix` and `genunix`. Before or during [`run`](sim::Machine::run).
    pub fn add_host(&self, name: &str) -> Kernel {
        Kernel::add(self, name, Arc::new(Unix::new(self)), provide)
    }
}

impl Unix {
    fn new(machine: &Machine) -> Self {
        Self {
            locks: Locks::new(machine),
            callouts: Callouts::default(),
            interrupts: Interrupts::default(),
            genunix: HostMutex::default(),
        }
    }
}

impl Kernel {
    fn unix(&self) -> &Unix {
        let services: &dyn Any = self.services();
        services.downcast_ref().expect("every host is added with these services")
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.unix().locks
    }

    pub(crate) fn callouts(&self) -> &Callouts {
        &self.unix().callouts
    }

    pub(crate) fn interrupts(&self) -> &Interrupts {
        &self.unix().interrupts
    }

    /// Memory, messages, devices and the rest of what is in `genunix`.
    ///
    /// # Panics
    ///
    /// When the process has no address range left for another host's heap.
    pub fn genunix(&self) -> Arc<Genunix> {
        let make = || Arc::new(Genunix::new(self.machine().config()));
        self.unix().genunix.lock().get_or_insert_with(make).clone()
    }
}

impl Services for Unix {
    fn live_object_in(&self, kernel: &Kernel, start: usize, len: usize) -> Option<LiveObject> {
        let busy = self.callouts.live_in(start, len);
        let busy = busy
            .or_else(|| softintr::live_in(kernel, start, len))
            .or_else(|| callb::live_in(kernel, start, len));
        busy.or_else(|| self.locks.live_in(start, len))
    }

    fn live_lock_in(&self, start: usize, len: usize) -> Option<LiveObject> {
        self.locks.live_in(start, len)
    }

    fn forget_memory(&self, kernel: &Kernel, start: usize, len: usize) {
        for addr in self.locks.forget_range(start, len) {
            kernel.machine().0.order.lock().forget(addr);
            for kind in ["mutex", "cv", "rwlock", "semaphore"] {
                kernel.resources().remove(kind, addr as u64);
            }
        }
    }

    fn describe_lock(&self, addr: usize) -> String {
        self.locks.describe(addr)
    }

    fn unreturned_by(&self, kernel: &Kernel, module: &str) -> Vec<String> {
        genunix::messages_of(kernel, module)
    }

    fn examine_memory(&self, kernel: &Kernel, cx: &Cx) {
        kernel.genunix().sweep_heap(cx);
    }

    fn forbidden(&self, kernel: &Kernel, addr: usize) -> Option<(Rule, String)> {
        let genunix = self.genunix.lock().clone()?;
        Some((Rule::HeapCorruption, genunix.explain_wall(kernel, addr)?))
    }

    fn plain(&self, symbol: &str) -> Option<usize> {
        genunix::plain(symbol)
    }

    fn home(&self, kernel: &Kernel) -> *const () {
        Arc::as_ptr(&kernel.genunix()).cast()
    }

    fn take_apart(&self) -> Box<dyn Any> {
        self.callouts.clear();
        self.interrupts.clear();
        Box::new(self.genunix.lock().take())
    }
}

/// Gives a new host its `unix` and `genunix`.
fn provide(kernel: &Kernel) {
    let mut unix = sync::unix_exports();
    unix.extend([
        Export::data("hz", &HZ),
        Export::data("_kernelbase", &KERNELBASE),
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
    genunix.extend(races::exports());
    kernel.provide("genunix", "genunix", genunix);
    genunix::provide(kernel);
}
