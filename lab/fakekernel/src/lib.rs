//! A process as an illumos machine: kernel module objects are loaded into it and find `unix` and `genunix` there, with the
//! kernel's rules enforced (`docs/design.md`, "The lab").
//!
//! A [`Machine`] is one run; each host is a [`Kernel`]; a [`Module`] is a loaded object. Lab crates implement kernel functions as
//! plain `unsafe extern "C" fn`s listed with [`export!`] and handed to [`Kernel::provide`]; the first line of each is
//! `let cx = fakekernel::cx();`. Into modules they call through [`Module::enter`] or [`Kernel::enter`] only.
//!
//! Two floors stand on the threads and the clock of crate `sim`: what loads modules and checks their calls, and on that the functions of
//! `unix` and `genunix`. A machine and a kernel have methods from both, so the two are one crate; that none leads back up is a test
//! (`tests/tests/circles`).

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the lab runs amd64 kernel modules and needs Linux on x86-64");

mod loader;
mod unix;

pub use loader::{debugger, mem};
pub use sim::config;
pub use unix::genunix;
pub use unix::softintr::SoftInterrupt;

pub use loader::cx::{Cx, cx};
pub use loader::entry::{EntryKind, ModuleFn, Role};
pub use loader::errno::Errno;
pub use loader::export::{Export, ExportKind};
pub use loader::handles::{HandleError, Handles};
pub use loader::journal::JournalLine;
pub use loader::kernel::Kernel;
pub use loader::kernels::Machine;
pub use loader::module::{Function, LoadError, Module, Rebound, object_is_acceptable, preload};
pub use loader::resources::{InstanceScope, Resource, Resources};
pub use loader::sdt::{ProbeArgument, ProbeHit};
pub use loader::services::LiveObject;
pub use loader::sites::Site;
pub use loader::watch::report_interrupts;
pub use sim::interrupt;
pub use sim::race;
pub use sim::thread::{idle, now, reschedule, sleep};
pub use sim::{
    Carrier, Choice, Config, Contexts, Ctx, Decision, DecisionError, Fault, FaultKind, FaultPlan, Faults,
    Frame, HZ, Halt, Hang, HostGuard, HostMutex, KernelPanic, Mode, Moment, Nanos, Note, OutsideWaker, Rule,
    Severity, Stalls, Strategy, Suppression, Suppressions, Thread, ThreadDump, Violation, WaitQueue,
};
pub use unix::sleep_mutex::{SleepGuard, SleepMutex};
pub use unix::system_taskq::{Account, SystemTaskq, TaskFlag, system_taskq};
