//! The shipped modules on a real illumos kernel, without an illumos machine.
//!
//! [`build`] compiles a gate's kernel with gcc and leaves a root file system; [`machine`] boots it in QEMU with an init of
//! ours, which does what it is asked over a serial line; [`suite`] asks, and reports as `ibdlab run` does.

#![forbid(unsafe_code)]

pub mod build;
pub mod machine;
pub mod suite;
