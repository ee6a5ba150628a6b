//! `swhca`: an InfiniBand adapter that is a kernel module.
//!
//! Ports of one machine on a switch that is not there, with a subnet manager inside: `ibtl`, `ibmf`, `ibcm` and `ib` find an adapter
//! below them and IPoIB has something to run on: datagrams, and messages on reliable connections.
//!
//! A post copies from the sender's memory into the receiver's buffer and is done (`send.rs`, `qp.rs`), unless a connection has to wait for
//! the other side (`qp/connection.rs`, `alarm.rs`); completions wait in a CQ
//! (`cq.rs`), and a soft interrupt calls its owner (`calls.rs`). Requests to the SA are copied and answered by a thread (`subnet.rs`, `sa`). What a test
//! can do to it is in the crate `swhca-ioctl`. Without unsafe code.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod alarm;
mod attributes;
mod buffers;
mod calls;
mod changes;
mod control;
mod cq;
mod domain;
mod driver;
mod keys;
mod line;
mod mad;
mod node;
mod numbers;
mod offload;
mod packet;
mod pma;
mod port;
mod qp;
mod rate;
mod ring;
mod sa;
mod send;
mod srq;
mod states;
mod statistics;
mod subnet;
mod traffic;
mod trouble;

pub use driver::Swhca;

/// Of the module, in the log.
pub(crate) const NAME: &str = "swhca";

kernel::module!(control Swhca);
