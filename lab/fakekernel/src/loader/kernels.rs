//! A machine with kernels for hosts.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use sim::thread::{Local, ThreadInner};
use sim::{Carrier, Config, HostMutex, Hosts, Nanos, Thread, ThreadDump};

use crate::loader::backtrace;
use crate::loader::debugger;
use crate::loader::entry::EntryRecord;
use crate::loader::fault;
use crate::loader::journal::Journal;
use crate::loader::kernel::Kernel;
use crate::loader::sdt;
use crate::loader::watch::Watch;

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
    /// See [`Config::processor_limit`].
    processor_limit: Nanos,
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
    pub(crate) fn of(kernel: &Kernel) -> sim::Work {
        Box::new(Self { kernel: Some(kernel.clone()), entries: Vec::new() })
    }
}

impl Hosts for Kernels {
    fn carrier_begins(&self) -> Box<dyn Any> {
        let limit = self.processor_limit;
        // Fields are dropped in order: no tick comes any more when the stack for it goes.
        Box::new((Watch::begin(limit), fault::SignalStack::install()))
    }

    fn no_work(&self) -> sim::Work {
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

/// One run: hosts, threads, one clock, one seed. Cheap clone.
#[derive(Clone)]
pub struct Machine(sim::Machine);

impl Deref for Machine {
    type Target = sim::Machine;
    fn deref(&self) -> &sim::Machine {
        &self.0
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Machine {
    /// A machine without hosts.
    pub fn new(mut config: Config) -> Self {
        fault::install_handlers();
        if debugger::is_told() {
            config.carrier = Carrier::OsThread;
            // Whoever looks at a loop with a debugger wants it to go on.
            config.processor_limit = Nanos(0);
        }
        let kernels = Kernels { processor_limit: config.processor_limit, ..Kernels::default() };
        Self(sim::Machine::of(config, Box::new(kernels)))
    }

    /// Whether the calling thread is one of its own.
    pub fn is_here(&self) -> bool {
        Thread::try_current().is_some_and(|thread| Arc::ptr_eq(&thread.machine().0, &self.0.0))
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
        kernels(&self.0)
    }
}

/// The hosts of the machine of a thread.
pub(crate) fn kernels(machine: &sim::Machine) -> &Kernels {
    let hosts: &dyn Any = &*machine.0.hosts;
    hosts.downcast_ref().expect("every machine is made with these hosts")
}

/// The host whose code a thread runs, if any.
pub(crate) fn kernel_of(thread: &Thread) -> Option<Kernel> {
    thread.0.local().work().kernel.clone()
}

/// What a thread works on.
pub(crate) trait Working {
    fn work(&self) -> &Work;
    fn work_mut(&mut self) -> &mut Work;
}

impl Working for Local {
    #[inline]
    fn work(&self) -> &Work {
        let work: &dyn Any = &*self.work;
        work.downcast_ref().expect("threads of these hosts have this work")
    }

    #[inline]
    fn work_mut(&mut self) -> &mut Work {
        let work: &mut dyn Any = &mut *self.work;
        work.downcast_mut().expect("threads of these hosts have this work")
    }
}
