//! A kernel that runs: QEMU, the console, and the init that does what it is asked.
//!
//! [`Setup`] says what is booted; [`Machine`] is a running one. Its [`Session`] asks the agent and watches the console meanwhile: a
//! panic, a stop or a silence ends the run with what is known about it ([`Trouble`]).

pub mod agent;
pub mod archive;
pub mod calls;
pub mod console;
pub mod count;
pub mod debugger;
pub mod options;
mod owners;
pub mod qemu;
pub mod session;
pub mod shell;
pub mod symbols;

pub use options::Options;
pub use qemu::{Machine, Setup};
pub use session::{Fields, Outcome, Refusal, Session, Ticket, Trouble};
