//! Threads, their clock, and who runs next, by a seed: what a run of the lab is made of.
//!
//! A [`Machine`] is one run. It knows neither modules nor a kernel: the hosts that run on it are [`Hosts`] to it, and what a thread works
//! on is their affair. Contexts, rules, the locks a thread holds and the reasons why a machine halts are words that it keeps and reports
//! for those above; the `kthread_t` of a thread is there for compiled code to read.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the lab's threads are switched by hand and need Linux on x86-64");

mod abandon;
#[forbid(unsafe_code)]
pub mod config;
#[forbid(unsafe_code)]
mod context;
pub mod current;
mod fiber;
#[forbid(unsafe_code)]
mod halt;
#[forbid(unsafe_code)]
mod held;
mod host_mutex;
#[forbid(unsafe_code)]
mod hosts;
#[forbid(unsafe_code)]
mod inject;
pub mod interrupt;
mod kthread;
#[forbid(unsafe_code)]
mod machine;
#[forbid(unsafe_code)]
mod moment;
#[forbid(unsafe_code)]
mod nanos;
#[forbid(unsafe_code)]
mod notes;
#[forbid(unsafe_code)]
mod order;
mod parker;
#[forbid(unsafe_code)]
pub mod race;
#[forbid(unsafe_code)]
mod rule;
#[forbid(unsafe_code)]
mod sched;
#[forbid(unsafe_code)]
mod stall;
#[forbid(unsafe_code)]
mod strategy;
#[forbid(unsafe_code)]
mod suppress;
pub mod thread;
#[forbid(unsafe_code)]
mod wait;

pub use config::{Carrier, Config, FaultKind, FaultPlan, Faults, Mode};
pub use context::{Contexts, Ctx};
pub use halt::{Fault, Frame, Halt, Hang, KernelPanic, ThreadDump, Violation};
pub use held::{Held, HeldKind, SeenLocks, driver_locks};
pub use host_mutex::{HostGuard, HostMutex, abort_saying, assert_none_held};
pub use hosts::{Hosts, Work};
pub use inject::{Injector, Shortage, Watch};
pub use kthread::KThread;
pub use machine::{Machine, OutsideWaker, Shared};
pub use moment::Moment;
pub use nanos::{HZ, Nanos};
pub use notes::{Note, Notes};
pub use order::{Class, ClassKey, Inversion, Order};
pub use rule::{Rule, Severity};
pub use sched::Wake;
pub use stall::Stalls;
pub use strategy::{Choice, Decision, DecisionError, Strategy};
pub use suppress::{Suppression, Suppressions};
pub use thread::Thread;
pub use wait::WaitQueue;
