//! `ibd`: IP over InfiniBand in datagrams (RFC 4391, RFC 4392), and on connections where both neighbours take them (RFC 4755).
//!
//! One object, two drivers. As `ibd` every device node is one link: the IB nexus makes a node per partition of a port. As `ibp`
//! a node is a port, which carries no traffic itself; links are made on it by ioctl (`dladm create-part`).
//!
//! The protocol is in [`ipoib`], the ways into the kernel in `kernel`, `gldv3` and `ibtf`; here they meet. Without unsafe code.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod adapter;
mod cache;
mod common;
mod counters;
mod directory;
mod driver;
mod dump;
mod kept;
mod link;
mod node;
mod partition;
mod port;
mod probes;
mod ring;
mod sa_pool;

use ipoib::Instant;

pub use driver::Ibd;

kernel::module!(driver Ibd);

/// The time, as the machines know it.
fn now() -> Instant {
    Instant::from_nanos(kernel::time::Instant::now().as_nanos())
}

/// A number that no other host can guess, for what is kept by a hash and for keys. **May block.** Without the kernel's generator it is a
/// number that another host could guess with some effort.
fn secret() -> u64 {
    kernel::random::number().unwrap_or_else(|| now().as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The time, as the kernel knows it.
fn kernel_instant(instant: Instant) -> kernel::time::Instant {
    kernel::time::Instant::from_nanos(instant.as_nanos())
}
