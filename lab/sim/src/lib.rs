//! Threads, their clock, and who runs next, by a seed: what a run of the lab is made of.
//!
//! A [`Machine`] is one run. It knows neither modules nor a kernel: the hosts that run on it are [`Hosts`] to it, and what a thread works
//! on is their affair. Contexts, rules, the locks a thread holds and the reasons why a machine halts are words that it keeps and reports
//! for those above.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the lab's threads are switched by hand and need Linux on x86-64");

mod abandon;
pub mod config;
mod context;
pub mod current;
mod fiber;
mod halt;
mod held;
mod host_mutex;
mod hosts;
mod inject;
mod kthread;
mod machine;
mod nanos;
mod notes;
mod order;
mod parker;
mod rule;
mod sched;
mod strategy;
mod suppress;
pub mod thread;
mod wait;

pub use config::{Carrier, Config, FaultKind, FaultPlan, Faults, Mode};
pub use context::{Contexts, Ctx};
pub use halt::{Fault, Frame, Halt, Hang, KernelPanic, ThreadDump, Violation};
pub use held::{Held, HeldKind, SeenLocks, driver_locks};
pub use host_mutex::{HostGuard, HostMutex, abort_saying, assert_none_held};
pub use hosts::{Hosts, Work};
pub use inject::{Injector, Watch};
pub use kthread::KThread;
pub use machine::{Machine, OutsideWaker, Shared};
pub use nanos::{HZ, Nanos};
pub use notes::{Note, Notes};
pub use order::{Class, ClassKey, Inversion, Order};
pub use rule::{Rule, Severity};
pub use sched::Wake;
pub use strategy::{Choice, Decision, DecisionError, Strategy};
pub use suppress::{Suppression, Suppressions};
pub use thread::Thread;
pub use wait::WaitQueue;
