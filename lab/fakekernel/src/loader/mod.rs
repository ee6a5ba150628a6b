//! Loads kernel module objects, and stands between them and the kernel's functions in both directions, with the rules.
//!
//! It does not know what the kernel's functions do: they are exports of modules that the lab provides, and what it must ask of them is
//! [`services::Services`].

pub(crate) mod arena;
pub(crate) mod backtrace;
pub(crate) mod cx;
pub mod debugger;
pub(crate) mod entry;
pub(crate) mod errno;
pub(crate) mod export;
pub(crate) mod fault;
pub(crate) mod fault_plans;
pub(crate) mod gate;
pub(crate) mod handles;
pub(crate) mod journal;
pub(crate) mod kernel;
pub(crate) mod kernels;
pub mod mem;
pub(crate) mod module;
pub(crate) mod resources;
pub(crate) mod sdt;
pub(crate) mod services;
pub(crate) mod sites;
pub(crate) mod watch;
