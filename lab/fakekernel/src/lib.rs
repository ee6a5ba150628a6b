//! A process as an illumos machine: kernel module objects are loaded into it and find `unix` and `genunix` there, with the
//! kernel's rules enforced (`docs/design.md`, "The lab").
//!
//! A [`Machine`] is one run; each host is a [`Kernel`]; a [`Module`] is a loaded object. Lab crates implement kernel functions as
//! plain `unsafe extern "C" fn`s listed with [`export!`] and handed to [`Kernel::provide`]; the first line of each is
//! `let cx = fakekernel::cx();`. Into modules they call through [`Module::enter`] or [`Kernel::enter`] only.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the lab runs amd64 kernel modules and needs Linux on x86-64");

mod abandon;
mod arena;
mod assert;
mod backtrace;
mod calibrate;
mod callb;
mod callout;
pub mod config;
mod context;
mod current;
mod cx;
pub mod debugger;
mod entry;
mod errno;
mod export;
mod fault;
mod fault_plans;
mod fiber;
mod gate;
pub mod genunix;
mod halt;
mod handles;
mod held;
mod host_mutex;
mod hosts;
mod inject;
mod interleave;
mod interrupt;
mod journal;
mod kernel;
mod kernels;
mod kthread;
mod kthread_api;
mod linkage;
mod locks;
mod machine;
pub mod mem;
mod module;
mod nanos;
mod notes;
mod order;
mod parker;
mod resources;
mod rule;
mod sched;
mod sdt;
mod services;
mod sleep_mutex;
mod softintr;
mod strategy;
mod suppress;
mod sync;
mod system_taskq;
mod taskq;
mod thread;
mod unix;
mod wait;

pub use config::{Carrier, Config, FaultKind, FaultPlan, Faults, Mode};
pub use context::{Contexts, Ctx};
pub use cx::{Cx, cx};
pub use entry::{EntryKind, ModuleFn, Role};
pub use errno::Errno;
pub use export::{Export, ExportKind};
pub use halt::{Fault, Frame, Halt, Hang, KernelPanic, ThreadDump, Violation};
pub use handles::{HandleError, Handles};
pub use host_mutex::{HostGuard, HostMutex};
pub use journal::JournalLine;
pub use kernel::Kernel;
pub use machine::{Machine, OutsideWaker};
pub use module::{LoadError, Module, object_is_acceptable};
pub use nanos::{HZ, Nanos};
pub use notes::Note;
pub use resources::{InstanceScope, Resource, Resources};
pub use rule::{Rule, Severity};
pub use sdt::{ProbeArgument, ProbeHit};
pub use services::LiveObject;
pub use sleep_mutex::{SleepGuard, SleepMutex};
pub use strategy::{Choice, Decision, DecisionError, Strategy};
pub use suppress::{Suppression, Suppressions};
pub use system_taskq::{Account, SystemTaskq, TaskFlag, system_taskq};
pub use thread::{Thread, idle, now, reschedule, sleep};
pub use wait::WaitQueue;
