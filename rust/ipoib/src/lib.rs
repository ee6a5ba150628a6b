//! The IPoIB protocol and nothing else: numbers and addresses of the fabric, the bytes of RFC 4391, and the machines that
//! resolve paths, keep memberships, bring a link up and bound what is asked of the subnet administrator.
//!
//! Nothing here reads a clock, allocates, or talks to anybody. Machines are told events and the time and answer with
//! actions; memory is handed in by whoever creates them, so that what they may hold is bounded before they start.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

/// The processor's. A file that `tests/interleavings` compiles once more, with loom's, takes them from here.
mod atomic {
    pub(crate) use core::sync::atomic::*;
}

mod addr;
mod backoff;
mod numbers;
mod table;

pub mod acquaintances;
pub mod connections;
pub mod debts;
pub mod groups;
pub mod header;
pub mod link;
pub mod nd;
pub mod neighbours;
pub mod paths;
pub mod time;
pub mod window;

pub use addr::{AddrWords, Cast, Gid, Guid, LinkAddr, Mgid, Qpn, Signature};
pub use backoff::{Backoff, Jitter};
pub use header::EtherType;
pub use numbers::{Lid, Mlid, Mtu, PKey, QKey, Rate, Scope};
pub use table::Slot;
pub use time::Instant;
