//! A machine with kernels for hosts.

use std::any::Any;
use std::collections::BTreeMap;

use crate::backtrace;
use crate::config::{Carrier, Config};
use crate::debugger;
use crate::entry::EntryRecord;
use crate::fault;
use crate::halt::{Frame, ThreadDump};
use crate::host_mutex::HostMutex;
use crate::hosts::{self, Hosts};
use crate::journal::Journal;
use crate::kernel::Kernel;
use crate::machine::{Machine, Shared};
use crate::sdt;
use crate::thread::{Local, Thread, ThreadInner};

/// The kernels of a machine, and what is known of all of them together.
#[derive(Default)]
pub(crate) struct Kernels {
    /// In the order added.
    pub all: HostMutex<Vec<Kernel>>,
    /// Block counters by module name, over all hosts.
    pub coverage: HostMutex<BTreeMap<String, Vec<u8>>>,
    /// What DTrace would see.
    pub probes: HostMutex<sdt::Log>,
    pub journal: HostMutex<Journal>,
}

/// What a thread works on.
#[derive(Default)]
pub(crate) struct Work {
    /// The host whose code it runs.
    pub kernel: Option<Kernel>,
    /// The modules that it is in, outermost first.
    pub entries: Vec<EntryRecord>,
}

impl Work {
    /// For a thread of this host.
    pub(crate) fn of(kernel: &Kernel) -> hosts::Work {
        Box::new(Self { kernel: Some(kernel.clone()), entries: Vec::new() })
    }
}

impl Hosts for Kernels {
    fn carrier_begins(&self) -> Box<dyn Any> {
        Box::new(fault::SignalStack::install())
    }

    fn no_work(&self) -> hosts::Work {
        Box::new(Work::default())
    }

    fn describe(&self, thread: &ThreadInner) -> ThreadDump {
        backtrace::dump_thread(thread)
    }

    fn take_apart(&self, left_behind: bool) {
        let kernels = std::mem::take(&mut *self.all.lock());
        for kernel in kernels {
            kernel.take_apart(left_behind);
        }
    }
}

impl Machine {
    /// A machine without hosts.
    pub fn new(mut config: Config) -> Self {
        fault::install_handlers();
        if debugger::is_told() {
            config.carrier = Carrier::OsThread;
        }
        Self::of(config, Box::new(Kernels::default()))
    }

    /// The hosts in the order added.
    pub fn hosts(&self) -> Vec<Kernel> {
        self.kernels().all.lock().clone()
    }

    /// How often each block of each module was run, by module name and over all hosts: of objects built with counters, and
    /// counted until their copies were unloaded or the machine was over. 255 means at least so often.
    pub fn coverage(&self) -> BTreeMap<String, Vec<u8>> {
        self.kernels().coverage.lock().clone()
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        self.0.kernels()
    }
}

impl Shared {
    fn kernels(&self) -> &Kernels {
        let hosts: &dyn Any = &*self.hosts;
        hosts.downcast_ref().expect("every machine is made with these hosts")
    }

    /// The function at `pc`, in whichever host's module.
    pub(crate) fn frame(&self, pc: usize) -> Frame {
        let hosts = self.kernels().all.lock().clone();
        match hosts.iter().find_map(|host| host.module_ever_at(pc)) {
            // A return address may be the first byte after a function that ends in a call.
            Some(module) => module.frame(pc),
            None => Frame { module: "lab".to_owned(), symbol: String::new(), offset: pc as u64 },
        }
    }
}

impl Thread {
    /// The host whose code it runs, if any.
    pub fn kernel(&self) -> Option<Kernel> {
        self.0.local().work().kernel.clone()
    }
}

impl Local {
    pub(crate) fn work(&self) -> &Work {
        let work: &dyn Any = &*self.work;
        work.downcast_ref().expect("threads of these hosts have this work")
    }

    pub(crate) fn work_mut(&mut self) -> &mut Work {
        let work: &mut dyn Any = &mut *self.work;
        work.downcast_mut().expect("threads of these hosts have this work")
    }
}
