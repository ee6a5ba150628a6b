//! The first program (`/sbin/init`) on an illumos kernel under test.
//!
//! It has primitives and no opinion: the metal tool on the host sends a line over the second serial port, the agent makes the
//! system calls and answers with one line. What a case is, and what has to hold, is known on the host alone.
//!
//! A process of its own, `router`, reads the serial line and hands each command to the process it names; a process that has
//! entered a zone sees that zone's IP stack. So the agent answers as long as the kernel runs user programs, whatever call another
//! process hangs in.
//!
//! No libc and no heap. Unsafe code is in `sys` alone, the border to the kernel. `words`, `answer`, `packet` and the layouts
//! in `abi` are tested on the host.

#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

pub mod abi;
pub mod answer;
pub mod clock;
pub mod packet;
pub mod words;

#[cfg(target_os = "none")]
mod sys;

#[cfg(target_os = "none")]
mod commands;
#[cfg(target_os = "none")]
mod router;
#[cfg(target_os = "none")]
mod worker;
