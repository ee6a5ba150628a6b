//! MADs for programs: an InfiniBand port's umad device, as Linux documents it (`user_mad`, `rdma/ib_user_mad.h`, ABI version 5).
//!
//! - [`Header`]: what stands in front of a MAD that is written or read, in the old layout and the new one with a P_Key index.
//! - [`Port`]: the device itself, pure: files and their agents, requests that are out, RMPP both ways, times. MADs, the time
//!   and calls go in; MADs and answers come out. It reads no clock and does no input or output.
//! - [`Device`]: an open file of such a device, this one on a port of the lab or a real one.
//! - [`SaClient`]: asks subnet administration through a device.
//!
//! Not carried: QP 0 (subnet management), and datagrams with a GRH; both are refused with `EOPNOTSUPP`. RMPP is that of subnet
//! administration.
//!
//! ```
//! use umad::{Header, Layout};
//!
//! let header = Header { agent: 3, timeout_ms: 1_000, p_key_index: 2, ..Header::default() };
//! let message = header.emit(Layout::New);
//! let (read, mad) = Header::parse(Layout::New, &message).expect("it is whole");
//! assert_eq!((read, mad.len()), (header, 0));
//! ```
#![forbid(unsafe_code)]

mod agents;
mod client;
mod device;
mod files;
mod header;
mod message;
mod out;
mod port;
mod registration;
#[cfg(test)]
mod tests;

pub use client::{AskError, SaClient, Table};
pub use device::{Administrator, Device};
pub use files::FileId;
pub use header::{Header, Layout};
pub use port::{Outgoing, Port};
pub use registration::{AgentId, Methods, Registration};
pub use rustix::io::Errno;
